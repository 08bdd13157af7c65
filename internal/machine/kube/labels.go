package kube

import (
	"context"
	"errors"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"iotax"
	"iotax/internal/leftover"
)

// The objects of a run have labels and an annotation. The annotation contains the run's leftover.Label, because
// Kubernetes does not allow some of its characters in a label. `iotax clean` searches for `selector`.
const (
	label      = "iotax"
	runLabel   = "iotax.run"
	annotation = "iotax/label"
	selector   = label + "=machine"
)

var noLabel = regexp.MustCompile(`[^A-Za-z0-9._-]`)

// Labelled returns the metadata for objects that a run creates.
func Labelled(l leftover.Label) metav1.ObjectMeta {
	m := metav1.ObjectMeta{Labels: map[string]string{label: "machine", "app.kubernetes.io/managed-by": "iotax"}, Annotations: map[string]string{}}
	if l.Run != "" {
		m.Labels[runLabel] = noLabel.ReplaceAllString(l.Run[:min(len(l.Run), 63)], "-")
		m.Annotations[annotation] = l.String()
	}
	return m
}

// NotMade reports whether err proves that the cluster has not created the object.
func NotMade(err error) bool {
	return utilnet.IsConnectionRefused(err) || apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsNotFound(err) || apierrors.IsUnauthorized(err)
}

// Left finds the pods, Jobs and claims of runs in a namespace. Removing a pod also removes its claims and, if its Job
// belongs to the same run, that Job. Left does not list these separately. If this user may not list Jobs, Left ignores
// Jobs.
func (c *Client) Left(ctx context.Context, ns string) (items []leftover.Item, err error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	where := "k8s://" + strings.TrimPrefix(strings.TrimPrefix(c.Server, "https://"), "http://") + "/" + ns
	var pods corev1.PodList
	if err := c.objects.list(ctx, "pods", ns, metav1.ListOptions{LabelSelector: selector}, &pods); err != nil {
		return nil, Refused("look for leftovers", where, err)
	}
	unborn, err := c.jobs(ctx, ns)
	if err != nil && !apierrors.IsForbidden(err) {
		return nil, Refused("look for leftovers", where, err)
	}
	labels := map[string]string{}
	for _, j := range unborn {
		labels[j.Name] = j.Annotations[annotation]
	}
	names, jobs := map[string]bool{}, map[string]bool{}
	for _, p := range pods.Items {
		l, ok := leftover.ParseLabel(p.Annotations[annotation])
		if !ok {
			continue
		}
		names[p.Name] = true
		remove, name := c.Remove, p.Name
		// A Job would replace a deleted pod, so remove the Job instead. The Job must belong to the same run, because a
		// pod can name any Job as its owner.
		if o := metav1.GetControllerOf(&p); o != nil && o.Kind == "Job" && labels[o.Name] == p.Annotations[annotation] {
			remove, name = c.RemoveJob, o.Name
			jobs[name] = true
		}
		items = append(items, leftover.Found("pod", p.Name, p.Spec.NodeName+" "+p.Spec.Containers[0].Image, where, l, func(ctx context.Context) error {
			return remove(ctx, ns, name)
		}))
	}
	for _, j := range unborn {
		l, ok := leftover.ParseLabel(j.Annotations[annotation])
		if !ok || jobs[j.Name] {
			continue
		}
		items = append(items, leftover.Found("job", j.Name, j.Spec.Template.Spec.Containers[0].Image, where, l, func(ctx context.Context) error {
			return c.RemoveJob(ctx, ns, j.Name)
		}))
	}
	var claims corev1.PersistentVolumeClaimList
	if err := c.objects.list(ctx, "persistentvolumeclaims", ns, metav1.ListOptions{LabelSelector: selector}, &claims); err != nil {
		return items, Refused("look for leftovers", where, err)
	}
	for _, v := range claims.Items {
		l, ok := leftover.ParseLabel(v.Annotations[annotation])
		if !ok || len(v.OwnerReferences) > 0 && names[v.OwnerReferences[0].Name] {
			continue
		}
		items = append(items, leftover.Found("claim", v.Name, v.Spec.VolumeName, where, l, func(ctx context.Context) error {
			return c.RemoveClaim(ctx, ns, v.Name)
		}))
	}
	return items, nil
}

