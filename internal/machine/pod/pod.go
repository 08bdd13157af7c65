// Package pod runs commands in Kubernetes pods.
package pod

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"iotax"
	"iotax/internal/leftover"
	remote "iotax/internal/machine/agent"
	"iotax/internal/machine/internal/made"
	"iotax/internal/machine/kind"
	"iotax/internal/machine/kube"
	"iotax/internal/plan"
)

// Spec is the spec of kind k8s: an existing pod, or a pod that iotax creates for the run, with the claims of its
// targets, and removes afterwards.
type Spec struct {
	Pod       string `yaml:"pod" doc:"NAMESPACE/NAME of a running pod; iotax leaves its agent and fio in it"`
	Container string `yaml:"container" doc:"container of that pod; empty means its first"`

	Image string `yaml:"image" doc:"image of a pod made for the run; it needs a POSIX sh"`
	Pull  string `yaml:"pull" doc:"when the node fetches the image: missing, never or always" enum:"missing,never,always"`

	File      string `yaml:"kubeconfig" doc:"configuration file; empty means KUBECONFIG, then ~/.kube/config, then the pod that iotax runs in"`
	Context   string `yaml:"context" doc:"context of that file to use instead of the current one"`
	Namespace string `yaml:"namespace" doc:"namespace of a pod made for the run; empty means the context's"`

	Job      bool          `yaml:"job" doc:"create the pod with a Job, for clusters that admit or queue only Jobs"`
	Node     string        `yaml:"node" doc:"node to run on; all makes one target per node; empty leaves the choice to the scheduler"`
	CPUs     float64       `yaml:"cpus" doc:"CPU request and limit; 0 means none"`
	Memory   plan.Size     `yaml:"memory" doc:"memory request and limit; 0 means none"`
	User     int64         `yaml:"user" doc:"user id to run as, without privileges, as restricted namespaces require; 0 means the image's"`
	Account  string        `yaml:"service_account" doc:"service account of the pod; empty means the namespace's default"`
	Seccomp  string        `yaml:"seccomp" doc:"seccomp profile: RuntimeDefault, Unconfined, or empty for the node's default" enum:",RuntimeDefault,Unconfined"`
	Runtime  string        `yaml:"runtime_class" doc:"runtime class, as in kata or gvisor; empty means the cluster's default runtime"`
	HostNet  bool          `yaml:"host_network" doc:"use the node's network, so that the pod network is not measured"`
	Wide     bool          `yaml:"privileged" doc:"run it privileged; only for measurements that are impossible otherwise"`
	Patience plan.Duration `yaml:"start_timeout" doc:"time limit until the pod runs"`
}

func (s *Spec) Traits() plan.Traits {
	return plan.Traits{Stays: s.Pod != "", HostFiles: []*string{&s.File}}
}

// Validate checks the spec without contacting the cluster.
func (s *Spec) Validate() error {
	bad := func(field, msg, hint string) error { return &plan.FieldError{Field: field, Msg: msg, Hint: hint} }
	switch ns, name, ok := strings.Cut(s.Pod, "/"); {
	case s.Pod != "" && (!ok || ns == "" || name == "" || strings.Contains(name, "/")):
		return bad("pod", fmt.Sprintf("%q is not NAMESPACE/NAME", s.Pod), "write it as in default/web-0")
	case s.Pod == "" && s.Image == "":
		return bad("image", "is missing", "name an image that has a POSIX sh, or a pod that runs (pod:)")
	case s.Pod == "" && s.Container != "":
		return bad("container", "is for a pod that exists", "leave it out")
	case s.CPUs < 0:
		return bad("cpus", "must not be negative", "")
	case s.Memory < 0 || s.Memory > 0 && s.Memory < 16<<20:
		return bad("memory", "is too little for a container", "give at least 64MiB, which fio wants")
	case s.User < 0:
		return bad("user", "must not be negative", "")
	case s.User > 0 && s.Wide:
		return bad("privileged", "and user: exclude each other", "leave one out")
	case s.Patience <= 0:
		return bad("start_timeout", "must be positive", "as in 2m")
	case s.Pod == "":
		return nil
	}
	for field, set := range map[string]bool{"image": s.Image != "" && s.Image != defaults.Image, "pull": s.Pull != "" && s.Pull != defaults.Pull,
		"start_timeout": s.Patience != defaults.Patience, "namespace": s.Namespace != "", "node": s.Node != "", "cpus": s.CPUs != 0, "memory": s.Memory != 0, "user": s.User != 0,
		"service_account": s.Account != "", "seccomp": s.Seccomp != "", "host_network": s.HostNet, "runtime_class": s.Runtime != "", "job": s.Job, "privileged": s.Wide} {
		if set {
			return bad(field, "is for a pod that iotax makes", "leave it out, or leave pod: out")
		}
	}
	return nil
}

