package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/yaml"

	"iotax"
	"iotax/internal/leftover"
	"iotax/internal/machine/kube"
	"iotax/internal/plan"
	"iotax/internal/report/format"
	"iotax/internal/run"
	"iotax/internal/store"
	"iotax/internal/terminal"
)

// fleetFlags are the flags of a run that the pods of a cluster measure.
type fleetFlags struct {
	kubernetes bool
	shards     int
	pod        string
	image      string
	context    string
	namespace  string
	store      string
	detach     bool
}

var (
	onlyInCluster = []string{"shards", "pod", "pod-image", "pod-store", "kube-context", "kube-namespace", "detach"} // flags that need --kubernetes
	ofReport      = []string{"output", "format", "json", "details", "strict"}                                       // flags that --detach excludes
)

// podStoreVariable names the environment variable with the address of the store for pods (see --pod-store).
const podStoreVariable = "IOTAX_POD_STORE"

func (k *fleetFlags) add(f *pflag.FlagSet) {
	f.BoolVar(&k.kubernetes, "kubernetes", false, "measure in a Kubernetes cluster: an Indexed Job with one pod for each shard; the pods save their trials in the PostgreSQL of --store")
	f.IntVar(&k.shards, "shards", 1, "with --kubernetes: number of pods that share the rounds")
	f.StringVar(&k.image, "pod-image", "", "with --kubernetes: image that contains iotax and fio")
	f.StringVar(&k.pod, "pod", "", "with --kubernetes: file with a pod template (YAML: metadata, spec), for claims, nodes, resources")
	f.StringVar(&k.context, "kube-context", "", "with --kubernetes: context of KUBECONFIG (default: the current one)")
	f.StringVar(&k.namespace, "kube-namespace", "", "with --kubernetes: namespace (default: the context's)")
	f.StringVar(&k.store, "pod-store", "", "with --kubernetes: address of the store as the pods reach it (default: $"+podStoreVariable+", else --store)")
	f.BoolVar(&k.detach, "detach", false, "with --kubernetes: do not wait for the end")
}

// template returns the pod template of --pod, or a default one. --pod-image sets the image of its first container. All
// errors are usage errors.
func (k *fleetFlags) template() (corev1.PodTemplateSpec, error) {
	var t corev1.PodTemplateSpec
	fail := func(err error, hint string) (corev1.PodTemplateSpec, error) {
		return t, iotax.Usage(&iotax.Error{Op: "read pod template", On: k.pod, Err: err, Hint: hint})
	}
	if k.pod != "" {
		text, err := iotax.ReadFile(k.pod, iotax.MaxOutput)
		if err != nil {
			return fail(iotax.Cause(err), "name a file of at most 16 MiB that can be read")
		}
		if err := yaml.UnmarshalStrict(text, &t); err != nil {
			return fail(err, "write the keys below template: of a Job: metadata and spec")
		}
	}
	if len(t.Spec.Containers) == 0 {
		t.Spec.Containers = []corev1.Container{{Name: "iotax"}}
	}
	c := &t.Spec.Containers[0]
	if k.image != "" {
		c.Image = k.image
	}
	if c.Image == "" {
		return fail(errors.New("the pods have no image"), "name one that has iotax and fio in it: --pod-image (the Dockerfile in packaging/ makes one)")
	}
	return t, nil
}

