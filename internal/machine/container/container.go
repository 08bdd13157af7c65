// Package container opens containers of Docker and Podman as machines. It also reads their limits and finds the
// containers of crashed runs.
package container

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/api/types/blkiodev"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"

	"iotax"
	"iotax/internal/agent"
	remote "iotax/internal/machine/agent"
	"iotax/internal/machine/internal/made"
	"iotax/internal/machine/kind"
	"iotax/internal/plan"
	"iotax/internal/probe"
)

// Spec is the spec of the kinds docker and podman. It describes an existing container, or one that iotax makes from an
// image and removes after the run.
type Spec struct {
	Ref       string `yaml:"ref" doc:"name of a running container, else of an image"`
	Container string `yaml:"container" doc:"name or id of a running container; iotax leaves its agent and fio in it"`
	Image     string `yaml:"image" doc:"image of a container made for the run; it needs a POSIX sh"`
	Pull      string `yaml:"pull" doc:"when to fetch the image: missing, never or always" enum:"missing,never,always"`

	Host    string `yaml:"host" doc:"address of the engine, in the form of DOCKER_HOST; empty means DOCKER_HOST, then the context, then the usual sockets"`
	Context string `yaml:"context" doc:"docker context to use instead of the current one"`

	CPUs       float64   `yaml:"cpus" doc:"number of CPUs that the container may use; 0 means all"`
	Memory     plan.Size `yaml:"memory" doc:"memory limit; 0 means none"`
	ReadIOPS   int       `yaml:"read_iops" doc:"limit of reads per second on limit_device; 0 means none"`
	WriteIOPS  int       `yaml:"write_iops" doc:"limit of writes per second on limit_device; 0 means none"`
	LimitOn    string    `yaml:"limit_device" doc:"block device of the engine's host that the limits apply to"`
	Devices    []string  `yaml:"devices" doc:"block devices of the engine's host to pass through, for targets of kind device"`
	User       string    `yaml:"user" doc:"user to run as; empty means the image's"`
	Network    string    `yaml:"network" doc:"network mode; none unless the work needs one"`
	Runtime    string    `yaml:"runtime" doc:"OCI runtime of Docker; empty means the engine's"`
	Security   []string  `yaml:"security" doc:"security options, as in seccomp=unconfined"`
	Privileged bool      `yaml:"privileged" doc:"run it privileged; only for measurements that are impossible otherwise"`
}

func (s *Spec) Traits() plan.Traits {
	return plan.Traits{Stays: s.Container != "" || s.Ref != ""}
}

// Validate checks the spec without contacting the engine.
func (s *Spec) Validate() error {
	bad := func(field, msg, hint string) error { return &plan.FieldError{Field: field, Msg: msg, Hint: hint} }
	switch {
	case s.Host != "" && s.Context != "":
		return bad("context", "and host: both name the engine", "leave one out")
	case s.Ref != "" && s.Container+s.Image != "":
		return bad("ref", "is short for container: or image:", "leave one out")
	case s.Ref != "":
	case s.Container == "" && s.Image == "":
		return bad("image", "is missing", "name an image, or a container that runs (container:)")
	case s.Container != "" && s.Image != "":
		return bad("image", "and container: exclude each other", "leave one out")
	case s.CPUs < 0:
		return bad("cpus", "must not be negative", "")
	case s.Memory != 0 && s.Memory < 6<<20:
		return bad("memory", "is less than engines accept", "give at least 6MiB; fio wants 64MiB and more")
	case s.ReadIOPS < 0 || s.WriteIOPS < 0:
		return bad("read_iops", "limits must not be negative", "")
	case s.ReadIOPS+s.WriteIOPS > 0 && s.LimitOn == "":
		return bad("limit_device", "is missing", "name the block device under the container's storage, as in /dev/sda")
	case s.ReadIOPS+s.WriteIOPS == 0 && s.LimitOn != "":
		return bad("limit_device", "has no limit", "give read_iops or write_iops, or leave it out")
	}
	if s.Container != "" {
		for field, set := range map[string]bool{"pull": s.Pull != "" && s.Pull != "missing", "cpus": s.CPUs != 0, "memory": s.Memory != 0, "limit_device": s.LimitOn != "",
			"devices": len(s.Devices) > 0, "runtime": s.Runtime != "", "security": len(s.Security) > 0, "privileged": s.Privileged, "network": s.Network != ""} {
			if set {
				return bad(field, "is for a container that iotax makes", "leave it out, or name an image instead of a container")
			}
		}
	}
	for _, d := range s.Devices {
		if !path.IsAbs(d) {
			return bad("devices", fmt.Sprintf("%q is not an absolute path", d), "write it as /dev/…")
		}
	}
	return nil
}

