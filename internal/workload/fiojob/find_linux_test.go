package fiojob

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"iotax"
	"iotax/internal/machine/host"
	"iotax/internal/plan"
	"iotax/internal/testenv/long"
	"iotax/internal/testenv/worktest"
	"iotax/internal/workload/support"
	"iotax/stat"
)

func finding(t testing.TB, while string) *fioJob {
	t.Helper()
	spec := &Fio{Find: Find{Most: "iops", While: while}}
	for key, value := range map[string]string{"size": "16MiB", "direct": "0", "numjobs": "32"} {
		if err := spec.SetOption(key, value); err != nil {
			t.Fatal(err)
		}
	}
	if err := spec.Validate(); err != nil {
		t.Fatal(err)
	}
	w, err := Kind.New(plan.Workload{Name: "test", Kind: "fio", Spec: spec}, support.Env{CacheDir: worktest.Cache, Shared: worktest.Shared, Log: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	return w.(*fioJob)
}

// bucket returns an export that serves `rate` reads of 4 KiB per second. Its token bucket has room for the tokens of
// bucketTime, so that a pause of the machine shorter than that does not leave a queue behind.
func bucket(t testing.TB, rate float64) *iotax.Target {
	return export(t, "--filter=rate", "memory", "32M", fmt.Sprintf("rate=%.0f", rate*4096*8), fmt.Sprintf("burstiness=%v", bucketTime.Seconds()))
}

const bucketTime = 100 * time.Millisecond

const kneeService = 150e-6 // service time of a read that has its tokens, s

// A pending read waits for tokens.
type pending struct {
	next    float64 // time at which it tries to take the rest of its tokens, s
	arrived float64
	lacks   float64 // tokens
	counts  bool    // it arrived in the window
}

// waits returns the times that the reads wait for a bucket of `rate` tokens per second. As nbdkit's filter does, a read
// that lacks tokens takes all tokens of the bucket, and sleeps until the bucket would have the rest. waits ends early when the
// sum of the times is above most.
func waits(reads []pending, rate, most float64) (counted []float64, sum float64) {
	later := func(a, b pending) int { return cmp.Compare(a.next, b.next) }
	slices.SortFunc(reads, later)
	full := rate * bucketTime.Seconds()
	tokens, last := full, 0.
	var asleep []pending // in the order of next
	for sum <= most && len(reads)+len(asleep) > 0 {
		from := &reads
		if len(reads) == 0 || len(asleep) > 0 && later(asleep[0], reads[0]) < 0 {
			from = &asleep
		}
		p := (*from)[0]
		*from = (*from)[1:]
		tokens, last = min(tokens+(p.next-last)*rate, full), p.next
		if tokens < p.lacks-1e-9 {
			p.lacks -= tokens
			p.next, tokens = p.next+p.lacks/rate, 0
			i, _ := slices.BinarySearchFunc(asleep, p, later)
			asleep = slices.Insert(asleep, i, p)
			continue
		}
		if tokens -= p.lacks; p.counts {
			counted = append(counted, p.next-p.arrived+kneeService)
			sum += counted[len(counted)-1]
		}
	}
	return counted, sum
}

// knee returns the offered load at which half of the steps meet a limit for the 95th percentile without too many late
// arrivals. It simulates a bucket of the given rate, and the sources of the line that fio gets for a load. A source begins
// its ramp and its window with two reads at once.
func knee(rate float64, limit time.Duration, line func(load float64) line) float64 {
	r := rand.New(rand.NewPCG(1, 1))
	met := func(load float64) (share float64) {
		l := line(load)
		jobs, each := l.sources()
		window, ramp, starts := l.window(), float64(l.ramp)/1000, float64(l.starts(jobs))/1000
		const steps = 300
		for range steps {
			var reads []pending
			for range jobs {
				at := r.Float64() * starts
				begin := at + ramp
				reads = append(reads, pending{at, at, 1, false})
				for end := begin + window; at < end; at += r.ExpFloat64() / float64(each) {
					reads = append(reads, pending{at, at, 1, at >= begin})
					if at >= begin && end == begin+window {
						end = at + window
						reads = append(reads, pending{at, at, 1, true})
					}
				}
			}
			most := lateAbove * window * float64(jobs)
			counted, sum := waits(reads, rate, most)
			slices.Sort(counted)
			if sum <= most && counted[len(counted)*95/100] < limit.Seconds() {
				share += 1. / steps
			}
		}
		return share
	}
	lo, hi := rate/2, 2*rate
	for range 12 {
		if mid := math.Sqrt(lo * hi); met(mid) > .5 {
			lo = mid
		} else {
			hi = mid
		}
	}
	return math.Sqrt(lo * hi)
}

// aside is the share by which the test widens an interval at both ends, because the simulation ignores stalls of this
// machine and the order in which nbdkit serves reads.
const aside = .03

const kneeLimit = 20 * time.Millisecond

func kneeTrial(t *iotax.Target, seed uint64) *iotax.Trial {
	return &iotax.Trial{Target: t.Name, Length: 5 * time.Second, Ramp: time.Second, Seed: seed}
}

// knees returns targets with token buckets of these rates, a job that searches for their limits, and the simulated
// limits.
func knees(tb testing.TB, rates ...float64) (j *fioJob, targets []*iotax.Target, limits []float64) {
	j = finding(tb, fmt.Sprintf("read.latency.p95 < %v", kneeLimit))
	for i, rate := range rates {
		x := bucket(tb, rate)
		x.Name = strconv.Itoa(i)
		ready(tb.Context(), tb, j, x)
		like := kneeTrial(x, 0)
		targets, limits = append(targets, x), append(limits, knee(rate, kneeLimit, func(load float64) line {
			rated := *j
			rated.rate = load
			return rated.line(x, j.states[x], &iotax.Trial{Length: like.Length / stat.SearchSteps, Ramp: like.Ramp / stat.SearchSteps})
		}))
	}
	if _, err := j.Pilot(tb.Context(), targets, kneeTrial(targets[0], 0).Length, nil); err != nil {
		tb.Fatal(err)
	}
	return j, targets, limits
}

const kneeRounds = 6

// kneeStudy returns the limits that the searches found, by target. It repeats a failed search with another seed.
func kneeStudy(tb testing.TB, j *fioJob, targets []*iotax.Target, seed uint64) [][]float64 {
	limits := make([][]float64, len(targets))
	failed := 0
	for round := range kneeRounds {
		for i := range targets {
			i = (i + round) % len(targets)
			out := kneeTrial(targets[i], seed+uint64(round))
			for err := j.Run(tb.Context(), targets[i], out); err != nil; err = j.Run(tb.Context(), targets[i], out) {
				if failed++; failed == kneeRounds {
					tb.Fatal(err)
				}
				tb.Log(err)
				out = kneeTrial(targets[i], seed+uint64(failed*kneeRounds))
			}
			found, _ := out.Value(iotax.ValueLimitIOPS)
			limits[i] = append(limits[i], found.Value)
			warned := slices.ContainsFunc(out.Findings, func(f iotax.Finding) bool { return f.Rule == "arrivals-late" })
			if late := strings.Contains(out.Facts[iotax.FactTried], ", late"); late != warned {
				tb.Errorf("warned of late arrivals: %v, of %s", warned, out.Facts[iotax.FactTried])
			}
			tb.Logf("%s: %.0f/s of %s", targets[i].Name, found.Value, out.Facts[iotax.FactTried])
		}
	}
	return limits
}

// At least one of two studies has intervals that contain the limits of two servers with token buckets, and the ratio of
// the limits.
func TestFindsTheKneesOfTokenBuckets(t *testing.T) {
	long.Test(t)
	t.Parallel()
	j, targets, limits := knees(t, 1000, 1500)
	study := func(seed uint64) bool {
		found := kneeStudy(t, j, targets, seed)
		d, err := stat.Pair(found[0], found[1], iotax.Up)
		if err != nil {
			t.Fatal(err)
		}
		ratio, err := stat.Hull(d, stat.Options{Alpha: .05})
		if err != nil {
			t.Fatal(err)
		}
		a, b := stat.Median(found[0]), stat.Median(found[1])
		t.Logf("knees %.0f, limits %v, %v, ratio %v", limits, a, b, ratio)
		near := func(i stat.Interval, x float64) bool { return i.Lo*(1-aside) < x && x < i.Hi*(1+aside) }
		return near(a, limits[0]) && near(b, limits[1]) && near(ratio, limits[1]/limits[0])
	}
	if !study(1) && !study(1+kneeRounds) { // with 95 % intervals, one study in twenty may miss
		t.Error("neither study has the knees and their ratio in its intervals")
	}
}

// swept returns the offered load at which half of the steps of a linear sweep meet the condition, by the method of Spearman
// and Kärber: the sum of the shares that meet it, times the distance of the loads.
func swept(b *testing.B, j *fioJob, x *iotax.Target, about float64, seed uint64) float64 {
	const loads, repeats, from, to = 24, 6, .85, 1.1
	c, err := j.spec.condition()
	if err != nil {
		b.Fatal(err)
	}
	like, gap := kneeTrial(x, 0), about*(to-from)/loads
	limit := about * from
	for i := range loads * repeats {
		rated := *j
		rated.rate = about*from + gap*(float64(i%loads)+.5)
		step := &iotax.Trial{Target: x.Name, Length: like.Length / stat.SearchSteps, Ramp: like.Ramp / stat.SearchSteps, Seed: seed + uint64(i)}
		if err := rated.once(b.Context(), x, step); err != nil {
			b.Fatal(err)
		}
		if _, _, met := j.judgeStep(c, step); met {
			limit += gap / repeats
		}
	}
	return limit
}

// BenchmarkKnee reports the share of studies whose interval contains the knee of a token bucket, as two long sweeps
// find it, before the studies and after them. It also reports the steps of the search relative to those of a linear sweep
// with a resolution of half the interval. Other work on the machine must not delay the server.
//
//	go test -exec 'chrt -f 20' -run xxx -bench Knee -benchtime 20x -timeout 90m ./internal/workload/fiojob
func BenchmarkKnee(b *testing.B) {
	j, targets, limits := knees(b, 1000)
	before, seed := swept(b, j, targets[0], limits[0], 1_000_000), uint64(1)
	var shares []float64
	var found []stat.Interval
	for b.Loop() {
		i := stat.Median(kneeStudy(b, j, targets, seed)[0])
		share := stat.SearchSteps * (i.Hi - i.Lo) / 2 / limits[0]
		shares, found = append(shares, share), append(found, i)
		fmt.Fprintf(os.Stderr, "limit %.0f [%.0f, %.0f], %.2f of the steps of a sweep\n", i.Estimate, i.Lo, i.Hi, share) // the log of a benchmark has ten lines at most
		seed += kneeRounds
	}
	after := swept(b, j, targets[0], limits[0], 2_000_000)
	fmt.Fprintf(os.Stderr, "sweeps: %.0f before, %.0f after; simulated: %.0f\n", before, after, limits[0])
	held := 0.
	for _, i := range found {
		if i.Contains((before + after) / 2) {
			held++
		}
	}
	b.ReportMetric(held/float64(len(found)), "held/op")
	b.ReportMetric(stat.Median(shares).Estimate, "of-sweep")
}

// A search without a result returns an error with the reason and a hint.
func TestSearchesThatFindNothing(t *testing.T) {
	ctx, target := worktest.CtxFor(t), worktest.Target(host.Local(), worktest.TempIn(t, "/dev/shm"))
	for _, x := range []struct {
		while  string
		length time.Duration
		want   string
	}{
		{"read.latency.p99.99 < 1s", 100 * time.Millisecond, "use `--trial"},
		{"read.latency.p50 < 1ns", 200 * time.Millisecond, "the lowest load"},
	} {
		j := finding(t, x.while)
		ready(ctx, t, j, target)
		_, err := j.Pilot(ctx, []*iotax.Target{target}, x.length, nil)
		if err == nil {
			err = j.Run(ctx, target, &iotax.Trial{Length: x.length, Seed: 1})
		}
		var e *iotax.Error
		if !errors.As(err, &e) || e.Hint == "" || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s: %v", x.while, err)
		}
	}
}
