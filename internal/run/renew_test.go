package run

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"iotax"
	"iotax/internal/plan"
	"iotax/internal/volume"
)

// anew is the spec of a machine that is opened again for each trial.
type anew struct{ plan.Plain }

func (*anew) Traits() plan.Traits { return plan.Traits{EachTrial: true} }

// booted is a machine with boot times.
type booted struct {
	*fakeMachine
	started time.Time
}

func (b *booted) Caps() iotax.MachineCaps {
	c := b.fakeMachine.Caps()
	c.Started, c.Boot = b.started, []iotax.Phase{{Name: "start"}, {Name: "ready", At: time.Second}}
	return c
}

// A machine with EachTrial and the places on it are opened and closed for each trial. The machines and places that this
// machine uses stay open.
func TestRenew(t *testing.T) {
	w := newWorld()
	p := guestPlan("w")
	for i := range p.Machines {
		if p.Machines[i].Name == "guest" {
			p.Machines[i].Spec = &anew{}
		}
	}
	p.Measure.Rounds, p.Measure.Protocol = plan.Rounds{Min: 2, Max: 2}, "fixed:2x1s"
	d := w.slow(3*time.Second, nil)
	open := d.Open
	d.Open = func(ctx context.Context, m plan.Machine, on iotax.Machine, devices []iotax.Device) (iotax.Machine, error) {
		started := d.Now()
		g, err := open(ctx, m, on, devices)
		return &booted{g.(*fakeMachine), started}, err
	}
	r, err := Run(context.Background(), p, d, Options{ID: "r"})
	if err != nil || r.Status != iotax.Done {
		t.Fatalf("%v, %s\n%s", err, r.Status, strings.Join(w.log, "\n"))
	}
	guests := 0 // number of targets on the guest
	for _, tg := range p.Targets {
		if tg.On == "guest" {
			guests++
		}
	}
	opened, closed := 0, 0
	up := false
	for _, l := range w.log {
		switch {
		case strings.HasPrefix(l, "open guest"):
			if up {
				t.Errorf("a second guest beside the first:\n%s", strings.Join(w.log, "\n"))
			}
			opened, up = opened+1, true
			if opened > 1 && strings.Contains(l, ",") {
				t.Errorf("a trial's own guest has the devices of others: %s", l)
			}
		case l == "close guest":
			closed, up = closed+1, false
		}
	}
	// The guest is opened once for the checks, and once for each trial.
	if want := 1 + 2*guests; opened != want || closed != want || up {
		t.Errorf("%d guests were opened and %d closed, want %d:\n%s", opened, closed, want, strings.Join(w.log, "\n"))
	}
	if n := count(w.log, "attach t0 on host"); n != 1 {
		t.Errorf("the host's own place was made %d times", n)
	}
	for _, tr := range w.saved {
		on := tr.Target != "host"
		if (tr.Facts["machine.fresh"] == "yes") != on || (tr.Facts[iotax.FactMachineOpened] == "3s") != on || tr.Err != "" {
			t.Errorf("trial of %s: %v %s", tr.Target, tr.Facts, tr.Err)
		}
		last := 0.0
		for _, name := range []string{"boot.ready", "boot.place", "boot.result"} {
			v, has := tr.Value(name)
			if has != on || on && v.Value <= last {
				t.Errorf("trial of %s: %s is %v, after %g s", tr.Target, name, v, last)
			}
			last = v.Value
		}
	}
}

// If a machine cannot be opened for a trial, that trial fails, and the run removes what it created for the trial.
func TestRenewFails(t *testing.T) {
	w := newWorld()
	p := guestPlan("w")
	for i := range p.Machines {
		if p.Machines[i].Name == "guest" {
			p.Machines[i].Spec = &anew{}
		}
	}
	p.Measure.Rounds, p.Measure.Protocol = plan.Rounds{Min: 1, Max: 1}, "fixed:1x1s"
	d := w.deps()
	open, n := d.Open, 0
	d.Open = func(ctx context.Context, m plan.Machine, on iotax.Machine, devices []iotax.Device) (iotax.Machine, error) {
		if n++; n == 2 {
			return nil, errors.New("it panicked")
		}
		return open(ctx, m, on, devices)
	}
	if _, err := Run(context.Background(), p, d, Options{ID: "r"}); err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(w.saved, func(tr *iotax.Trial) bool { return strings.Contains(tr.Err, "it panicked") }) {
		t.Errorf("no trial tells of it: %+v", w.saved)
	}
	if count(w.log, "remove t1") < 2 {
		t.Errorf("what a failed trial made was not removed:\n%s", strings.Join(w.log, "\n"))
	}
}

