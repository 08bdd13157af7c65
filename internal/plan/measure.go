package plan

import (
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"iotax/internal/plan/bind"
	"iotax/internal/plan/syntax"
)

// DropWorst is the value of Measure.Drop that stops measuring targets once they are shown not to be the best.
const DropWorst = "worst"

// Adaptive is the protocol that stops when the result is precise enough.
const Adaptive = "adaptive"

// Fixed reports whether the protocol fixes the number of rounds.
func (m Measure) Fixed() bool { return strings.HasPrefix(m.Protocol, "fixed:") }

// parseProtocol parses a protocol such as "fixed:5x60s" into its number of rounds and trial length. For "adaptive" it
// returns zeros.
func parseProtocol(s string) (n int, trial Duration, err error) {
	const hint = "write adaptive, or fixed:NxLENGTH as in fixed:5x60s"
	if s == Adaptive {
		return 0, 0, nil
	}
	bad := &FieldError{Field: "protocol", Msg: fmt.Sprintf("%s is not a protocol", syntax.Quote(s)), Hint: hint}
	rest, ok := strings.CutPrefix(s, "fixed:")
	if !ok {
		if near := syntax.Nearest(s, []string{Adaptive}); near != "" {
			bad.Hint = fmt.Sprintf("did you mean %q?", near)
		}
		return 0, 0, bad
	}
	count, length, ok := strings.Cut(rest, "x")
	if !ok {
		return 0, 0, bad
	}
	n, err = strconv.Atoi(count)
	if err != nil || n < 1 || n > MaxRounds {
		bad.Msg = fmt.Sprintf("%s: %s is not a number of rounds from 1 to %d", syntax.Quote(s), syntax.Quote(count), MaxRounds)
		return 0, 0, bad
	}
	trial, err = syntax.ParseDuration(length)
	if err != nil {
		bad.Msg = fmt.Sprintf("%s: %s", syntax.Quote(s), err)
		return 0, 0, bad
	}
	if trial <= 0 {
		bad.Msg = fmt.Sprintf("%s: a trial of no length measures nothing", syntax.Quote(s))
		return 0, 0, bad
	}
	return n, trial, nil
}

// Check returns joined *FieldError values for invalid and contradictory fields. It sets Rounds and Trial from a fixed
// protocol. If Restarts is above 1 and below Rounds.Max, it sets Rounds.Min to Rounds.Max. Call it after changing
// fields.
func (m *Measure) Check() error {
	var bad []error
	fail := func(field, hint, format string, args ...any) {
		bad = append(bad, &FieldError{Field: field, Msg: fmt.Sprintf(format, args...), Hint: hint})
	}
	ratio := func(name string, p Percent) {
		if !(p > 0 && p <= 1) { // also rejects NaN
			fail(name, "write more than 0% and at most 100%, as in 5%", "%s is out of range", p)
		}
	}
	ratio("precision", m.Precision)
	ratio("margin", m.Margin)
	if syntax.Password.MatchString(m.Prepare) {
		fail("prepare", "use a key, an agent, a file or the environment for it", "a password does not belong in a plan, which every report shows")
	}
	if m.PrepareOn != "" && m.Prepare == "" {
		fail("prepare_on", "add prepare: COMMAND", "there is no command to run")
	}
	if m.Drop != "" && m.Drop != DropWorst {
		fail("drop", "write worst", "%s is not a way to drop targets", syntax.Quote(m.Drop))
	}
	if m.Restarts < 0 {
		fail("restarts", "write a number up to that of the rounds; 6 or more show what a start decides", "%d is out of range", m.Restarts)
	}
	if m.Drop != "" && m.Restarts > 1 {
		fail("drop", "remove restarts: or drop:", "restarts measure a fixed number of rounds, which drops no target")
	} else if m.Drop != "" && (m.Fixed() || m.Rounds.Min >= m.Rounds.Max) {
		fail("drop", "remove it, or write the least and the most rounds, as in rounds: 6..30", "a fixed number of rounds drops no target")
	}
	if g := m.Governor; g != "" && g != "performance" {
		fail("governor", "write performance", "%s is not a governor for measurements", syntax.Quote(g))
	}
	n, trial, err := parseProtocol(m.Protocol)
	if err != nil {
		bad = append(bad, err)
	} else if n > 0 {
		m.Trial, m.Rounds = trial, Rounds{Min: n, Max: n}
	}
	for _, f := range []struct {
		name string
		d    Duration
	}{{"ramp", m.Ramp}, {"settle", m.Settle}, {"overrun", m.Overrun}, {"budget", m.Budget}} {
		if f.d < 0 {
			fail(f.name, "write 0 or more", "%s is negative", f.d)
		}
		if f.d > MaxTime {
			fail(f.name, "write at most "+Duration(MaxTime).String(), "%s is too long", f.d)
		}
	}
	switch {
	case m.Trial <= 0:
		fail("trial", "write a length, as in 10s", "%s measures nothing", m.Trial)
	case m.Trial > MaxTime:
		fail("trial", "write at most "+Duration(MaxTime).String(), "%s is too long", m.Trial)
	case m.Ramp >= m.Trial:
		fail("ramp", "make the ramp shorter, or the trial longer", "%s is not shorter than the trial of %s", m.Ramp, m.Trial)
	case m.Budget > 0 && m.Budget < m.Settle+m.Ramp+m.Trial:
		fail("budget", "give more time, or 0 for no limit", "%s is less than one trial takes (%s)", m.Budget, m.Settle+m.Ramp+m.Trial)
	}
	if m.Overrun == 0 {
		fail("overrun", "write a length, as in 90s", "a program needs some time to start and to end")
	}
	for _, e := range m.Rounds.check() {
		e.Field = "rounds." + e.Field
		bad = append(bad, e)
	}
	if m.Restarts > 1 {
		if m.Rounds.Max < m.Restarts {
			fail("restarts", "use more rounds, or fewer restarts", "%d starts are more than the %d rounds that are divided between them", m.Restarts, m.Rounds.Max)
		}
		if m.Restarts < m.Rounds.Max {
			m.Rounds.Min = m.Rounds.Max // fix the number, because the rounds are divided between the starts before the noise is known
		}
	}
	return errors.Join(bad...)
}

