package statsim

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"

	"gonum.org/v1/gonum/stat/distuv"

	"iotax"
	"iotax/internal/plan/schedule"
	"iotax/stat"
)

// Settings of the studies. They are iotax's defaults.
const (
	precision = 0.05
	margin    = 0.05
	least     = 6
	most      = 30
	alpha     = 1 - stat.Confidence
)

// A Policy is a way to run a study: iotax's protocol or another one.
type Policy struct {
	ID   string // ID of the method: "P3"
	Name string
	Text string // one line
	run  func(*work) outcome

	protocol *protocol         // for iotax's own policies; nil otherwise
	only     func(*Model) bool // selects the relevant models; nil means all
	rounds   bool              // the policy measures in rounds
	quantile float64           // latency quantile to measure; 0 means the rate
	ios      float64           // number of I/Os per trial of the baseline
	effect   bool              // stopping depends on the effect, so each ratio needs its own studies
}

func (p *Policy) named(word string) bool { return p.ID == word || strings.HasPrefix(p.Name, word) }

// A protocol is iotax's protocol with limits for the number of rounds.
type protocol struct {
	least, most int
	known       bool // the autocorrelation of the rounds is known, as from a perfect calibration
}

// An outcome is the result of a study. The interval is on the logarithmic scale.
type outcome struct {
	lo, hi   float64
	rounds   int     // valid rounds; for policies without rounds, the number of trials of the larger arm
	seconds  float64 // device time
	look     int     // number of rounds at the interim analysis that ended the study, or 0
	unranked bool    // no verdict, because of a check or too few I/Os beyond the quantile
	discards int
}

// Timings in seconds: iotax's defaults, and the 60 s windows of fixed protocols.
var (
	ours  = Timing{Setup: .5, Ramp: 2, Length: 10}
	fixed = Timing{Setup: .5, Ramp: 2, Length: 60}
)

// Preconditioning is the time to write the test files of both arms, and Calibration is the time of a brief A/A
// calibration, in seconds. Device-seconds include Preconditioning, and for iotax's policies also Calibration.
const (
	Preconditioning = 20.0
	Calibration     = 15.0
)

// work is a simulated setup with reusable memory for its studies.
type work struct {
	testbed
	d, a, b []float64 // d: log ratios; a and b: values whose meaning depends on the policy
	bad     [][2]bool // by round and arm: the value is invalid
	series  []float64
	order   uint64 // seed of the order of the arms
	looksOf protocol
	looks   []int

	quantile, ios float64              // from the policy
	octave        float64              // log₂ of the study's typical latency in units of 100 µs, from 0 to 1 (see level)
	histograms    [2][]iotax.Histogram // by arm and round
	windows       [2][2]float64        // by arm; see shape.window

	keep bool // simulate trials second by second, and store them for the checks
	kept []*iotax.Trial
}

func newWork() *work {
	w := &work{}
	w.testbed.r = rand.New(&w.testbed.src)
	return w
}

