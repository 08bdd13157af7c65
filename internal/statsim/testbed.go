package statsim

import (
	"math"
	"math/rand/v2"
)

// Timing contains the durations of the parts of a trial, in seconds.
type Timing struct {
	Setup  float64 // process start, before the ramp
	Ramp   float64
	Length float64 // length of the measured window
}

// Trial returns the duration of a trial.
func (t Timing) Trial() float64 { return t.Setup + t.Ramp + t.Length }

// A testbed is a simulated setup in a study.
type testbed struct {
	m   *Model
	src rand.PCG
	r   *rand.Rand

	now     float64 // seconds since the start of the study
	lnRho   float64
	shared  float64 // current value of S
	round   float64 // value of the target's AR(1) process at its last trial
	begun   bool
	mode    [2]int // state by arm: 0 not drawn, 1 fast, 2 slow
	stepAt  float64
	bucket  float64
	written bool // the previous trial wrote

	ou    [4]ouStep // cache, by step length
	ouAt  int
	meanW struct{ length, sd float64 } // standard deviation of the mean of w over a window
}

// reset begins a study of m.
func (g *testbed) reset(m *Model, seed, study uint64, lnRho float64) {
	g.src.Seed(seed, study)
	if g.m != m {
		g.ou, g.ouAt = [4]ouStep{}, 0
		g.meanW.length = 0
	}
	g.m, g.now, g.lnRho = m, 0, lnRho
	g.round, g.begun, g.mode, g.written = 0, false, [2]int{}, false
	g.bucket = m.Bucket
	if m.SharedSigma > 0 {
		g.shared = m.SharedSigma * g.r.NormFloat64()
	}
	if m.Step != 0 {
		g.stepAt = m.StepWithin * g.r.Float64()
	}
}

// trial runs a trial of an arm (0 baseline, 1 target) and returns the logarithm of its value, or −Inf if the trial did
// no I/O.
//
// It simulates the window in one step. The value is a geometric mean over w and S, but fio's mean is arithmetic. The
// difference is half the variance within a window, which is the same for both arms.
func (g *testbed) trial(a int, t Timing) float64 {
	level := g.begin(a, t)
	v := level + g.window(a, t.Length) + g.within(t.Length)
	if g.m.StallRate > 0 {
		v += math.Log1p(-g.stalled(t.Ramp, t.Length))
	}
	return v
}

// seconds is like trial, but simulates each second. It fills series with the rates, relative to the undisturbed
// baseline, and returns the logarithm of their mean. jitter is the standard deviation of an additional variation of the
// log rates, which does not change their mean.
func (g *testbed) seconds(a int, t Timing, jitter float64, series []float64) (float64, []float64) {
	level := g.begin(a, t)
	n := int(math.Round(t.Length))
	series = series[:0]
	w := g.m.Second * g.r.NormFloat64()
	kick := g.m.Second * math.Sqrt(1-g.m.Phi*g.m.Phi)
	var jitters float64
	first := len(series)
	for range n {
		v := level + g.window(a, 1) + w
		if jitter > 0 {
			j := jitter * g.r.NormFloat64()
			jitters += j
			v += j
		}
		series = append(series, v)
		w = g.m.Phi*w + kick*g.r.NormFloat64()
	}
	var sum float64
	for i, v := range series[first:] {
		series[i] = math.Exp(v - jitters/float64(n))
	}
	if g.m.StallRate > 0 {
		g.stall(int(math.Round(t.Ramp)), series)
	}
	for _, v := range series {
		sum += v
	}
	return math.Log(sum / float64(n)), series
}

// begin simulates setup and ramp, and returns the part of the log rate that is constant over the trial's window.
func (g *testbed) begin(a int, t Timing) float64 {
	m := g.m
	g.idle(t.Setup)
	var v float64
	if a == 1 {
		v = g.lnRho
	}
	if m.Sigma > 0 {
		v += m.Sigma * g.noise(a)
	}
	if m.RoundSigma > 0 && a == 1 {
		if !g.begun {
			g.round, g.begun = g.r.NormFloat64(), true
		} else {
			g.round = m.RoundPhi*g.round + math.Sqrt(1-m.RoundPhi*m.RoundPhi)*g.r.NormFloat64()
		}
		v += m.RoundSigma * g.round
	}
	if m.ModeShare > 0 && (a == 1 || m.Arm == both) {
		if g.mode[a] == 0 || m.Sticky == 0 || g.r.Float64() >= m.Sticky {
			g.mode[a] = 1
			if g.r.Float64() < m.ModeShare {
				g.mode[a] = 2
			}
		}
		if g.mode[a] == 2 {
			v += m.ModeSize
		}
	}
	if m.Carry != 0 && g.written {
		v += m.Carry
	}
	g.written = false
	g.window(a, t.Ramp)
	return v
}

// noise draws E, in units of its standard deviation.
func (g *testbed) noise(a int) float64 {
	shape := g.m.Tail
	if g.m.Arm == targetOnly && a == 0 {
		shape = normal
	}
	switch z := g.r.NormFloat64; shape {
	case student3:
		x, y, u, v := z(), z(), z(), z()
		return x / math.Sqrt(y*y+u*u+v*v) // t₃/√3 has variance 1
	case skewed:
		return 1 - g.r.ExpFloat64() // the slow side has the long tail
	}
	return g.r.NormFloat64()
}

