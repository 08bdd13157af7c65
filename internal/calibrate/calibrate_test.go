package calibrate

import (
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"iotax"
	"iotax/internal/plan"
	"iotax/stat"
)

// study creates the trials of an A/A study. `level` returns the logarithm of an arm's rate in a round, relative to 1000
// per second. `noise` returns the deviation of one second from this level.
func study(rounds int, seconds int, level func(round, arm int) float64, noise func() float64) (*iotax.Run, []*iotax.Trial) {
	r := &iotax.Run{ID: "r", Name: "A/A", Start: time.Unix(1_700_000_000, 0).UTC(), Baseline: "a",
		Targets:   []iotax.TargetInfo{{Name: "a"}, {Name: "a again"}},
		Workloads: []iotax.WorkloadInfo{{Name: "w", Metrics: []string{"read.iops"}}}}
	var ts []*iotax.Trial
	for b := range rounds {
		for arm := range 2 {
			s := iotax.Series{Name: "read.iops", Unit: iotax.PerSecond}
			sum, at := 0.0, level(b, arm)
			for k := range seconds {
				x := 1000 * math.Exp(at+noise())
				s.T, s.V = append(s.T, float64(k+1)), append(s.V, x)
				sum += x
			}
			ts = append(ts, &iotax.Trial{Target: r.Targets[arm].Name, Workload: "w", Round: b, Seq: len(ts),
				Length: time.Duration(seconds) * time.Second, Took: time.Duration(seconds)*time.Second + 500*time.Millisecond,
				Series: []iotax.Series{s}, Values: []iotax.Value{{Name: "read.iops", Value: sum / float64(seconds), Unit: iotax.PerSecond, Better: iotax.Up}}})
		}
	}
	return r, ts
}

func none() float64 { return 0 }

func TestNew(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	r, ts := study(20, 5, func(int, int) float64 { return 0.02 * rnd.NormFloat64() }, none)
	null := []*iotax.Trial{{Target: "a", Values: []iotax.Value{{Name: "read.iops", Value: 1e6}}}, {Target: "other", Values: []iotax.Value{{Name: "read.iops", Value: 5}}}}
	c, err := New(r, ts, null, false)
	if err != nil {
		t.Fatal(err)
	}
	if c.Rounds != 20 || c.Lo > 1 || c.Hi < 1 || math.Abs(c.CV-0.02) > 0.006 || c.NullIOPS != 1e6 || c.Length != 5*time.Second || c.At != r.Start {
		t.Errorf("%+v", c)
	}
	if f := c.Floor(); f < 0.005 || f > 0.03 {
		t.Errorf("noise floor %v of trials that vary by 2 %%", f)
	}
	if _, bad := Finding(c); bad {
		t.Error("an interval around 1 is no finding")
	}
}

func TestArmsThatDiffer(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	r, ts := study(12, 5, func(_, arm int) float64 { return 0.05*float64(arm) + 0.005*rnd.NormFloat64() }, none)
	c, err := New(r, ts, nil, false)
	if err != nil {
		t.Fatal(err)
	}
	f, bad := Finding(c)
	if !bad || f.Rule != "aa-not-one" || !strings.Contains(f.Evidence, "1.05×") {
		t.Errorf("%+v, %v of %+v", f, bad, c)
	}
}

func TestPhiOnlyWhereItIsMoreThanChance(t *testing.T) {
	ar := func(phi float64, seed uint64) func(round, arm int) float64 {
		rnd := rand.New(rand.NewPCG(seed, 1))
		x := 0.0
		return func(_, arm int) float64 {
			if arm == 1 {
				x = phi*x + 0.02*rnd.NormFloat64()
				return x
			}
			return 0
		}
	}
	const studies = 400
	widened, seen := 0, 0
	sum := 0.0
	for i := range uint64(studies) {
		r, ts := study(20, 5, ar(0, i), none)
		if c, err := New(r, ts, nil, false); err != nil {
			t.Fatal(err)
		} else if c.Phi > 0 {
			widened++
		}
		r, ts = study(40, 5, ar(0.6, i), none)
		if c, err := New(r, ts, nil, false); err != nil {
			t.Fatal(err)
		} else if c.Phi > 0 {
			seen++
			sum += c.Phi
		}
	}
	if share := float64(widened) / studies; share > 0.09 {
		t.Errorf("%.0f %% of studies without autocorrelation were widened", 100*share)
	}
	if share := float64(seen) / studies; share < 0.9 {
		t.Errorf("φ = 0.6 was seen in %.0f %% of studies", 100*share)
	}
	if m := sum / float64(seen); math.Abs(m-0.6) > 0.1 {
		t.Errorf("φ = 0.6 is estimated as %.2f", m)
	}
	if phi(stat.SerialTest{Lag1: 0.95}, 6) != 0 {
		t.Error("six rounds tell no φ")
	}
	if got := phi(stat.SerialTest{Lag1: 1}, 13); !(got > 0 && got <= 0.9) {
		t.Errorf("φ of %v leaves no interval", got)
	}
}