// Docker and Podman are the machine kinds of this package.
var (
	Docker = of("docker", "a Docker container: a running one, or one made from an image for the run")
	Podman = of("podman", "a Podman container, over Podman's Docker-compatible socket (podman system service)")
)

func of(engine, doc string) kind.Kind {
	return kind.Of(engine, doc, Spec{Pull: "missing"}, func(ctx context.Context, s *Spec, o kind.Options) (iotax.Machine, error) {
		return open(ctx, engine, s, o)
	})
}

// A box is a container that commands run in.
type box struct {
	*remote.Machine
	api     *link
	id      string
	user    string
	local   bool // the engine runs on this host
	started string
	ours    bool
	runtime string   // OCI runtime in the engine's settings for the container
	volumes []string // volumes made for the container
	facts   map[string]string
	roots   []hostPath // paths of this host that contain the container's files; the longest `inside` comes first

	pid int // the container's first process, on the engine's host
}

type hostPath struct{ inside, outside string }

// engineTime limits requests that the engine should answer promptly.
const engineTime = 30 * time.Second

func open(ctx context.Context, engine string, s *Spec, o kind.Options) (_ iotax.Machine, err error) {
	api, local, err := dialEngine(ctx, engine, s)
	if err != nil {
		return nil, err
	}
	b := &box{api: api, user: s.User, local: local}
	defer func() {
		if err != nil {
			cctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), engineTime)
			defer cancel()
			err = errors.Join(err, b.remove(cctx))
		}
	}()
	if s, err = resolve(ctx, api, engine, s); err != nil {
		return nil, err
	}
	name := s.Container
	if s.Image != "" && o.Existing {
		return nil, &iotax.Error{Op: "open container", On: s.Image, Err: iotax.Gone(errors.New("it was made for a run"))}
	}
	if s.Image != "" {
		if err := fetchImage(ctx, api, engine, s, o); err != nil {
			return nil, err
		}
		if err := b.create(ctx, engine, s, o); err != nil {
			return nil, err
		}
		name = b.id
	} else if len(o.Devices) > 0 {
		return nil, &iotax.Error{Op: "open container", On: s.Container, Err: errors.New("a container that exists cannot be given mounts"),
			Hint: "use dir: for a path in it, or let iotax make a container of an image"}
	}
	if err := b.inspect(ctx, engine, name); err != nil {
		return nil, err
	}
	if got := b.facts["runtime"]; s.Runtime != "" && b.ours && b.runtime != s.Runtime {
		hint := engine + " info shows its runtimes"
		if engine == "podman" {
			hint = "Podman's service ignores it: start one service for each runtime (podman --runtime NAME system service), and name their sockets in host:"
		}
		return nil, &iotax.Error{Op: "start container", On: "of " + s.Image, Err: fmt.Errorf("it has runtime %s, and not %s", got, s.Runtime), Hint: hint}
	}
	if b.ours { // Podman's inspect omits device limits
		for name, n := range map[string]int{"limit.read.iops": s.ReadIOPS, "limit.write.iops": s.WriteIOPS} {
			if n > 0 {
				b.facts[name] = fmt.Sprintf("%d on %s", n, s.LimitOn)
			}
		}
	}
	label := engine + "://" + cmp.Or(s.Container, s.Image)
	b.Machine = remote.New(&remote.Exec{Name: label, Run: b.exec, Hint: made.NoShell, Remove: b.remove}, "")
	if err := b.Begin(ctx, o.Log); err != nil {
		return nil, err
	}
	return b, nil
}

