package kube

import (
	"context"
	"errors"
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

	"iotax"
)

// A Job is an Indexed Job that measures one run: each pod runs iotax for one shard.
type Job struct {
	Run    string // the run's id, which is also in the Job's name
	Plan   []byte // the resolved plan
	Store  string // the store's address for the pods, which is kept in a Secret
	Shards int
	Flags  []string // further flags of `iotax run` in the pods

	// Template is the user's pod template: image, claims, nodes, resources. Objects sets the arguments of its first
	// container, and adds the run's environment and mounts to that container.
	Template corev1.PodTemplateSpec

	// Refusals are the exit statuses of iotax after which a retry is pointless.
	Refusals []int32
}

const (
	planVolume  = "iotax-plan"
	planDir     = "/etc/iotax-run"
	planFile    = "plan.yaml"
	indexLabel  = "batch.kubernetes.io/job-completion-index"
	nameLabel   = "batch.kubernetes.io/job-name"
	attempts    = 2           // retries of a shard
	graceTime   = time.Minute // time for iotax to save its results when its pod is deleted
	keptSeconds = 24 * 3600   // lifetime of a finished Job, so that its logs can be read
)

// Name returns the name of the Job and of its ConfigMap and Secret.
func (j Job) Name() string { return "iotax-" + strings.ToLower(noName.Replace(j.Run)) }

var noName = strings.NewReplacer("_", "-", ".", "-")

// Objects returns the Job, and the ConfigMap and the Secret that hold its plan and the store's address.
func (j Job) Objects(meta metav1.ObjectMeta) (*batchv1.Job, *corev1.ConfigMap, *corev1.Secret) {
	meta.Name, meta.Labels = j.Name(), maps.Clone(meta.Labels)
	meta.Labels[label] = "job" // not "machine", so that `iotax clean` ignores it; the cluster removes finished Jobs
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
	c.Env = append(c.Env, corev1.EnvVar{Name: iotax.AloneVariable, Value: "1"}) // no other user works in the pod, although its volumes may be writable by all users
	c.EnvFrom = append(c.EnvFrom, corev1.EnvFromSource{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: meta.Name}}})
	if c.TerminationMessagePolicy == "" { // the pod's status then contains the last lines of the log, for users who may not read logs
		c.TerminationMessagePolicy = corev1.TerminationMessageFallbackToLogsOnError
	}
	if pod.Spec.TerminationGracePeriodSeconds == nil {
		grace := int64(graceTime / time.Second)
		pod.Spec.TerminationGracePeriodSeconds = &grace
	}
	c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: planVolume, MountPath: planDir, ReadOnly: true})
	if pod.Spec.Affinity == nil {
		// Two shards that measure on one node at the same time would disturb each other.
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

// merged returns the entries of a and b. Entries of a take precedence.
func merged(a, b map[string]string) map[string]string {
	out := maps.Clone(b)
	if out == nil {
		out = map[string]string{}
	}
	maps.Copy(out, a)
	return out
}

// Submit creates the Job, its ConfigMap and its Secret, which the Job owns. If that fails, it removes the Job. It
// replaces an earlier Job of the same run that has ended.
func (c *Client) Submit(ctx context.Context, ns string, j Job, meta metav1.ObjectMeta) (err error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	on := ns + "/" + j.Name()
	job, plan, secret := j.Objects(meta)
	made := &batchv1.Job{}
	create := func() error { return c.objects.create(ctx, "jobs", ns, job, made) }
	err = create()
	if apierrors.IsAlreadyExists(err) { // a resumed run; the store has the results of its earlier Job
		before, lerr := c.Look(ctx, ns, j)
		switch {
		case lerr != nil:
			return lerr
		case before.labels[label] != job.Labels[label] || before.labels[runLabel] != job.Labels[runLabel]:
			return &iotax.Error{Op: "submit job", On: on, Err: errors.New("a job with this name belongs to another run"), Hint: "choose another --id, or another --kube-namespace"}
		case !before.Over:
			return &iotax.Error{Op: "submit job", On: on, Err: errors.New("a job with this name is already running"), Hint: "wait for its end, or remove it: kubectl delete job -n " + ns + " " + j.Name()}
		}
		if err = c.RemoveJob(ctx, ns, j.Name()); err == nil {
			err = create()
		}
	}
	if NotMade(err) {
		return Refused("submit job", on, err)
	}
	defer func() { // even if creating the Job failed: the Job may exist if the cluster's answer was lost
		if err != nil {
			if rerr := c.removeOwn(context.WithoutCancel(ctx), ns, job); rerr != nil {
				err = fmt.Errorf("%w; and it could not be removed: %w", err, rerr)
			}
		}
	}()
	if err != nil {
		return Refused("submit job", on, err)
	}
	owner := []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: made.Name, UID: made.UID}}
	plan.OwnerReferences, secret.OwnerReferences = owner, owner
	if err := c.objects.create(ctx, "configmaps", ns, plan, &corev1.ConfigMap{}); err != nil {
		return Refused("submit the plan of job", on, err)
	}
	if err := c.objects.create(ctx, "secrets", ns, secret, &corev1.Secret{}); err != nil {
		return Refused("submit the store's address of job", on, err)
	}
	return nil
}

