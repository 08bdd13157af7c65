package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"iotax"
	"iotax/internal/guest"
	"iotax/internal/leftover"
	"iotax/internal/machine"
	"iotax/internal/machine/vm"
	"iotax/internal/plan"
	"iotax/internal/workload"
)

// guestKit is what a machine lacks to start guests, from this host.
func guestKit(ctx context.Context, cache string, log guest.Log, lacks workload.GuestLacks, kernel string, root int64) (*workload.GuestKit, error) {
	var k *guest.Kernel
	var disk string
	var err error
	if lacks.Kernel != "" {
		if k, err = guest.HaveKernel(ctx, cache, kernel, log); err != nil {
			return nil, err
		}
	}
	if len(lacks.Programs) > 0 {
		if disk, err = guest.RootDisk(ctx, cache, root); err != nil {
			return nil, err
		}
	}
	kit, err := guest.NewKit(ctx, k, disk)
	if err != nil {
		return nil, err
	}
	return &workload.GuestKit{Sum: kit.Sum, Size: kit.Size, Send: kit.Send}, nil
}

// takeKit keeps a kit that another host sends.
func takeKit(ctx context.Context, in io.Reader) error {
	r := bufio.NewReader(in)
	sum, err := r.ReadString('\n')
	if err != nil {
		return fmt.Errorf("read the sum: %w", err)
	}
	return guest.TakeKit(ctx, cacheDir(), strings.TrimSpace(sum), r)
}

// kitOf is what another host sent for the job.
func kitOf(ctx context.Context, j workload.GuestJob) (*guest.Taken, error) {
	if j.Kit == "" {
		return &guest.Taken{}, nil
	}
	kit, err := guest.OpenKit(ctx, cacheDir(), j.Kit, false)
	if errors.Is(err, fs.ErrNotExist) {
		err = &iotax.Error{Op: "find what was sent to start guests from in", On: cacheDir(), Err: errors.New("it is there no more"),
			Hint: "see that nothing else clears this directory, and resume the run: it is sent again"}
	}
	return kit, err
}

// serveGuest does what a job asks: looks what is lacking, writes the root disk of a guest, or starts the guest and measures in it.
func serveGuest(ctx context.Context, in io.Reader, out io.Writer) error {
	var j workload.GuestJob
	if err := json.NewDecoder(io.LimitReader(in, 1<<20)).Decode(&j); err != nil {
		return fmt.Errorf("read job: %w", err)
	}
	r := &workload.GuestResult{Facts: map[string]string{}}
	do := guestOnTop
	switch {
	case j.Look:
		do = lookForGuest
	case j.Write:
		do = writeRoot
	}
	if err := do(ctx, j, r); err != nil {
		var e *iotax.Error
		if errors.As(err, &e) {
			r.Hint = e.Hint
			bare := *e
			bare.Hint = ""
			err = &bare
		}
		r.Error = err.Error()
	}
	return json.NewEncoder(out).Encode(r)
}

