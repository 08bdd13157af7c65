package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"iotax"
	"iotax/machine"
	"iotax/plan"
	"iotax/workload"
)

// agentCommand is iotax on a target's machine: it does what another iotax asks over standard input.
func (a *app) agentCommand() *cobra.Command {
	return &cobra.Command{
		Use: workload.AgentCommand + " KIND", Short: "Do a job for an iotax elsewhere", Hidden: true, Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if args[0] == workload.AgentGuest {
				return serveGuest(c.Context(), a.in, a.out)
			}
			return workload.ServeAgent(c.Context(), args[0], a.in, a.out)
		},
	}
}

// serveGuest starts the guest that a job describes, and measures in it.
func serveGuest(ctx context.Context, in io.Reader, out io.Writer) error {
	var j workload.GuestJob
	if err := json.NewDecoder(io.LimitReader(in, 1<<20)).Decode(&j); err != nil {
		return fmt.Errorf("read job: %w", err)
	}
	r := &workload.GuestResult{Facts: map[string]string{}}
	if err := guestOnTop(ctx, j, r); err != nil {
		var e *iotax.Error
		if errors.As(err, &e) {
			r.Mend = e.Mend
			bare := *e
			bare.Mend = ""
			err = &bare
		}
		r.Error = err.Error()
	}
	return json.NewEncoder(out).Encode(r)
}

// seeDisk finds the disk of the serial $1, makes a file system on it and mounts that at $2.
const seeDisk = `
for b in /sys/block/*; do
	s=; [ -r "$b/serial" ] && read -r s <"$b/serial"
	[ "$s" = "$1" ] && [ "$(cat "$b/size")" != 0 ] && { echo "/dev/${b##*/}"; exit 0; }
done
exit 41`

const mountDisk = `mkfs.ext4 -q -F -b 4096 -m 0 -E lazy_itable_init=0,lazy_journal_init=0,nodiscard "$1" && mkdir -p "$2" && mount "$1" "$2" && mkdir "$2/iotax-guest"`

func guestOnTop(ctx context.Context, j workload.GuestJob, r *workload.GuestResult) (err error) {
	work, err := os.MkdirTemp("", "iotax-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	begun := time.Now()
	mark := func(name string, at time.Duration) { r.Phases = append(r.Phases, iotax.Phase{Name: name, At: at}) }
	const serial = "iotax-data"
	spec := &machine.QEMU{Memory: plan.Size(j.Memory), CPUs: j.CPUs, Accel: j.Accel, User: "root"}
	m, err := machine.Open(ctx, plan.Machine{Name: "guest", Kind: "qemu", Spec: spec}, machine.Options{Name: "guest", CacheDir: cacheDir(), WorkDir: work,
		Devices: []iotax.Device{{ID: serial, Disk: &iotax.Disk{Path: j.URL, Format: "raw", Bus: "virtio-blk", Cache: "none", AIO: "threads"}}}})
	if err != nil {
		return err
	}
	defer func() {
		clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
		defer cancel()
		err = errors.Join(err, m.Close(clean))
	}()
	mark(workload.PhaseUp, time.Since(begun))
	if d, ok := m.(iotax.Describer); ok {
		for k, v := range d.Facts() {
			r.Facts["guest."+k] = v
		}
	}
	if b, ok := m.(iotax.Booter); ok {
		for _, p := range b.Boot() {
			mark("boot."+p.Name, p.At)
		}
	}
	var device string
	for end := time.Now().Add(30 * time.Second); device == ""; {
		text, err := iotax.Output(ctx, m, "sh", "-c", seeDisk, "sh", serial)
		if device = strings.TrimSpace(string(text)); err != nil && time.Now().After(end) {
			return fmt.Errorf("the guest does not see its disk: %w", err)
		}
	}
	mark(workload.PhaseDisk, time.Since(begun))
	if _, err := iotax.Output(ctx, m, "sh", "-c", mountDisk, "sh", device, "/mnt"); err != nil {
		return fmt.Errorf("make a file system on the guest's disk: %w", err)
	}
	target := &iotax.Target{Name: "guest", Machine: m, Place: iotax.Place{Kind: iotax.PlaceDir, Path: "/mnt/iotax-guest", Durability: iotax.Durable}}
	for _, job := range []struct {
		rw, bs, depth string
		keep          string
	}{{"write", "1M", "8", "write.bandwidth"}, {"read", "1M", "8", "read.bandwidth"}, {"randread", "4k", "1", "read.iops"}} {
		v, err := guestFio(ctx, target, j, job.rw, job.bs, job.depth, job.keep)
		if err != nil {
			return err
		}
		r.Values = append(r.Values, v)
	}
	mark(workload.PhaseResult, time.Since(begun))
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
		return none, fmt.Errorf("fio in the guest told no %s", keep)
	}
	return v, nil
}