// Policies returns all policies, in the order in which results list them.
func Policies() []*Policy {
	hard := func(m *Model) bool { return !m.Gate }
	ps := []*Policy{
		{ID: "P0", Name: "back-to-back", Text: "5 × 60 s of one, then 5 × 60 s of the other; Welch", run: func(w *work) outcome { return w.five(false) }},
		{ID: "P1", Name: "interleaved", Text: "5 × 60 s of each in turn; Welch", run: func(w *work) outcome { return w.five(true) }},
		{ID: "P2", Name: "peeking", Text: "rounds as iotax has them; paired t at 95 % after every round from 3 to 30 until ± 5 %", run: (*work).peeking, rounds: true},
		{ID: "P3", Name: Ours, Text: "mirrored rounds; hull of t and signed rank at α′ after 6, 8, 12, 18, 30 rounds until ± 5 %", protocol: &protocol{least, most, false}},
		{ID: "P3", Name: "from-12", Text: "iotax with `--rounds 12..30`", protocol: &protocol{12, most, false}, only: hard},
		{ID: "P3", Name: "all-30", Text: "iotax with `--rounds 30`", protocol: &protocol{most, most, false}, only: hard},
		{ID: "P3", Name: "widened", Text: "iotax when the correlation of the rounds is known, as a perfect calibration would have it", protocol: &protocol{least, most, true},
			only: func(m *Model) bool { return m.RoundPhi != 0 }},
		{ID: "P4", Name: "any-stop", Text: "as iotax, but stops at a verdict too; Bonferroni over the five looks", run: (*work).anyStop, rounds: true, effect: true},
		{ID: "P5", Name: "stein", Text: "6 rounds say how many are needed (Stein's two stages); no more than 300", run: (*work).stein, rounds: true},
		{ID: "P6", Name: "sequence", Text: "asymptotic confidence sequence, after every round from 6 to 30 until ± 5 %", run: (*work).sequence, rounds: true},
		{ID: "P7", Name: "pilot", Text: "after Pilot: rounds of 10 s of one, then of the other, seconds merged until uncorrelated, until ± 5 % each; Welch", run: (*work).pilot},
		{ID: "P7", Name: "rciw", Text: "after RCIW for JMH: 2 to 5 forks of 10 s of one, then of the other, until a bootstrap is within 3 %", run: (*work).rciw},
	}
	for _, l := range []struct {
		q, ios float64
		name   string
	}{{.5, 3e3, "p50"}, {.99, 3e4, "p99"}, {.99, 6e3, "p99 pooled"}, {.99, 1e3, "p99 few"}, {.999, 3e5, "p99.9"}, {.999, 6e4, "p99.9 pooled"}, {.999, 1e4, "p99.9 few"}} {
		ps = append(ps, &Policy{ID: "P3", Name: l.name, quantile: l.q, ios: l.ios, protocol: &protocol{least, most, false},
			Text: fmt.Sprintf("iotax with this percentile as the metric; %g I/Os in a trial of the baseline", l.ios)})
	}
	for _, p := range ps {
		run, cost := p.run, Preconditioning
		if q := p.protocol; q != nil {
			p.rounds, cost = true, Preconditioning+Calibration
			run = func(w *work) outcome { return w.iotax(*q) }
		}
		p.run = func(w *work) outcome {
			w.d, w.bad, w.quantile, w.ios = w.d[:0], w.bad[:0], p.quantile, p.ios
			w.histograms[0], w.histograms[1] = w.histograms[0][:0], w.histograms[1][:0]
			o := run(w)
			if o.seconds = cost + w.now; p.rounds {
				o.rounds = len(w.d)
			}
			return o
		}
	}
	return ps
}

// pair runs a round. It returns the log ratio, which arms have an invalid value, and whether the round counts. It runs
// the checks if w.keep is set, or if checked is set and the model has corrupt trials.
func (w *work) pair(round int, t Timing, checked bool) (d float64, bad [2]bool, ok bool) {
	w.written = true // assume that another workload wrote before the round
	var v [2]float64
	ok = true
	for _, a := range schedule.Order(w.order, 2, round) {
		if w.keep {
			v[a], w.series = w.seconds(a, t, jitter, w.series)
			ok = w.keepTrial(a, round, v[a], t) && ok
		} else {
			v[a] = w.trial(a, t)
		}
		if w.m.Corrupt > 0 && !w.keep {
			var valid bool
			v[a], bad[a], valid = corrupt(w.r, a, v[a], t, w.m.Corrupt, checked)
			ok = ok && valid
		}
		ok = ok && !math.IsInf(v[a], -1)
		if w.quantile > 0 {
			w.draw(a, v[a])
		}
	}
	return v[1] - v[0], bad, ok
}