// resolve returns s with Ref replaced by Container if the engine has such a container, else by Image.
func resolve(ctx context.Context, api *link, engine string, s *Spec) (*Spec, error) {
	if s.Ref == "" {
		return s, nil
	}
	r := *s
	r.Ref = ""
	switch _, err := api.ContainerInspect(ctx, s.Ref, client.ContainerInspectOptions{}); {
	case err == nil:
		r.Container = s.Ref
	case cerrdefs.IsNotFound(err) || cerrdefs.IsInvalidArgument(err):
		r.Image = s.Ref
	default:
		return nil, &iotax.Error{Op: "look for container", On: s.Ref, Err: err}
	}
	return &r, r.Validate()
}

// fetchImage pulls the image as s.Pull requires. It returns an error if s.Pull is "never" and the engine lacks the
// image.
func fetchImage(ctx context.Context, api *link, engine string, s *Spec, o kind.Options) error {
	if s.Pull != "always" {
		_, err := api.ImageInspect(ctx, s.Image)
		switch {
		case err == nil:
			return nil
		case !cerrdefs.IsNotFound(err):
			return &iotax.Error{Op: "look for image", On: s.Image, Err: err}
		case s.Pull == "never":
			return &iotax.Error{Op: "look for image", On: s.Image, Err: errors.New("the engine does not have it"),
				Hint: fmt.Sprintf("%s pull %s, or pull: missing", engine, s.Image)}
		}
	}
	o.Logf("%s fetches the image %s", engine, s.Image)
	pull, err := api.ImagePull(ctx, s.Image, client.ImagePullOptions{})
	if err == nil {
		err = pull.Wait(ctx)
		pull.Close()
	}
	if err != nil {
		return &iotax.Error{Op: "fetch image", On: s.Image, Err: err,
			Hint: "check its name (one with a slash is written " + engine + ":///path?image=…), or load it by hand (" + engine + " load)"}
	}
	return nil
}

// create makes and starts a container that sleeps until it is removed.
func (b *box) create(ctx context.Context, engine string, s *Spec, o kind.Options) error {
	name := made.Name()
	labels := runLabels()
	host := &container.HostConfig{
		NetworkMode: container.NetworkMode(cmp.Or(s.Network, "none")),
		Runtime:     s.Runtime, SecurityOpt: s.Security, Privileged: s.Privileged,
		Resources: container.Resources{NanoCPUs: int64(s.CPUs * 1e9), Memory: int64(s.Memory)},
	}
	limit := func(n int) []*blkiodev.ThrottleDevice {
		if n == 0 {
			return nil
		}
		return []*blkiodev.ThrottleDevice{{Path: s.LimitOn, Rate: uint64(n)}}
	}
	host.BlkioDeviceReadIOps, host.BlkioDeviceWriteIOps = limit(s.ReadIOPS), limit(s.WriteIOPS)
	for _, d := range s.Devices {
		host.Devices = append(host.Devices, container.DeviceMapping{PathOnHost: d, PathInContainer: d, CgroupPermissions: "rw"})
	}
	for _, d := range o.Devices {
		m := mount.Mount{Target: made.Mount(d.ID)}
		switch {
		case d.Share == nil:
			return &iotax.Error{Op: "open container", On: o.Name, Err: errors.New("containers have no virtual disks"), Hint: "use devices: and a target of kind device"}
		case d.Share.Type == "bind":
			m.Type, m.Source = mount.TypeBind, d.Share.Path
		case d.Share.Type == "volume":
			m.Type, m.Source = mount.TypeVolume, name+"-"+d.ID
			b.volumes = append(b.volumes, m.Source)
			// Podman drops the labels of a volume that it creates together with a container.
			if _, err := b.api.VolumeCreate(ctx, client.VolumeCreateOptions{Name: m.Source, Labels: labels}); err != nil {
				return &iotax.Error{Op: "make volume", On: m.Source, Err: err, Hint: "try it by hand: " + engine + " volume create"}
			}
		case d.Share.Type == "tmpfs":
			m.Type = mount.TypeTmpfs
		default:
			return &iotax.Error{Op: "open container", On: o.Name, Err: fmt.Errorf("a container cannot be given a share of type %s", d.Share.Type),
				Hint: "use mount: with type bind, volume or tmpfs"}
		}
		host.Mounts = append(host.Mounts, m)
	}
	b.id, b.ours = name, true // if the answer is lost, remove removes the container by its name
	created, err := b.api.ContainerCreate(ctx, client.ContainerCreateOptions{
		Name:       name,
		Config:     &container.Config{Image: s.Image, Entrypoint: made.Sleep(), Labels: labels, User: s.User},
		HostConfig: host,
	})
	if err != nil {
		return &iotax.Error{Op: "make container", On: "of " + s.Image, Err: err, Hint: "change what it names in the plan; " + engine + " run refuses the same"}
	}
	b.id = created.ID
	for _, w := range created.Warnings {
		o.Logf("%s: %s", engine, w)
	}
	if _, err := b.api.ContainerStart(ctx, b.id, client.ContainerStartOptions{}); err != nil {
		hint := "try it by hand: " + engine + " run --rm " + s.Image + " sh -c true"
		if strings.Contains(err.Error(), `"sh": executable file not found`) {
			hint = made.NoShell
		}
		return &iotax.Error{Op: "start container", On: "of " + s.Image, Err: err, Hint: hint}
	}
	return nil
}

