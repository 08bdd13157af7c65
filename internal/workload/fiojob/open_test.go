package fiojob

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"iotax"
	"iotax/internal/machine/host"
	"iotax/internal/plan"
	"iotax/internal/testenv/worktest"
	"iotax/internal/workload/support"
)

// openLoop makes an open loop from options, as the function `open` makes a closed loop.
func openLoop(t *testing.T, load string, options ...string) (*fioJob, error) {
	t.Helper()
	spec := &Fio{Load: load}
	for i := 0; i < len(options); i += 2 {
		if err := spec.SetOption(options[i], options[i+1]); err != nil {
			t.Fatal(err)
		}
	}
	if err := spec.Validate(); err != nil {
		return nil, err
	}
	w, err := Kind.New(plan.Workload{Name: "test", Kind: "fio", Spec: spec}, support.Env{CacheDir: worktest.Cache, Shared: worktest.Shared, Log: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	return w.(*fioJob), nil
}

func TestLoad(t *testing.T) {
	for text, want := range map[string]float64{"": 0, "open": 0.6, "50%": 0.5, "70%": 0.7} {
		if got, err := parseLoad(text); err != nil || got != want {
			t.Errorf("%q: %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"0%", "100%", "-3%", "NaN", "much", "5000", "0.7"} {
		if got, err := parseLoad(text); err == nil {
			t.Errorf("%q is taken as %v", text, got)
		}
	}
	for field, options := range map[string][]string{
		"rw": {"rw", "read"}, "iodepth": {"iodepth", "4"}, "rate_iops": {"rate_iops", "100"}, "io_submit_mode": {"io_submit_mode", "offload"},
		"thinktime": {"thinktime", "5"}, "nrfiles": {"nrfiles", "2"},
	} {
		_, err := openLoop(t, "open", options...)
		var fe *plan.FieldError
		if !errors.As(err, &fe) || fe.Field != field || fe.Hint == "" {
			t.Errorf("%v: %v", options, err)
		}
	}
	for _, f := range []*Fio{{Load: "open", File: "x.fio"}, {Rate: "500/s", Command: "fio --name=a"}} {
		if err := f.Validate(); err == nil {
			t.Errorf("an open loop of %+v", f)
		}
	}
}

func TestRate(t *testing.T) {
	for text, want := range map[string]float64{"": 0, "10/s": 10, "5000/s": 5000, "12.5k/s": 12500, "1M/s": 1e6} {
		if got, err := parseRate(text); err != nil || got != want {
			t.Errorf("%q: %v, %v; want %v", text, got, err, want)
		}
	}
	for _, f := range []*Fio{{Rate: "0/s"}, {Rate: "9/s"}, {Rate: "-5/s"}, {Rate: "5000"}, {Rate: "10m"}, {Rate: "5MiB/s"}, {Rate: "60%"}, {Rate: "NaN/s"}, {Rate: "500/m"},
		{Rate: "500/s", Load: "60%"}, {Rate: "2M/s"}, {Rate: "500/s", File: "x.fio"}} {
		var fe *plan.FieldError
		if err := f.Validate(); !errors.As(err, &fe) || fe.Field != "rate" || fe.Hint == "" {
			t.Errorf("%+v: %v", f, err)
		}
	}
	if err := (&Fio{Rate: "500/s", BySize: true}).Validate(); err == nil {
		t.Error("an open loop by size")
	}
}

// The sources together offer about the requested rate, whatever their number.
func TestSourcesOfferTheRate(t *testing.T) {
	for _, rate := range []float64{10, 33, 100, 999, 1000, 5000, 33333, 250e3, 1e6} {
		for _, most := range []int{1, 16, 128, 500} {
			for _, seconds := range []int64{2, 10, 60} {
				l := line{rate: rate, runtime: 1000 * seconds, job: &resolved{layout: layout{jobs: most}}}
				if rate > float64(most*mostEach) {
					continue // checkLoad refuses such a rate
				}
				jobs, each := l.sources()
				limit := .01
				if rate < 100 || rate/float64(most) > mostEach/2 { // rates are whole numbers, and gaps whole microseconds
					limit = .06
				}
				if first := float64(jobs) / (float64(l.starts(jobs)) / 1000); jobs > 1 && first > .11*rate {
					t.Errorf("%v/s for %d s among %d: first arrivals add %.0f/s", rate, seconds, most, first)
				}
				if off := l.offered(jobs, each)/rate - 1; jobs < 1 || jobs > most || each < 1 || math.Abs(off) > limit {
					t.Errorf("%v/s for %d s among %d: %d sources of %d, %+.3f", rate, seconds, most, jobs, each, off)
				}
			}
		}
	}
}

func TestOpenLoopOffersWhatTheSlowestCarries(t *testing.T) {
	j, err := openLoop(t, "50%", "size", "16MiB", "numjobs", "16")
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(j.Metrics(), " "); got != "read.latency.mean" {
		t.Errorf("metrics %s", got)
	}
	ctx, m := worktest.CtxFor(t), host.Local()
	disk, memory := worktest.Target(m, worktest.OnDisk(t)), worktest.Target(m, worktest.TempIn(t, "/dev/shm"))
	memory.Name = "memory"
	targets := []*iotax.Target{disk, memory}
	for _, x := range targets {
		if err := j.Check(ctx, x); err != nil {
			t.Fatal(err)
		}
		if err := j.Prepare(ctx, x); err != nil {
			t.Fatal(err)
		}
		defer j.Cleanup(ctx, x)
	}
	if got := names(t, disk.Place.Path); len(got) != 1 {
		t.Errorf("the sources share one file: %q", got)
	}
	facts, err := j.Pilot(ctx, targets, time.Second, nil)
	if err != nil {
		t.Fatal(err)
	}
	if j.rate < leastRate || facts["load.offered"] == "" || facts["capacity.here"] == "" || facts["capacity.memory"] == "" {
		t.Fatalf("rate %v, %v", j.rate, facts)
	}
	slow := math.Min(number(t, facts["capacity.here"]), number(t, facts["capacity.memory"]))
	if offered := number(t, facts["load.offered"]); math.Abs(offered/slow-0.5) > 0.01 {
		t.Errorf("%v offered of %v", offered, slow)
	}

	// At a low rate, which even a busy machine can serve, fio completes the offered I/Os, at random times.
	for _, x := range targets {
		j.rate = 800
		out := &iotax.Trial{Length: time.Second, Ramp: 200 * time.Millisecond, Seed: 5}
		if err := j.Run(ctx, x, out); err != nil {
			t.Fatal(err)
		}
		done, _ := out.Value("read.iops")
		offered, ok := out.Value("load.offered")
		late, _ := out.Value("load.late")
		if !ok || math.Abs(offered.Value/800-1) > .01 || math.Abs(done.Value/800-1) > 0.3 || !(late.Value > 0 && late.Value < 1) {
			t.Errorf("%s: %v of %v done, %v late", x.Name, done.Value, offered.Value, late.Value)
		}
		if out.Facts["load"] != "50 %" || !strings.Contains(out.Facts["load.job"], "rw=randread") || !strings.Contains(out.Facts["command"], "--rate_process=poisson") {
			t.Errorf("facts %v", out.Facts)
		}
	}

	// A resumed run offers the same load as before, without another pilot.
	again, err := j.Pilot(ctx, targets, time.Second, map[string]string{"load.offered": "1232"})
	if err != nil || j.rate != 1232 || again["load.offered"] != "1232" {
		t.Errorf("rate %v, %v, %v", j.rate, again, err)
	}
}

func number(t *testing.T, s string) float64 {
	t.Helper()
	p, err := time.ParseDuration(s + "ns") // whole numbers only
	if err != nil {
		t.Fatal(err)
	}
	return float64(p)
}

func TestLoadIsJudged(t *testing.T) {
	j, err := openLoop(t, "60%")
	if err != nil {
		t.Fatal(err)
	}
	l := line{rate: 1000, runtime: 1e6, job: &resolved{layout: layout{jobs: 10}}}
	judge := func(done, latency float64) string {
		out := &iotax.Trial{Values: []iotax.Value{{Name: "read.iops", Value: done}, {Name: "read.latency.mean", Value: latency}}}
		j.judgeLoad(l, out)
		var rules []string
		for _, f := range out.Findings {
			rules = append(rules, f.Rule)
		}
		return strings.Join(rules, " ")
	}
	for _, c := range []struct {
		done, latency float64
		want          string
	}{
		{995, 100e-6, ""},                              // 0.1 I/Os in flight, 10 sources
		{995, 1e-3, "arrivals-late"},                   // 1 I/O in flight, 10 sources
		{900, 100e-6, "load-not-reached"},              // 0.09 I/Os in flight, 10 sources
		{900, 10e-3, "load-not-reached arrivals-late"}, // saturated
	} {
		if got := judge(c.done, c.latency); got != c.want {
			t.Errorf("%v/s at %v s: %q, want %q", c.done, c.latency, got, c.want)
		}
	}
}