// rounds runs rounds until n of them count. It returns false if more than six rounds, and more than half of all rounds,
// are discarded.
func (w *work) rounds(n int, t Timing, checked bool, discards *int) bool {
	for len(w.d) < n {
		d, bad, ok := w.pair(len(w.d)+*discards, t, checked)
		if ok {
			w.d, w.bad = append(w.d, d), append(w.bad, bad)
		} else if *discards++; *discards > 6 && *discards > len(w.d) {
			return false
		}
	}
	return true
}

// iotax runs the protocol with the functions of the engine and the report.
func (w *work) iotax(p protocol) outcome {
	var o outcome
	opts := stat.Options{Alpha: stat.Alpha(p.least, p.most)}
	if p.known {
		opts.Autocorrelation = w.m.RoundPhi
	}
	look := func(d []float64) stat.Interval {
		if w.quantile > 0 {
			var err error
			d, err = stat.PairTails([2][]stat.Tail{stat.Tails(w.histograms[0], w.quantile), stat.Tails(w.histograms[1], w.quantile)}, w.quantile, &opts)
			if o.unranked = o.unranked || errors.As(err, new(*stat.TooFewBeyond)); o.unranked {
				return stat.Interval{Lo: math.NaN(), Hi: math.NaN()}
			} else if err != nil {
				panic(err) // no histogram is empty
			}
		}
		r, err := stat.Hull(d, opts)
		if err != nil {
			panic(err) // no simulated value is infinite
		}
		o.lo, o.hi = math.Log(r.Lo), math.Log(r.Hi)
		return r
	}
	for {
		if !w.rounds(len(w.d)+1, ours, true, &o.discards) {
			o.lo, o.hi, o.unranked = math.NaN(), math.NaN(), true
			break
		}
		d, ok := w.setAside()
		n := len(d)
		if n < p.most && !w.isLook(n, p) {
			continue
		}
		o.look, o.unranked = min(n, p.most), !ok
		if _, done := stat.Next(n, look(d), precision, p.least, p.most); done {
			break
		}
	}
	return o
}

// setAside removes the rounds with an invalid value, as the engine and the report do (stat.SetAside). If an arm has too
// many invalid values, setAside keeps all rounds and ok is false.
func (w *work) setAside() (d []float64, ok bool) {
	if w.m.Corrupt == 0 {
		return w.d, true
	}
	var n [2]int
	for i := range w.d {
		for a := range 2 {
			if w.bad[i][a] {
				n[a]++
			}
		}
	}
	limit := stat.MaxDiscarded * float64(len(w.d))
	if float64(n[0]) > limit || float64(n[1]) > limit {
		return w.d, false
	}
	for i, x := range w.d {
		if !w.bad[i][0] && !w.bad[i][1] {
			d = append(d, x)
		}
	}
	return d, true
}

// isLook is like stat.IsLook, but caches the interim analyses of the last protocol.
func (w *work) isLook(n int, p protocol) bool {
	if w.looksOf != p {
		w.looksOf, w.looks = p, stat.Looks(p.least, p.most)
	}
	return slices.Contains(w.looks, n)
}

var defaultLooks = stat.Looks(least, most)

// five runs five trials of 60 s on each arm, in turn if interleaved is set, otherwise one arm after the other.
func (w *work) five(interleaved bool) outcome {
	const n = 5
	w.a, w.b = w.a[:0], w.b[:0]
	w.written = true
	one := func(a int, to *[]float64) {
		v := w.trial(a, fixed)
		if w.m.Corrupt > 0 {
			v, _, _ = corrupt(w.r, a, v, fixed, w.m.Corrupt, false)
		}
		if !math.IsInf(v, -1) {
			*to = append(*to, v)
		}
	}
	for i := range 2 * n {
		switch {
		case interleaved && i%2 == 0, !interleaved && i < n:
			one(0, &w.a)
		default:
			if i == n && !interleaved {
				w.written = true
			}
			one(1, &w.b)
		}
	}
	o := outcome{rounds: n}
	o.lo, o.hi = welch(w.a, w.b)
	return o
}