// Cluster returns the cluster configuration of s.
func (s *Spec) Cluster() kube.Config {
	return kube.Config{File: s.File, Context: s.Context, Namespace: s.Namespace}
}

// AllNodes is the value of the key "node" that means one machine on each node of the cluster.
const AllNodes = "all"

// Kind defines the machine kind k8s.
var Kind = kind.Of("k8s", "a Kubernetes pod: a running one, or one made for the run, with the claims of its targets",
	defaults, open)

var defaults = Spec{Image: "busybox:stable", Pull: "missing", Patience: plan.Duration(2 * time.Minute)}

// Spread returns the plan.Kind.Spread function for plans that will run. It splits lists of nodes, and replaces
// `node: all` with the cluster's nodes. `given` is the value of the key "node" for new pods whose spec names no node.
func Spread(given string) func(fields map[string]string) (key string, nodes []string, err error) {
	return func(fields map[string]string) (string, []string, error) {
		node := fields["node"]
		if node == "" && fields["pod"] == "" {
			node = given
		}
		switch {
		case node == AllNodes:
			nodes, err := allNodes(kube.Config{File: fields["kubeconfig"], Context: fields["context"]})
			if e := (*iotax.Error)(nil); errors.As(err, &e) {
				err = &plan.FieldError{Field: "node", Msg: e.WithoutHint().Error(), Hint: e.Hint}
			}
			return "node", nodes, err
		case node != fields["node"] || strings.Contains(node, ","):
			return "node", strings.Split(node, ","), nil
		}
		return "", nil, nil
	}
}

// allNodes returns the nodes of a cluster that accept pods.
func allNodes(c kube.Config) ([]string, error) {
	api, err := kube.Connect(c)
	if err != nil {
		return nil, err
	}
	return api.Nodes(context.Background())
}

// A pod is a machine that runs commands in a container of a Kubernetes pod.
type pod struct {
	*remote.Machine
	api       *kube.Client
	ns, name  string
	job       string // the Job that made the pod; "" without a Job
	container string
	began     string
	ours      bool
	claims    []string // claims made for the pod
	exports   bool     // the pod mounts NFS exports or existing claims
	facts     map[string]string
	volumes   map[string]map[string]string // facts of its volumes, by the id of the device
}

// podTime limits the removal of a pod after `open` has failed.
const podTime = time.Minute