// inspect reads the facts and limits of the running container from the engine.
func (b *box) inspect(ctx context.Context, engine, name string) error {
	res, err := b.api.ContainerInspect(ctx, name, client.ContainerInspectOptions{})
	if err != nil {
		x := &iotax.Error{Op: "open container", On: name, Err: err}
		if cerrdefs.IsNotFound(err) {
			x.Err = iotax.Gone(err)
			x.Hint = engine + " ps lists the containers"
		}
		return x
	}
	c := res.Container
	if c.State == nil || !c.State.Running {
		return &iotax.Error{Op: "open container", On: name, Err: fmt.Errorf("it does not run: %s", stateOf(c.State)), Hint: engine + " start " + name}
	}
	b.id, b.pid, b.started = c.ID, c.State.Pid, c.State.StartedAt
	if c.HostConfig != nil {
		b.runtime = c.HostConfig.Runtime
	}
	version, err := b.api.ServerVersion(ctx, client.ServerVersionOptions{})
	if err != nil {
		return &iotax.Error{Op: "ask engine", On: engine, Err: err}
	}
	info, err := b.api.Info(ctx, client.InfoOptions{})
	if err != nil {
		return &iotax.Error{Op: "ask engine", On: engine, Err: err}
	}
	f := map[string]string{"engine": engine, "engine.version": version.Version, "engine.storage": info.Info.Driver, "image": c.Config.Image, iotax.FactImageID: made.ShortID(c.Image)}
	set := func(k, v string) {
		if v != "" {
			f[k] = v
		}
	}
	set("engine.cgroup", strings.TrimSpace("v"+info.Info.CgroupVersion+" "+info.Info.CgroupDriver))
	set("apparmor", c.AppArmorProfile)
	if h := c.HostConfig; h != nil {
		set("runtime", cmp.Or(h.Runtime, info.Info.DefaultRuntime))
		if host, err := os.Hostname(); err == nil && b.local && info.Info.Name == host { // not in a virtual machine, such as Docker Desktop's
			b.describeRuntime(ctx, info.Info.Runtimes[f["runtime"]].Path, f)
		}
		set("network", string(h.NetworkMode))
		if h.Privileged {
			f["privileged"] = "yes"
		}
		f["seccomp"] = "default"
		for _, o := range h.SecurityOpt {
			if v, ok := strings.CutPrefix(o, "seccomp="); ok {
				f["seccomp"] = v
				if len(v) > 40 { // the option contains a complete profile
					f["seccomp"] = "a profile of its own"
				}
			}
		}
		if h.Privileged {
			f["seccomp"] = "unconfined"
		}
		if h.NanoCPUs > 0 {
			f[iotax.FactLimitCPUs] = fmt.Sprintf("%g", float64(h.NanoCPUs)/1e9)
		}
		if h.Memory > 0 {
			f[iotax.FactLimitMemory] = fmt.Sprint(h.Memory)
		}
		for name, l := range map[string][]*blkiodev.ThrottleDevice{"limit.read.iops": h.BlkioDeviceReadIOps, "limit.write.iops": h.BlkioDeviceWriteIOps,
			"limit.read.bandwidth": h.BlkioDeviceReadBps, "limit.write.bandwidth": h.BlkioDeviceWriteBps} {
			for _, d := range l {
				f[name] = fmt.Sprintf("%d on %s", d.Rate, d.Path)
			}
		}
	}
	for _, s := range info.Info.SecurityOptions {
		if strings.Contains(s, "rootless") {
			f["rootless"] = "yes"
		}
	}
	b.facts = f
	if b.local {
		for _, m := range c.Mounts {
			if m.Source != "" {
				b.roots = append(b.roots, hostPath{m.Destination, m.Source})
			} else if m.Type == mount.TypeTmpfs {
				b.roots = append(b.roots, hostPath{m.Destination, ""})
			}
		}
		if g := c.GraphDriver; g != nil {
			if up := cmp.Or(g.Data["UpperDir"], g.Data["Dir"]); up != "" {
				b.roots = append(b.roots, hostPath{"/", up})
			}
		}
		slices.SortFunc(b.roots, func(x, y hostPath) int { return len(y.inside) - len(x.inside) })
	}
	return nil
}

