package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gofrs/flock"
	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"iotax"
	"iotax/internal/agent"
	"iotax/internal/leftover"
	"iotax/internal/secret"
)

const (
	namespaces = "/run/netns" // where ip(8) keeps named namespaces
	network    = "net"        // suffix of the name of the bridge's namespace
	marker     = ".iotax-lab" // file that marks the directory of a lab

	// step limits the time of one command, of the wait for the lock, and of the removal of a lab that Up could not
	// complete. mkfs of a large file system on a slow disk takes longest.
	step = 2 * time.Minute
	// grace is the time between SIGTERM and SIGKILL for the processes of a node.
	grace = 2 * time.Second
)

// Up creates the lab, or returns the existing one if it has the same configuration. It recreates a lab that is damaged,
// for example by a crash or a reboot. It needs root.
func Up(ctx context.Context, c Config) (_ *Lab, err error) {
	if err := c.fill(); err != nil {
		return nil, err
	}
	if err := ready("make lab", c.Name); err != nil {
		return nil, err
	}
	if c.Dir, err = filepath.EvalSymlinks(c.Dir); err != nil { // the kernel's list of mounts has no links
		return nil, &iotax.Error{Op: "make lab", On: c.Name, Err: err, Hint: "name a directory that exists with --dir"}
	}
	unlock, err := lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if l, err := Get(c.Name); err == nil {
		want := c.plan(l.Created)
		switch {
		case l.Rate != want.Rate || l.Size != want.Size || l.Dir != want.Dir || len(l.Nodes) != len(want.Nodes):
			return nil, &iotax.Error{Op: "make lab", On: c.Name, Err: fmt.Errorf("it is up with %d nodes, rate %v, in %s, which is not what is asked for", len(l.Nodes), l.Rate, l.Dir),
				Hint: "iotax lab down" + nameFlag(c.Name) + ", or give it another --name"}
		case Look(l) == nil:
			return l, nil
		}
	}
	l := c.plan(time.Now())
	// Even if no lab is recorded, namespaces with its name may remain after a crash, and its directory after a reboot.
	if err := down(ctx, c.Name, l.Dir); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), step)
			defer cancel()
			err = errors.Join(err, down(clean, c.Name, l.Dir))
		}
	}()
	if err := l.save(); err != nil { // save first, so that Down finds a lab that is only partly created
		return nil, &iotax.Error{Op: "make lab", On: c.Name, Err: err}
	}
	for _, f := range []func(context.Context, *Lab) error{directories, links, shape} {
		if err := f(ctx, l); err != nil {
			return nil, &iotax.Error{Op: "make lab", On: c.Name, Err: err}
		}
	}
	return l, nil
}

// euid is os.Geteuid. A test replaces it, because the tests run as root.
var euid = os.Geteuid

// ready returns an error if this process cannot create or remove a lab.
func ready(op, name string) error {
	if euid() != 0 {
		return &iotax.Error{Op: op, On: name, Err: errors.New("network namespaces need root"), Hint: "sudo iotax …"}
	}
	for tool, pkg := range map[string]string{"ip": "iproute2", "tc": "iproute2", "nsenter": "util-linux"} {
		if _, err := agent.Tool(tool); err != nil {
			return &iotax.Error{Op: op, On: name, Err: fmt.Errorf("%s is not installed", tool), Hint: "apt install " + pkg}
		}
	}
	return nil
}

// lock prevents two processes from creating or removing labs at the same time. The caller calls the returned function
// to unlock.
func lock(ctx context.Context) (func(), error) {
	if err := os.MkdirAll(state, 0o700); err != nil {
		return nil, &iotax.Error{Op: "lock", On: state, Err: err}
	}
	f := flock.New(filepath.Join(state, "lock"))
	ctx, cancel := context.WithTimeout(ctx, step)
	defer cancel()
	if _, err := f.TryLockContext(ctx, 50*time.Millisecond); err != nil {
		return nil, &iotax.Error{Op: "lock", On: state, Err: err, Hint: "another iotax makes or removes a lab: wait for it"}
	}
	return func() { _ = f.Unlock() }, nil
}