// Of studies without autocorrelation 5 % are widened, also with the fewest rounds.
func TestPhiByChance(t *testing.T) {
	r := rand.New(rand.NewPCG(12, 30))
	const studies = 5000
	for _, n := range []int{minPhi, 30} {
		widened := 0
		for range studies {
			d := make([]float64, n)
			for i := range d {
				d[i] = r.NormFloat64()
			}
			if phi(stat.Serial(d), n) > 0 {
				widened++
			}
		}
		if share := float64(widened) / studies; share < 0.044 || share > 0.06 {
			t.Errorf("%d rounds: %.1f %% of studies are widened, not 5 %%", n, 100*share)
		}
	}
}

func TestTrialLength(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 6))
	// Variation of 1 % between trials and 4 % between seconds, setup 0.5 s: L = √(0.5·16) = 2.8 s, raised to the
	// minimum of 5 s.
	r, ts := study(200, 10, func(int, int) float64 { return 0.01 * rnd.NormFloat64() }, func() float64 { return 0.04 * rnd.NormFloat64() })
	c, err := New(r, ts, nil, false)
	if err != nil {
		t.Fatal(err)
	}
	if c.Trial != 5*time.Second {
		t.Errorf("trial of %s, want 5s", c.Trial)
	}
	v, setUp, ok := components(ts, "w", "read.iops", differences(ts))
	if !ok || math.Abs(math.Sqrt(v.Within)-0.04) > 0.008 || math.Abs(math.Sqrt(v.Between)-0.01) > 0.003 || setUp != 0.5 {
		t.Errorf("%+v, %v, %v", v, setUp, ok)
	}
	if got := trialLength(stat.Components{Between: 1e-4, Within: 16e-4}, 25, true); got != 20*time.Second {
		t.Errorf("%s, want 20s", got)
	}
	if got := trialLength(stat.Components{Between: -1e-6, Within: 16e-4}, 1, true); got != mostTrial {
		t.Errorf("%s where longer is always better", got)
	}
	if got := trialLength(stat.Components{}, 1, false); got != 0 {
		t.Errorf("%s of nothing", got)
	}
	short, brief := study(20, 2, func(int, int) float64 { return 0.01 * rnd.NormFloat64() }, none)
	if c, err := New(short, brief, nil, false); err != nil || c.Trial != 0 {
		t.Errorf("trials of 2 s tell no length: %+v, %v", c, err)
	}
	if c, err := New(r, ts, nil, true); err != nil || c.Trial != 0 || !c.Brief {
		t.Errorf("a brief one tells no length: %+v, %v", c, err)
	}
}

func differences(ts []*iotax.Trial) []float64 {
	var d []float64
	for i := 0; i+1 < len(ts); i += 2 {
		d = append(d, math.Log(ts[i+1].Values[0].Value/ts[i].Values[0].Value))
	}
	return d
}

func TestNothingToJudge(t *testing.T) {
	r, ts := study(3, 5, func(int, int) float64 { return 0 }, none)
	for _, x := range ts {
		x.Err, x.Values = "fio: no space left", nil
	}
	if _, err := New(r, ts, nil, true); err == nil || !strings.Contains(err.Error(), "no space left") {
		t.Errorf("the cause is missing: %v", err)
	}
	if _, err := New(&iotax.Run{}, nil, nil, true); err == nil {
		t.Error("a run of nothing")
	}
}

// A calibration of this host is found in a directory whose name could be a pattern.
func TestCacheHere(t *testing.T) {
	c := Cache{t.TempDir() + "/cache[1]"}
	name, _ := os.Hostname()
	cal := &iotax.Calibration{Ratio: 1, Lo: .99, Hi: 1.01, Rounds: 6, At: time.Unix(1_700_000_000, 0).UTC()}
	if c.here(false, cal.At) {
		t.Error("an empty cache has a calibration")
	}
	if err := c.Put(Setup{Facts: map[string]string{"machine": "host", "hostname": name}}, cal); err != nil {
		t.Fatal(err)
	}
	if !c.here(false, cal.At) {
		t.Error("the calibration is not found")
	}
}