// If closing a machine of a trial fails after an interrupt, or after the trial could not be saved, the run still reports
// what was not removed.
func TestRenewLeaves(t *testing.T) {
	for _, interrupted := range []bool{true, false} {
		ctx, cancel := context.WithCancel(t.Context())
		w := newWorld()
		w.onTrial = func(int) {
			if interrupted {
				cancel()
			} else {
				w.saveErr = errors.New("the disk is full")
			}
			w.detachErr = errors.New("busy")
		}
		p := guestPlan("w")
		p.Machines[0].Spec, p.Baseline, p.Targets = &anew{}, "disk", []plan.Target{{Name: "disk", On: "guest", Kind: "disk", Spec: &none{}}}
		d := w.deps()
		prepare := d.Prepare
		d.Prepare = func(ctx context.Context, t plan.Target, e volume.Env) (iotax.Volume, error) {
			e.ID = "t1"
			return prepare(ctx, t, e)
		}
		_, err := Run(ctx, p, d, Options{ID: "r"})
		if !slices.ContainsFunc(w.record.Findings, func(f iotax.Finding) bool { return f.Rule == "left-behind" && strings.Contains(f.Evidence, "busy") }) {
			t.Errorf("interrupted %v: error %v, findings %+v", interrupted, err, w.record.Findings)
		}
		cancel()
	}
}

// An interrupt does not end the clean-up of the machines that were opened only for the checks.
func TestRenewInterruptedAfterChecks(t *testing.T) {
	for _, resumed := range []bool{false, true} {
		ctx, cancel := context.WithCancel(t.Context())
		w := newWorld()
		p := guestPlan("w")
		p.Machines[0].Spec = &anew{}
		o := Options{ID: "r"}
		if resumed {
			p.Measure.Rounds, p.Measure.Protocol = plan.Rounds{Min: 2, Max: 2}, "fixed:2x1s"
			o.Resume, _ = Run(t.Context(), p, w.deps(), o)
			o.Trials, w.saved = w.saved[:1], nil
		}
		d := w.deps()
		d.Workload = func(pw plan.Workload) (iotax.Workload, error) {
			return &interrupting{fakeWorkload{w, pw.Name}, cancel}, nil
		}
		r, _ := Run(ctx, p, d, o)
		left := slices.ContainsFunc(r.Findings, func(f iotax.Finding) bool { return f.Rule == "left-behind" && strings.Contains(f.Evidence, "canceled") })
		if r.Status != iotax.Interrupted || left {
			t.Errorf("resumed %v: status %s, findings %+v", resumed, r.Status, r.Findings)
		}
		cancel()

		ctx, cancel = context.WithCancel(t.Context())
		w.detachErr = errors.New("busy")
		d.Workload = func(pw plan.Workload) (iotax.Workload, error) {
			return &interrupting{fakeWorkload{w, pw.Name}, cancel}, nil
		}
		r, _ = Run(ctx, p, d, o)
		if !slices.ContainsFunc(r.Findings, func(f iotax.Finding) bool { return f.Rule == "left-behind" && strings.Contains(f.Evidence, "busy") }) {
			t.Errorf("resumed %v: status %s, findings %+v", resumed, r.Status, r.Findings)
		}
		cancel()
	}
}

// interrupting is a workload whose clean-up is interrupted.
type interrupting struct {
	fakeWorkload
	interrupt func()
}

func (i *interrupting) Cleanup(ctx context.Context, t *iotax.Target) error {
	i.interrupt()
	return errors.Join(ctx.Err(), i.fakeWorkload.Cleanup(ctx, t))
}

func count(log []string, line string) (n int) {
	for _, l := range log {
		if l == line {
			n++
		}
	}
	return n
}
