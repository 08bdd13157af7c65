package statsim

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"iotax"
	"iotax/stat"
)

// A Recording contains the per-second values of a real run: for each valid round, the series of the baseline and of a
// target. Larger values are better.
type Recording struct {
	Workload, Metric, Target string
	Rounds                   [][2][]float64
}

// leastRecorded is the minimum number of rounds for a replay. With fewer rounds, each one would be drawn too often.
const leastRecorded = 12

// leastSeconds is the minimum length of a recorded trial in seconds, so that half of it is still useful.
const leastSeconds = 3

// Record returns the per-second values of a target and the baseline under a workload. It uses the rounds in which both
// trials succeeded and no trial was discarded, except rounds with fewer than leastSeconds values. It returns an error
// if fewer than leastRecorded rounds remain.
func Record(trials []*iotax.Trial, workload, metric, baseline, target string) (*Recording, error) {
	r := &Recording{Workload: workload, Metric: metric, Target: target}
	type pair [2]*iotax.Trial
	rounds := map[int]*pair{}
	discarded := map[int]bool{}
	var order []int
	for _, t := range trials {
		if t.Workload != workload {
			continue
		}
		p := rounds[t.Round]
		if p == nil {
			p = &pair{}
			rounds[t.Round] = p
			order = append(order, t.Round)
		}
		discarded[t.Round] = discarded[t.Round] || t.Discarded != ""
		if t.Err != "" {
			continue
		}
		switch t.Target {
		case baseline:
			p[0] = t
		case target:
			p[1] = t
		}
	}
	slices.Sort(order)
	for _, b := range order {
		p := rounds[b]
		if discarded[b] || p[0] == nil || p[1] == nil {
			continue
		}
		x, y := secondsOf(p[0], metric), secondsOf(p[1], metric)
		if n := min(len(x), len(y)); n >= leastSeconds {
			r.Rounds = append(r.Rounds, [2][]float64{x[:n], y[:n]})
		}
	}
	if len(r.Rounds) < leastRecorded {
		return nil, fmt.Errorf("%s, %s: %d rounds have series of %d seconds or more; a replay needs %d", workload, target, len(r.Rounds), leastSeconds, leastRecorded)
	}
	return r, nil
}

// secondsOf returns the trial's series of this metric. It omits invalid values, and the last interval if it is much
// shorter than the others.
func secondsOf(t *iotax.Trial, metric string) []float64 {
	for _, s := range t.Series {
		if s.Name != metric {
			continue
		}
		var ys []float64
		for i := range min(len(s.T), len(s.V)) {
			last := i == len(s.T)-1 && i > 0
			if last && s.T[i]-s.T[i-1] < .5*(s.T[i-1]/float64(i)) {
				break
			}
			if v := s.V[i]; v >= 0 && !math.IsInf(v, 0) { // also excludes NaN
				ys = append(ys, v)
			}
		}
		return ys
	}
	return nil
}

// A Replayed reports how often the intervals of studies drawn from a recording contain the true ratio.
type Replayed struct {
	Row
	Recorded int     `json:"recorded"` // number of recorded rounds, or of pairs for A/A
	Seconds  float64 `json:"seconds"`  // mean length of a recorded trial
	Truth    float64 `json:"truth"`    // ratio of the whole recording, or 1 for A/A
}

