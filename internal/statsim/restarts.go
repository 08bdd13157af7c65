package statsim

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"strings"
	"sync"

	"iotax"
	"iotax/stat"
)

// Reopening is the assumed duration of a restart in seconds.
const Reopening = 15.0

// StartCounts lists the numbers of starts that Restarts simulates. The first one is a run without restarts.
var StartCounts = [...]int{1, 2, 3, 4, 5, 6, 8, 12, 20}

// A Restarted is the result of the studies of one model with one number of starts.
type Restarted struct {
	Model     string       `json:"model"`
	Starts    int          `json:"starts"`
	Studies   int          `json:"studies"`
	Shown     float64      `json:"shown"`    // share of studies with an interval
	Coverage  iotax.Number `json:"coverage"` // share of the intervals that contain the true ratio; NaN without intervals
	Lo        iotax.Number `json:"lo"`       // 95 % Wilson interval of Coverage
	Hi        iotax.Number `json:"hi"`
	HalfWidth iotax.Number `json:"half_width"` // root mean square, as a ratio: 0.05 means ± 5 %
	Alone     float64      `json:"alone"`      // coverage of the interval from the same rounds if starts are ignored
}

// restarted returns the models for Restarts: models in which a start has a random effect, and some in which it has no
// effect. In models with "until the next start", an arm stays fast or slow for the whole start.
func restarted() (ms []*Model) {
	for _, m := range Models() {
		switch {
		case strings.HasPrefix(m.Name, "M3 "), m.Sticky > 0, m.Name == "M0 σ=2%", m.Name == "M0 σ=5%", m.Name == "M2 τ=120s σ=5%":
			ms = append(ms, m)
		}
		if m.Sticky > 0 {
			lasts := *m
			lasts.Name, lasts.Sticky = strings.Replace(m.Name, " sticky", " until the next start", 1), 1
			ms = append(ms, &lasts)
		}
	}
	return ms
}

// restart begins a new start. The state (fast or slow) of each arm and the ratio of the target are drawn again.
func (g *testbed) restart() {
	g.idle(Reopening)
	g.mode, g.begun = [2]int{}, false
}

// divided runs a study and divides its rounds between starts as the engine does. It returns the engine's interval, and
// the interval from the same rounds that ignores the starts.
func (w *work) divided(starts int) (both, alone stat.Interval) {
	w.d, w.bad = w.d[:0], w.bad[:0]
	var of []int
	for n := range most {
		if s := stat.StartOf(n, most, starts); len(of) == 0 || of[n-1] != s {
			w.restart()
		}
		of = append(of, stat.StartOf(n, most, starts))
		d, _, _ := w.pair(n, ours, false)
		w.d = append(w.d, d)
	}
	hull := func(o stat.Options) stat.Interval {
		i, err := stat.Hull(w.d, o)
		if err != nil {
			panic(err) // no simulated value is infinite
		}
		return i
	}
	alone = hull(stat.Options{Alpha: stat.AlphaFixed})
	return hull(stat.Options{Alpha: stat.AlphaFixed, Starts: of}), alone
}

// Restarts simulates studies with 30 rounds that are divided between starts. It uses o.Studies, o.Seed, o.Workers
// and o.Models. The result does not depend on the number of workers.
func Restarts(ctx context.Context, o Options) ([]*Restarted, error) {
	models, err := find("model", restarted(), o.Models, func(m *Model, word string) bool { return strings.HasPrefix(m.Name, word) })
	if err != nil {
		return nil, err
	}
	if o.Studies < 1 {
		return nil, fmt.Errorf("%d studies: at least 1 is needed", o.Studies)
	}
	if o.Workers < 1 {
		o.Workers = runtime.NumCPU()
	}
	out := make([]*Restarted, len(models)*len(StartCounts))
	jobs := make(chan int)
	var all sync.WaitGroup
	for range o.Workers {
		all.Go(func() {
			w := newWork()
			for i := range jobs {
				out[i] = w.restarts(ctx, models[i/len(StartCounts)], StartCounts[i%len(StartCounts)], o)
			}
		})
	}
	for i := range out {
		jobs <- i
	}
	close(jobs)
	all.Wait()
	return out, ctx.Err()
}

func (w *work) restarts(ctx context.Context, m *Model, starts int, o Options) *Restarted {
	hits, shown, alone, half2 := 0, 0, 0, 0.
	for i := 0; i < o.Studies && ctx.Err() == nil; i++ {
		lnRho := math.Log(rhos[i%len(rhos)])
		w.quantile = 0
		w.begin(m, seedOf(o.Seed, m), i, lnRho)
		both, rounds := w.divided(starts)
		truth := math.Exp(m.truth(lnRho, 0))
		alone += count(rounds.Contains(truth))
		if !both.Bounded() {
			continue
		}
		shown++
		hits += count(both.Contains(truth))
		half := (math.Log(both.Hi) - math.Log(both.Lo)) / 2
		half2 += half * half
	}
	c := stat.Wilson(hits, shown, alpha)
	return &Restarted{Model: m.Name, Starts: starts, Studies: o.Studies, Shown: float64(shown) / float64(o.Studies), Coverage: iotax.Number(c.Estimate), Lo: iotax.Number(c.Lo), Hi: iotax.Number(c.Hi),
		HalfWidth: iotax.Number(math.Expm1(math.Sqrt(half2 / float64(shown)))), Alone: float64(alone) / float64(o.Studies)}
}

