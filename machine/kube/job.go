package kube

import (
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"

	"iotax"
)

// A Job is a run that an Indexed Job of the cluster measures: a pod a shard, each of them iotax itself.
type Job struct {
	Run    string // its id, which names the Job too
	Plan   []byte // the resolved plan
	Store  string // address of the store, as the pods reach it; it goes into a Secret
	Shards int
	Flags  []string // of `iotax run` in the pods, beside those that divide the run

	// Template is what the user wants of the pods: image, claims, nodes, resources. Its first container is iotax's;
	// what the run itself needs is put into it.
	Template corev1.PodTemplateSpec

	// Refusals are the exit statuses of iotax that another attempt does not change.
	Refusals []int32
}

const (
	planVolume  = "iotax-plan"
	planDir     = "/etc/iotax-run"
	planFile    = "plan.yaml"
	indexLabel  = "batch.kubernetes.io/job-completion-index"
	nameLabel   = "batch.kubernetes.io/job-name"
	attempts    = 2         // of a shard, after the first
	keptSeconds = 24 * 3600 // that a Job is there after its end, so that its logs can be read
)

// Name is that of all that the Job has in the cluster.
func (j Job) Name() string { return "iotax-" + strings.ToLower(noName.Replace(j.Run)) }

var noName = strings.NewReplacer("_", "-", ".", "-")

// Objects are what the Job consists of. The plan and the address of the store are the Job's: they go with it.
func (j Job) Objects(meta metav1.ObjectMeta) (*batchv1.Job, *corev1.ConfigMap, *corev1.Secret) {
	meta.Name, meta.Labels = j.Name(), maps.Clone(meta.Labels)
	meta.Labels[label] = "job" // iotax clean looks for what single machines left; a Job goes by itself
	pod := *j.Template.DeepCopy()
	pod.Labels = merged(meta.Labels, pod.Labels)
	pod.Annotations = merged(meta.Annotations, pod.Annotations)
	pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: planVolume, VolumeSource: corev1.VolumeSource{
		ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: meta.Name}}}})
	c := &pod.Spec.Containers[0]
	if len(c.Command) == 0 {
		c.Command = []string{"iotax"}
	}
	c.Args = append([]string{"run", path.Join(planDir, planFile), "--id", j.Run, "--shard", fmt.Sprintf("$(JOB_COMPLETION_INDEX)/%d", j.Shards), "--quiet"}, j.Flags...)
	c.EnvFrom = append(c.EnvFrom, corev1.EnvFromSource{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: meta.Name}}})
	c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: planVolume, MountPath: planDir, ReadOnly: true})
	if pod.Spec.Affinity == nil {
		// Two shards that measure on one node at the same time measure each other.
		pod.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
			TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{label: meta.Labels[label], runLabel: meta.Labels[runLabel]}}}}}}
	}
	n := int32(j.Shards)
	mode, again, kept := batchv1.IndexedCompletion, int32(attempts), int32(keptSeconds)
	job := &batchv1.Job{ObjectMeta: meta, Spec: batchv1.JobSpec{Completions: &n, Parallelism: &n, CompletionMode: &mode,
		BackoffLimitPerIndex: &again, TTLSecondsAfterFinished: &kept, Template: pod,
		PodFailurePolicy: &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{
			{Action: batchv1.PodFailurePolicyActionFailIndex, OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{
				ContainerName: &c.Name, Operator: batchv1.PodFailurePolicyOnExitCodesOpIn, Values: j.Refusals}}}}}}
	return job, &corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{planFile: string(j.Plan)}},
		&corev1.Secret{ObjectMeta: meta, StringData: map[string]string{"IOTAX_STORE": j.Store}}
}

// merged has what either has, and a's where both do.
func merged(a, b map[string]string) map[string]string {
	out := maps.Clone(b)
	if out == nil {
		out = map[string]string{}
	}
	maps.Copy(out, a)
	return out
}

// jobScheme knows the objects of a Job. The clientsets of the library bring those of all groups along.
var jobScheme = runtime.NewScheme()

func init() {
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, batchv1.AddToScheme} {
		if err := add(jobScheme); err != nil {
			panic(err) // of types that the library was built with
		}
	}
}

// group is the client of one group of the cluster's objects.
func (c *Client) group(path string, version schema.GroupVersion) (rest.Interface, error) {
	conf := rest.CopyConfig(c.REST)
	conf.APIPath, conf.GroupVersion = path, &version
	conf.NegotiatedSerializer = serializer.NewCodecFactory(jobScheme).WithoutConversion()
	client, err := rest.RESTClientFor(conf)
	if err != nil {
		return nil, &iotax.Error{Op: "reach the cluster", On: c.Server, Err: err}
	}
	return client, nil
}

