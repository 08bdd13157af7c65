package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"iotax"
	"iotax/fio"
	"iotax/internal/kinds"
	"iotax/internal/plan"
	"iotax/internal/report/chart"
	"iotax/internal/rules/check"
	"iotax/internal/run"
	"iotax/internal/run/progress"
	"iotax/internal/run/wired"
	"iotax/internal/store"
	"iotax/internal/testenv/long"
)

var soak = flag.Bool("soak", false, "soak for long (10,000 trials of the fake, 500 real ones), and draw docs/pictures/soak-*.svg")

func init() { programs["soaked-iotax"] = soakFake }

// TestSoak runs iotax for many trials. The memory and open files of iotax, observed from outside, must not grow with
// the number of trials. With -soak, the test takes most of an hour. Run it with:
//
//	go test ./cmd/iotax -run TestSoak -soak -timeout 3h -v
func TestSoak(t *testing.T) {
	long.Test(t)
	fakes, reals := 150, 10
	if *soak {
		fakes, reals = 10_000, 500
	}
	s, other := newStage(t), newStage(t)
	out, err := exec.Command("fio", "--name=x", "--ioengine=null", "--size=64m", "--bs=4k", "--rw=randread", "--output-format=json+").Output()
	if err != nil {
		t.Fatal(err)
	}
	program, err := exec.LookPath("soaked-iotax")
	if err != nil {
		t.Fatal(err)
	}
	runs := []*running{
		s.start([]string{program, s.write("fio.json", string(out)), strconv.Itoa(fakes / 2), s.path("a"), s.path("b")}),
		other.start(nil, "run", "-v", "dir:a", "dir:b", "-w", "randread-4k", "--size", "8MiB", "--ramp", "0s", "--calibrate=no",
			"--protocol", fmt.Sprintf("fixed:%dx200ms", reals/2)),
	}
	levels := make([][]level, len(runs))
	var watched sync.WaitGroup
	for i, r := range runs {
		watched.Go(func() { levels[i] = r.watched() })
	}
	watched.Wait()
	flat(t, fakes, levels[0], runs[0].wait())
	flat(t, reals, levels[1], runs[1].wait())
	if *soak && !t.Failed() {
		drawSoak(t, levels[0], levels[1])
	}
}

// A level contains the memory and the number of open files of a process after a number of trials.
type level struct {
	trials, files int
	memory        float64 // resident, in bytes
}

// watched samples the levels of r until r ends.
func (r *running) watched() (levels []level) {
	proc := filepath.Join("/proc", strconv.Itoa(r.cmd.Process.Pid))
	for begin := time.Now(); ; {
		select {
		case <-r.done:
			return levels
		case <-time.After(50 * time.Millisecond):
		}
		files, err := filepath.Glob(proc + "/fd/*")
		files = slices.DeleteFunc(files, func(f string) bool { // database/sql opens up to two connections on demand
			to, _ := os.Readlink(f)
			return strings.Contains(to, "/iotax.db")
		})
		status, serr := os.ReadFile(proc + "/statm")
		if f := strings.Fields(string(status)); err == nil && serr == nil && len(f) > 1 {
			if pages, err := strconv.Atoi(f[1]); err == nil && pages > 0 {
				levels = append(levels, level{r.told(), len(files), float64(pages * os.Getpagesize())})
			}
		}
		if time.Since(begin) > 2*time.Hour {
			r.cmd.Process.Kill()
		}
	}
}

// flat fails the test if the memory or the number of open files in levels grew during the run.
func flat(t *testing.T, trials int, levels []level, got result) {
	t.Helper()
	if got.code != 0 {
		t.Fatal(got)
	}
	if n := strings.Count(got.stderr, "  round "); n < trials {
		t.Fatalf("%d trials of %d: %s", n, trials, got)
	}
	// Compare the second fifth of the run with the last fifth. The first fifth is warm-up.
	early, late := between(levels, trials/5, 2*trials/5), between(levels, 4*trials/5, trials)
	if len(early) == 0 || len(late) == 0 {
		t.Fatalf("%d looks, of which %d early and %d late", len(levels), len(early), len(late))
	}
	memory := func(l level) float64 { return l.memory }
	files := func(l level) float64 { return float64(l.files) }
	// A running command adds three files, so compare the minimum numbers of files.
	m0, m1, f0, f1 := middle(early, memory), middle(late, memory), least(early, files), least(late, files)
	t.Logf("%d trials: %.1f MiB and %.0f files early, %.1f MiB and %.0f files late; at most %.1f MiB", trials, m0/(1<<20), f0, m1/(1<<20), f1,
		slices.MaxFunc(levels, func(a, b level) int { return int(a.memory - b.memory) }).memory/(1<<20))
	// A run keeps about a hundred bytes per trial. In total, that is less than the variation from garbage collection.
	if m1 > 1.1*m0+2<<20 {
		t.Errorf("memory grew from %.1f to %.1f MiB", m0/(1<<20), m1/(1<<20))
	}
	if f1 > f0+4 { // in 150 trials, a leak in every tenth trial would add about nine files
		t.Errorf("open files grew from %.0f to %.0f", f0, f1)
	}
}

func between(all []level, from, to int) (out []level) {
	for _, l := range all {
		if l.trials >= from && l.trials < to {
			out = append(out, l)
		}
	}
	return out
}

