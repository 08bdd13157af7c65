package run

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"iotax"
	"iotax/internal/plan"
	"iotax/internal/plan/schedule"
	"iotax/internal/volume"
)

// served is the spec of a volume that a machine serves.
type served struct{ from string }

func (s *served) Validate() error { return nil }
func (s *served) Traits() plan.Traits {
	return plan.Traits{Served: &plan.Served{Key: "from", Machine: s.from}}
}

// Two machines may serve each other, and a machine may serve itself. A server is closed after the volumes that it
// serves.
func TestMachinesThatServe(t *testing.T) {
	w := newWorld()
	p := &plan.Plan{Name: "test", Baseline: "own", Measure: plan.Defaults(),
		Machines: []plan.Machine{{Name: "a", Kind: "ssh", Spec: &none{}}, {Name: "b", Kind: "ssh", Spec: &none{}}},
		Targets: []plan.Target{
			{Name: "own", On: "a", Kind: "nbd", Spec: &served{}},
			{Name: "ab", On: "a", Kind: "nbd", Spec: &served{"b"}},
			{Name: "ba", On: "b", Kind: "nbd", Spec: &served{"a"}},
		},
		Workloads: []plan.Workload{{Name: "w", Kind: "fio", Spec: &none{}}}}
	d := w.deps()
	prepare := d.Prepare
	d.Prepare = func(ctx context.Context, t plan.Target, e volume.Env) (iotax.Volume, error) {
		w.say("%s is served by %v", t.Name, e.Server)
		return prepare(ctx, t, e)
	}
	if _, err := Run(context.Background(), p, d, Options{ID: "r"}); err != nil {
		t.Fatal(err)
	}
	want := []string{"begin",
		"open a with ", "own is served by a", `make t0 of ""`, "attach t0 on a",
		"open b with ", "ab is served by b", `make t1 of ""`, "attach t1 on a",
		"ba is served by a", `make t2 of ""`, "attach t2 on b",
	}
	if len(w.log) < len(want) || !slices.Equal(w.log[:len(want)], want) {
		t.Errorf("order of steps:\n got %q\nwant %q", w.log, want)
	}
	last := []string{"detach t2", "remove t2", "detach t1", "remove t1", "close b", "detach t0", "remove t0", "close a"}
	if !slices.Equal(w.log[len(w.log)-len(last):], last) {
		t.Errorf("order of the end:\n got %q\nwant %q", w.log, last)
	}
}

// device is the spec of a block device.
type device struct{ path string }

func (d *device) Validate() error     { return nil }
func (d *device) Traits() plan.Traits { return plan.Traits{Device: d.path} }

// A target records its device under the name that the plan and --destroy use, because the path of its place may
// differ.
func TestDevicesKeepTheirName(t *testing.T) {
	w := newWorld()
	p := guestPlan("w")
	p.Targets = append(p.Targets, plan.Target{Name: "raw", On: "guest", Kind: "device", Spec: &device{"/dev/disk/by-id/x"}},
		plan.Target{Name: "inside", On: "guest", In: []string{"outer", "inner"}, Kind: "device", Spec: &device{"/dev/disk/by-id/x"}}, plan.Target{Name: "here", On: plan.Host, Kind: "device", Spec: &device{"/dev/sdb"}})
	p.Machines = append(p.Machines, plan.Machine{Name: "outer", On: "guest", Kind: "container", Spec: &device{}}, plan.Machine{Name: "inner", On: "outer", Kind: "container", Spec: &device{}})
	d := w.deps()
	boxes := []string{"guest"}
	d.Enclose = func(_ context.Context, m plan.Machine, target string, on iotax.Machine, p iotax.Place) (iotax.Machine, error) {
		if last := boxes[len(boxes)-1]; target != "inside" || on.String() != last || p.Path == "" {
			t.Errorf("%s of %s is on %v, at %q, want %s", m.Name, target, on, p.Path, last)
		}
		boxes = append(boxes, m.Name)
		return &fakeMachine{w: w, name: m.Name}, nil
	}
	got := map[string]string{}
	check := d.Check
	d.Check = func(tr *iotax.Trial, target *iotax.Target) ([]iotax.Finding, string) {
		got[target.Name] = target.Device
		return check(tr, target)
	}
	if _, err := Run(context.Background(), p, d, Options{ID: "r"}); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"host": "", "disk": "", "share": "", "raw": "guest:/dev/disk/by-id/x", "inside": "guest:/dev/disk/by-id/x", "here": "/dev/sdb"}
	if !maps.Equal(got, want) {
		t.Errorf("devices %q, want %q", got, want)
	}
	if !slices.Equal(boxes, []string{"guest", "outer", "inner"}) {
		t.Errorf("the work is done in %q", boxes)
	}
	closed := func(name string) int { return slices.Index(w.log, "close "+name) }
	if closed("inner") < 0 || closed("inner") > closed("outer") || closed("outer") > closed("guest") {
		t.Errorf("the machines do not end from the inside out: %q", w.log)
	}
}

