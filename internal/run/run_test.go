package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"iotax"
	"iotax/internal/plan"
	"iotax/internal/volume"
)

// A world is a set of fakes with a simulated clock. It logs the steps before and after the trials, in order.
type world struct {
	log    []string
	now    time.Time
	saved  []*iotax.Trial
	record iotax.Run

	openErr   map[string]error // by machine
	attachErr map[string]error // by volume id
	checkErr  map[string]error // by target or cell
	detachErr error            // from detaching in the guest
	saveErr   error            // from saving trials
	dead      bool             // the guest does not respond
	// value returns the result of a trial. An error fails the trial, and NaN discards it.
	value   func(t *iotax.Trial) (float64, error)
	onTrial func(n int) // called at the start of the n-th trial
	trials  int
}

func newWorld() *world {
	return &world{now: time.Unix(1_700_000_000, 0), openErr: map[string]error{}, attachErr: map[string]error{},
		checkErr: map[string]error{}, value: func(t *iotax.Trial) (float64, error) { return 1000, nil }}
}

func (w *world) say(format string, args ...any) { w.log = append(w.log, fmt.Sprintf(format, args...)) }

type fakeMachine struct {
	w     *world
	name  string
	local bool
}

func (m *fakeMachine) String() string                        { return m.name }
func (m *fakeMachine) Caps() iotax.MachineCaps               { return iotax.MachineCaps{Local: m.local} }
func (m *fakeMachine) Run(context.Context, *iotax.Cmd) error { return nil }
func (m *fakeMachine) Close(context.Context) error           { m.w.say("close %s", m.name); return nil }

type fakeVolume struct {
	w    *world
	id   string
	kind string
}

func (v *fakeVolume) Caps() iotax.VolumeCaps {
	return iotax.VolumeCaps{Devices: []iotax.Device{{ID: v.id}}}
}
func (v *fakeVolume) Attach(_ context.Context, m iotax.Machine) (iotax.Place, error) {
	v.w.say("attach %s on %s", v.id, m)
	return iotax.Place{Kind: iotax.PlaceDir, Path: "/" + v.id, Backing: "/" + v.id, Durability: iotax.Durable}, v.w.attachErr[v.id]
}
func (v *fakeVolume) Detach(context.Context) error {
	v.w.say("detach %s", v.id)
	if v.id != "t0" {
		return v.w.detachErr
	}
	return nil
}
func (v *fakeVolume) Close(context.Context) error { v.w.say("remove %s", v.id); return nil }

type fakeWorkload struct {
	w    *world
	name string
}