// RestartsMarkdown returns the page docs/dev/evaluation-restarts.md. rows is the result of Restarts with this seed, and
// must not be empty.
func RestartsMarkdown(rows []*Restarted, seed uint64) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	lacking, last := "", ""
	worst, wide := 1., 0. // with two to five starts: the smallest coverage, and the largest share of studies with an interval on a quiet machine (M0)
	for _, r := range rows {
		few := r.Starts > 1 && r.Starts < stat.LeastTrials
		if few && float64(r.Coverage) < worst { // false for NaN
			worst = float64(r.Coverage)
		}
		if few && strings.HasPrefix(r.Model, "M0") {
			wide = max(wide, r.Shown)
		}
		switch {
		case r.Starts < stat.LeastTrials || float64(r.Lo) >= Gate:
		case r.Model == last:
			lacking += fmt.Sprintf(", %d: %s", r.Starts, pc(float64(r.Coverage)))
		default:
			last = r.Model
			lacking += fmt.Sprintf("\n- %s: with %d starts %s", r.Model, r.Starts, pc(float64(r.Coverage)))
		}
	}
	line("# Evaluation of restarts\n")
	line("How often the interval of a run with `--restarts` holds the true ratio, by simulation.")
	line("`go run ./cmd/iotax-statsim restarts --studies %d --seed %d --out docs/dev/evaluation-restarts.md` makes this page, the same", rows[0].Studies, seed)
	line("to the bit on any number of CPUs. The models are described in [the evaluation](evaluation.md#what-is-simulated).\n")
	line("Each study has %d rounds, divided between the starts. A start draws the modes and the wandering ratio of M3 anew.", most)
	line("*Until the next start*: a mode lasts as long as the start, as that of a boot or of the placement of a file does.")
	line("*Sticky*: it may change within the start, too.\n")
	line("## In short\n")
	if lacking == "" {
		line("With six or more starts the lower bound of the coverage is at least %s under every model.\n", pc(Gate))
	} else {
		line("With six or more starts the lower bound of the coverage is at least %s, except under:%s\n", pc(Gate), lacking)
	}
	b.WriteString(wrap("Where the target alone has a rare mode, a study often sees no start in it: "+unseen()+
		". Then the starts agree, and nothing in the trials shows the size of what was missed, so no interval that is centred on them can hold the true ratio. "+
		"More starts are the only remedy.", 120) + "\n\n")
	b.WriteString(wrap(fmt.Sprintf("Two to five starts often share a mode. Those that agree have neither an interval nor a verdict, on a quiet machine in %s of studies or more. "+
		"Starts that differ have an interval with few degrees of freedom. It is wide, and holds the true ratio in at least %s of such studies under every model.", pc(1-wide), pc(worst)), 120) + "\n\n")
	line("## Coverage\n")
	b.WriteString(wrap("The share of the intervals that hold the true ratio. *Of 25 %*: the share of studies that have an interval. "+
		"In brackets: the coverage of the interval of the same rounds that ignores the starts, and the half width (root mean square). One start is a run "+
		"without restarts; that is 30 rounds without interim checks, so it differs from [the evaluation](evaluation.md).", 120) + "\n\n")
	head, rule := "| model |", "|---|"
	for _, n := range StartCounts {
		head += fmt.Sprintf(" %d |", n)
		rule += "---|"
	}
	line("%s\n%s", head, rule)
	for i, r := range rows {
		if i%len(StartCounts) == 0 {
			fmt.Fprintf(&b, "| %s |", r.Model)
		}
		switch {
		case r.Shown == 0:
			fmt.Fprintf(&b, " no intervals (%s) |", pc(r.Alone))
		case r.Shown < 1:
			fmt.Fprintf(&b, " %s of %s (%s, ± %.1f %%) |", pc(float64(r.Coverage)), share(r.Shown), pc(r.Alone), 100*r.HalfWidth)
		default:
			fmt.Fprintf(&b, " %s (%s, ± %.1f %%) |", pc(float64(r.Coverage)), pc(r.Alone), 100*r.HalfWidth)
		}
		if (i+1)%len(StartCounts) == 0 {
			b.WriteString("\n")
		}
	}
	line("\n## The interval\n")
	line("Log ratios d of round j in start i are taken as d = μ + startᵢ + roundᵢⱼ (one-way random effects). The estimate is the mean of the")
	line("starts' means. Its standard error, from the standard deviation of these means, is unbiased also for unequal numbers of rounds, and t has")
	line("k − 1 degrees of freedom. Satterthwaite's and Kenward and Roger's methods give the same for equal numbers, as long as the estimate")
	line("of the variance between starts is above 0. Where it is 0, they pool both levels. iotax never pools. It takes the hull of this")
	line("interval, the signed-rank interval of the starts' means (which needs no normal modes, only symmetric ones),")
	line("and both intervals of the rounds. So the interval is never narrower than that of the rounds alone.\n")
	line("Fewer than six starts have this interval only if they differ by the F test of a one-way analysis of variance at 1 %%.")
	return b.String()
}

// unseen formats the probabilities that no start is slow, for some probabilities of a slow start.
func unseen() string {
	var parts []string
	for _, p := range []float64{.1, .2} {
		for _, k := range []int{6, 12, 20} {
			parts = append(parts, fmt.Sprintf("p = %g, %d starts: %.0f %%", p, k, 100*math.Pow(1-p, float64(k))))
		}
	}
	return strings.Join(parts, "; ")
}