// describeRuntime adds facts that identify the OCI runtime of the container. path is the runtime's path in the engine's
// settings. For Podman, the path in use is in the arguments of conmon, the parent of the container's first process.
func (b *box) describeRuntime(ctx context.Context, path string, f map[string]string) {
	if monitor := parent(b.pid); monitor != 0 {
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", monitor)) // empty if it cannot be read
		words := strings.Split(string(line), "\x00")
		if i := slices.Index(words, "-r"); filepath.Base(words[0]) == "conmon" && i > 0 && i+1 < len(words) {
			path = words[i+1]
			f["runtime"] = filepath.Base(path)
		}
	}
	if path == "" {
		return // a shim without a runtime program, such as Kata's
	}
	program, err := agent.Identify(ctx, path, "--version")
	if err != nil {
		f["runtime.version"] = "unknown: " + err.Error()
		return
	}
	program.Facts("runtime", f)
	f["runtime.version"] = program.Version
}

// parent returns the parent of a process, or 0.
func parent(pid int) (id int) {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if _, rest, ok := strings.Cut(string(status), "\nPPid:"); ok {
		_, _ = fmt.Sscan(rest, &id)
	}
	return id
}

func stateOf(s *container.State) string {
	switch {
	case s == nil:
		return "no state is known"
	case s.OOMKilled:
		return "it was killed for lack of memory"
	case s.Error != "":
		return s.Error
	default:
		return fmt.Sprintf("%s, exit status %d", s.Status, s.ExitCode)
	}
}

// Caps returns the capabilities of the container. Perishes is true if iotax made the container, because iotax then
// removes the container with its files.
func (b *box) Caps() iotax.MachineCaps {
	c := b.Machine.Caps()
	c.Alone, c.Facts, c.Perishes, c.HostPath, c.Weakens, c.DeviceBytes = true, b.facts, b.ours, b.HostPath, b.Weakens, b.DeviceBytes
	return c
}

// HostPath returns the path on this host that corresponds to p in the container. It returns "" if this host has no such
// path, or if iotax cannot find it. HostPath does not check that a file exists there.
func (b *box) HostPath(p string) string {
	p = path.Clean(p)
	for _, r := range b.roots {
		rest, ok := strings.CutPrefix(p, r.inside)
		if !ok || r.inside != "/" && rest != "" && rest[0] != '/' {
			continue
		}
		if r.outside == "" {
			return ""
		}
		return filepath.Join(r.outside, rest)
	}
	return ""
}