// removeOwn removes the Job that this process submitted. It does not remove another process's Job of the same name.
func (c *Client) removeOwn(ctx context.Context, ns string, job *batchv1.Job) error {
	ctx, cancel := context.WithTimeout(ctx, answerTime+graceTime)
	defer cancel()
	there := &batchv1.Job{}
	err := c.objects.get(ctx, "jobs", ns, job.Name, there)
	switch {
	case apierrors.IsNotFound(err) || err == nil && there.Annotations[annotation] != job.Annotations[annotation]:
		return nil
	case err != nil:
		return Refused("look at job", ns+"/"+job.Name, err)
	}
	return c.RemoveJob(ctx, ns, job.Name)
}

// RemoveJob removes a Job with its pods, its ConfigMap and its Secret. It waits until the pods are gone, because iotax
// in the pods saves its results before it exits.
func (c *Client) RemoveJob(ctx context.Context, ns, name string) error {
	ctx, cancel := context.WithTimeout(ctx, answerTime+graceTime)
	defer cancel()
	on := ns + "/" + name
	now := metav1.DeletePropagationBackground
	err := c.objects.remove(ctx, "jobs", ns, name, metav1.DeleteOptions{PropagationPolicy: &now})
	if err != nil && !apierrors.IsNotFound(err) {
		return Refused("remove job", on, err)
	}
	for {
		pods, err := c.podsOf(ctx, ns, name)
		switch {
		case err != nil:
			return err
		case len(pods) == 0:
			return nil
		}
		select {
		case <-time.After(pollTime):
		case <-ctx.Done():
			return &iotax.Error{Op: "remove job", On: on, Err: fmt.Errorf("%d of its pods are still there", len(pods)), Hint: "look at them: kubectl get pods -n " + ns + " -l " + nameLabel + "=" + name}
		}
	}
}

func (c *Client) podsOf(ctx context.Context, ns, job string) ([]corev1.Pod, error) {
	var list corev1.PodList
	if err := c.objects.list(ctx, "pods", ns, metav1.ListOptions{LabelSelector: nameLabel + "=" + job}, &list); err != nil {
		return nil, Refused("look at the pods of job", ns+"/"+job, err)
	}
	return list.Items, nil
}

// MakeJob creates a Job of one pod without retries. It returns the cluster's error unchanged.
func (c *Client) MakeJob(ctx context.Context, ns string, meta metav1.ObjectMeta, spec corev1.PodSpec) error {
	never, kept := int32(0), int32(keptSeconds)
	pod := metav1.ObjectMeta{Labels: meta.Labels, Annotations: meta.Annotations}
	return c.objects.create(ctx, "jobs", ns, &batchv1.Job{ObjectMeta: meta, Spec: batchv1.JobSpec{BackoffLimit: &never, TTLSecondsAfterFinished: &kept,
		Template: corev1.PodTemplateSpec{ObjectMeta: pod, Spec: spec}}}, &batchv1.Job{})
}