func (f *fakeWorkload) Metrics() []string        { return []string{"read.iops"} }
func (f *fakeWorkload) Caps() iotax.WorkloadCaps { return iotax.WorkloadCaps{} }
func (f *fakeWorkload) Check(_ context.Context, t *iotax.Target) error {
	f.w.say("check %s on %s", f.name, t.Name)
	return cmp.Or(f.w.checkErr[t.Name], f.w.checkErr[t.Name+" / "+f.name])
}
func (f *fakeWorkload) Prepare(_ context.Context, t *iotax.Target) error {
	f.w.say("prepare %s on %s", f.name, t.Name)
	return nil
}
func (f *fakeWorkload) Run(ctx context.Context, t *iotax.Target, out *iotax.Trial) error {
	f.w.trials++
	if f.w.onTrial != nil {
		f.w.onTrial(f.w.trials)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	f.w.now = f.w.now.Add(out.Ramp + out.Length)
	x, err := f.w.value(out)
	if err == nil {
		out.Values = append(out.Values, iotax.Value{Name: "read.iops", Value: x, Unit: iotax.PerSecond, Better: iotax.Up})
	}
	return err
}
func (f *fakeWorkload) Cleanup(_ context.Context, t *iotax.Target) error {
	f.w.say("cleanup %s on %s", f.name, t.Name)
	return nil
}

// of is the spec of a volume based on another target.
type of struct {
	Target string `yaml:"of"`
}

func (o *of) Validate() error     { return nil }
func (o *of) Traits() plan.Traits { return plan.Traits{Of: &o.Target} }

// none is an empty spec.
type none struct{ plan.Plain }

func (w *world) deps() Deps {
	return Deps{
		Host: &fakeMachine{w, "host", true},
		Open: func(_ context.Context, m plan.Machine, on iotax.Machine, devices []iotax.Device) (iotax.Machine, error) {
			var ids []string
			for _, d := range devices {
				ids = append(ids, d.ID)
			}
			w.say("open %s with %s", m.Name, strings.Join(ids, ","))
			return &fakeMachine{w: w, name: m.Name}, w.openErr[m.Name]
		},
		Prepare: func(_ context.Context, t plan.Target, e volume.Env) (iotax.Volume, error) {
			w.say("make %s of %q", e.ID, e.Of.Path)
			return &fakeVolume{w, e.ID, t.Kind}, nil
		},
		Workload: func(pw plan.Workload) (iotax.Workload, error) { return &fakeWorkload{w, pw.Name}, nil },
		Environment: func(context.Context, iotax.Machine) (map[string]string, error) {
			return map[string]string{"kernel": "6"}, nil
		},
		Watch: func(context.Context, *iotax.Target) (func(context.Context) (iotax.Seen, error), error) {
			return func(context.Context) (iotax.Seen, error) { return iotax.Seen{}, nil }, nil
		},
		Evict: func(context.Context, iotax.Machine, string) (int, error) { return 0, nil },
		Check: func(t *iotax.Trial, _ *iotax.Target) ([]iotax.Finding, string) {
			if v, ok := t.Value("read.iops"); ok && math.IsNaN(v.Value) {
				return nil, "the clock ran backwards"
			}
			return nil, ""
		},
		Review: func(*iotax.Run, []*iotax.Trial) []iotax.Finding { return nil },
		Begin:  func(_ context.Context, r *iotax.Run) error { w.say("begin"); return nil },
		Save: func(_ context.Context, t *iotax.Trial) error {
			if w.saveErr != nil {
				return w.saveErr
			}
			w.saved = append(w.saved, t)
			return nil
		},
		Update: func(_ context.Context, r *iotax.Run) error { w.record = *r; return nil },
		Now:    func() time.Time { return w.now },
		Sleep: func(ctx context.Context, d time.Duration) error {
			w.now = w.now.Add(d)
			return ctx.Err()
		},
	}
}

// guestPlan returns a plan with three targets: a host directory, and a disk and a share in a guest that use it.
func guestPlan(workloads ...string) *plan.Plan {
	p := &plan.Plan{
		Name: "test", Baseline: "host",
		Machines: []plan.Machine{{Name: "guest", Kind: "qemu", Spec: &none{}}},
		Targets: []plan.Target{
			{Name: "host", On: "host", Kind: "dir", Spec: &none{}},
			{Name: "disk", On: "guest", Kind: "disk", Spec: &of{"host"}},
			{Name: "share", On: "guest", Kind: "share", Spec: &of{"host"}},
		},
		Measure: plan.Defaults(),
	}
	for _, w := range workloads {
		p.Workloads = append(p.Workloads, plan.Workload{Name: w, Kind: "fio", Spec: &none{}})
	}
	p.Measure.Seed = 7
	return p
}

func has(log []string, want string) bool { return slices.Contains(log, want) }

func TestOpensInOrderAndUndoesInReverse(t *testing.T) {
	w := newWorld()
	r, err := Run(context.Background(), guestPlan("w"), w.deps(), Options{ID: "r1"})
	if err != nil {
		t.Fatal(err)
	}
	if r.Status != iotax.Done {
		t.Errorf("status %s, want done", r.Status)
	}
	want := []string{
		"begin",
		`make t0 of ""`, "attach t0 on host",
		// The guest starts with the devices of all targets on it.
		`make t1 of "/t0"`, `make t2 of "/t0"`, "open guest with t1,t2",
		"attach t1 on guest", "attach t2 on guest",
		"check w on host", "check w on disk", "check w on share",
		"prepare w on host", "prepare w on disk", "prepare w on share",
		"cleanup w on share", "cleanup w on disk", "cleanup w on host",
		"detach t2", "detach t1", "close guest", "remove t2", "remove t1", "detach t0", "remove t0",
	}
	if !slices.Equal(w.log, want) {
		t.Errorf("order of steps:\n got %q\nwant %q", w.log, want)
	}
	if w.record.Status != iotax.Done || w.record.End.IsZero() {
		t.Errorf("stored run ends as %s at %v", w.record.Status, w.record.End)
	}
}

func TestRoundsArePairedInterleavedAndMirrored(t *testing.T) {
	w := newWorld()
	p := guestPlan("a", "b")
	if _, err := Run(context.Background(), p, w.deps(), Options{ID: "r1"}); err != nil {
		t.Fatal(err)
	}
	order := map[string][]string{} // targets by workload and round
	var rotation []string
	for i, tr := range w.saved {
		if tr.Seq != i {
			t.Fatalf("trial %d has seq %d", i, tr.Seq)
		}
		key := fmt.Sprintf("%s%d", tr.Workload, tr.Round)
		order[key] = append(order[key], tr.Target)
		if len(rotation) == 0 || rotation[len(rotation)-1] != key {
			rotation = append(rotation, key)
		}
	}
	if got, want := rotation[:4], []string{"a0", "b0", "a1", "b1"}; !slices.Equal(got, want) {
		t.Errorf("rounds come as %v, want %v: unfinished workloads rotate", got, want)
	}
	for key, targets := range order {
		if len(targets) != 3 {
			t.Errorf("round %s ran on %v, want every target once", key, targets)
		}
	}
	mirror := slices.Clone(order["a0"])
	slices.Reverse(mirror)
	if !slices.Equal(order["a1"], mirror) {
		t.Errorf("round 1 ran %v after %v, want the mirror", order["a1"], order["a0"])
	}
	seeds := map[uint64]bool{}
	for _, tr := range w.saved {
		if tr.Round == 0 && tr.Workload == "a" {
			seeds[tr.Seed] = true
		}
	}
	if len(seeds) != 1 {
		t.Errorf("%d seeds in one round, want the same for every target", len(seeds))
	}
}

func TestStopsWhenPreciseAndNotBefore(t *testing.T) {
	for _, c := range []struct {
		noise  float64
		rounds int
		status iotax.Status
	}{{0.005, 6, iotax.Done}, {0.5, 30, iotax.Incomplete}} {
		w := newWorld()
		rng := rand.New(rand.NewPCG(1, 2))
		w.value = func(*iotax.Trial) (float64, error) { return 1000 * math.Exp(c.noise*rng.NormFloat64()), nil }
		p := guestPlan("w")
		p.Measure.Budget = 0
		r, err := Run(context.Background(), p, w.deps(), Options{ID: "r"})
		if err != nil {
			t.Fatal(err)
		}
		if got := len(w.saved) / 3; got != c.rounds || r.Status != c.status {
			t.Errorf("noise %g: %d rounds, %s; want %d, %s (%v)", c.noise, got, r.Status, c.rounds, c.status, r.Findings)
		}
	}
}

func TestLoneTargetStopsAtTheLeastRounds(t *testing.T) {
	w := newWorld()
	p := guestPlan("w")
	p.Targets = p.Targets[:1]
	r, err := Run(context.Background(), p, w.deps(), Options{ID: "r"})
	if err != nil || r.Status != iotax.Done || len(w.saved) != 6 {
		t.Errorf("%d trials, status %s, error %v; want 6, done", len(w.saved), r.Status, err)
	}
}

func TestDiscardedRoundIsRunAgainAndKept(t *testing.T) {
	w := newWorld()
	w.value = func(tr *iotax.Trial) (float64, error) {
		if tr.Round == 2 && tr.Target == "disk" {
			return math.NaN(), nil
		}
		return 1000, nil
	}
	r, err := Run(context.Background(), guestPlan("w"), w.deps(), Options{ID: "r"})
	if err != nil {
		t.Fatal(err)
	}
	if got := len(w.saved); got != 7*3 {
		t.Errorf("%d trials, want 7 rounds of 3: the discarded one is kept and one more is run", got)
	}
	if r.Status != iotax.Done {
		t.Errorf("status %s", r.Status)
	}
}

func TestFailedTrialIsARowAndTheOthersGoOn(t *testing.T) {
	w := newWorld()
	w.value = func(tr *iotax.Trial) (float64, error) {
		if tr.Target == "share" {
			return 0, errors.New("fio: out of cheese")
		}
		return 1000, nil
	}
	r, err := Run(context.Background(), guestPlan("w"), w.deps(), Options{ID: "r"})
	if err != nil {
		t.Fatal(err)
	}
	failed, disk := 0, 0
	for _, tr := range w.saved {
		if tr.Err != "" {
			failed++
		}
		if tr.Target == "disk" {
			disk++
		}
	}
	if failed != failuresInARow || disk != 6 {
		t.Errorf("%d failed rows and %d trials of the sound target, want %d and 6", failed, disk, failuresInARow)
	}
	if r.Status != iotax.Incomplete {
		t.Errorf("status %s, want incomplete", r.Status)
	}
}

// If the budget ended the run, the hint is to resume it. If the maximum number of rounds was reached, the hint is to
// use more rounds.
func TestHintOfShortRun(t *testing.T) {
	w := newWorld()
	rng := rand.New(rand.NewPCG(1, 2))
	w.value = func(*iotax.Trial) (float64, error) { return 1000 * math.Exp(rng.NormFloat64()), nil }
	run := func(budget time.Duration) iotax.Finding {
		p := guestPlan("w")
		p.Measure.Budget = plan.Duration(budget)
		r, err := Run(context.Background(), p, w.deps(), Options{ID: "r"})
		if err != nil {
			t.Fatal(err)
		}
		return r.Findings[0]
	}
	if f := run(5 * time.Minute); f.Subject != iotax.AboutWorkload("w") || f.Hint != "`iotax run --resume=r` continues for another 5m" {
		t.Errorf("%+v", f)
	}
	if f := run(5 * time.Hour); !strings.Contains(f.Evidence, "precision not reached") || !strings.HasPrefix(f.Hint, "use more rounds (`--rounds 12..60") {
		t.Errorf("%+v", f)
	}
}

func TestBudgetEndsTheRun(t *testing.T) {
	w := newWorld()
	rng := rand.New(rand.NewPCG(1, 2))
	w.value = func(*iotax.Trial) (float64, error) { return 1000 * math.Exp(rng.NormFloat64()), nil }
	p := guestPlan("w")
	p.Measure.Budget = plan.Duration(5 * time.Minute)
	start := w.now
	r, err := Run(context.Background(), p, w.deps(), Options{ID: "r"})
	if err != nil {
		t.Fatal(err)
	}
	if took := w.now.Sub(start); took > 5*time.Minute {
		t.Errorf("took %v of a budget of 5m", took)
	}
	if r.Status != iotax.Incomplete || len(r.Findings) == 0 || r.Findings[0].Rule != "stopped-early" {
		t.Errorf("status %s, findings %v", r.Status, r.Findings)
	}
}

func TestInterruptKeepsTrialsAndCleansUp(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	w := newWorld()
	w.onTrial = func(n int) {
		if n == 5 {
			cancel()
		}
	}
	r, err := Run(ctx, guestPlan("w"), w.deps(), Options{ID: "r"})
	if !errors.Is(err, context.Canceled) || r.Status != iotax.Interrupted {
		t.Errorf("error %v, status %s", err, r.Status)
	}
	if len(w.saved) != 4 {
		t.Errorf("%d trials saved, want the 4 that finished", len(w.saved))
	}
	for _, want := range []string{"close guest", "remove t0", "detach t1", "cleanup w on disk"} {
		if !has(w.log, want) {
			t.Errorf("%q was not done", want)
		}
	}
}

// If an interrupt prevents a target from being opened, the target is not reported as missing.
func TestInterruptWhileOpening(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	w := newWorld()
	d := w.deps()
	d.Open = func(ctx context.Context, _ plan.Machine, _ iotax.Machine, _ []iotax.Device) (iotax.Machine, error) {
		cancel()
		return nil, errors.New("no answer from the guest")
	}
	d.Progress = func(e Event) {
		if e.Kind == Missing {
			t.Errorf("%s is told missing: %v", e.Target, e.Err)
		}
	}
	r, err := Run(ctx, guestPlan("w"), d, Options{ID: "r"})
	if !errors.Is(err, context.Canceled) || r.Status != iotax.Interrupted || slices.ContainsFunc(r.Targets, func(t iotax.TargetInfo) bool { return t.Err != "" }) {
		t.Errorf("error %v, status %s, targets %+v", err, r.Status, r.Targets)
	}
}

func TestResumeGoesOnWhereItStopped(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	w := newWorld()
	w.onTrial = func(n int) {
		if n == 8 {
			cancel()
		}
	}
	p := guestPlan("w")
	first, _ := Run(ctx, p, w.deps(), Options{ID: "r"})
	w.onTrial = nil
	again, err := Run(context.Background(), p, w.deps(), Options{Resume: first, Trials: slices.Clone(w.saved)})
	if err != nil {
		t.Fatal(err)
	}
	if again.ID != "r" || again.Status != iotax.Done || again.Seed != first.Seed {
		t.Errorf("resumed run %s %s", again.ID, again.Status)
	}
	// Two complete rounds and one trial of the third were saved. The resumed run adds four rounds.
	if len(w.saved) != 7+4*3 {
		t.Errorf("%d trials, want %d", len(w.saved), 7+4*3)
	}
	seen := map[int]bool{}
	for _, tr := range w.saved {
		if seen[tr.Seq] {
			t.Errorf("seq %d twice", tr.Seq)
		}
		seen[tr.Seq] = true
	}
	other := guestPlan("w", "x")
	if _, err := Run(context.Background(), other, w.deps(), Options{Resume: first}); err == nil {
		t.Error("resumed with another plan")
	}
}

// A resumed run keeps the findings that it cannot find again.
func TestResumeKeepsFindings(t *testing.T) {
	w := newWorld()
	p := guestPlan("w")
	first, err := Run(t.Context(), p, w.deps(), Options{ID: "r"})
	if err != nil {
		t.Fatal(err)
	}
	first.Findings = []iotax.Finding{{Rule: "left-behind"}, {Rule: "stopped-early"}, {Rule: "jobs-run-alone"}, {Rule: "another-run"}}
	again, err := Run(t.Context(), p, w.deps(), Options{Resume: first, Trials: w.saved, Findings: first.Findings[:1]})
	if err != nil || !slices.Equal(again.Findings, []iotax.Finding{first.Findings[0], first.Findings[2], first.Findings[3]}) {
		t.Errorf("%v, %+v", err, again.Findings)
	}
}

// A cell with failed trials is incomplete, so a resumed run measures it again.
func TestResumeMeasuresAgainWhatFailed(t *testing.T) {
	w := newWorld()
	dead := true
	w.value = func(tr *iotax.Trial) (float64, error) {
		if dead && tr.Target == "share" && tr.Round > 0 {
			return 0, errors.New("the guest is gone")
		}
		return 1000, nil
	}
	// The run gives up the target "share" after three failures. With 2 rounds, the run then ends. With 6 rounds, it
	// continues with the other targets.
	for _, rounds := range []int{2, 6} {
		w.saved, dead = nil, true
		p := guestPlan("w")
		p.Measure.Rounds = plan.Rounds{Min: rounds, Max: rounds}
		first, err := Run(context.Background(), p, w.deps(), Options{ID: "r"})
		if err != nil || first.Status != iotax.Incomplete {
			t.Errorf("%d rounds: status %s, error %v, want incomplete", rounds, first.Status, err)
		}
		w.attachErr["t2"] = errors.New("no such tag")
		again, err := Run(context.Background(), p, w.deps(), Options{Resume: first, Trials: slices.Clone(w.saved)})
		if err == nil || again.Status != iotax.Incomplete {
			t.Errorf("%d rounds: status %s, error %v, want that it cannot be opened, and what it has", rounds, again.Status, err)
		}
		delete(w.attachErr, "t2")
		dead = false
		again, err = Run(context.Background(), p, w.deps(), Options{Resume: first, Trials: slices.Clone(w.saved)})
		if err != nil || again.Status != iotax.Done {
			t.Errorf("%d rounds: status %s, error %v, want done", rounds, again.Status, err)
		}
		good := map[string]int{}
		for _, tr := range w.saved {
			if tr.Err == "" {
				good[tr.Target]++
			}
		}
		if good["share"] != rounds {
			t.Errorf("%d rounds: %d good trials of the target that failed", rounds, good["share"])
		}
	}
}

func TestOpenFailure(t *testing.T) {
	for _, c := range []struct {
		name   string
		keep   bool
		fault  func(*world)
		trials bool
		events string // errors of the targets and cells that the run leaves out
		errs   string // errors that end the run
		found  string // findings about the whole run
	}{
		{"guest does not boot", false, func(w *world) { w.openErr["guest"] = errors.New("kernel panic") }, false, "", "kernel panic", ""},
		{"guest does not boot, keep going", true, func(w *world) { w.openErr["guest"] = errors.New("kernel panic") }, false, "", "kernel panic", ""},
		{"share does not mount", false, func(w *world) { w.attachErr["t2"] = errors.New("no such tag") }, false, "", "no such tag", ""},
		{"share does not mount, keep going", true, func(w *world) { w.attachErr["t2"] = errors.New("no such tag") }, true, "no such tag", "", ""},
		{"baseline is full", true, func(w *world) {
			w.checkErr["host"] = &iotax.Error{Op: "check", Err: errors.New("no space"), Hint: "free some"}
		}, false, "", "check: no space\n  hint: free some", "check: no space → free some"},
		{"one lacks space, keep going", true, func(w *world) { w.checkErr["disk"] = &iotax.Error{Op: "no space", Hint: "free some"} }, true, "no space\n  hint: free some", "", ""},
		{"store is full", true, func(w *world) { w.saveErr = errors.New("the disk is full") }, false, "", "save trial disk / w: the disk is full", "save trial disk / w: the disk is full → "},
	} {
		w := newWorld()
		c.fault(w)
		d, events := w.deps(), []string{}
		d.Progress = func(e Event) {
			if e.Kind == Missing {
				events = append(events, e.Err.Error())
			}
		}
		r, err := Run(context.Background(), guestPlan("w"), d, Options{ID: "r", KeepGoing: c.keep})
		// An error is printed once: in an event or at the end of the run.
		if got := strings.Join(events, "\n"); got != c.events || (err != nil && err.Error() != c.errs) {
			t.Errorf("%s: events %q, error %v", c.name, got, err)
		}
		found := ""
		for _, f := range w.record.Findings {
			if f.Rule == "run-failed" {
				found += f.Evidence + " → " + f.Hint
			}
		}
		if found != c.found {
			t.Errorf("%s: the run has the finding %q, want %q", c.name, found, c.found)
		}
		if c.trials != (len(w.saved) > 0) || c.trials != (err == nil) {
			t.Errorf("%s: %d trials, error %v", c.name, len(w.saved), err)
		}
		if c.trials && r.Status != iotax.Incomplete {
			t.Errorf("%s: status %s, want incomplete", c.name, r.Status)
		}
		for _, info := range r.Targets {
			for _, f := range info.Findings {
				if want := (iotax.Finding{Rule: "cell-not-measured", Severity: iotax.Warning, Subject: iotax.AboutCell("disk", "w"), Evidence: "no space", Hint: "free some"}); f != want || info.Name != "disk" {
					t.Errorf("%s: %s: %+v, want %+v", c.name, info.Name, f, want)
				}
			}
		}
		if !has(w.log, "remove t0") || !has(w.log, "detach t0") {
			t.Errorf("%s: the host's directory stays: %q", c.name, w.log)
		}
	}
}

// guestMachine is a machine that ends with the run.
type guestMachine struct{ *fakeMachine }

func (g guestMachine) Caps() iotax.MachineCaps { return iotax.MachineCaps{Perishes: true} }
func (g guestMachine) Run(context.Context, *iotax.Cmd) error {
	if g.w.dead {
		return errors.New("the guest is gone")
	}
	return nil
}

// A failed clean-up inside a guest is an error, unless the guest or its disk failed.
func TestDeadGuestLeavesNothing(t *testing.T) {
	for _, c := range []struct {
		dead bool
		err  error
		left bool
	}{
		{true, errors.New("no answer"), false},
		{false, &iotax.Error{Op: "remove", Err: syscall.EROFS}, false},
		{false, errors.New("no answer"), true},
	} {
		w := newWorld()
		w.detachErr = c.err
		w.onTrial = func(n int) { w.dead = c.dead }
		d := w.deps()
		d.Open = func(_ context.Context, m plan.Machine, _ iotax.Machine, _ []iotax.Device) (iotax.Machine, error) {
			return guestMachine{&fakeMachine{w: w, name: m.Name}}, nil
		}
		r, err := Run(context.Background(), guestPlan("w"), d, Options{ID: "r"})
		left := slices.ContainsFunc(r.Findings, func(f iotax.Finding) bool { return f.Rule == "left-behind" })
		if left != c.left || (err != nil) != c.left {
			t.Errorf("%+v: findings %v, error %v", c, r.Findings, err)
		}
		if !has(w.log, "close guest") || !has(w.log, "remove t0") {
			t.Errorf("%+v: %q", c, w.log)
		}
	}
}

func TestVolumeOnItsOwnGuestIsAnError(t *testing.T) {
	p := guestPlan("w")
	p.Targets[2].Spec = &of{"disk"} // the host would have to serve a directory inside the guest to the same guest
	w := newWorld()
	_, err := Run(context.Background(), p, w.deps(), Options{ID: "r"})
	var e *iotax.Error
	if !errors.As(err, &e) || e.Hint == "" {
		t.Fatalf("error %v, want one with a hint", err)
	}
}

// A startedMachine ends with the run.
type startedMachine struct{ fakeMachine }

func (*startedMachine) Caps() iotax.MachineCaps { return iotax.MachineCaps{Perishes: true} }

// A frozenMachine does not respond.
type frozenMachine struct{ startedMachine }

func (*frozenMachine) Run(ctx context.Context, _ *iotax.Cmd) error { <-ctx.Done(); return ctx.Err() }

// A machine that cannot run the agent is measured without the values that need the agent. The run records this as a
// fact.
func TestMachineWithoutAgent(t *testing.T) {
	w := newWorld()
	d := w.deps()
	d.Environment = func(_ context.Context, m iotax.Machine) (map[string]string, error) {
		if m == d.Host {
			return nil, nil
		}
		return nil, &iotax.Error{Op: "start the agent on", On: m.String(), Err: fmt.Errorf("it runs Linux riscv64: %w", errors.ErrUnsupported), Hint: "none"}
	}
	var said []string
	d.Progress = func(e Event) { said = append(said, e.Text) }
	r, err := Run(t.Context(), guestPlan("read"), d, Options{})
	if err != nil || len(r.Targets) != 3 || len(w.saved) == 0 {
		t.Fatalf("%v: %d trials", err, len(w.saved))
	}
	want := "facts, counters and clock: it runs Linux riscv64: unsupported operation"
	if got := r.Targets[1].Facts["machine.unmeasured"]; got != want {
		t.Errorf("fact %q", got)
	}
	if !slices.ContainsFunc(said, func(s string) bool { return strings.Contains(s, "without facts, counters and clock: it runs") }) {
		t.Errorf("progress %q", said)
	}
}

// A share that hangs blocks each step inside its guest until the step's deadline. The blocked steps must not use up the
// time of later steps. The hang is not an error, because the guest ends with the run.
func TestHungShareDoesNotHoldUpTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		guest := &startedMachine{fakeMachine{w, "guest", false}}
		r := newTestbed(guestPlan("w"), w.deps())
		hang := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		r.onClose("directory on the host", nil, func(ctx context.Context) error { w.say("remove"); return ctx.Err() })
		r.onClose("guest", nil, guest.Close)
		for range 5 {
			r.onClose("share", guest, hang)
		}
		from := time.Now()
		if err := r.close(context.Background()); err != nil {
			t.Error(err)
		}
		if took := time.Since(from); took > guestTime+5*goneTime {
			t.Errorf("took %v", took)
		}
		if !has(w.log, "close guest") || !has(w.log, "remove") {
			t.Errorf("steps after the hung ones: %q", w.log)
		}

		// A frozen guest is detected before the first step, and no step gets the time limit of a working guest.
		frozen := &frozenMachine{startedMachine{fakeMachine{w, "frozen", false}}}
		for range 5 {
			r.onClose("place", frozen, hang)
		}
		from = time.Now()
		if err := r.close(context.Background()); err != nil {
			t.Error(err)
		}
		if took := time.Since(from); took > answerTime+5*goneTime {
			t.Errorf("a frozen guest took %v", took)
		}

		// On a machine that outlives the run, a failed removal is an error.
		stays := &fakeMachine{w, "db1", false}
		r.onClose("directory", stays, hang)
		if err := r.close(context.Background()); err == nil {
			t.Error("a hung step on a machine that stays is no error")
		}
	})
}