func least(all []level, of func(level) float64) float64 {
	return of(slices.MinFunc(all, func(a, b level) int { return cmp.Compare(of(a), of(b)) }))
}

// middle returns the median of `of` over the levels.
func middle(all []level, of func(level) float64) float64 {
	var vs []float64
	for _, l := range all {
		vs = append(vs, of(l))
	}
	slices.Sort(vs)
	return vs[len(vs)/2]
}

// soakFake is the program `soaked-iotax FILE N DIR DIR`. It measures N rounds on two fake machines with a workload that
// does nothing and reports the values of an fio result. Apart from that, it runs the code of `iotax run`.
func soakFake() {
	err := func() error {
		raw, err := os.ReadFile(os.Args[1])
		if err != nil {
			return err
		}
		rounds, err := strconv.Atoi(os.Args[2])
		if err != nil {
			return err
		}
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		p, err := plan.Parse("soak", fmt.Appendf(nil, `
baseline: a
machines: {one: {fake: {}}, other: {fake: {}}}
targets: {a: {on: one, dir: %q}, b: {on: other, dir: %q}}
workloads: {w: {fio: {rw: randread, bs: 4k, size: 1MiB}}}
measure: {protocol: "fixed:%dx1s", ramp: 0s, cold: false}
`, os.Args[3], os.Args[4], rounds), kinds.All())
		if err != nil {
			return err
		}
		db, err := store.Open(ctx, "")
		if err != nil {
			return err
		}
		defer db.Close()
		id := store.NewID(time.Now())
		work, err := beginWork(id)
		if err != nil {
			return err
		}
		defer os.RemoveAll(work)
		deps := wired.Deps(db, work, nil, progress.New(os.Stderr, progress.Verbose, false, 80), false)
		deps.Workload = func(plan.Workload) (iotax.Workload, error) { return recorded(raw), nil }
		deps.Check = func(t *iotax.Trial, tgt *iotax.Target) ([]iotax.Finding, string) {
			found, _ := check.Trial(t, tgt) // keep all trials: values from a file do not match this host's counters
			return found, ""
		}
		r, err := run.Run(ctx, p, deps, run.Options{ID: id, Version: version()})
		if err == nil && r.Status != iotax.Done {
			err = errors.New("the run is " + string(r.Status))
		}
		return err
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// recorded is a workload that reports the values of an fio result.
type recorded []byte

func (recorded) Metrics() []string                            { return []string{"read.iops"} }
func (recorded) Caps() iotax.WorkloadCaps                     { return iotax.WorkloadCaps{} }
func (recorded) Check(context.Context, *iotax.Target) error   { return nil }
func (recorded) Prepare(context.Context, *iotax.Target) error { return nil }
func (recorded) Cleanup(context.Context, *iotax.Target) error { return nil }

func (w recorded) Run(ctx context.Context, t *iotax.Target, out *iotax.Trial) error {
	if err := t.Machine.Run(ctx, iotax.Command("true")); err != nil {
		return err
	}
	r, err := fio.Parse(w)
	if err != nil {
		return err
	}
	out.Raw = bytes.Clone(w)
	out.Values, out.Histograms = append(out.Values, r.Values()...), append(out.Histograms, r.Histograms()...)
	for i := range out.Values {
		out.Values[i].Value *= 1 + float64(out.Seq%7)/1000 // values must vary
	}
	return nil
}

// drawSoak writes the charts of docs/dev/reliability.md.
func drawSoak(t *testing.T, fake, real []level) {
	for name, p := range map[string]struct {
		label string
		of    func(level) float64
	}{
		"memory": {"resident memory of iotax, MiB", func(l level) float64 { return l.memory / (1 << 20) }},
		"files":  {"open file descriptors of iotax", func(l level) float64 { return float64(l.files) }},
	} {
		plot := chart.Plot{Title: p.label + " over the trials of a run", Height: 160,
			X: chart.Axis{Label: "trials done, of 10,000 (fake) and of 500 (fio)", Lo: 0, Hi: 1, Ticks: []chart.Tick{{At: 0, Label: "0"}, {At: .5, Label: "half"}, {At: 1, Label: "all"}}},
			Y: chart.Axis{Label: p.label}}
		for i, l := range []struct {
			name   string
			levels []level
		}{{"10,000 trials of the fake", fake}, {"500 trials of fio", real}} {
			line := chart.Line{Name: l.name, Hue: i, Solid: true}
			last := l.levels[len(l.levels)-1].trials
			for part := range 200 { // the median of each 1/200 of the run
				if at := between(l.levels, last*part/200, last*(part+1)/200); len(at) > 0 {
					v := middle(at, p.of)
					line.Points = append(line.Points, chart.Point{X: (float64(part) + .5) / 200, Y: v})
					plot.Y.Hi = max(plot.Y.Hi, 1.25*v)
				}
			}
			plot.Lines = append(plot.Lines, line)
		}
		for k := range 5 {
			at := plot.Y.Hi * float64(k) / 4
			plot.Y.Ticks = append(plot.Y.Ticks, chart.Tick{At: at, Label: strconv.FormatFloat(at, 'f', 0, 64)})
		}
		file := filepath.Join("..", "..", "docs", "pictures", "soak-"+name+".svg")
		var b bytes.Buffer
		if err := errors.Join(chart.WriteSVG(&b, chart.File{Drawing: plot}), os.WriteFile(file, b.Bytes(), 0o644)); err != nil {
			t.Error(err)
		}
	}
}
