package statsim

import (
	"fmt"
	"math"
	"strings"
)

// A Model describes the problems of a simulated setup. The logarithm of the rate of arm a (0 is the baseline, 1 the
// target) in its trial j is, second by second,
//
//	ln X(t) = ln μ_a + S(t) + E_aj + w(t)
//
// S is shared by the arms, E is constant within a trial, and w varies within it. The fields after SharedSigma add other
// effects. Zero fields have no effect. Times are in seconds. Sizes are natural logarithms: 0.05 is about 5 %.
type Model struct {
	Name string // starts with the family: "M2 τ=30s σ=5%"
	Gate bool   // the method promises 95 % coverage for this model
	Text string // description in one line, which related models share

	Sigma  float64 // standard deviation of E
	Tail   tail    // shape of E
	Arm    arm     // the arms to which the tail and the slow trials apply
	Second float64 // standard deviation of w
	Phi    float64 // lag-one autocorrelation of w, from second to second

	SharedTau   float64 // time constant of S, an Ornstein-Uhlenbeck process
	SharedSigma float64 // standard deviation of S

	RoundSigma float64 // standard deviation of an AR(1) process from trial to trial; only for the target
	RoundPhi   float64

	Drift    float64 // change of the logarithm per second
	WarmUp   float64 // a in the warm-up a·e^(−t/τ), with the time t since the start of the study
	WarmTau  float64
	OnTarget bool // drift and warm-up only apply to the target

	ModeShare float64 // probability of a slow trial
	ModeSize  float64 // logarithm of the factor on the rate of a slow trial; negative means slower
	Sticky    float64 // lag-one autocorrelation of being slow, from trial to trial of an arm

	Step       float64 // logarithm of the factor on the rates of both arms after a step
	StepWithin float64 // the step is at a uniform time in [0, StepWithin]
	Bucket     float64 // capacity of a token bucket that the arms share, in seconds of I/O at the full rate
	Refill     float64 // fill rate of the bucket, and the arm's rate when the bucket is empty; 1 is the full rate

	StallRate   float64 // stalls per second; both arms, independently
	StallLength float64 // mean length in seconds, geometric distribution

	Carry float64 // logarithm of the factor on the rate of a trial that follows a write trial; negative means slower

	Corrupt float64 // probability of a corrupt trial; see studyCorruptions

	Latency  []shape // latencies of each arm, or one element for both; nil for models of rates
	SlowOnly bool    // the ratio applies to the second mode only
}

type tail int

const (
	normal tail = iota
	student3
	skewed
)

type arm int

const (
	both arm = iota
	targetOnly
)

// Family returns the family of the model, such as "M2".
func (m *Model) Family() string {
	f, _, _ := strings.Cut(m.Name, " ")
	f, _, _ = strings.Cut(f, "-")
	return f
}

// bias returns the mean effect of slow trials on a log ratio if only the target has them, otherwise 0. It is part of
// the true ratio, because a study estimates the ratio of geometric means.
func (m *Model) bias() float64 {
	if m.ModeShare > 0 && m.Arm == targetOnly {
		return m.ModeShare * m.ModeSize
	}
	return 0
}

func (m *Model) shape(arm int) *shape { return &m.Latency[min(arm, len(m.Latency)-1)] }

// truth returns the logarithm of the ratio that a study estimates: if q is 0, the target's rate over the baseline's,
// otherwise the baseline's q quantile of latency over the target's.
func (m *Model) truth(lnRho, q float64) float64 {
	switch {
	case q == 0:
	case m.SlowOnly:
		lnRho = m.shape(0).quantile(q, 0) - m.shape(1).quantile(q, -lnRho)
	case len(m.Latency) > 1:
		lnRho += m.shape(0).quantile(q, 0) - m.shape(1).quantile(q, 0)
	}
	return lnRho + m.bias()
}