// jobs lists the Jobs that MakeJob made.
func (c *Client) jobs(ctx context.Context, ns string) ([]batchv1.Job, error) {
	var list batchv1.JobList
	err := c.objects.list(ctx, "jobs", ns, metav1.ListOptions{LabelSelector: selector}, &list)
	return list.Items, err
}

// OfJob waits for the pod of a Job and returns its name. If no pod exists after `limit`, it returns an error with the
// Job's events.
func (c *Client) OfJob(ctx context.Context, ns, job string, limit time.Duration) (string, error) {
	for begin := time.Now(); ; {
		pods, err := c.podsOf(ctx, ns, job)
		switch {
		case err != nil:
			return "", err
		case len(pods) > 0:
			return pods[0].Name, nil
		case time.Since(begin) > limit:
			why := withEvents("it has no pod after "+limit.String(), c.events(ctx, ns, job))
			return "", &iotax.Error{Op: "start job", On: ns + "/" + job, Err: errors.New(why), Hint: "`kubectl describe job` shows why; start_timeout: waits longer"}
		}
		select {
		case <-time.After(pollTime):
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}
}

// Progress is the state of a Job.
type Progress struct {
	Running, Done int  // numbers of shards
	Failed        int  // number of failed pods, including those of shards that were retried
	Over          bool // the Job has ended
	Lost          bool // the Job ended, and at least one shard failed
	Why           string
	labels        map[string]string // of the Job
}

// Look reads the progress of a Job. Progress.Why is the cluster's reason for shards that do not run or have failed.
func (c *Client) Look(ctx context.Context, ns string, j Job) (Progress, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	var p Progress
	job := &batchv1.Job{}
	if err := c.objects.get(ctx, "jobs", ns, j.Name(), job); err != nil {
		return p, Refused("look at job", ns+"/"+j.Name(), err)
	}
	p.labels = job.Labels
	p.Running, p.Done, p.Failed = int(job.Status.Active), int(job.Status.Succeeded), int(job.Status.Failed)
	if job.Status.Ready != nil { // Active includes pods that wait for a node
		p.Running = int(*job.Status.Ready)
	}
	for _, x := range job.Status.Conditions {
		if x.Status == corev1.ConditionTrue && (x.Type == batchv1.JobComplete || x.Type == batchv1.JobFailed) {
			p.Over = true
			if x.Type == batchv1.JobFailed {
				p.Lost, p.Why = true, strings.TrimSpace(x.Reason+": "+x.Message)
			}
		}
	}
	pods, err := c.podsOf(ctx, ns, j.Name())
	if err != nil {
		return p, err
	}
	var reasons []string
	for i := range pods {
		pod := &pods[i]
		if pod.Status.Phase == corev1.PodSucceeded {
			continue
		}
		late, fatal := trouble(pod)
		switch {
		case fatal != nil && pod.DeletionTimestamp == nil:
			reasons = append(reasons, fmt.Sprintf("shard %s: %v", pod.Labels[indexLabel], fatal.Err))
		case late != "" && time.Since(pod.CreationTimestamp.Time) > noteTime:
			reasons = append(reasons, withEvents(fmt.Sprintf("shard %s: %s", pod.Labels[indexLabel], late), c.events(ctx, ns, pod.Name)))
		}
	}
	slices.Sort(reasons)
	reasons = slices.Compact(reasons) // retries of a shard fail with the same message
	if len(reasons) > 3 {
		reasons = append(reasons[:3], fmt.Sprintf("and %d others", len(reasons)-3))
	}
	if len(reasons) > 0 {
		p.Why = strings.TrimPrefix(p.Why+"; "+strings.Join(reasons, "; "), "; ")
	}
	return p, nil
}