// within draws the mean of w over a window.
func (g *testbed) within(length float64) float64 {
	m := g.m
	if m.Second == 0 {
		return 0
	}
	if g.meanW.length != length {
		n := int(math.Round(length))
		sum := float64(n)
		for k := 1; k < n; k++ {
			sum += 2 * float64(n-k) * math.Pow(m.Phi, float64(k))
		}
		g.meanW.length, g.meanW.sd = length, m.Second*math.Sqrt(sum)/float64(n)
	}
	return g.meanW.sd * g.r.NormFloat64()
}

// window simulates time under load. It returns the logarithm of the mean of the effects that change with time.
func (g *testbed) window(a int, length float64) float64 {
	if length == 0 {
		return 0
	}
	m := g.m
	from, to := g.now, g.now+length
	g.now = to
	var v float64
	if m.SharedSigma > 0 {
		v += g.ouWindow(length)
	}
	if a == 1 || !m.OnTarget {
		v += m.Drift * (from + to) / 2
		if m.WarmUp != 0 {
			v += m.WarmUp * m.WarmTau / length * (math.Exp(-from/m.WarmTau) - math.Exp(-to/m.WarmTau))
		}
	}
	if m.Step != 0 {
		after := math.Min(math.Max(to-g.stepAt, 0), length) / length
		v += math.Log1p(after * math.Expm1(m.Step))
	}
	if m.Bucket > 0 {
		// Under load, the bucket loses 1−refill per second. When it is empty, the rate equals the refill rate.
		burst := math.Min(length, g.bucket/(1-m.Refill))
		g.bucket -= burst * (1 - m.Refill)
		v += math.Log((burst + (length-burst)*m.Refill) / length)
	}
	return v
}

// idle simulates time without load.
func (g *testbed) idle(length float64) {
	if length == 0 {
		return
	}
	g.now += length
	if g.m.SharedSigma > 0 {
		s := g.step(length)
		g.shared = s.decay*g.shared + s.sd*g.r.NormFloat64()
	}
	if g.m.Bucket > 0 {
		g.bucket = math.Min(g.m.Bucket, g.bucket+length*g.m.Refill)
	}
}

// An ouStep contains the coefficients for a step of the Ornstein-Uhlenbeck process S: for its value after the step, and
// for its mean during the step.
type ouStep struct {
	length           float64
	decay, sd        float64 // decay of the previous value, and standard deviation of the innovation
	mean             float64 // coefficient of the previous value in the mean
	meanSlope, meanR float64 // slope of the mean on the innovation of the value, and standard deviation of the residual
}

// step returns the step with this length. It uses the joint distribution of the process and its integral from
// Gillespie (1996).
func (g *testbed) step(length float64) *ouStep {
	for i := range g.ou {
		if g.ou[i].length == length {
			return &g.ou[i]
		}
	}
	s, x := g.m.SharedSigma, length/g.m.SharedTau
	e := math.Exp(-x)
	varX := s * s * (1 - e*e)
	varM := s * s / (x * x) * (2*x - 3 + 4*e - e*e)
	cov := s * s / x * (1 - e) * (1 - e)
	o := &g.ou[g.ouAt]
	g.ouAt = (g.ouAt + 1) % len(g.ou)
	*o = ouStep{length, e, math.Sqrt(varX), (1 - e) / x, cov / varX, math.Sqrt(math.Max(0, varM-cov*cov/varX))}
	return o
}

func (g *testbed) ouWindow(length float64) float64 {
	o := g.step(length)
	kick := o.sd * g.r.NormFloat64()
	m := o.mean*g.shared + o.meanSlope*kick + o.meanR*g.r.NormFloat64()
	g.shared = o.decay*g.shared + kick
	return m
}

// stalled draws stalls and returns their share of a window that follows a ramp.
func (g *testbed) stalled(ramp, length float64) float64 {
	var lost float64
	end := ramp + length
	for at := g.geometric(1/g.m.StallRate) - 1; at < end; {
		stop := at + g.geometric(g.m.StallLength)
		lost += math.Max(0, math.Min(stop, end)-math.Max(at, ramp))
		at = stop + g.geometric(1/g.m.StallRate) - 1
	}
	return math.Min(1, lost/length)
}

// stall draws stalls in the same way as the method `stalled`, and sets the stalled seconds of a series to 0.
func (g *testbed) stall(ramp int, series []float64) {
	end := ramp + len(series)
	for at := int(g.geometric(1/g.m.StallRate)) - 1; at < end; {
		stop := at + int(g.geometric(g.m.StallLength))
		for i := max(at, ramp); i < min(stop, end); i++ {
			series[i-ramp] = 0
		}
		at = stop + int(g.geometric(1/g.m.StallRate)) - 1
	}
}

// geometric draws a whole number of seconds, at least 1, from a geometric distribution with the given mean.
func (g *testbed) geometric(mean float64) float64 {
	if mean <= 1 {
		return 1
	}
	return math.Ceil(-g.r.ExpFloat64() / math.Log1p(-1/mean))
}