// welch returns Welch's t interval for the difference of mean logarithms, or NaN if it cannot be computed.
func welch(base, target []float64) (lo, hi float64) {
	c, err := stat.EstimateChange(base, target, stat.Options{Alpha: alpha, Least: 2}) // five trials per arm are fewer than stat.LeastTrials
	if err != nil {
		return math.NaN(), math.NaN()
	}
	return math.Log(c.T.Lo), math.Log(c.T.Hi)
}

// sequential checks the half width after every round from `first` on. It stops when the half width reaches the
// precision, or after 30 rounds.
func (w *work) sequential(first int, half func(n int, sd float64) float64) outcome {
	var o outcome
	for n := first; n <= most; n++ {
		w.rounds(n, ours, false, &o.discards)
		m, sd := meanSD(w.d)
		h := half(len(w.d), sd)
		o.lo, o.hi = m-h, m+h
		if h <= math.Log1p(precision) {
			break
		}
	}
	return o
}

// peeking checks the width of a plain t interval after every round from the third on.
func (w *work) peeking() outcome {
	return w.sequential(3, func(n int, sd float64) float64 { return tTable()[n] * sd / math.Sqrt(float64(n)) })
}

// sequence uses the asymptotic confidence sequence of Waudby-Smith, Arbour, Sinha, Kennedy & Ramdas (Annals of
// Statistics 2024, theorem 2.2). It is tightest at twelve rounds.
func (w *work) sequence() outcome {
	const at = 12
	l := -2 * math.Log(alpha)
	rho := (l + math.Log(l+1)) / at // ρ²
	return w.sequential(least, func(n int, sd float64) float64 {
		t := float64(n)
		return sd * math.Sqrt(2*(t*rho+1)/(t*t*rho)*math.Log(math.Sqrt(t*rho+1)/alpha))
	})
}

// anyStop stops at an interim analysis if the interval is precise or gives a verdict. Five intervals at α/5 together
// have a level of at least 1−α.
func (w *work) anyStop() outcome {
	var o outcome
	for _, n := range defaultLooks {
		w.rounds(n, ours, false, &o.discards)
		r, err := stat.Hull(w.d, stat.Options{Alpha: alpha / float64(len(defaultLooks))})
		if err != nil {
			panic(err)
		}
		o.lo, o.hi, o.look = math.Log(r.Lo), math.Log(r.Hi), n
		if stat.Precise(r, precision) || stat.Judge(r, margin) != stat.Inconclusive {
			break
		}
	}
	return o
}

// stein runs the two-stage procedure of Stein (1945) with at most 300 rounds.
func (w *work) stein() outcome {
	var o outcome
	w.rounds(least, ours, false, &o.discards)
	_, sd := meanSD(w.d)
	t := tTable()[least]
	n := math.Ceil(math.Pow(t*sd/math.Log1p(precision), 2))
	w.rounds(int(math.Min(math.Max(n, least), 300)), ours, false, &o.discards)
	m, _ := meanSD(w.d)
	h := t * sd / math.Sqrt(float64(len(w.d)))
	o.lo, o.hi = m-h, m+h
	return o
}

// jitter is the standard deviation of the log rates of a trial's seconds around the trial's mean.
const jitter = 0.05

// pilot follows Li, Kelly et al., Pilot (MASCOTS'16). It merges per-second readings in pairs until their lag-one
// autocorrelation is at most 0.1 or fewer than 40 remain. It stops an arm if at least 20 readings remain and their t
// interval is within ± 5 % of the mean, or after 60 trials.
func (w *work) pilot() outcome {
	const rounds, enough, limit = 60, 20, 0.1
	var o outcome
	var m, v, df [2]float64
	w.written = true
	for a := range 2 {
		w.a = w.a[:0]
		for round := 1; round <= rounds; round++ {
			_, w.series = w.seconds(a, ours, jitter, w.series)
			w.a = append(w.a, w.series...)
			o.rounds = max(o.rounds, round)
			w.b = append(w.b[:0], w.a...)
			for len(w.b) >= 2*enough && stat.Lag1(w.b) > limit {
				w.b = merge(w.b)
			}
			mean, sd := meanSD(w.b)
			n := float64(len(w.b))
			m[a], v[a], df[a] = mean, sd*sd/n, n-1
			if n >= enough && tOf(len(w.b))*sd/math.Sqrt(n) <= precision*mean {
				break
			}
		}
	}
	o.lo, o.hi = quotient(m, v, df)
	return o
}

