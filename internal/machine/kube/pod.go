package kube

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"iotax"
	"iotax/internal/machine/internal/made"
)

// pollTime is the interval between checks of a pod. Polling does not need the right to watch.
const pollTime = 200 * time.Millisecond

// Await waits until the containers of a pod run, and returns the pod. If the pod cannot run, Await returns an error
// with the reason and the pod's events. Await waits up to `limit` for a pod that may still start. While no node accepts
// the pod, Await passes the reason to `note`.
func (c *Client) Await(ctx context.Context, ns, name string, limit time.Duration, note func(string, ...any)) (*corev1.Pod, error) {
	on := ns + "/" + name
	begin, noted := time.Now(), ""
	for {
		p, err := c.get(ctx, ns, name)
		if err != nil {
			return nil, Refused("start pod", on, err)
		}
		late, fatal := trouble(p)
		if late == "" && fatal == nil {
			return p, nil
		}
		over := time.Since(begin) > limit
		if fatal == nil && over {
			fatal = &iotax.Error{Err: fmt.Errorf("it does not run after %v: %s", limit, late), Hint: "`kubectl describe pod` shows why; start_timeout: waits longer"}
			if limit == 0 {
				fatal = &iotax.Error{Err: errors.New("it does not run: " + late), Hint: "kubectl describe pod shows more"}
			}
			if strings.HasPrefix(late, unschedulable) {
				fatal.Hint = "ask for less (cpus:, memory:), another node:, or a storage class that can serve that node"
			}
		}
		if fatal != nil {
			fatal.Op, fatal.On = "start pod", on
			events := c.events(ctx, ns, name)
			for _, v := range p.Spec.Volumes {
				if v.Ephemeral != nil {
					for _, e := range c.events(ctx, ns, name+"-"+v.Name) {
						e.of = "claim " + v.Name
						events = append(events, e)
					}
				}
			}
			if slices.ContainsFunc(events, func(e event) bool { return e.reason == "FailedMount" }) && slices.ContainsFunc(p.Spec.Volumes, func(v corev1.Volume) bool { return v.NFS != nil }) {
				fatal.Hint = "the node mounts NFS: it needs the kernel's client and mount.nfs (package nfs-common), and must reach the server"
			}
			fatal.Err = errors.New(withEvents(fatal.Err.Error(), events))
			return nil, fatal
		}
		if strings.HasPrefix(late, unschedulable) && late != noted && time.Since(begin) > noteTime {
			noted = late
			note("pod %s waits: %s", on, late)
		}
		select {
		case <-time.After(pollTime):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// noteTime is how long a pod may wait, for example for a node or a claim, before Await or Look reports the reason.
const noteTime = 5 * time.Second

const unschedulable = "no node takes it"

func (c *Client) get(ctx context.Context, ns, name string) (*corev1.Pod, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	p := &corev1.Pod{}
	return p, c.objects.get(ctx, "pods", ns, name, p)
}

// trouble returns the reason why a pod does not run: `late` if the pod may still start, `fatal` if it cannot. For a
// running pod, `late` is "" and `fatal` is nil.
func trouble(p *corev1.Pod) (late string, fatal *iotax.Error) {
	if p.DeletionTimestamp != nil {
		return "", &iotax.Error{Err: errors.New("it is being deleted"), Hint: "find out who deletes it, then start again"}
	}
	for _, s := range p.Status.ContainerStatuses {
		switch {
		case s.State.Running != nil:
			continue
		case s.State.Terminated != nil:
			return "", ended(s.State.Terminated)
		case s.State.Waiting == nil:
			return "its container is not started", nil
		}
		w := s.State.Waiting
		text := strings.TrimSuffix(w.Reason+": "+w.Message, ": ")
		switch w.Reason {
		case "ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName", "ImageInspectError", "RegistryUnavailable":
			return "", &iotax.Error{Err: errors.New("the image " + s.Image + " cannot be had: " + text),
				Hint: "check its name, whether the node reaches the registry, and pull:; image: takes any image that has a POSIX sh"}
		case "CreateContainerConfigError", "CreateContainerError", "RunContainerError", "CrashLoopBackOff", "StartError":
			if s.LastTerminationState.Terminated != nil {
				return "", ended(s.LastTerminationState.Terminated)
			}
			return "", &iotax.Error{Err: errors.New("its container does not start: " + text), Hint: made.NoShell}
		}
		return cmp.Or(text, "its container waits"), nil
	}
	switch p.Status.Phase {
	case corev1.PodRunning:
		return "", nil
	case corev1.PodFailed, corev1.PodSucceeded:
		return "", &iotax.Error{Err: fmt.Errorf("it has ended: %s", strings.TrimSpace(string(p.Status.Phase)+" "+p.Status.Reason+" "+p.Status.Message)), Hint: "kubectl describe pod shows more"}
	}
	for _, x := range p.Status.Conditions {
		if x.Type == corev1.PodScheduled && x.Status == corev1.ConditionFalse {
			return unschedulable + ": " + cmp.Or(x.Message, x.Reason), nil
		}
	}
	return "it is " + strings.ToLower(cmp.Or(string(p.Status.Phase), "pending")), nil
}

// lastWords returns the end of a container's output: from the start of iotax's last error message, or the last three
// lines if iotax printed no error.
func lastWords(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	from := max(0, len(lines)-3)
	for i, l := range lines {
		if strings.HasPrefix(l, "iotax: ") {
			from = i
		}
	}
	return strings.Join(lines[from:], " ")
}

// ended returns the error for a terminated container.
func ended(t *corev1.ContainerStateTerminated) *iotax.Error {
	how := fmt.Sprintf("%s, exit status %d", cmp.Or(t.Reason, "ended"), t.ExitCode)
	if t.Message != "" {
		how += ": " + lastWords(t.Message)
	}
	e := &iotax.Error{Err: errors.New("its container ended: " + how)}
	switch {
	case t.Reason == "OOMKilled":
		e.Hint = "give it more memory:"
	case strings.Contains(t.Message, "executable file not found"):
		e.Hint = made.NoShell
	default:
		e.Hint = "kubectl describe pod shows more"
	}
	return e
}

// Gone returns the reason why a container no longer runs or was restarted. began identifies its original start: see
// Began. Gone returns nil if the original container still runs, or if the cluster does not answer or gives no reason.
func (c *Client) Gone(ctx context.Context, ns, name, container, began string) error {
	p, err := c.get(ctx, ns, name)
	switch {
	case apierrors.IsNotFound(err):
		return errors.New("the pod was deleted")
	case err != nil:
		return nil //nolint:nilerr // the cluster does not answer; the caller's own error explains more
	case p.DeletionTimestamp != nil:
		return errors.New("the pod is being deleted")
	case p.Status.Phase == corev1.PodFailed || p.Status.Phase == corev1.PodSucceeded:
		return fmt.Errorf("the pod ended: %s", strings.TrimSpace(string(p.Status.Phase)+" "+p.Status.Reason+" "+p.Status.Message))
	}
	for _, s := range p.Status.ContainerStatuses {
		if s.Name != container {
			continue
		}
		switch {
		case s.State.Terminated != nil:
			return ended(s.State.Terminated).Err
		case s.State.Running != nil && Began(s) == began:
			return nil
		case s.LastTerminationState.Terminated != nil:
			return fmt.Errorf("%w, and it was started anew", ended(s.LastTerminationState.Terminated).Err)
		}
	}
	return nil
}

// Began returns an id that differs between starts of a container.
func Began(s corev1.ContainerStatus) string { return s.ContainerID }

// MakePod creates a pod. It returns the cluster's error unchanged.
func (c *Client) MakePod(ctx context.Context, ns string, meta metav1.ObjectMeta, spec corev1.PodSpec) error {
	return c.objects.create(ctx, "pods", ns, &corev1.Pod{ObjectMeta: meta, Spec: spec}, &corev1.Pod{})
}

// Remove deletes a pod and waits until it is gone.
func (c *Client) Remove(ctx context.Context, ns, name string) error {
	grace := int64(1) // in seconds; the pod's main process only sleeps and has nothing to save
	err := c.objects.remove(ctx, "pods", ns, name, metav1.DeleteOptions{GracePeriodSeconds: &grace})
	return gone(ctx, ns, name, "pod", "pod", err, func() error { _, err := c.get(ctx, ns, name); return err })
}

// RemoveClaim deletes a claim and waits until it is gone.
func (c *Client) RemoveClaim(ctx context.Context, ns, name string) error {
	const kind = "persistentvolumeclaims"
	err := c.objects.remove(ctx, kind, ns, name, metav1.DeleteOptions{})
	return gone(ctx, ns, name, "claim", "pvc", err, func() error { return c.objects.get(ctx, kind, ns, name, &corev1.PersistentVolumeClaim{}) })
}

// gone waits until `get` returns NotFound. err is the error of the deletion.
func gone(ctx context.Context, ns, name, what, kind string, err error, get func() error) error {
	on := ns + "/" + name
	if err != nil && !apierrors.IsNotFound(err) {
		return Refused("remove "+what, on, err)
	}
	for !apierrors.IsNotFound(get()) {
		select {
		case <-time.After(pollTime):
		case <-ctx.Done():
			return &iotax.Error{Op: "remove " + what, On: on, Err: fmt.Errorf("it is still there (%w)", context.Cause(ctx)), Hint: "look at it: kubectl describe " + kind + " " + name + " -n " + ns}
		}
	}
	return nil
}