// A workload is prepared and run only on its own targets, and the run still counts as complete. A workload without the
// baseline among its targets runs as many rounds as the fixed protocol sets.
func TestWorkloadAtSomeTargets(t *testing.T) {
	w := newWorld()
	p := guestPlan("everywhere", "disk only", "both")
	p.Workloads[1].At = []string{"disk"}
	p.Workloads[2].At = []string{"share", "host"}
	p.Measure.Protocol = "fixed:3x10s"
	if err := p.Measure.Check(); err != nil {
		t.Fatal(err)
	}
	r, err := Run(context.Background(), p, w.deps(), Options{ID: "r"})
	if err != nil || r.Status != iotax.Done {
		t.Fatal(r.Status, err, r.Findings)
	}
	got := map[string]int{}
	for _, tr := range w.saved {
		got[tr.Cell()]++
	}
	want := map[string]int{"host / everywhere": 3, "disk / everywhere": 3, "share / everywhere": 3, "disk / disk only": 3, "share / both": 3, "host / both": 3}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("trials %v, want %v", got, want)
	}
	if has(w.log, "check disk only on host") || has(w.log, "prepare both on disk") {
		t.Errorf("a workload was made ready where it is not done: %q", w.log)
	}
	var plain []string // trials of the planned schedule, in order
	for _, s := range schedule.Slots(p, 3) {
		for _, target := range s.Targets {
			plain = append(plain, s.Workload+target)
		}
	}
	p.Measure.Seed = r.Seed
	var ran []string
	for _, tr := range w.saved {
		ran = append(ran, tr.Workload+tr.Target)
	}
	if r.Seed == 7 && !slices.Equal(plain, ran) {
		t.Errorf("ran %q, the schedule says %q", ran, plain)
	}
}

// If a target cannot be attached, the run fails. With keep_going in the plan, it measures the other targets.
func TestKeepGoingInThePlan(t *testing.T) {
	w := newWorld()
	w.attachErr["t1"] = errors.New("the export is not there")
	p := guestPlan("w")
	if r, err := Run(context.Background(), p, w.deps(), Options{ID: "r"}); err == nil {
		t.Errorf("%s without an error", r.Status)
	}
	p.Measure.KeepGoing = true
	w = newWorld()
	w.attachErr["t1"] = errors.New("the export is not there")
	r, err := Run(context.Background(), p, w.deps(), Options{ID: "r"})
	if err != nil || r.Status != iotax.Incomplete || len(w.saved) == 0 {
		t.Errorf("%s after %d trials: %v", r.Status, len(w.saved), err)
	}
}

// If a machine does not support the device of a target, only that target fails, and the machine starts without the
// device.
func TestDeviceThatTheMachineLacks(t *testing.T) {
	w := newWorld()
	d := w.deps()
	d.CheckDevice = func(_ context.Context, m plan.Machine, device iotax.Device) error {
		if m.Name == "guest" && device.ID == "t1" {
			return errors.New("no such property")
		}
		return nil
	}
	p := guestPlan("w")
	p.Measure.KeepGoing = true
	r, err := Run(context.Background(), p, d, Options{ID: "r"})
	if err != nil || r.Status != iotax.Incomplete || len(w.saved) == 0 || !has(w.log, "open guest with t2") || !has(w.log, "remove t1") {
		t.Errorf("%s (%v): %q", r.Status, err, w.log)
	}
	if r.Targets[1].Err != "no such property" || r.Targets[2].Err != "" {
		t.Errorf("disk: %q, share: %q", r.Targets[1].Err, r.Targets[2].Err)
	}
}