func open(ctx context.Context, s *Spec, o kind.Options) (_ iotax.Machine, err error) {
	if s.Node == AllNodes {
		return nil, &iotax.Error{Op: "open machine", On: o.Name, Err: errors.New("node: all is not replaced by the nodes' names"), Hint: "name one node"}
	}
	api, err := kube.Connect(s.Cluster())
	if err != nil {
		return nil, err
	}
	p := &pod{api: api, volumes: map[string]map[string]string{}}
	defer func() {
		if err != nil {
			cctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), podTime)
			defer cancel()
			err = errors.Join(err, p.remove(cctx))
		}
	}()
	if s.Pod != "" {
		if len(o.Devices) > 0 {
			return nil, &iotax.Error{Op: "open pod", On: s.Pod, Err: errors.New("a pod that exists cannot be given volumes"),
				Hint: "use dir: for a path in it, or let iotax make a pod"}
		}
		p.ns, p.name, _ = strings.Cut(s.Pod, "/")
	} else if err := p.create(ctx, s, o); err != nil {
		return nil, err
	}
	limit := time.Duration(s.Patience)
	if !p.ours {
		limit = 0
	}
	if p.job != "" {
		if p.name, err = api.OfJob(ctx, p.ns, p.job, limit); err != nil {
			return nil, err
		}
	}
	for _, d := range o.Devices {
		p.exports = p.exports || d.Claim != nil && d.Claim.NFS+d.Claim.Name != ""
		if d.Claim != nil && d.Claim.NFS+d.Claim.Name == "" {
			p.claims = append(p.claims, p.name+"-"+d.ID)
		}
	}
	found, err := api.Await(ctx, p.ns, p.name, limit, o.Logf)
	if err != nil {
		return nil, err
	}
	if err := p.inspect(ctx, s, found, o); err != nil {
		return nil, err
	}
	p.Machine = remote.New(&remote.Exec{Name: "k8s://pod/" + p.ns + "/" + p.name, Run: api.Exec(p.ns, p.name, p.container, p.gone),
		Hint: made.NoShell, Remove: p.remove}, "")
	if err := p.Begin(ctx, o.Log); err != nil {
		return nil, err
	}
	return p, nil
}

func (p *pod) gone(ctx context.Context) error {
	return p.api.Gone(ctx, p.ns, p.name, p.container, p.began)
}

// create makes the pod, or a Job that makes the pod. New claims are ephemeral: Kubernetes creates them with the pod,
// and removes them with the pod even if iotax has crashed.
func (p *pod) create(ctx context.Context, s *Spec, o kind.Options) error {
	spec, err := s.pod(o)
	if err != nil {
		return err
	}
	p.ns, p.name = p.api.Namespace, made.Name()
	for _, d := range o.Devices {
		if d.Claim != nil && d.Claim.Name != "" {
			if err := p.api.CheckClaim(ctx, p.ns, d.Claim.Name, d.Claim.Device != ""); err != nil {
				return err
			}
		}
	}
	meta := kube.Labelled(leftover.Current())
	meta.Name = p.name
	p.ours = true // set before the request, because the cluster's answer may be lost
	if s.Job {
		p.job = p.name
		o.Logf("Kubernetes starts the job %s/%s of %s", p.ns, p.job, s.Image)
		err = p.api.MakeJob(ctx, p.ns, meta, spec)
	} else {
		o.Logf("Kubernetes starts the pod %s/%s of %s", p.ns, p.name, s.Image)
		err = p.api.MakePod(ctx, p.ns, meta, spec)
	}
	if err != nil {
		p.ours = !kube.NotMade(err)
		return kube.Refused("make pod", "in namespace "+p.ns, err)
	}
	return nil
}