// Starts returns how many times the run starts the targets. It is at least 1.
func (m Measure) Starts() int { return max(1, m.Restarts) }

// MaxTime is the limit of each duration in the measure section. Sums of such durations do not overflow.
const MaxTime = Duration(366 * 24 * time.Hour)

func (b *builder) measure(m *Measure, n *syntax.Node) {
	v := &bind.Variant{}
	b.Mapping(v, reflect.ValueOf(m).Elem(), nil, "measure", n)
}

func (b *builder) checkMeasure(m *Measure, n *syntax.Node) {
	asked := *m
	v := &bind.Variant{}
	if n != nil && m.Fixed() && v.At(n, "budget") == nil {
		m.Budget = 0 // a fixed protocol has no budget unless the plan sets one
	}
	err := m.Check()
	if err != nil {
		joined := err.(interface{ Unwrap() []error })
		for _, e := range joined.Unwrap() {
			fe := e.(*FieldError)
			// `rounds: 0..3` has one place for both bounds. A default has no place, so use the place of a field that
			// contradicts it.
			outer, _, _ := strings.Cut(fe.Field, ".")
			at := n
			for _, name := range append([]string{fe.Field, outer}, against[outer]...) {
				if found := v.At(n, name); found != nil {
					at = found
					break
				}
			}
			b.Fail(at, fe.Hint, "%s: %s", fe.Field, fe.Msg)
		}
		return
	}
	if !m.Fixed() {
		return
	}
	// Other fields may repeat the values of a fixed protocol, but not contradict them.
	if at := v.At(n, "trial"); at != nil && asked.Trial != m.Trial {
		b.Fail(at, "remove one", "the trial of %s contradicts the protocol %s", asked.Trial, m.Protocol)
	}
	if at := v.At(n, "rounds"); at != nil && asked.Rounds != m.Rounds {
		b.Fail(at, "remove one", "the rounds %s contradict the protocol %s", asked.Rounds, m.Protocol)
	}
}

// against maps a field to the other fields that can contradict it.
var against = map[string][]string{
	"ramp":   {"trial", "protocol"},
	"budget": {"trial", "protocol", "ramp", "settle"},
	"drop":   {"restarts"},
}