// do runs one command with a time limit. Its error contains the output of the command.
func do(ctx context.Context, stdin string, args ...string) error {
	path, err := agent.Tool(args[0])
	if err != nil {
		return fmt.Errorf("%s: %w", args[0], err)
	}
	ctx, cancel := context.WithTimeout(ctx, step)
	defer cancel()
	c := exec.CommandContext(ctx, path, args[1:]...)
	c.Stdin, c.Env = strings.NewReader(stdin), secret.Environ()
	var output iotax.Capture
	c.Stdout, c.Stderr = &output, &output
	c.SysProcAttr, c.WaitDelay = &unix.SysProcAttr{Setpgid: true}, time.Second // Ctrl-C must not end the removal of a lab
	if err := c.Run(); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(output.Bytes()))
	}
	return nil
}

// links creates a bridge in its own namespace and connects each node to one of its ports. It does not change the
// network of this machine.
func links(ctx context.Context, l *Lab) error {
	hub := prefix(l.Name) + network
	var first, second strings.Builder
	fmt.Fprintf(&first, "netns add %s\n", hub)
	for _, n := range l.Nodes {
		fmt.Fprintf(&first, "netns add %s\n", n.Namespace)
	}
	if err := do(ctx, first.String(), "ip", "-batch", "-"); err != nil {
		return err
	}
	fmt.Fprintf(&second, "link set lo up\nlink add br0 type bridge forward_delay 0\nlink set br0 up\n")
	for i, n := range l.Nodes {
		fmt.Fprintf(&second, "link add port%d type veth peer name eth0 netns %s\nlink set port%d master br0\nlink set port%d up\n", i+1, n.Namespace, i+1, i+1)
	}
	if err := do(ctx, second.String(), "ip", "-n", hub, "-batch", "-"); err != nil {
		return err
	}
	for _, n := range l.Nodes {
		inside := fmt.Sprintf("link set lo up\naddr add %s/24 dev eth0\nlink set eth0 up\n", n.Address)
		if err := do(ctx, inside, "ip", "-n", n.Namespace, "-batch", "-"); err != nil {
			return err
		}
	}
	return nil
}

// shape limits the rate of each node: its egress on the node's eth0, its ingress on the bridge port.
func shape(ctx context.Context, l *Lab) error {
	if l.Rate == 0 {
		return nil
	}
	// The burst must cover the data between two ticks of the kernel's clock, and several of the large packets that TCP
	// offload creates. With a burst of 64 KiB, the receiver uses fifteen times as much CPU time.
	burst := max(256<<10, uint64(l.Rate)/8/200)
	tbf := fmt.Sprintf("root tbf rate %dbit burst %d latency 50ms\n", uint64(l.Rate), burst)
	var hub strings.Builder
	for i, n := range l.Nodes {
		fmt.Fprintf(&hub, "qdisc add dev port%d %s", i+1, tbf)
		if err := do(ctx, "qdisc add dev eth0 "+tbf, "tc", "-n", n.Namespace, "-batch", "-"); err != nil {
			return err
		}
	}
	return do(ctx, hub.String(), "tc", "-n", prefix(l.Name)+network, "-batch", "-")
}