// pod returns the spec of the pod to create.
func (s *Spec) pod(o kind.Options) (corev1.PodSpec, error) {
	pull := map[string]corev1.PullPolicy{"missing": corev1.PullIfNotPresent, "never": corev1.PullNever, "always": corev1.PullAlways}[s.Pull]
	no, grace := false, int64(1)
	c := corev1.Container{
		Name: "iotax", Image: s.Image, ImagePullPolicy: pull,
		Command: made.Sleep(), Resources: resources(s), SecurityContext: security(s),
	}
	spec := corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, TerminationGracePeriodSeconds: &grace,
		ServiceAccountName: s.Account, AutomountServiceAccountToken: &no, HostNetwork: s.HostNet}
	if s.Runtime != "" {
		spec.RuntimeClassName = &s.Runtime
	}
	if s.User > 0 {
		spec.SecurityContext = &corev1.PodSecurityContext{FSGroup: &s.User}
	}
	if s.Node != "" {
		// Use affinity instead of nodeName, so that the scheduler still checks resources and volumes.
		spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{s.Node}}}}}}}}
	}
	for _, d := range o.Devices {
		v := corev1.Volume{Name: d.ID}
		switch {
		case d.Claim != nil:
			v.VolumeSource = claimSource(d.Claim)
		case d.Share != nil && d.Share.Type == "volume":
			v.EmptyDir = &corev1.EmptyDirVolumeSource{}
		case d.Share != nil && d.Share.Type == "tmpfs":
			v.EmptyDir = &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}
		default:
			return spec, &iotax.Error{Op: "make pod", On: o.Name, Err: errors.New("a pod has neither virtual disks nor directories of this host"),
				Hint: "use claim: with a storage class, or mount: with type volume or tmpfs"}
		}
		spec.Volumes = append(spec.Volumes, v)
		if d.Claim != nil && d.Claim.Device != "" {
			c.VolumeDevices = append(c.VolumeDevices, corev1.VolumeDevice{Name: d.ID, DevicePath: d.Claim.Device})
		} else {
			c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: d.ID, MountPath: made.Mount(d.ID)})
		}
	}
	spec.Containers = []corev1.Container{c}
	return spec, nil
}

// resources returns equal requests and limits, so that the pod has the same resources in every trial.
func resources(s *Spec) (r corev1.ResourceRequirements) {
	list := corev1.ResourceList{}
	if s.CPUs > 0 {
		list[corev1.ResourceCPU] = *resource.NewMilliQuantity(int64(s.CPUs*1000), resource.DecimalSI)
	}
	if s.Memory > 0 {
		list[corev1.ResourceMemory] = *resource.NewQuantity(int64(s.Memory), resource.BinarySI)
	}
	if len(list) > 0 {
		r.Requests, r.Limits = list, list
	}
	return r
}

func security(s *Spec) *corev1.SecurityContext {
	c := &corev1.SecurityContext{}
	profile := s.Seccomp
	if s.User > 0 {
		yes, no := true, false
		c.RunAsUser, c.RunAsGroup, c.RunAsNonRoot, c.AllowPrivilegeEscalation = &s.User, &s.User, &yes, &no
		c.Capabilities = &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}
		profile = cmp.Or(profile, string(corev1.SeccompProfileTypeRuntimeDefault))
	}
	if profile != "" {
		c.SeccompProfile = &corev1.SeccompProfile{Type: corev1.SeccompProfileType(profile)}
	}
	if s.Wide {
		c.Privileged = &s.Wide
	}
	return c
}

func claimSource(c *iotax.Claim) corev1.VolumeSource {
	if server, path, ok := cutExport(c.NFS); ok {
		return corev1.VolumeSource{NFS: &corev1.NFSVolumeSource{Server: server, Path: path}}
	}
	if c.Name != "" {
		return corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: c.Name}}
	}
	mode := corev1.PersistentVolumeFilesystem
	if c.Device != "" {
		mode = corev1.PersistentVolumeBlock
	}
	meta := kube.Labelled(leftover.Current())
	spec := corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, VolumeMode: &mode,
		Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: *resource.NewQuantity(c.Size, resource.BinarySI)}},
	}
	if c.Class != "" {
		spec.StorageClassName = &c.Class
	}
	return corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{ObjectMeta: meta, Spec: spec}}}
}

// cutExport splits SERVER:/PATH. The server may be an IPv6 address in brackets.
func cutExport(text string) (server, path string, ok bool) {
	server, path, ok = strings.Cut(text, ":/")
	return strings.Trim(server, "[]"), "/" + path, ok
}

