// Package bisect finds the first version that is slower than a good one. Each step compares one version with the good
// one in paired rounds, until the error probability is small enough or the rounds are used up. Deps provides the
// functions that build and measure a version.
package bisect

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"iotax"
	"iotax/stat"
)

// Alpha is the highest probability of a wrong result, over all steps together.
const Alpha = 0.05

// An Answer is the result of a step.
type Answer string

const (
	Good   Answer = "good"   // as fast as the good version
	Bad    Answer = "bad"    // slower
	Unsure Answer = "unsure" // undecided when the measurement ended
	Failed Answer = "failed" // the version could not be built or measured
)

// A State is the progress of a bisection. With the state and the saved runs, an interrupted bisection can continue.
type State struct {
	Good   string `json:"good"`
	Bad    string `json:"bad"`
	What   string `json:"what"` // identifies the build and the measured work; a state is valid only for these
	Steps  []Step `json:"steps"`
	Result string `json:"result,omitempty"`
}

// A Step is the test of one version. The first step tests the bad version.
type Step struct {
	Version string   `json:"version"`
	Answer  Answer   `json:"answer,omitempty"` // "" until the step has ended
	Alpha   float64  `json:"alpha"`            // highest probability that the answer is wrong
	Runs    []string `json:"runs,omitempty"`   // ids of the runs that measured the version; more than one after an interruption
	Rounds  int      `json:"rounds"`
	Ratio   float64  `json:"ratio,omitempty"` // speed relative to the good version; below 1 is slower
	Why     string   `json:"why,omitempty"`   // the reason, if the answer is Failed
}

// Deps are the functions that a bisection needs to build and measure versions. All are required.
type Deps struct {
	// Left lists the versions that may be the first bad one, given the good versions and the bad one. The best versions
	// to test next come first: they split the list most evenly. bad comes last.
	Left func(ctx context.Context, good []string, bad string) ([]string, error)
	// Build builds a version unless its build exists. A *BuildError means that the version cannot be built.
	Build func(ctx context.Context, version string) error
	// Measure compares a version with the good one in a run with the given id. After each round it calls `enough` with
	// the log ratios of all valid rounds (negative: the version is slower), and stops when `enough` returns a reason. A
	// *BuildError means that the version cannot be measured.
	Measure func(ctx context.Context, version, id string, enough func(d []float64) string) error
	// Ratios returns the log ratios of a run that Measure started.
	Ratios func(ctx context.Context, id string) ([]float64, error)
	NewID  func() string
	Save   func(*State) error
	Note   func(format string, args ...any)
}

// A BuildError reports why a version cannot be built or measured. The search continues without that version, unless it
// is State.Good or State.Bad.
type BuildError struct{ Err error }

func (e *BuildError) Error() string { return e.Err.Error() }
func (e *BuildError) Unwrap() error { return e.Err }

// A Search is a bisection.
type Search struct {
	Deps
	State  *State
	Margin float64 // smallest relevant slowdown, as a share: 0.05 means 5 %
	Least  int     // minimum number of rounds of a step
	Most   int     // maximum number of rounds of a step

	fast, slow stat.Sample // log ratios of the versions found to be good (fast) and bad (slow) so far
}

// A Result is the outcome of a bisection.
type Result struct {
	None   bool   // the slowdown of the bad version is smaller than the margin
	Unsure bool   // the test could not decide whether the bad version is slower
	First  string // the earliest of the tested versions that are bad
	// Suspects are versions whose answer is Unsure or Failed. One of them may be the first bad version instead of
	// First.
	Suspects []string
}