func TestCache(t *testing.T) {
	c := Cache{t.TempDir() + "/deep"}
	facts := map[string]string{"device.name": "vda", "fio": "fio-3.33", "filesystem.mount": "/x"}
	run := &iotax.Run{Environment: map[string]string{"kernel": "6.1"}, Baseline: "b",
		Targets: []iotax.TargetInfo{{Name: "b", Machine: "host", Facts: facts}, {Name: "other", Machine: "ssh://x"}}}
	setup := SetupOf(run)
	cal := &iotax.Calibration{Ratio: 1, Lo: .99, Hi: 1.01, Rounds: 6, At: time.Unix(1_700_000_000, 0).UTC()}
	now := cal.At.Add(time.Hour)
	if _, ok := c.Get(setup, now); ok {
		t.Error("an empty cache has one")
	}
	if err := c.Put(setup, cal); err != nil {
		t.Fatal(err)
	}
	if got, ok := c.Get(setup, now); !ok || *got != *cal {
		t.Errorf("%+v, %v", got, ok)
	}
	if _, ok := c.Get(setup, cal.At.Add(MaxAge+time.Minute)); ok {
		t.Error("a stale one is believed")
	}
	if _, ok := c.Get(setup, cal.At.Add(-24*time.Hour)); ok {
		t.Error("one from the future is believed")
	}
	facts["filesystem.mount"] = "/y"
	if SetupOf(run).Key() != setup.Key() {
		t.Error("the same device is another rig")
	}
	facts["fio"] = "fio-3.36"
	if _, ok := c.Get(SetupOf(run), now); ok {
		t.Error("another fio has the same calibration")
	}
	run.Targets[0].Labels = map[string]string{"cache": "none"}
	here := SetupOf(run).Key()
	run.Targets[0].Machine = "guest"
	guest := SetupOf(run).Key()
	if run.Targets[0].Labels["cache"] = "writeback"; SetupOf(run).Key() == guest || guest == here {
		t.Error("disks of a guest with unlike caches are one rig")
	}
	if err := os.WriteFile(c.Path(setup), []byte(`{"version": 1, "calibration": {"rounds"`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, ok := c.Get(setup, now); ok {
		t.Error("a damaged file is believed")
	}
	if err := (Cache{"/dev/null/x"}).Put(setup, cal); err == nil || !strings.Contains(err.Error(), "keep calibration") {
		t.Errorf("%v", err)
	}
}

func TestAAKeepsWhatTheTargetStandsOn(t *testing.T) {
	k := kindsOfTest
	p := &plan.Plan{Baseline: "h", Targets: []plan.Target{{Name: "h", Kind: "dir", Spec: &dir{}}, {Name: "d", Kind: "disk", Spec: &disk{"h"}}}}
	aa, err := AA(p, "d", Brief(), k)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, x := range aa.Targets {
		names = append(names, x.Name)
	}
	if got := strings.Join(names, ", "); got != "d, d again, h" || aa.Baseline != "d" {
		t.Errorf("%s with the baseline %s", got, aa.Baseline)
	}
	if null, err := Null(aa, k); err != nil || len(null.Targets) != 2 || null.Targets[1].Name != "h" || null.Workloads[0].Name != "null engine" {
		t.Errorf("%+v, %v", null, err)
	}
	if _, err := AA(p, "x", Brief(), k); err == nil {
		t.Error("a target that is not there")
	}
}

var kindsOfTest = plan.Kinds{Machines: []plan.Kind{{Name: "host", New: func() plan.Spec { return &plan.Plain{} }}},
	Volumes:   []plan.Kind{{Name: "dir", New: func() plan.Spec { return &dir{} }}, {Name: "disk", New: func() plan.Spec { return &disk{} }}},
	Workloads: []plan.Kind{{Name: "fio", New: func() plan.Spec { return &job{} }}}}

type dir struct{ plan.Plain }

func (*dir) SetScalar(string) error { return nil }

type disk struct{ of string }

func (d *disk) Validate() error     { return nil }
func (d *disk) Traits() plan.Traits { return plan.Traits{Of: &d.of} }

type job struct{ plan.Plain }

func (*job) Traits() plan.Traits {
	return plan.Traits{Options: &plan.Options{Names: func() []string { return []string{"rw", "size"} }, Set: func(k, v string) error { return nil }}}
}