// directories creates the lab's directory and a directory for each node. With l.Size, it mounts a new file system on
// each node's directory.
func directories(ctx context.Context, l *Lab) error {
	if err := os.MkdirAll(filepath.Dir(l.Dir), 0o755); err != nil {
		return err
	}
	if err := os.Mkdir(l.Dir, 0o700); err != nil {
		return err // an existing directory is also an error, because it may belong to another user
	}
	if err := os.WriteFile(filepath.Join(l.Dir, marker), []byte(l.Name+"\n"), 0o600); err != nil {
		return err
	}
	if l.Label != "" { // after a reboot, only the directory is left, and this marker identifies its run
		if err := os.WriteFile(filepath.Join(l.Dir, leftover.Marker), []byte(l.Label+"\n"), 0o600); err != nil {
			return err
		}
	}
	if l.Size > 0 {
		var st unix.Statfs_t
		if err := unix.Statfs(l.Dir, &st); err != nil {
			return err
		}
		need, free := l.Size*int64(len(l.Nodes)), int64(st.Bavail)*st.Bsize-iotax.Reserve(int64(st.Blocks)*st.Bsize)
		if need > free {
			return fmt.Errorf("%d nodes of %d bytes need %d bytes in %s, %d are free without the reserve", len(l.Nodes), l.Size, need, l.Dir, free)
		}
	}
	for _, n := range l.Nodes {
		if err := os.Mkdir(n.Dir, 0o700); err != nil {
			return err
		}
		if l.Size == 0 {
			continue
		}
		image := n.Dir + ".img"
		f, err := os.OpenFile(image, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		err = unix.Fallocate(int(f.Fd()), 0, 0, l.Size)
		if errors.Is(err, unix.EOPNOTSUPP) {
			err = f.Truncate(l.Size)
		}
		if err := errors.Join(err, f.Close()); err != nil {
			return fmt.Errorf("make %s: %w", image, err)
		}
		if err := do(ctx, "", "mkfs.ext4", "-q", "-F", "-b", "4096", "-m", "0", "-E", "lazy_itable_init=0,lazy_journal_init=0,nodiscard", image); err != nil {
			return err
		}
		if err := do(ctx, "", "mount", "-o", "loop", image, n.Dir); err != nil {
			return err
		}
	}
	return nil
}

// Look returns an error if a namespace, a directory or a mount of l is missing.
func Look(l *Lab) error {
	for _, n := range append([]Node{{Namespace: prefix(l.Name) + network, Dir: l.Dir}}, l.Nodes...) {
		if _, err := inode(filepath.Join(namespaces, n.Namespace)); err != nil {
			return fmt.Errorf("namespace %s: %w", n.Namespace, err)
		}
		if _, err := os.Stat(n.Dir); err != nil {
			return err
		}
	}
	mounted := mounts(l.Dir)
	if l.Size > 0 && len(mounted) < len(l.Nodes) {
		return fmt.Errorf("%d of %d file systems are mounted", len(mounted), len(l.Nodes))
	}
	return nil
}

// Enter returns the command that runs args on n, with the network of the node and the files of this machine.
func Enter(n Node, args []string) ([]string, error) {
	tool, err := agent.Tool("nsenter")
	if err != nil {
		return nil, &iotax.Error{Op: "enter", On: n.Name, Err: errors.New("nsenter is not installed"), Hint: "apt install util-linux"}
	}
	return append([]string{tool, "--net=" + filepath.Join(namespaces, n.Namespace), "--"}, args...), nil
}

// inode returns the inode number of path, which identifies a namespace.
func inode(path string) (uint64, error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return 0, err
	}
	return st.Ino, nil
}

// Processes returns the IDs of the processes on each node, by node name.
func Processes(l *Lab) map[string][]int {
	out := map[string][]int{}
	for _, n := range l.Nodes {
		out[n.Name] = inside(n.Namespace)
	}
	return out
}

func inside(namespace string) []int {
	want, err := inode(filepath.Join(namespaces, namespace))
	if err != nil {
		return nil
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var pids []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		if ino, err := inode("/proc/" + e.Name() + "/ns/net"); err == nil && ino == want {
			pids = append(pids, pid)
		}
	}
	return pids
}