// measureInCluster submits the plan as a Job. Without --detach, it waits for the Job and prints the report from the
// store.
func (a *app) measureInCluster(ctx context.Context, k *fleetFlags, p *plan.Plan, ref, id string, flags []string, out *outlet) error {
	inside := cmp.Or(k.store, os.Getenv(podStoreVariable), a.store)
	if !store.IsPostgres(a.store) || !store.IsPostgres(inside) {
		return iotax.Usage(&iotax.Error{Op: "submit run", Err: errors.New("the pods of a cluster cannot share a file"), Hint: "name a PostgreSQL that they reach: --store postgres://USER@HOST/DATABASE, or " + storeVariable})
	}
	every := run.Shard{Index: k.shards - 1, Count: k.shards}
	if _, err := run.ParseShard(every.String()); err != nil {
		return iotax.Usage(fmt.Errorf("--shards %d: %w", k.shards, err))
	}
	template, err := k.template()
	if err != nil {
		return err
	}
	db, err := store.Open(ctx, a.store)
	if err != nil {
		return err
	}
	defer db.Close()
	p, earlier, err := against(ctx, db, p, ref, true)
	if err != nil {
		return err
	}
	if _, err := every.Of(p); err != nil {
		return iotax.Usage(err)
	}
	text, err := p.YAML()
	if err != nil {
		return &iotax.Error{Op: "write resolved plan", On: p.Name, Err: err}
	}
	c, err := kube.Connect(kube.Config{Context: k.context, Namespace: k.namespace})
	if err != nil {
		return err
	}
	mustUndo()
	label, err := leftover.Begin(id)
	if err != nil {
		return err
	}
	j := kube.Job{Run: id, Plan: text, Store: inside, Shards: k.shards, Flags: flags, Template: template,
		Refusals: []int32{exitUsage, exitGate}}
	if err := c.Submit(ctx, c.Namespace, j, kube.Labelled(label)); err != nil {
		return err
	}
	where := "job " + c.Namespace + "/" + j.Name()
	note := func(format string, args ...any) {
		if !a.quiet {
			fmt.Fprintf(a.err, format+"\n", args...)
		}
	}
	note("%s measures run %s in %s", where, id, format.Plural(k.shards, "pod"))
	earlier.notes(note)
	if k.detach {
		return nil
	}
	last, runErr := a.watchJob(ctx, k.shards, func(ctx context.Context) (kube.Progress, error) { return c.Look(ctx, c.Namespace, j) })
	if runErr != nil && ctx.Err() == nil && !errors.Is(runErr, iotax.ErrGone) {
		if e := (*iotax.Error)(nil); errors.As(runErr, &e) {
			runErr = e.Err // only the cause, because the error below has its own hint
		}
		return &iotax.Error{Op: "watch", On: where, Err: runErr, Hint: "the job may still run and save its trials; once it has ended: iotax report " + id}
	}
	ctx = context.WithoutCancel(ctx)
	over := last.Over
	if runErr != nil { // interrupted, or the job no longer exists: remove the pods, which first save their trials
		fmt.Fprintln(a.err, "removing the job; its pods save what they have")
		err := c.RemoveJob(ctx, c.Namespace, j.Name())
		over, runErr = err == nil, errors.Join(runErr, err)
	}
	logs := "kubectl logs -n " + c.Namespace + " job/" + j.Name()
	if last.Lost {
		runErr = &iotax.Error{Op: "measure in the cluster", On: where, Err: errors.New(last.Why), Hint: "see " + logs + "; the same command with --id " + id + " continues the run"}
	}
	r, err := db.Get(ctx, id)
	switch {
	case errors.Is(err, store.ErrNotFound) && runErr != nil:
		return runErr
	case errors.Is(err, store.ErrNotFound):
		return &iotax.Error{Op: "measure in the cluster", On: where, Err: errors.New("its pods saved nothing"), Hint: "see " + logs + "; check that the pods reach the store (--pod-store)"}
	case err != nil:
		return errors.Join(runErr, err)
	}
	if r.Status == iotax.Running && over { // shards that never began or were killed could not save the end of the run
		r.Status, r.End = iotax.Interrupted, time.Now()
		if err := db.Update(ctx, r); err != nil {
			return errors.Join(runErr, err)
		}
	}
	earlier.drift(r, note)
	return a.finish(ctx, db, r, out, runErr)
}

const (
	jobPause   = time.Second
	jobSilence = 5 * time.Minute // time without an answer of the cluster after which watchJob gives up
)

// watchJob prints the progress of a job with this number of shards until the job ends or no longer exists, ctx is done,
// or all calls of `look` have failed for jobSilence. It returns the last progress.
func (a *app) watchJob(ctx context.Context, shards int, look func(context.Context) (kube.Progress, error)) (last kube.Progress, err error) {
	shown, heard := "", time.Now()
	show := func(text string) {
		if text != shown && !a.quiet {
			fmt.Fprintln(a.err, terminal.Clean(text)) // it contains messages of containers
		}
		shown = text
	}
	for {
		p, err := look(ctx)
		switch {
		case ctx.Err() != nil:
			return last, context.Cause(ctx)
		case errors.Is(err, iotax.ErrGone) || err != nil && time.Since(heard) >= jobSilence:
			return last, err
		case err != nil:
			show("the cluster does not answer; trying again for " + plan.Duration(jobSilence).String())
		default:
			heard, last = time.Now(), p
			text := fmt.Sprintf("%d of %s done, %d running", p.Done, format.Plural(shards, "shard"), p.Running)
			if p.Failed > 0 {
				text += ", " + format.Plural(p.Failed, "pod") + " failed"
			}
			if p.Why != "" {
				text += ": " + p.Why
			}
			show(text)
			if p.Over {
				return last, nil
			}
		}
		select {
		case <-ctx.Done():
			return last, context.Cause(ctx)
		case <-time.After(jobPause):
		}
	}
}