// Run finds the first bad version.
func (s *Search) Run(ctx context.Context) (Result, error) {
	if r, err := s.begin(ctx); err != nil || r.None || r.Unsure {
		return r, err
	}
	for {
		left, good, bad, err := s.left(ctx)
		if err != nil {
			return Result{}, err
		}
		i := slices.IndexFunc(left, func(v string) bool { return v != bad && s.step(v) == nil || s.step(v) != nil && s.step(v).Answer == "" })
		if i < 0 {
			return Result{First: bad, Suspects: slices.DeleteFunc(left, func(v string) bool { return v == bad || slices.Contains(good, v) })}, nil
		}
		s.Note("%d versions are left, about %d steps", len(left), steps(len(left)))
		if _, err := s.test(ctx, left[i], s.share(len(left))); err != nil {
			return Result{}, err
		}
	}
}

// One tests the bad version and then `version`. If the answer for the bad version is Good or Unsure, One does not test
// `version`: the Answer is "", and Result.None or Result.Unsure is set.
func (s *Search) One(ctx context.Context, version string) (Answer, Result, error) {
	if r, err := s.begin(ctx); err != nil || r.None || r.Unsure {
		return "", r, err
	}
	if version == s.State.Good {
		return Good, Result{}, nil
	}
	left, _, _, err := s.left(ctx)
	if err != nil {
		return "", Result{}, err
	}
	answer, err := s.test(ctx, version, s.share(max(2, len(left))))
	return answer, Result{}, err
}

// begin loads the results of earlier steps, builds the good version and tests the bad version.
func (s *Search) begin(ctx context.Context) (r Result, err error) {
	for _, step := range s.State.Steps {
		if d, err := s.ratios(ctx, step.Runs); err != nil {
			return r, err
		} else if step.Answer != "" {
			s.learn(step.Answer, d)
		}
	}
	if err := s.Build(ctx, s.State.Good); err != nil {
		return r, &iotax.Error{Op: "build the good version", On: s.State.Good, Err: err, Hint: "name a good version that can be built"}
	}
	left, err := s.Left(ctx, []string{s.State.Good}, s.State.Bad)
	if err != nil {
		return r, err
	}
	answer, err := s.test(ctx, s.State.Bad, s.share(2*len(left)))
	if err == nil && answer == Failed {
		err = &iotax.Error{Op: "test the bad version", On: s.State.Bad, Err: errors.New(s.step(s.State.Bad).Why), Hint: "name a bad version that can be built and measured"}
	}
	return Result{None: answer == Good, Unsure: answer == Unsure}, err
}

// left returns the versions that may be the first bad one, given the answers so far.
func (s *Search) left(ctx context.Context) (left, good []string, bad string, err error) {
	good, bad = []string{s.State.Good}, s.State.Bad
	for _, step := range s.State.Steps {
		switch step.Answer {
		case Good:
			good = append(good, step.Version)
		case Bad:
			bad = step.Version
		}
	}
	left, err = s.Left(ctx, good, bad)
	return left, good, bad, err
}

func (s *Search) step(version string) *Step {
	i := slices.IndexFunc(s.State.Steps, func(x Step) bool { return x.Version == version })
	if i < 0 {
		return nil
	}
	return &s.State.Steps[i]
}

// steps returns the number of tests that a binary search needs to find one of n versions.
func steps(n int) int { return int(math.Ceil(math.Log2(float64(n)))) }

// share returns the error probability that the next step may use if n versions are left: the unused part of Alpha,
// divided by the expected number of remaining steps plus two, because unsure answers cause extra steps. The sum over
// all steps never exceeds Alpha.
func (s *Search) share(n int) float64 {
	rest := Alpha
	for _, step := range s.State.Steps {
		rest -= step.Alpha
	}
	return rest / float64(steps(n)+2)
}

func (s *Search) learn(a Answer, d []float64) {
	switch a {
	case Good:
		s.fast = s.fast.Plus(stat.SampleOf(d))
	case Bad:
		s.slow = s.slow.Plus(stat.SampleOf(d))
	}
}

func (s *Search) ratios(ctx context.Context, runs []string) (all []float64, err error) {
	for _, id := range runs {
		d, err := s.Ratios(ctx, id)
		if err != nil {
			return nil, err
		}
		all = append(all, d...)
	}
	return all, nil
}