// Down removes the lab with this name, including its files, and ends its processes. The lab may be incomplete. Down
// finds namespaces by name and mounts by path, so it also works after a crash. It succeeds if there is nothing to
// remove. It needs root.
func Down(ctx context.Context, name string) error {
	if name == "" {
		name = DefaultName
	}
	if !goodName.MatchString(name) {
		return &iotax.Error{Op: "remove lab", On: name, Err: fmt.Errorf("%q is not a name of a lab", name), Hint: "1 to 12 of a-z and 0-9"}
	}
	if err := ready("remove lab", name); err != nil {
		return err
	}
	unlock, err := lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	return down(ctx, name, filepath.Join(defaultDir, "iotax-lab-"+name))
}

// down removes a lab. dir is its directory if the state was lost in a reboot.
func down(ctx context.Context, name, dir string) error {
	var errs []error
	fail := func(err error) {
		if err != nil {
			errs = append(errs, err)
		}
	}
	if l, err := Get(name); err == nil {
		dir = l.Dir
	}
	names, err := filepath.Glob(filepath.Join(namespaces, prefix(name)+"*"))
	fail(err)
	for i := range names {
		names[i] = filepath.Base(names[i])
	}
	fail(end(ctx, names))
	for _, n := range names {
		fail(do(ctx, "", "ip", "netns", "del", n))
	}
	for _, m := range slices.Backward(mounts(dir)) {
		fail(do(ctx, "", "umount", m)) // this also removes the loop device, which mount created
	}
	fail(remove(dir, name))
	if len(errs) == 0 {
		err := os.Remove(filepath.Join(state, name+".json"))
		if !errors.Is(err, os.ErrNotExist) {
			fail(err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return &iotax.Error{Op: "remove lab", On: name, Err: err, Hint: "see what still uses it, and try again: iotax lab down" + nameFlag(name)}
	}
	return nil
}

// end ends the processes in the namespaces, because a namespace exists until its last process ends.
func end(ctx context.Context, names []string) error {
	all := func() (pids []int) {
		for _, n := range names {
			pids = append(pids, inside(n)...)
		}
		return pids
	}
	start := time.Now()
	for _, p := range all() {
		_ = unix.Kill(p, unix.SIGTERM)
	}
	for {
		left := all()
		age := time.Since(start)
		switch {
		case len(left) == 0:
			return nil
		case age > 5*grace || ctx.Err() != nil:
			return fmt.Errorf("processes %v do not end", left)
		case age > grace:
			for _, p := range left {
				_ = unix.Kill(p, unix.SIGKILL)
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// mounts lists the mount points below dir, outermost first.
func mounts(dir string) (out []string) {
	if real, err := filepath.EvalSymlinks(dir); err == nil { // the kernel's list of mounts has no links
		dir = real
	}
	found, _ := mountinfo.GetMounts(mountinfo.PrefixFilter(dir)) // without /proc, found is empty
	for _, m := range found {
		if m.Mountpoint != dir {
			out = append(out, m.Mountpoint)
		}
	}
	return out
}

// remove removes the directory of a lab. It refuses a directory that does not belong to root, or has mounts below it.
// Without the lab's marker, it removes only an empty directory.
func remove(dir, name string) error {
	var st unix.Stat_t
	switch err := unix.Lstat(dir, &st); {
	case errors.Is(err, unix.ENOENT):
		return nil
	case err != nil:
		return fmt.Errorf("%s: %w", dir, err)
	case filepath.Base(dir) != "iotax-lab-"+name || st.Mode&unix.S_IFMT != unix.S_IFDIR || st.Uid != 0:
		return fmt.Errorf("%s is not a directory of root's own that a lab made", dir)
	}
	if left := mounts(dir); len(left) > 0 {
		return fmt.Errorf("%s is still mounted", left[0])
	}
	if b, err := os.ReadFile(filepath.Join(dir, marker)); err != nil || strings.TrimSpace(string(b)) != name {
		if err := os.Remove(dir); err != nil { // the directory is empty if Up was interrupted right after Mkdir
			return fmt.Errorf("%s has no mark of a lab: %w", dir, err)
		}
		return nil
	}
	return os.RemoveAll(dir)
}