// inspect reads facts of the running pod and its node from the cluster.
func (p *pod) inspect(ctx context.Context, s *Spec, found *corev1.Pod, o kind.Options) error {
	c := found.Spec.Containers[0]
	if s.Container != "" {
		i := slices.IndexFunc(found.Spec.Containers, func(c corev1.Container) bool { return c.Name == s.Container })
		if i < 0 {
			var names []string
			for _, c := range found.Spec.Containers {
				names = append(names, c.Name)
			}
			return &iotax.Error{Op: "open pod", On: s.Pod, Err: fmt.Errorf("it has no container %q", s.Container), Hint: "use one of " + strings.Join(names, ", ")}
		}
		c = found.Spec.Containers[i]
	}
	p.container = c.Name
	f := map[string]string{"engine": "kubernetes", "namespace": p.ns, "node": found.Spec.NodeName, "image": c.Image, "qos": string(found.Status.QOSClass)}
	set := func(k, v string) {
		if v != "" {
			f[k] = v
		}
	}
	for _, st := range found.Status.ContainerStatuses {
		if st.Name == c.Name {
			p.began = kube.Began(st)
			runtime, _, _ := strings.Cut(st.ContainerID, "://")
			set("runtime", runtime)
			set(iotax.FactImageID, made.ShortID(st.ImageID[strings.LastIndexAny(st.ImageID, ":@")+1:]))
		}
	}
	for name, q := range c.Resources.Limits {
		switch name {
		case corev1.ResourceCPU:
			f[iotax.FactLimitCPUs] = q.String()
		case corev1.ResourceMemory:
			f[iotax.FactLimitMemory] = fmt.Sprint(q.Value())
		}
	}
	f["seccomp"] = "the node's default"
	if sc := found.Spec.SecurityContext; sc != nil && sc.SeccompProfile != nil {
		f["seccomp"] = seccompFact(sc.SeccompProfile)
	}
	if sc := c.SecurityContext; sc != nil {
		if sc.SeccompProfile != nil {
			f["seccomp"] = seccompFact(sc.SeccompProfile)
		}
		if sc.Privileged != nil && *sc.Privileged {
			f["privileged"], f["seccomp"] = "yes", "unconfined"
		}
	}
	if c := found.Spec.RuntimeClassName; c != nil {
		f["runtime_class"] = *c
	}
	if found.Spec.HostNetwork {
		f["network"] = "host"
	}
	maps.Copy(f, p.api.Around(ctx, found.Spec.NodeName))
	p.facts = f
	for _, d := range o.Devices {
		switch {
		case d.Claim != nil && d.Claim.NFS != "":
			p.volumes[d.ID] = map[string]string{iotax.FactClaimType: "nfs", iotax.FactClaimServer: d.Claim.NFS}
		case d.Claim != nil:
			p.volumes[d.ID] = p.api.ClaimFacts(ctx, p.ns, cmp.Or(d.Claim.Name, p.name+"-"+d.ID))
		}
	}
	return nil
}

func seccompFact(s *corev1.SeccompProfile) string {
	switch s.Type {
	case corev1.SeccompProfileTypeUnconfined:
		return "unconfined"
	case corev1.SeccompProfileTypeLocalhost:
		if s.LocalhostProfile != nil {
			return *s.LocalhostProfile
		}
	}
	return string(s.Type)
}

// Caps returns the capabilities of a pod. Perishes is true for a pod made for the run, unless the pod mounts an NFS
// export or an existing claim, because the files there outlive the pod.
func (p *pod) Caps() iotax.MachineCaps {
	c := p.Machine.Caps()
	c.Alone, c.Facts, c.VolumeFacts, c.Perishes = true, p.facts, p.volumes, p.ours && !p.exports
	return c
}

// remove removes the pod and its claims if they were made for the run.
func (p *pod) remove(ctx context.Context) error {
	if !p.ours {
		return nil
	}
	remove, name := p.api.Remove, p.name
	if p.job != "" {
		remove, name = p.api.RemoveJob, p.job
	}
	if err := remove(ctx, p.ns, name); err != nil {
		return err
	}
	var errs []error
	for _, c := range p.claims {
		errs = append(errs, p.api.RemoveClaim(ctx, p.ns, c))
	}
	return errors.Join(errs...)
}