func (c *Client) core() (rest.Interface, error)  { return c.group("/api", corev1.SchemeGroupVersion) }
func (c *Client) batch() (rest.Interface, error) { return c.group("/apis", batchv1.SchemeGroupVersion) }

// Submit makes the Job, and what it needs as its own. After a failure nothing of it is left.
func (c *Client) Submit(ctx context.Context, ns string, j Job, meta metav1.ObjectMeta) (err error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	on := ns + "/" + j.Name()
	job, plan, secret := j.Objects(meta)
	core, err := c.core()
	if err != nil {
		return err
	}
	batch, err := c.batch()
	if err != nil {
		return err
	}
	made := &batchv1.Job{}
	if err := batch.Post().Namespace(ns).Resource("jobs").Body(job).Do(ctx).Into(made); err != nil {
		return Refused("submit job", on, err)
	}
	defer func() {
		if err != nil {
			if rerr := c.Withdraw(context.WithoutCancel(ctx), ns, j); rerr != nil {
				err = fmt.Errorf("%w; and it could not be removed: %w", err, rerr)
			}
		}
	}()
	owner := []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: made.Name, UID: made.UID}}
	plan.OwnerReferences, secret.OwnerReferences = owner, owner
	if err := core.Post().Namespace(ns).Resource("configmaps").Body(plan).Do(ctx).Error(); err != nil {
		return Refused("submit the plan of job", on, err)
	}
	if err := core.Post().Namespace(ns).Resource("secrets").Body(secret).Do(ctx).Error(); err != nil {
		return Refused("submit the store's address of job", on, err)
	}
	return nil
}

// Withdraw removes a Job with its pods, its plan and its secret.
func (c *Client) Withdraw(ctx context.Context, ns string, j Job) error {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	batch, err := c.batch()
	if err != nil {
		return err
	}
	now := metav1.DeletePropagationBackground
	err = batch.Delete().Namespace(ns).Resource("jobs").Name(j.Name()).Body(&metav1.DeleteOptions{PropagationPolicy: &now}).Do(ctx).Error()
	if err != nil && !apierrors.IsNotFound(err) {
		return Refused("remove job", ns+"/"+j.Name(), err)
	}
	return nil
}

// Progress is how far a Job has come.
type Progress struct {
	Running, Done, Failed int  // shards
	Over                  bool // nothing more will happen
	Why                   string
}

// Look asks how far a Job has come. Why tells what keeps shards from running, or why they failed, in the cluster's
// own words.
func (c *Client) Look(ctx context.Context, ns string, j Job) (Progress, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	var p Progress
	core, err := c.core()
	if err != nil {
		return p, err
	}
	batch, err := c.batch()
	if err != nil {
		return p, err
	}
	job, pods := &batchv1.Job{}, &corev1.PodList{}
	if err := batch.Get().Namespace(ns).Resource("jobs").Name(j.Name()).Do(ctx).Into(job); err != nil {
		return p, Refused("look at job", ns+"/"+j.Name(), err)
	}
	p.Running, p.Done, p.Failed = int(job.Status.Active), int(job.Status.Succeeded), int(job.Status.Failed)
	for _, x := range job.Status.Conditions {
		if x.Status == corev1.ConditionTrue && (x.Type == batchv1.JobComplete || x.Type == batchv1.JobFailed) {
			p.Over = true
			if x.Type == batchv1.JobFailed {
				p.Why = strings.TrimSpace(x.Reason + ": " + x.Message)
			}
		}
	}
	if err := core.Get().Namespace(ns).Resource("pods").Param("labelSelector", nameLabel+"="+j.Name()).Do(ctx).Into(pods); err != nil {
		return p, Refused("look at the pods of job", ns+"/"+j.Name(), err)
	}
	var said []string
	for i := range pods.Items {
		pod := &pods.Items[i]
		if pod.Status.Phase == corev1.PodSucceeded {
			continue
		}
		late, fatal := trouble(pod)
		switch {
		case fatal != nil && pod.DeletionTimestamp == nil:
			said = append(said, fmt.Sprintf("shard %s: %v", pod.Labels[indexLabel], fatal.Err))
		case late != "" && time.Since(pod.CreationTimestamp.Time) > noteTime:
			line := fmt.Sprintf("shard %s: %s", pod.Labels[indexLabel], late)
			if events := c.Events(ctx, ns, pod.Name); events != "" {
				line += " (events: " + events + ")"
			}
			said = append(said, line)
		}
	}
	slices.Sort(said)
	if len(said) > 3 {
		said = append(said[:3], fmt.Sprintf("and %d others", len(said)-3))
	}
	if len(said) > 0 {
		p.Why = strings.TrimPrefix(p.Why+"; "+strings.Join(said, "; "), "; ")
	}
	return p, nil
}