// A workload that fails on all its targets, or cannot run on any of them, ends. The other workloads continue.
func TestWorkloadThatCannotBeDone(t *testing.T) {
	w := newWorld()
	w.checkErr["share"] = errors.New("no such export")
	w.value = func(tr *iotax.Trial) (float64, error) {
		if tr.Workload == "broken" {
			return 0, errors.New("the export died")
		}
		return 1000, nil
	}
	p := guestPlan("good", "broken", "nowhere")
	p.Workloads[0].At = []string{"host", "disk"}
	p.Workloads[1].At = []string{"disk"}
	p.Workloads[2].At = []string{"share"}
	p.Measure.KeepGoing = true
	r, err := Run(context.Background(), p, w.deps(), Options{ID: "r"})
	got := map[string]int{}
	for _, tr := range w.saved {
		got[tr.Cell()]++
	}
	if err != nil || r.Status != iotax.Incomplete || got["disk / good"] < 6 || got["disk / broken"] != failuresInARow || len(got) != 3 {
		t.Errorf("%s (%v) with %v", r.Status, err, got)
	}
}

// A workload that cannot run on the baseline is left out only there. All other cells are measured.
func TestWorkloadThatTheBaselineCannotDo(t *testing.T) {
	w := newWorld()
	w.checkErr["host / no program"] = errors.New("it is not installed")
	p := guestPlan("good", "no program")
	p.Measure.KeepGoing = true
	r, err := Run(context.Background(), p, w.deps(), Options{ID: "r"})
	got := map[string]int{}
	for _, tr := range w.saved {
		got[tr.Cell()]++
	}
	if err != nil || r.Status != iotax.Incomplete || got["host / good"] < 6 || got["share / no program"] < 6 || got["host / no program"] > 0 {
		t.Errorf("%s (%v) with %v", r.Status, err, got)
	}
}

// A guest on another machine is opened after that machine and closed before it. The volumes of the guest's disks are
// prepared on that machine.
func TestGuestOnAMachine(t *testing.T) {
	w := newWorld()
	p := guestPlan("w")
	p.Machines[0].On = "far"
	p.Machines = append(p.Machines, plan.Machine{Name: "far", Kind: "ssh", Spec: &none{}})
	p.Targets = append(p.Targets, plan.Target{Name: "export", On: "far", Kind: "nbd", Spec: &none{}})
	p.Targets[1].Spec, p.Targets[2].Spec = &of{"export"}, &of{"export"}
	d := w.deps()
	open, prepare := d.Open, d.Prepare
	d.Open = func(ctx context.Context, m plan.Machine, on iotax.Machine, devices []iotax.Device) (iotax.Machine, error) {
		w.say("%s is on %v", m.Name, on)
		return open(ctx, m, on, devices)
	}
	d.Prepare = func(ctx context.Context, t plan.Target, e volume.Env) (iotax.Volume, error) {
		w.say("%s is made by %v", t.Name, e.Host)
		return prepare(ctx, t, e)
	}
	if _, err := Run(context.Background(), p, d, Options{ID: "r"}); err != nil {
		t.Fatal(err)
	}
	at := -1
	for _, line := range []string{"far is on <nil>", "disk is made by far", "guest is on far", "close guest", "close far"} {
		if i := slices.Index(w.log, line); i <= at {
			t.Errorf("%q is not where it should be in %q", line, w.log)
		} else {
			at = i
		}
	}

	p.Targets[1].Spec = &of{"host"}
	_, err := Run(context.Background(), p, newWorld().deps(), Options{ID: "r"})
	var e *iotax.Error
	if !errors.As(err, &e) || !strings.Contains(e.Error(), `"host" is not on far`) || e.Hint != "let `of` name a target on far" {
		t.Errorf("a disk of this host: %v", err)
	}
}