// Around returns facts about a node that help to explain a result. If iotax cannot read the node, the value of
// node.version is the reason.
func (c *Client) Around(ctx context.Context, node string) map[string]string {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	f := map[string]string{}
	var n corev1.Node
	if err := c.objects.get(ctx, "nodes", "", node, &n); err != nil {
		f["node.version"] = unreadable(err)
		return f
	}
	f["node.version"], f["node.runtime"] = n.Status.NodeInfo.KubeletVersion, n.Status.NodeInfo.ContainerRuntimeVersion
	f["node.kernel"] = n.Status.NodeInfo.KernelVersion
	for _, key := range []string{"node.kubernetes.io/instance-type", "topology.kubernetes.io/zone"} {
		if v := n.Labels[key]; v != "" {
			f["node."+key[strings.LastIndexByte(key, '/')+1:]] = v
		}
	}
	return f
}

// unreadable returns the text to record for a fact that could not be read.
func unreadable(err error) string {
	if apierrors.IsForbidden(err) {
		return "unknown: this user may not read it"
	}
	return "unknown: " + Plain(err).Error()
}

// CheckClaim returns an error if a claim does not exist or has the wrong volume mode. device is true for a raw device
// and false for a file system. Without this check, a wrong mode would appear only as an event of a pod that never
// starts. CheckClaim returns nil if this user may not read claims.
func (c *Client) CheckClaim(ctx context.Context, ns, name string, device bool) error {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	var claim corev1.PersistentVolumeClaim
	err := c.objects.get(ctx, "persistentvolumeclaims", ns, name, &claim)
	what, hint := "it has a file system, and is not a raw device", "leave mode: block out"
	switch raw := err == nil && claim.Spec.VolumeMode != nil && *claim.Spec.VolumeMode == corev1.PersistentVolumeBlock; {
	case apierrors.IsForbidden(err) || err == nil && raw == device:
		return nil
	case err != nil:
		return Refused("use claim", ns+"/"+name, err)
	case raw:
		what, hint = "it is a raw device, and has no file system", "add mode: block"
	}
	return &iotax.Error{Op: "use claim", On: ns + "/" + name, Err: errors.New(what), Hint: hint}
}

// ClaimFacts returns facts about a claim and its volume.
func (c *Client) ClaimFacts(ctx context.Context, ns, name string) map[string]string {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	f := map[string]string{}
	var claim corev1.PersistentVolumeClaim
	if err := c.objects.get(ctx, "persistentvolumeclaims", ns, name, &claim); err != nil {
		f["claim"] = unreadable(err)
		return f
	}
	if s := claim.Spec.StorageClassName; s != nil {
		f["claim.class"] = *s
	}
	if q, ok := claim.Status.Capacity[corev1.ResourceStorage]; ok {
		f["claim.size"] = q.String()
	}
	f["claim.volume"] = claim.Spec.VolumeName
	if by := claim.Annotations["volume.kubernetes.io/storage-provisioner"]; by != "" {
		f["claim.provisioner"] = by
	}
	var v corev1.PersistentVolume
	if err := c.objects.get(ctx, "persistentvolumes", "", claim.Spec.VolumeName, &v); err != nil {
		f[iotax.FactClaimType] = unreadable(err)
		return f
	}
	switch s := v.Spec.PersistentVolumeSource; {
	case s.CSI != nil:
		f[iotax.FactClaimType], f["claim.provisioner"] = "csi", s.CSI.Driver
		if a := s.CSI.VolumeAttributes; a["server"] != "" { // csi-driver-nfs and similar drivers
			f[iotax.FactClaimServer] = a["server"] + ":" + a["share"]
		}
	case s.NFS != nil:
		f[iotax.FactClaimType], f[iotax.FactClaimServer] = "nfs", s.NFS.Server+":"+s.NFS.Path
	case s.Local != nil:
		f[iotax.FactClaimType], f["claim.path"] = "local", s.Local.Path
	case s.HostPath != nil:
		f[iotax.FactClaimType], f["claim.path"] = "hostPath", s.HostPath.Path
	default:
		f[iotax.FactClaimType] = "another"
	}
	if len(v.Spec.MountOptions) > 0 {
		f["claim.options"] = strings.Join(v.Spec.MountOptions, ",")
	}
	return f
}
