package fiojob

import (
	"math"
	"os/exec"
	"strings"
	"testing"
	"time"

	"iotax"
	"iotax/fio"
	"iotax/internal/machine/host"
	"iotax/internal/testenv/worktest"
	"iotax/internal/workload/support"
	"iotax/stat"
)

// rates holds the results of one fio run: I/Os per second, and I/Os per second of fio's own CPU time. The second figure
// varies less if other processes share the cores.
type rates struct{ wall, cpu float64 }

func measured(t testing.TB, raw []byte) rates {
	t.Helper()
	r, err := fio.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	v := map[string]float64{}
	for _, x := range r.Values() {
		v[x.Name] = x.Value
	}
	return rates{v["read.iops"], v["read.ios"] / v["cpu.client"]}
}

// alternate runs the job under iotax and by hand in mirrored order, and returns both series. By hand means with the
// options that a user would type: no logs, and the given percentile options.
func alternate(t testing.TB, pairs int, length time.Duration, dir string, percentiles []string, options ...string) (hand, ours []rates) {
	t.Helper()
	w := open(t, options...)
	tg := worktest.Target(host.Local(), dir)
	if strings.HasPrefix(dir, "nbd") {
		tg.Place = iotax.Place{Kind: iotax.PlaceURL, Path: dir}
	}
	prepared(t, w, tg)
	ctx := t.Context()
	under := func() {
		out := trial(length)
		if err := w.Run(ctx, tg, out); err != nil {
			t.Fatal(err)
		}
		ours = append(ours, measured(t, out.Raw))
	}
	byHand := func() {
		st := w.states[tg]
		args := append([]string{}, st.tool.Argv...)
		args = append(args, "--name=hand", "--ioengine="+st.engine, "--runtime="+length.String(), "--time_based", "--randrepeat=0", "--randseed=7", "--output-format=json+", "--group_reporting")
		args = append(args, percentiles...)
		if support.IsNBD(tg.Place) {
			args = append(args, "--uri="+dir)
		} else if l := st.job.layout; l.jobs > 0 {
			args = append(args, "--directory="+dir, "--filename_format="+l.format())
		}
		for _, s := range st.job.settings {
			if s.Key != "ioengine" && s.Key != "lat_percentiles" && s.Key != "clat_percentiles" {
				args = append(args, s.String())
			}
		}
		raw, err := exec.Command(args[0], args[1:]...).Output()
		if err != nil {
			t.Fatal(err)
		}
		hand = append(hand, measured(t, raw))
	}
	for i := range pairs {
		if i%2 == 0 {
			under()
			byHand()
		} else {
			byHand()
			under()
		}
	}
	return hand, ours
}

// total lists the percentile options that iotax sets: for the total latency, submission included.
var total = []string{"--lat_percentiles=1", "--clat_percentiles=0"}

func ratio(t testing.TB, hand, ours []rates, of func(rates) float64) stat.Interval {
	t.Helper()
	var a, b []float64
	for i := range hand {
		a, b = append(a, of(hand[i])), append(b, of(ours[i]))
	}
	r, err := stat.Ratio(a, b, iotax.Up, 0.05)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// medianRatio returns the median of the pairs' ratios and its interval. Unlike a mean, it hardly depends on the few
// pairs whose runs had different conditions, for example a busy neighbour on the same core.
func medianRatio(hand, ours []rates, of func(rates) float64) stat.Interval {
	var q []float64
	for i := range hand {
		q = append(q, of(ours[i])/of(hand[i]))
	}
	return stat.Median(q)
}

// The test accepts a wide range of ratios, because it is short and the machine may be busy. BenchmarkAgainstByHand is
// more precise.
func TestCostsNothing(t *testing.T) {
	hand, ours := alternate(t, 6, 300*time.Millisecond, t.TempDir(), total, "size", "64MiB", "ioengine", "null", "iodepth", "4")
	r := ratio(t, hand, ours, func(r rates) float64 { return r.cpu })
	t.Logf("I/Os per CPU second, under iotax / by hand: %.4f [%.4f, %.4f]", r.Estimate, r.Lo, r.Hi)
	if r.Hi < 0.9 || r.Lo > 1.1 {
		t.Errorf("fio under iotax differs from fio by hand: %+v", r)
	}
}

// BenchmarkAgainstByHand prints the ratio of fio under iotax to fio by hand: the median of the pairs and its 95 %
// interval. Run it alone, on a quiet machine:
//
//	go test -run xxx -bench ByHand -benchtime 1x -timeout 30m ./internal/workload/fiojob
func BenchmarkAgainstByHand(b *testing.B) {
	for _, c := range []struct {
		name        string
		parent      string
		pairs       int
		percentiles []string
		options     []string
	}{
		// Except on disk, fio is pinned to one CPU. The results of a process that changes CPUs vary by more than the
		// expected difference.
		{"null", "/dev/shm", 200, total, []string{"size", "64MiB", "ioengine", "null", "iodepth", "4", "cpus_allowed", "1"}},
		{"null, clat by hand", "/dev/shm", 200, nil, []string{"size", "64MiB", "ioengine", "null", "iodepth", "4", "cpus_allowed", "1"}},
		{"tmpfs", "/dev/shm", 200, total, []string{"size", "64MiB", "ioengine", "psync", "cpus_allowed", "1"}},
		{"disk", "/var/tmp", 300, total, []string{"size", "256MiB", "iodepth", "16"}},
	} {
		b.Run(c.name, func(b *testing.B) {
			dir := worktest.TempIn(b, c.parent)
			for b.Loop() {
				hand, ours := alternate(b, c.pairs, 400*time.Millisecond, dir, c.percentiles, c.options...)
				r := medianRatio(hand, ours, func(r rates) float64 { return r.wall })
				b.ReportMetric(r.Estimate, "ratio")
				b.ReportMetric(r.Lo, "ratio-from")
				b.ReportMetric(r.Hi, "ratio-to")
				m := ratio(b, hand, ours, func(r rates) float64 { return r.wall })
				b.ReportMetric(m.Estimate, "geomean")
				b.ReportMetric(100*(math.Log(m.Hi)-math.Log(m.Lo))/2, "geomean-±%")
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkCheck measures the time that a local target takes before its first trial, not counting the test file. The
// result of the engine's probe is cached.
func BenchmarkCheck(b *testing.B) {
	dir := worktest.TempIn(b, "/var/tmp")
	if _, err := open(b, "size", "16MiB").Settle(b.Context(), []*iotax.Target{worktest.Target(host.Local(), dir)}); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		w := open(b, "size", "16MiB")
		tg := worktest.Target(host.Local(), dir)
		if _, err := w.Settle(b.Context(), []*iotax.Target{tg}); err != nil {
			b.Fatal(err)
		}
		if err := w.Check(b.Context(), tg); err != nil {
			b.Fatal(err)
		}
	}
}
