package output

import (
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"regexp"
	"runtime"
	"runtime/debug"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"iotax"
	"iotax/internal/report"
	"iotax/internal/report/text"
)

// study returns a run of the given size. Like real trials, its trials have a dozen values, a histogram, facts and
// sometimes a finding.
func study(targets, workloads, rounds int) (*iotax.Run, []*iotax.Trial) {
	r := rand.New(rand.NewPCG(1, 1))
	run := &iotax.Run{ID: "r", Baseline: "t0", Margin: .05, Precision: .05, Alpha: .028}
	for k := range targets {
		run.Targets = append(run.Targets, iotax.TargetInfo{Name: fmt.Sprint("t", k), Durability: iotax.Durable})
	}
	facts := map[string]string{"fio": "fio-3.33", "iodepth": "32", "numjobs": "1", "rw": "randread", "bs": "4k"}
	trials := make([]*iotax.Trial, 0, targets*workloads*rounds)
	for w := range workloads {
		run.Workloads = append(run.Workloads, iotax.WorkloadInfo{Name: fmt.Sprint("w", w), Metrics: []string{"read.iops"}, Cold: true})
	}
	for b := range rounds {
		for w := range workloads {
			for k := range targets {
				rate := 50000 / float64(1+k%7) * (1 + .05*r.NormFloat64())
				t := &iotax.Trial{Run: "r", Target: run.Targets[k].Name, Workload: run.Workloads[w].Name, Round: b, Seq: len(trials), Facts: facts,
					Ramp: 2 * time.Second, Length: 10 * time.Second, Cold: true,
					Values: []iotax.Value{{Name: "read.iops", Value: rate, Unit: iotax.PerSecond, Better: iotax.Up},
						{Name: "read.bandwidth", Value: 4096 * rate, Unit: iotax.BytesPerSecond, Better: iotax.Up},
						{Name: "read.bytes", Value: 40960 * rate, Unit: iotax.Bytes},
						{Name: "read.latency.mean", Value: 32 / rate, Unit: iotax.Seconds, Better: iotax.Down}}}
				t.Values = append(make([]iotax.Value, 0, len(t.Values)+len(beside)), t.Values...)
				for i := range beside {
					t.Values = append(t.Values, iotax.Value{Name: beside[i], Value: r.Float64(), Unit: iotax.Seconds, Better: iotax.Down})
				}
				h := iotax.Histogram{Name: "read.latency", Unit: iotax.Seconds, Bins: make([]iotax.Bin, 0, 24)}
				for i := range 24 {
					h.Bins = append(h.Bins, iotax.Bin{Value: grid(float64(i+1) / rate), Count: uint64(r.IntN(1000) + 1)})
				}
				t.Histograms = []iotax.Histogram{h}
				if r.IntN(20) == 0 {
					t.Findings = []iotax.Finding{{Rule: "not-steady", Severity: iotax.Warning, Evidence: fmt.Sprintf("five sub-windows range over %d %% of their mean", 20+r.IntN(20)), Hint: "longer trials"}}
				}
				trials = append(trials, t)
			}
		}
	}
	return run, trials
}

// grid rounds a time down to fio's histogram grid of 64 bins per octave.
func grid(x float64) float64 {
	f, e := math.Frexp(x)
	return math.Ldexp(math.Floor(f*128)/128, e)
}

var beside = []string{"cpu.client", "cpu.serving", "cpu.host.busy", "device.read.bytes", "device.read.ios", "own.read.bytes", "memory.serving", "clock.ratio"}

var peakLine = regexp.MustCompile(`VmHWM:\s+(\d+) kB`)

// peak returns the peak resident memory of this process since resetPeak, in MiB.
func peak(tb testing.TB) float64 {
	b, err := os.ReadFile("/proc/self/status")
	m := peakLine.FindSubmatch(b)
	if err != nil || m == nil {
		tb.Fatalf("no peak in /proc/self/status: %v", err)
	}
	kib, _ := strconv.ParseFloat(string(m[1]), 64)
	return kib / 1024
}

func resetPeak(tb testing.TB) {
	debug.FreeOSMemory()
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil {
		tb.Skipf("the peak cannot be reset: %v", err)
	}
}

// cpu returns the CPU time of this process, including garbage collection.
func cpu(tb testing.TB) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

var shapes = []struct {
	name                       string
	targets, workloads, rounds int
}{
	{"long", 2, 100, 500},
	{"wide", 1000, 1, 100},
	{"both", 50, 20, 100},
}

// BenchmarkNew100kTrials computes the report of 100,000 trials and its text. The metric MiB is the peak memory of the
// process, including the trials.
func BenchmarkNew100kTrials(b *testing.B) {
	for _, s := range shapes {
		b.Run(s.name, func(b *testing.B) {
			run, trials := study(s.targets, s.workloads, s.rounds)
			runtime.GC()
			resetPeak(b)
			before := cpu(b)
			for b.Loop() {
				if err := Text(io.Discard, report.New(run, trials), true, text.Options{Width: 100}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(peak(b), "MiB")
			b.ReportMetric((cpu(b)-before).Seconds()/float64(b.N), "cpu-s/op")
			var m runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&m)
			runtime.KeepAlive(trials)
			b.ReportMetric(float64(m.HeapAlloc)/(1<<20), "trials-MiB")
		})
	}
}

// Ten times as many targets need at most forty times as much CPU time, so the cost is not quadratic. The minimum of
// three runs excludes most of the garbage collection.
func TestCostGrowsWithTrials(t *testing.T) {
	cost := func(targets int) time.Duration {
		run, trials := study(targets, 1, 20)
		least := time.Hour
		for range 3 {
			before := cpu(t)
			report.New(run, trials)
			least = min(least, cpu(t)-before)
		}
		return least
	}
	small, large := cost(100), cost(1000)
	if large > 40*small {
		t.Errorf("2,000 trials take %v, 20,000 take %v", small, large)
	}
}