// Models returns all noise models, in the order in which results list them.
func Models() []*Model {
	var ms []*Model
	text := ""
	add := func(gate bool, m Model, format string, args ...any) {
		m.Name, m.Gate, m.Text = fmt.Sprintf(format, args...), gate, text
		ms = append(ms, &m)
	}
	text = "noise of σ between trials, lognormal and independent"
	for _, s := range []float64{.005, .02, .05, .10, .20} {
		add(true, Model{Sigma: s}, "M0 σ=%g%%", 100*s)
	}
	text = "seconds of a trial vary by 10 % and resemble their neighbours, AR(1) with φ; trials vary by 1 %"
	for _, phi := range []float64{0, .5, .7, .9} {
		add(true, Model{Sigma: .01, Second: .10, Phi: phi}, "M1 φ=%g", phi)
	}
	text = "both places share a slow noise of σ that lasts about τ; trials vary by 2 %, here and below"
	for _, s := range []float64{.05, .15} {
		for _, tau := range []float64{30, 120, 300} {
			add(true, Model{Sigma: .02, SharedTau: tau, SharedSigma: s}, "M2 τ=%gs σ=%g%%", tau, 100*s)
		}
	}
	add(true, Model{Sigma: .02, SharedTau: 12, SharedSigma: .10}, "M2 τ=12s σ=10%%") // the worst case for mirrored rounds
	text = "the ratio itself wanders by 5 %, AR(1) from round to round with φ: the adversary of all that counts rounds"
	for _, phi := range []float64{.3, .6} {
		add(false, Model{RoundSigma: .05, RoundPhi: phi}, "M3 φ=%g", phi)
	}
	text = "the level falls by 20 % an hour, or warms up from −26 % with a time constant of 120 s: of both places, or of the target alone"
	hourly := math.Log(1-.20) / 3600
	add(true, Model{Sigma: .02, Drift: hourly}, "M4-shared drift")
	add(true, Model{Sigma: .02, WarmUp: -.3, WarmTau: 120}, "M4-shared warm-up")
	add(false, Model{Sigma: .02, Drift: hourly, OnTarget: true}, "M4-target drift")
	add(false, Model{Sigma: .02, WarmUp: -.3, WarmTau: 120, OnTarget: true}, "M4-target warm-up")
	text = "a trial is 15 % slower with probability p, of the target alone or of both independently; sticky: the mode lasts several trials"
	slow := math.Log(1 - .15)
	for _, a := range []arm{targetOnly, both} {
		name := map[arm]string{targetOnly: "M5-one-arm", both: "M5-both"}[a]
		for _, sticky := range []float64{0, .8} {
			kind := ""
			if sticky > 0 {
				kind = " sticky"
			}
			for _, p := range []float64{.1, .2, .5} {
				add(false, Model{Sigma: .02, Arm: a, ModeShare: p, ModeSize: slow, Sticky: sticky}, "%s p=%g%s", name, p, kind)
			}
		}
	}
	text = "both places fall by 30 % at a random time of the first 10 minutes, or share burst credit of 120 s that refills at half the speed"
	add(true, Model{Sigma: .02, Step: math.Log(1 - .30), StepWithin: 600}, "M6-shared-step")
	add(false, Model{Sigma: .02, Bucket: 120, Refill: .5}, "M6-bucket")
	text = "noise of 5 % with heavy tails (t with 3 degrees of freedom) or a long slow side; stalls: once a minute nothing for 2 s"
	add(false, Model{Sigma: .05, Tail: student3}, "M7 t3")
	add(false, Model{Sigma: .05, Tail: skewed}, "M7 skewed")
	add(false, Model{Sigma: .05, Tail: skewed, Arm: targetOnly}, "M7 skewed target")
	add(false, Model{Sigma: .02, StallRate: 1.0 / 60, StallLength: 2}, "M7 stalls")
	text = "a trial after a write trial is 10 % slower"
	add(false, Model{Sigma: .02, Carry: math.Log(1 - .10)}, "M8 carry-over")
	text = "one trial of twenty is corrupt: no I/O, served by a cache, clock 2 % wrong, ended early"
	add(false, Model{Sigma: .02, Corrupt: .05}, "M9 corrupt")

	modes := func(share, at, sd float64) []mode { return []mode{{1 - share, 0, .2}, {share, at, sd}} }
	lognormal, pareto := shape{modes: []mode{{1, 0, .5}}}, shape{alpha: 2.1}
	text = "lognormal latencies, of which the logarithm has a standard deviation of 0.5; trials vary by 2 %, here and below"
	add(true, Model{Sigma: .02, Latency: []shape{lognormal}}, "L0 lognormal")
	text = "lognormal, with standard deviations of 0.003, 0.01 or 0.03 where a bin of the histogram is 0.008 to 0.016 wide; trials vary by 0.2 %"
	for _, sd := range []float64{.003, .01, .03} {
		add(true, Model{Sigma: .002, Latency: []shape{{modes: []mode{{1, 0, sd}}}}}, "L1 narrow %g", sd)
	}
	text = "lognormal, but one I/O of five takes the same time to 0.1 %; trials vary by 0.2 %"
	add(true, Model{Sigma: .002, Latency: []shape{{modes: []mode{{.8, 0, .5}, {.2, 0, .001}}}}}, "L1 peak")
	text = "one I/O of ten takes 8 times as long; the ratio is that of all I/Os, or of the slow ones alone"
	add(true, Model{Sigma: .02, Latency: []shape{{modes: modes(.1, math.Log(8), .3)}}}, "L2 two modes")
	add(true, Model{Sigma: .02, SlowOnly: true, Latency: []shape{{modes: modes(.1, math.Log(8), .3)}}}, "L2 slow mode")
	text = "Pareto latencies with α = 2.1, of both places or of the target alone (the baseline is lognormal)"
	add(true, Model{Sigma: .02, Latency: []shape{pareto}}, "L3 heavy tail")
	add(true, Model{Sigma: .02, Latency: []shape{lognormal, pareto}}, "L3 heavy tail of the target")
	text = "in stalls, I/Os take 50 times as long together: 2 stalls a trial that take 0.2 % of its I/Os each, or 20 that take 0.1 %"
	stall := mode{at: math.Log(50), sd: .3}
	add(true, Model{Sigma: .02, Latency: []shape{{modes: lognormal.modes, stalls: 2, stallShare: .002, stalled: stall}}}, "L4 stalls, rare")
	add(true, Model{Sigma: .02, Latency: []shape{{modes: lognormal.modes, stalls: 20, stallShare: .001, stalled: stall}}}, "L4 stalls, frequent")
	text = "one trial of five is 15 % slower, of both places or of the target alone"
	add(true, Model{Sigma: .02, Arm: both, ModeShare: .2, ModeSize: slow, Latency: []shape{lognormal}}, "L5 modes of both")
	add(false, Model{Sigma: .02, Arm: targetOnly, ModeShare: .2, ModeSize: slow, Latency: []shape{lognormal}}, "L5 modes of the target")
	return ms
}