// lookForGuest lists what this host lacks for guests, and reports whether it has the kit of the job whole.
func lookForGuest(ctx context.Context, j workload.GuestJob, r *workload.GuestResult) error {
	r.Lacks.Programs = guest.Lacking()
	if _, err := guest.FindKernel(ctx, cacheDir(), nil); err != nil {
		r.Lacks.Kernel = err.Error()
		var e *iotax.Error
		if errors.As(err, &e) {
			r.Lacks.Kernel = e.Err.Error()
		}
	}
	if j.Kit == "" {
		return nil
	}
	_, err := guest.OpenKit(ctx, cacheDir(), j.Kit, true)
	r.Have = err == nil
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// writeRoot writes a root file system to the start of the export.
func writeRoot(ctx context.Context, j workload.GuestJob, _ *workload.GuestResult) error {
	ctx, cancel := context.WithTimeoutCause(ctx, 5*time.Minute, errors.New("the root disk was not written within 5 minutes"))
	defer cancel()
	kit, err := kitOf(ctx, j)
	if err != nil {
		return err
	}
	root := kit.Root
	if root == "" {
		if root, err = guest.RootDisk(ctx, cacheDir(), j.Root); err != nil {
			return err
		}
	}
	if out, err := iotax.ExecOutput(exec.CommandContext(ctx, "nbdcopy", "--flush", root, j.URL)); err != nil {
		return fmt.Errorf("nbdcopy: %w: %s", err, bytes.TrimSpace(out))
	}
	return nil
}

// seeDisk waits for the disk of the serial $1 and reads its first block.
const seeDisk = `
for b in /sys/block/*; do
	s=; [ -r "$b/serial" ] && read -r s <"$b/serial"
	[ "$s" = "$1" ] && dd if="/dev/${b##*/}" of=/dev/null bs=4096 count=1 iflag=direct 2>/dev/null && { echo "/dev/${b##*/}"; exit 0; }
done
exit 41`

const mountDisk = `mkfs.ext4 -q -F -b 4096 -m 0 -E lazy_itable_init=0,lazy_journal_init=0,nodiscard "$1" && mkdir -p "$2" && mount "$1" "$2"`

// The guest's disks, and where files are measured on them.
const (
	dataSerial = "iotax-data"
	dataAt     = "/mnt"
	rootAt     = "/var/tmp"
)

func guestOnTop(ctx context.Context, j workload.GuestJob, r *workload.GuestResult) (err error) {
	kit, err := kitOf(ctx, j)
	if err != nil {
		return err
	}
	work, err := leftover.MkdirTemp("")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, leftover.Remove(work)) }()
	part := func(offset, size int64) *iotax.Disk {
		return &iotax.Disk{Path: j.URL, Format: "raw", Bus: "virtio-blk", Cache: "none", AIO: "threads", Offset: offset, Size: size}
	}
	data := part(j.Root, j.Data)
	data.Hot = true
	spec := &vm.Spec{Memory: plan.Size(j.Memory), CPUs: j.CPUs, Accel: j.Accel, User: "root", Kernel: cmp.Or(j.Kernel, kit.Kernel)}
	m, err := machine.Open(ctx, plan.Machine{Name: "guest", Kind: "qemu", Spec: spec}, machine.Options{Name: "guest", CacheDir: cacheDir(), WorkDir: work,
		RootDisk: part(0, j.Root), Devices: []iotax.Device{{ID: dataSerial, Disk: data}}})
	if err != nil {
		return err
	}
	defer func() {
		clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
		defer cancel()
		err = errors.Join(err, m.Close(clean))
	}()
	g, ok := m.(interface {
		iotax.Describer
		iotax.Booter
		Started() time.Time
	})
	if !ok {
		return fmt.Errorf("a machine of type %T does not report how it started", m)
	}
	mark := func(name string) {
		r.Phases = append(r.Phases, iotax.Phase{Name: name, At: time.Since(g.Started())})
	}
	for k, v := range g.Facts() {
		r.Facts["guest."+k] = v
	}
	for _, p := range g.Boot() {
		switch p.Name {
		case "plugged":
			p.Name = workload.PhaseDisk
		case "ready":
			p.Name = workload.PhaseUp
		default:
			p.Name = "boot." + p.Name
		}
		r.Phases = append(r.Phases, p)
	}
	var device string
	for end := time.Now().Add(30 * time.Second); device == ""; {
		text, err := iotax.Output(ctx, m, "sh", "-c", seeDisk, "sh", dataSerial)
		if device = strings.TrimSpace(string(text)); err != nil && time.Now().After(end) {
			return fmt.Errorf("the guest does not see its data disk: %w", err)
		}
	}
	mark(workload.PhaseSeen)
	if _, err := iotax.Output(ctx, m, "sh", "-c", mountDisk, "sh", device, dataAt); err != nil {
		return fmt.Errorf("make a file system on the guest's data disk: %w", err)
	}
	for _, job := range []struct {
		at, rw, bs, depth string
		value, name       string
	}{
		{dataAt, "write", "1M", "8", iotax.ValueWriteBandwidth, iotax.ValueWriteBandwidth},
		{dataAt, "read", "1M", "8", iotax.ValueReadBandwidth, iotax.ValueReadBandwidth},
		{dataAt, "randread", "4k", "1", iotax.ValueReadIOPS, iotax.ValueReadIOPS},
		{rootAt, "read", "1M", "8", iotax.ValueReadBandwidth, iotax.ValueRootReadBandwidth},
	} {
		dir := job.at + "/iotax-guest"
		if _, err := iotax.Output(ctx, m, "mkdir", "-p", dir); err != nil {
			return err
		}
		target := &iotax.Target{Name: "guest", Machine: m, Place: iotax.Place{Kind: iotax.PlaceDir, Path: dir, Durability: iotax.Durable}}
		v, err := guestFio(ctx, target, j, job.rw, job.bs, job.depth, job.value)
		if err != nil {
			return err
		}
		v.Name = job.name
		r.Values = append(r.Values, v)
	}
	mark(workload.PhaseResult)
	return nil
}

// guestFio does one fio job in the guest and returns the value that counts.
func guestFio(ctx context.Context, t *iotax.Target, j workload.GuestJob, rw, bs, depth, keep string) (iotax.Value, error) {
	var none iotax.Value
	text := fmt.Sprintf("targets: {here: {dir: /mnt}}\nworkloads: {inside: {fio: {rw: %s, bs: %s, iodepth: %s, size: %s, ioengine: libaio}}}\n", rw, bs, depth, strconv.FormatInt(j.Size, 10))
	p, err := plan.Parse("guest", []byte(text), kinds())
	if err != nil {
		return none, err
	}
	w, err := workload.New(p.Workloads[0], workload.Env{CacheDir: cacheDir()})
	if err != nil {
		return none, err
	}
	if err := w.Check(ctx, t); err != nil {
		return none, err
	}
	defer func() { _ = w.Cleanup(context.WithoutCancel(ctx), t) }() // it goes with the guest
	if err := w.Prepare(ctx, t); err != nil {
		return none, err
	}
	trial := &iotax.Trial{Seed: j.Seed, Ramp: min(200*time.Millisecond, j.Each/5), Length: j.Each, Facts: map[string]string{}}
	if err := w.Run(ctx, t, trial); err != nil {
		return none, err
	}
	v, ok := trial.Value(keep)
	if !ok {
		return none, fmt.Errorf("fio in the guest reported no %s", keep)
	}
	return v, nil
}