func merge(xs []float64) []float64 {
	for i := range len(xs) / 2 {
		xs[i] = (xs[2*i] + xs[2*i+1]) / 2
	}
	return xs[:len(xs)/2]
}

// quotient returns Welch's interval of the log ratio of two means, computed with the delta method. m contains the
// means, v their squared standard errors, and df their degrees of freedom.
func quotient(m, v, df [2]float64) (lo, hi float64) {
	if !(m[0] > 0 && m[1] > 0) {
		return math.NaN(), math.NaN()
	}
	a, b := v[0]/(m[0]*m[0]), v[1]/(m[1]*m[1])
	est := math.Log(m[1] / m[0])
	if a+b == 0 {
		return est, est
	}
	f := (a + b) * (a + b) / (a*a/df[0] + b*b/df[1])
	h := tOf(int(f)+1) * math.Sqrt(a+b)
	return est - h, est + h
}

// rciw follows Laaber, Würsten, Gall & Leitner (FSE'20). It runs two to five forks of ten iterations per arm, until the
// width of the 95 % interval of a hierarchical percentile bootstrap is at most 3 % of the mean.
func (w *work) rciw() outcome {
	const forks, draws, limit = 5, 100, 0.03
	var o outcome
	var boot [2][draws]float64
	dice := die{r: w.r}
	w.written = true
	for a := range 2 {
		w.a = w.a[:0]
		for fork := 1; fork <= forks; fork++ {
			_, w.series = w.seconds(a, ours, jitter, w.series)
			w.a = append(w.a, w.series...)
			o.rounds = max(o.rounds, fork)
			if fork < 2 {
				continue
			}
			per := len(w.series)
			for i := range draws {
				var sum float64
				for range fork {
					from := dice.roll(fork) * per
					for range per {
						sum += w.a[from+dice.roll(per)]
					}
				}
				boot[a][i] = sum / float64(fork*per)
			}
			s := boot[a]
			slices.Sort(s[:])
			if m, _ := meanSD(w.a); s[97]-s[2] <= limit*m {
				break
			}
		}
	}
	var q [draws]float64
	for i := range q {
		q[i] = math.Log(boot[1][i] / boot[0][i])
	}
	slices.Sort(q[:])
	o.lo, o.hi = q[2], q[97]
	return o
}

// A die draws small integers, four from each random word, because a bootstrap needs many.
type die struct {
	r    *rand.Rand
	word uint64
	left int
}

// roll returns a number from 0 to n−1, for small n. Its bias is at most n/65536.
func (d *die) roll(n int) int {
	if d.left == 0 {
		d.word, d.left = d.r.Uint64(), 4
	}
	x := d.word & 0xffff
	d.word, d.left = d.word>>16, d.left-1
	return int(x * uint64(n) >> 16)
}

func meanSD(xs []float64) (m, sd float64) {
	m = mean(xs)
	for _, x := range xs {
		sd += (x - m) * (x - m)
	}
	return m, math.Sqrt(sd / float64(len(xs)-1))
}

// tTable returns the 97.5 % quantiles of Student's t by sample size.
var tTable = sync.OnceValue(func() *[700]float64 {
	t := new([700]float64)
	t[0], t[1] = math.NaN(), math.NaN()
	for n := 2; n < len(t); n++ {
		t[n] = distuv.StudentsT{Sigma: 1, Nu: float64(n - 1)}.Quantile(1 - alpha/2)
	}
	return t
})

func tOf(n int) float64 { return tTable()[min(n, len(tTable())-1)] }