// Replay draws studies from a recording and runs policies on them.
//
// A study starts at a random round and continues with the following ones, cyclically, so that correlations between
// rounds remain. From each trial it uses half of the seconds, at a random position that is the same for both trials of
// the round. The true ratio is the ratio of the whole recording.
//
// "A/A" rows pair successive trials of the baseline in random order, so the true ratio is 1.
func Replay(rec *Recording, o Options) ([]*Replayed, error) {
	if len(rec.Rounds) < leastRecorded {
		return nil, errors.New("replay: too few rounds")
	}
	if o.Studies < 1 {
		return nil, fmt.Errorf("%d studies: at least one is needed", o.Studies)
	}
	var self [][2][]float64
	for i := 0; i+1 < len(rec.Rounds); i += 2 {
		x, y := rec.Rounds[i][0], rec.Rounds[i+1][0]
		n := min(len(x), len(y))
		self = append(self, [2][]float64{x[:n], y[:n]})
	}
	var out []*Replayed
	for _, arm := range []struct {
		name   string
		rounds [][2][]float64
		swap   bool
	}{{rec.Target, rec.Rounds, false}, {"A/A", self, true}} {
		if len(arm.rounds) < least {
			continue
		}
		truth, length := 0.0, 0.0
		for _, b := range arm.rounds {
			d := math.Log(mean(b[1]) / mean(b[0]))
			if math.IsNaN(d) || math.IsInf(d, 0) {
				return nil, fmt.Errorf("replay %s: a trial of %s did nothing", rec.Workload, arm.name)
			}
			truth += d / float64(len(arm.rounds))
			length += float64(len(b[0])) / float64(len(arm.rounds))
		}
		if arm.swap {
			truth = 0
		}
		for _, p := range []struct {
			name string
			run  func(*replayer) (lo, hi float64, n int)
		}{{Ours, (*replayer).iotax}, {"back-to-back", (*replayer).backToBack}} {
			if p.name != Ours && (arm.swap || len(arm.rounds) < 10) {
				continue
			}
			var t tally
			for i := range o.Studies {
				g := &replayer{r: rand.New(rand.NewPCG(o.Seed, uint64(i))), rounds: arm.rounds, swap: arm.swap}
				g.at = g.r.IntN(len(arm.rounds))
				lo, hi, n := p.run(g)
				t.score(outcome{lo: lo, hi: hi, rounds: n, seconds: g.seconds}, truth)
			}
			x := &Replayed{Row: Row{Model: rec.Workload + ": " + arm.name, Policy: p.name}, Recorded: len(arm.rounds), Seconds: length, Truth: math.Exp(truth)}
			x.fill(&t, false, 0)
			out = append(out, x)
		}
	}
	return out, nil
}

// A replayer is a study drawn from a recording.
type replayer struct {
	r       *rand.Rand
	rounds  [][2][]float64
	at      int
	swap    bool
	seconds float64
}

// next draws from the next round and returns the logarithms of both trials' values.
func (g *replayer) next() (base, target float64) {
	b := g.rounds[g.at]
	g.at = (g.at + 1) % len(g.rounds)
	x, y := b[0], b[1]
	if g.swap && g.r.Uint64()&1 == 1 {
		x, y = y, x
	}
	n := len(x)
	half := (n + 1) / 2
	from := g.r.IntN(n - half + 1)
	g.seconds += 2 * float64(half)
	return math.Log(mean(x[from : from+half])), math.Log(mean(y[from : from+half]))
}

func (g *replayer) iotax() (lo, hi float64, n int) {
	last := min(most, len(g.rounds))
	opts := stat.Options{Alpha: stat.Alpha(least, last)}
	var d []float64
	for {
		base, target := g.next()
		if x := target - base; !math.IsInf(x, 0) && !math.IsNaN(x) {
			d = append(d, x)
		} else if len(d) == 0 || g.seconds > 1e6 {
			return math.NaN(), math.NaN(), len(d) // windows without I/O
		}
		if !stat.IsLook(len(d), least, last) {
			continue
		}
		r, err := stat.Hull(d, opts)
		if err != nil {
			return math.NaN(), math.NaN(), len(d)
		}
		if _, done := stat.Next(len(d), r, precision, least, last); done {
			return math.Log(r.Lo), math.Log(r.Hi), len(d)
		}
	}
}

// backToBack takes five trials of the baseline, and then five trials of the target from later rounds.
func (g *replayer) backToBack() (lo, hi float64, n int) {
	var a, b []float64
	for range 5 {
		x, _ := g.next()
		a = append(a, x)
	}
	for range 5 {
		_, y := g.next()
		b = append(b, y)
	}
	g.seconds /= 2 // the other trial of each round is not needed
	lo, hi = welch(a, b)
	return lo, hi, 5
}

func mean(xs []float64) float64 {
	var s float64
	for _, x := range xs {
		s += x
	}
	return s / float64(len(xs))
}
