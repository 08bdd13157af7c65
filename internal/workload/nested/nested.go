// Package nested measures in a guest that is started on the machine where its functions run, on an NBD export.
package nested

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"iotax"
	"iotax/fio"
	"iotax/internal/agent"
	"iotax/internal/guest"
	"iotax/internal/leftover"
	"iotax/internal/machine/kind"
	"iotax/internal/machine/vm"
	"iotax/internal/plan"
	"iotax/internal/workload/task"
)

// A Job is a guest. Its root disk is the start of the export, its data disk follows.
type Job struct {
	Kit    string // sum of what Keep keeps for it; "" if this machine lacks nothing
	Kernel string // file on this machine; "" is the kit's, or one that is found
	URL    string // of the export
	Root   int64  // bytes of the root disk
	Data   int64  // bytes of the data disk
	Memory int64
	CPUs   int
	Accel  string
	Size   int64 // of the test files
	Each   time.Duration
	Seed   uint64
}

// A Result is what a guest measured. Phases count from the start of QEMU.
type Result struct {
	Phases []iotax.Phase     `json:"phases"`
	Values []iotax.Value     `json:"values"`
	Facts  map[string]string `json:"facts"`
	Error  string            `json:"error,omitempty"`
	Hint   string            `json:"hint,omitempty"`
}

// Lacks is what a machine lacks to start guests.
type Lacks struct {
	Kernel   string   // why no kernel was found; "" if there is one
	Programs []string // of those that the root disk is made of, and by
}

// String lists them.
func (l Lacks) String() string {
	all := l.Programs
	if l.Kernel != "" {
		all = append([]string{"a kernel (" + l.Kernel + ")"}, all...)
	}
	return strings.Join(all, ", ")
}

// The phases of a guest trial.
const (
	PhaseDisk   = "disk.attached" // QEMU has taken the data disk, by its control protocol (QMP)
	PhaseUp     = "guest.up"      // it can be logged into
	PhaseSeen   = "disk.seen"     // the data disk answered the guest's first read
	PhaseResult = "result"        // the jobs inside are done
)

// The functions of the agent on the machine that starts guests.
var (
	// Look lists what the machine lacks to start guests.
	Look = agent.New("guest look", look)
	// Has reports whether the machine has the kit of a sum whole.
	Has = agent.New("guest has kit", func(ctx context.Context, sum string) (bool, error) {
		_, err := guest.OpenKit(ctx, iotax.CacheDir(), sum, true)
		if errors.Is(err, fs.ErrNotExist) {
			return false, nil
		}
		return err == nil, err
	})
	// Keep keeps the kit of a sum, which it reads.
	Keep = agent.NewTaker("guest keep kit", func(ctx context.Context, sum string, from io.Reader) (struct{}, error) {
		return struct{}{}, guest.TakeKit(ctx, iotax.CacheDir(), sum, from)
	})
	// WriteRoot writes the root disk of a job.
	WriteRoot = agent.New("guest write root", func(ctx context.Context, j Job) (struct{}, error) { return struct{}{}, writeRoot(ctx, j) })
	// Measure starts the guest of a job and measures in it. A failure is in the result, with the facts of the guest.
	Measure = agent.New("guest measure", func(ctx context.Context, j Job) (*Result, error) {
		r := &Result{Facts: map[string]string{}}
		if err := measure(ctx, j, r); err != nil {
			var e *iotax.Error
			if errors.As(err, &e) {
				r.Hint = e.Hint
				bare := *e
				bare.Hint = ""
				err = &bare
			}
			r.Error = err.Error()
		}
		return r, nil
	})
)

// kitOf is what another host sent for the job.
func kitOf(ctx context.Context, j Job) (*guest.Taken, error) {
	if j.Kit == "" {
		return &guest.Taken{}, nil
	}
	kit, err := guest.OpenKit(ctx, iotax.CacheDir(), j.Kit, false)
	if errors.Is(err, fs.ErrNotExist) {
		err = &iotax.Error{Op: "find what was sent to start guests from in", On: iotax.CacheDir(), Err: errors.New("it was removed"),
			Hint: "see that nothing else clears this directory, and resume the run: it is sent again"}
	}
	return kit, err
}

func look(ctx context.Context, _ struct{}) (l Lacks, err error) {
	l.Programs = guest.Lacking()
	if _, err := guest.FindKernel(ctx, iotax.CacheDir(), nil); err != nil {
		l.Kernel = err.Error()
		var e *iotax.Error
		if errors.As(err, &e) {
			l.Kernel = e.Err.Error()
		}
	}
	return l, nil
}

// writeRoot writes a root file system to the start of the export.
func writeRoot(ctx context.Context, j Job) error {
	ctx, cancel := context.WithTimeoutCause(ctx, 5*time.Minute, errors.New("the root disk was not written within 5 minutes"))
	defer cancel()
	kit, err := kitOf(ctx, j)
	if err != nil {
		return err
	}
	root := kit.Root
	if root == "" {
		if root, err = guest.RootDisk(ctx, iotax.CacheDir(), j.Root); err != nil {
			return err
		}
	}
	if out, err := iotax.ExecOutput(exec.CommandContext(ctx, "nbdcopy", "--flush", root, j.URL)); err != nil {
		return fmt.Errorf("nbdcopy: %w: %s", err, bytes.TrimSpace(out))
	}
	return nil
}

