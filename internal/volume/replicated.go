package volume

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"iotax"
	"iotax/internal/agent"
)

// A replicated is a file system with a copy of every block on several machines. Each machine exports an image over NBD.
// QEMU's block driver quorum on the store's machine writes to all copies and reads from one.
type replicated struct {
	life  // life.server is qemu-storage-daemon
	parts []*nbd
}

// majority returns the number of copies that must store a block for its write to succeed.
func majority(copies int) int { return copies/2 + 1 }

// attach makes the copies on m and the peers, each of size bytes, and returns the mount point on m, which is below
// dir.
func (r *replicated) attach(ctx context.Context, m iotax.Machine, peers []iotax.Machine, workDir, dir string, size int64) (at string, err error) {
	fail := func(err error, hint string) (string, error) {
		return "", &iotax.Error{Op: "keep copies of a store", On: m.String(), Err: err, Hint: hint}
	}
	const op = "keep copies of a store"
	if err := has(ctx, m, op, "qemu-storage-daemon", "qemu-utils"); err != nil {
		return "", err
	}
	machines := append([]iotax.Machine{m}, peers...)
	args := []string{"qemu-storage-daemon"}
	quorum := fmt.Sprintf("driver=quorum,node-name=all,vote-threshold=%d,read-pattern=fifo", majority(len(machines)))
	for i, server := range machines {
		spec := nbdDefaults
		part := newNBD(&spec, Env{Server: server, Need: size, WorkDir: workDir})
		part.serves = "a copy of the store"
		r.parts = append(r.parts, part)
		r.attached.push(part.Detach)
		p, err := part.Attach(ctx, m)
		if err != nil {
			return "", err
		}
		u, err := url.Parse(p.Path)
		if err != nil {
			return fail(err, "")
		}
		where := "server.type=inet,server.host=" + u.Hostname() + ",server.port=" + u.Port()
		if socket := u.Query().Get("socket"); socket != "" {
			where = "server.type=unix,server.path=" + socket
		}
		n := "copy" + strconv.Itoa(i)
		args = append(args, "--blockdev", "driver=nbd,node-name="+n+","+where)
		quorum += ",children." + strconv.Itoa(i) + "=" + n
	}
	if err := agent.Put(ctx, m, strings.NewReader(""), dir+"/device", 0o600); err != nil {
		return fail(err, "")
	}
	args = append(args, "--blockdev", quorum, "--export", "type=fuse,id=device,node-name=all,mountpoint="+dir+"/device,writable=on")
	if r.server, err = startServer(ctx, m, dir+"/daemon.pid", nil, args...); err != nil {
		return fail(err, "")
	}
	r.attached.push(r.server.stop)
	err = r.server.await(ctx, func(ctx context.Context) bool { return written(ctx, m, dir+"/device") })
	if err != nil {
		return fail(err, "see that /dev/fuse is there, and that qemu-storage-daemon knows quorum and FUSE")
	}
	r.attached.push(func(ctx context.Context) error {
		_, err := on(ctx, quick, detachLoops.AsRoot, m, dir+"/device")
		return err
	})
	loop, err := on(ctx, slow, attachLoop.AsRoot, m, dir+"/device")
	if err != nil {
		return fail(err, "")
	}
	at = dir + "/replicated"
	return at, r.mount(ctx, m, mounting{Type: "ext4", Source: loop, Point: at, Options: "sync,noatime"})
}

func (r *replicated) findings() []iotax.Finding {
	all := slices.Clone(r.found)
	for _, p := range r.parts {
		all = append(all, p.findings()...)
	}
	return append(all, r.server.death("what keeps the copies of the store")...)
}

// processes returns the processes of the daemon and the exports on this host.
func (r *replicated) processes() map[string][]int {
	all := map[string][]int{}
	maps.Copy(all, r.server.processes())
	for _, p := range r.parts {
		for name, pids := range p.server.processes() {
			all[name] = append(all[name], pids...)
		}
	}
	return all
}