// Weakens returns the durability of the file system of this host that contains the file. An overlay's upper directory
// may be in memory, for example. If HostPath returns "", Weakens returns iotax.Durable.
func (b *box) Weakens(path, _ string) iotax.Durability {
	if on := b.HostPath(path); on != "" {
		return probe.Durability(on)
	}
	return iotax.Durable
}

// exec implements remote.Run.
func (b *box) exec(ctx context.Context, args []string, s remote.Streams) (int, error) {
	x, err := b.api.ExecCreate(ctx, b.id, client.ExecCreateOptions{Cmd: args, User: b.user, AttachStdin: true, AttachStdout: true, AttachStderr: true})
	if err != nil {
		return 0, b.why(ctx, err)
	}
	at, err := b.api.ExecAttach(ctx, x.ID, client.ExecAttachOptions{})
	if err != nil {
		return 0, b.why(ctx, err)
	}
	defer at.Close()
	go func() {
		_, _ = io.Copy(at.Conn, s.In) // a program may exit without reading its input
		_ = at.CloseWrite()
	}()
	copied := make(chan error, 1)
	go func() {
		_, err := stdcopy.StdCopy(s.Out, s.Err, at.Reader)
		copied <- err
	}()
	select {
	case err = <-copied:
		if errors.Is(err, syscall.ECONNRESET) {
			// The program exited without reading all input, and the engine closed the connection. A Unix socket
			// delivers all output before it reports this error.
			err = nil
		}
	case <-ctx.Done():
		at.Close()
		<-copied //nolint:errcheck // the caller gets the cause of the cancellation instead
		return 0, context.Cause(ctx)
	}
	for pause := 2 * time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		in, ierr := b.api.ExecInspect(ctx, x.ID, client.ExecInspectOptions{})
		if ierr != nil {
			return 0, b.why(ctx, cmp.Or(err, ierr))
		}
		if !in.Running {
			// When a container ends, its processes are killed (exit code 137), or the runtime can no longer enter it
			// (126). A program can also return these codes, so check whether the container has ended. Check repeatedly,
			// because the engine reports the end of a container with a delay.
			for left := 10; (in.ExitCode == 128+9 || in.ExitCode == 126) && left > 0; left-- {
				if gone := b.gone(ctx); gone != nil {
					return 0, gone
				}
				time.Sleep(50 * time.Millisecond)
			}
			return in.ExitCode, err
		}
		if err := b.gone(ctx); err != nil {
			return 0, err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}
}

// `gone` returns an error if the container ended or was restarted after it was opened, or cannot be inspected.
func (b *box) gone(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, engineTime)
	defer cancel()
	res, err := b.api.ContainerInspect(ctx, b.id, client.ContainerInspectOptions{})
	switch {
	case err != nil:
		return fmt.Errorf("the container is lost: %w", err)
	case res.Container.State == nil || !res.Container.State.Running:
		return fmt.Errorf("the container ended: %s", stateOf(res.Container.State))
	case res.Container.State.StartedAt != b.started:
		return errors.New("the container was started anew meanwhile")
	}
	return nil
}

// `why` returns the error of `gone`, or err if `gone` returns nil or ctx is done.
func (b *box) why(ctx context.Context, err error) error {
	if gone := b.gone(ctx); gone != nil && ctx.Err() == nil {
		return gone
	}
	return err
}

// remove removes the container and its volumes if they were made for the run, and closes the connection to the engine.
func (b *box) remove(ctx context.Context) error {
	defer b.api.Close()
	var errs []error
	if b.ours {
		if _, err := b.api.ContainerRemove(ctx, b.id, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true}); err != nil && !cerrdefs.IsNotFound(err) {
			errs = append(errs, &iotax.Error{Op: "remove container", On: b.id, Err: err, Hint: "remove it by hand"})
		}
	}
	for _, v := range b.volumes {
		if _, err := b.api.VolumeRemove(ctx, v, client.VolumeRemoveOptions{Force: true}); err != nil && !cerrdefs.IsNotFound(err) {
			errs = append(errs, &iotax.Error{Op: "remove volume", On: v, Err: err, Hint: "remove it by hand"})
		}
	}
	return errors.Join(errs...)
}