// The guest's disks, and where files are measured on them.
const (
	dataSerial = "iotax-data"
	dataAt     = "/mnt"
	rootAt     = "/var/tmp"
)

func measure(ctx context.Context, j Job, r *Result) (err error) {
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
	m, err := vm.Kind.Open(ctx, spec, kind.Options{Name: "guest", CacheDir: iotax.CacheDir(), WorkDir: work,
		RootDisk: part(0, j.Root), Devices: []iotax.Device{{ID: dataSerial, Disk: data}}})
	if err != nil {
		return err
	}
	defer func() {
		clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
		defer cancel()
		err = errors.Join(err, m.Close(clean))
	}()
	g := m.Caps()
	if g.Started.IsZero() {
		return fmt.Errorf("a machine of type %T does not report how it started", m)
	}
	mark := func(name string) {
		r.Phases = append(r.Phases, iotax.Phase{Name: name, At: time.Since(g.Started)})
	}
	for k, v := range g.Facts {
		r.Facts["guest."+k] = v
	}
	for _, p := range g.Boot {
		switch p.Name {
		case "plugged":
			p.Name = PhaseDisk
		case "ready":
			p.Name = PhaseUp
		default:
			p.Name = "boot." + p.Name
		}
		r.Phases = append(r.Phases, p)
	}
	seen, cancel := context.WithTimeoutCause(ctx, 30*time.Second, errors.New("it did not appear within 30 s"))
	defer cancel()
	device, err := task.AwaitDisk.On(seen, m, dataSerial)
	if err != nil {
		return fmt.Errorf("the guest does not see its data disk: %w", err)
	}
	mark(PhaseSeen)
	if _, err := task.MakeExt4.On(ctx, m, task.NewFS{Device: device, At: dataAt}); err != nil {
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
		v, err := measureFio(ctx, m, j, job.at+"/iotax-guest", job.rw, job.bs, job.depth, job.value)
		if err != nil {
			return err
		}
		v.Name = job.name
		r.Values = append(r.Values, v)
	}
	mark(PhaseResult)
	return nil
}

// measureFio does one fio job in the guest, on a file of random data in a directory of its own, and returns the value that counts.
func measureFio(ctx context.Context, m iotax.Machine, j Job, dir, rw, bs, depth, keep string) (v iotax.Value, err error) {
	const file = "iotax.dat"
	if _, err := iotax.Output(ctx, m, "mkdir", "-p", dir); err != nil {
		return v, err
	}
	defer func() { _, _ = iotax.Output(context.WithoutCancel(ctx), m, "rm", "-rf", dir) }() // it goes with the guest
	size := "--size=" + strconv.FormatInt(j.Size, 10)
	fill := []string{"--name=fill", "--filename=" + file, size, "--rw=write", "--bs=1M", "--ioengine=libaio", "--iodepth=8", "--direct=1", "--refill_buffers=1",
		"--randrepeat=0", "--end_fsync=1"}
	if _, err := runFio(ctx, m, dir, fill); err != nil {
		return v, fmt.Errorf("write the test file in the guest: %w", err)
	}
	ramp := min(200*time.Millisecond, j.Each/5)
	r, err := runFio(ctx, m, dir, []string{"--name=inside", "--filename=" + file, "--allow_file_create=0", size, "--rw=" + rw, "--bs=" + bs, "--ioengine=libaio",
		"--iodepth=" + depth, "--direct=1", "--invalidate=0", "--time_based=1", fmt.Sprintf("--runtime=%dms", j.Each.Milliseconds()),
		fmt.Sprintf("--ramp_time=%dms", ramp.Milliseconds()), "--randrepeat=0", "--randseed=" + strconv.FormatUint(max(1, j.Seed&(1<<63-1)), 10),
		"--lat_percentiles=1", "--clat_percentiles=0", "--group_reporting=1"})
	if err != nil {
		return v, fmt.Errorf("run fio in the guest: %w", err)
	}
	for _, v := range r.Values() {
		if v.Name == keep {
			return v, nil
		}
	}
	return v, fmt.Errorf("fio in the guest reported no %s", keep)
}

// runFio runs fio in a directory of m.
func runFio(ctx context.Context, m iotax.Machine, dir string, args []string) (*fio.Result, error) {
	var out iotax.Capture
	err := m.Run(ctx, &iotax.Cmd{Args: append([]string{"fio", "--output-format=json+", "--eta=never"}, args...), Dir: dir, Stdout: &out})
	if err != nil {
		return nil, err
	}
	r, err := fio.Parse(out.Bytes())
	if err == nil {
		err = r.Err()
	}
	return r, err
}