// If a resumed run ends while it opens its targets, the run keeps the description of its earlier trials. If a resumed
// run cannot open a target, the target keeps its description.
func TestResumeKeepsTheDescriptionOfItsTrials(t *testing.T) {
	w := newWorld()
	d := w.deps()
	d.Environment = func(_ context.Context, m iotax.Machine) (map[string]string, error) {
		return map[string]string{"cpu": "of " + m.String()}, nil
	}
	d.Review = func(*iotax.Run, []*iotax.Trial) []iotax.Finding { return []iotax.Finding{{Rule: "cache-served"}} }
	d.Workload = func(pw plan.Workload) (iotax.Workload, error) {
		return &pilotWorkload{fakeWorkload{w, pw.Name}, nil}, nil
	}
	p := guestPlan("w")
	ctx, cancel := context.WithCancel(t.Context())
	w.onTrial = func(n int) {
		if n == 8 {
			cancel()
		}
	}
	first, _ := Run(ctx, p, d, Options{ID: "r"})
	if first.Targets[1].Facts["machine.cpu"] != "of guest" || first.Workloads[0].Facts["load.rate"] == "" || len(first.Findings) != 1 {
		t.Fatalf("targets %v, workloads %v, findings %v", first.Targets, first.Workloads, first.Findings)
	}
	check := func(what string, r *iotax.Run) {
		t.Helper()
		for i, x := range r.Targets {
			if want := first.Targets[i]; !maps.Equal(x.Facts, want.Facts) || x.Durability != want.Durability || x.Place != want.Place {
				t.Errorf("%s: target %+v, want %+v", what, x, want)
			}
		}
		if len(r.Targets) != 3 || len(r.Workloads) != 1 || !maps.Equal(r.Workloads[0].Facts, first.Workloads[0].Facts) || !slices.Contains(r.Findings, first.Findings[0]) {
			t.Errorf("%s: targets %v, workloads %v, findings %v", what, r.Targets, r.Workloads, r.Findings)
		}
	}
	open := d.Open
	for _, interrupted := range []bool{false, true} {
		ctx, cancel := context.WithCancel(t.Context())
		fault := errors.New("the guest does not boot")
		d.Open = func(context.Context, plan.Machine, iotax.Machine, []iotax.Device) (iotax.Machine, error) {
			check("while opening", &w.record)
			if resumed := w.record.Environment[iotax.FactResumed]; resumed != w.now.UTC().Format(time.RFC3339) || first.Environment[iotax.FactResumed] != "" {
				t.Errorf("resumed at %q", resumed)
			}
			if interrupted {
				cancel()
			}
			return nil, fault
		}
		r, err := Run(ctx, p, d, Options{Resume: first, Trials: slices.Clone(w.saved)})
		if interrupted && r.Status != iotax.Interrupted || !interrupted && (!errors.Is(err, fault) || r.Status != iotax.Incomplete) {
			t.Errorf("%v, %s", err, r.Status)
		}
		check(fmt.Sprintf("interrupted %v", interrupted), r)
		cancel()
	}
	d.Open = open
	w.onTrial, w.attachErr["t2"] = nil, errors.New("no such tag")
	r, err := Run(t.Context(), p, d, Options{Resume: first, Trials: slices.Clone(w.saved), KeepGoing: true})
	if err != nil || r.Targets[2].Err == "" {
		t.Errorf("%v, %+v", err, r.Targets)
	}
	check("without a target", r)
	if r.Environment[iotax.FactResumed] == "" || r.Environment["cpu"] == "" {
		t.Errorf("the environment of a resumed run: %v", r.Environment)
	}
}