// answer returns the answer for the log ratios d of a version, or "" if more rounds are needed.
func (s *Search) answer(step *Step, d []float64) (Answer, error) {
	if len(d) < s.Least {
		return "", nil
	}
	w, err := stat.Slowed(stat.SampleOf(d), s.fast, s.slow, s.Margin)
	if err != nil {
		return "", err
	}
	against := w.Odds
	if step.Version == s.State.Bad { // a good answer must rule out every slowdown of at least the margin
		against = w.Most
	}
	switch {
	case w.Odds >= -math.Log(step.Alpha):
		return Bad, nil
	case against <= math.Log(step.Alpha):
		return Good, nil
	case len(d) >= s.Most:
		return Unsure, nil
	}
	return "", nil
}

// test tests whether a version is slower than the good one, and saves the state. A version with an answer is not
// tested again.
func (s *Search) test(ctx context.Context, version string, alpha float64) (Answer, error) {
	if s.step(version) == nil {
		s.State.Steps = append(s.State.Steps, Step{Version: version, Alpha: alpha})
	}
	step := s.step(version)
	if step.Answer != "" {
		return step.Answer, nil
	}
	d, err := s.measured(ctx, step)
	if err != nil {
		return "", err
	}
	if step.Rounds = len(d); step.Rounds > 0 {
		sample := stat.SampleOf(d)
		step.Ratio = math.Exp(sample.Sum / float64(sample.N))
	}
	s.learn(step.Answer, d)
	text := string(step.Answer)
	if step.Why != "" {
		text += ": " + step.Why
	}
	s.Note("%s: %s after %d rounds", version, text, step.Rounds)
	return step.Answer, s.Save(s.State)
}

// measured builds and measures the version of a step until there is an answer, and stores the answer in step.
func (s *Search) measured(ctx context.Context, step *Step) (d []float64, err error) {
	if d, err = s.ratios(ctx, step.Runs); err != nil {
		return nil, err
	}
	if step.Answer, err = s.answer(step, d); err != nil || step.Answer != "" {
		return d, err
	}
	var broken *BuildError
	if err := s.Build(ctx, step.Version); errors.As(err, &broken) && ctx.Err() == nil {
		step.Answer, step.Why = Failed, broken.Error()
		return d, nil
	} else if err != nil {
		return nil, err
	}
	id := s.NewID()
	step.Runs = append(step.Runs, id)
	if err := s.Save(s.State); err != nil {
		return nil, err
	}
	merr := s.Measure(ctx, step.Version, id, func(now []float64) string {
		a, err := s.answer(step, append(slices.Clone(d), now...))
		if err != nil {
			return err.Error()
		}
		return string(a)
	})
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if merr != nil && !errors.As(merr, &broken) {
		return nil, merr
	}
	before := len(d)
	if d, err = s.ratios(ctx, step.Runs); err != nil {
		return nil, errors.Join(merr, err)
	}
	if step.Answer, err = s.answer(step, d); err != nil || step.Answer != "" {
		return d, err
	}
	if merr != nil || len(d) == before {
		step.Answer, step.Why = Failed, "no round counts: iotax show "+id
		if merr != nil {
			step.Why = fmt.Sprintf("measure: %v", merr)
		}
		return d, nil
	}
	step.Answer = Unsure
	return d, nil
}

// Slowdown returns the speed of the bad versions relative to the good one, over all rounds of the bad versions. A
// ratio below 1 means that they are slower. The interval is NaN if no version is bad.
func (s *Search) Slowdown(ctx context.Context) (stat.Effect, error) {
	var all []float64
	for _, step := range s.State.Steps {
		if step.Answer == Bad {
			d, err := s.ratios(ctx, step.Runs)
			if err != nil {
				return stat.Effect{}, err
			}
			all = append(all, d...)
		}
	}
	if len(all) == 0 {
		return stat.Effect{Interval: stat.Interval{Estimate: math.NaN(), Lo: math.NaN(), Hi: math.NaN()}}, nil
	}
	return stat.Estimate(all, stat.Options{})
}
