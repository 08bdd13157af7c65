package support

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"iotax"
	"iotax/internal/agent"
	"iotax/internal/rules"
)

// startShare is the maximum share of a trial's duration that the start of a command may take. judgeStart adds a
// finding if the share is larger.
const startShare = 0.05

// Timed measures f with this host's clock. It adds the values duration and operations (the number that f returns) to
// out. On machines other than this host, it also times an empty command, and adds that time as the value `start`, an
// estimate of the overhead in the duration.
func Timed(ctx context.Context, m iotax.Machine, out *iotax.Trial, f func() (operations int, err error)) (time.Duration, error) {
	var start time.Duration
	if !iotax.IsLocal(m) {
		var err error
		if start, err = emptyCommand(ctx, m); err != nil {
			return 0, err
		}
	}
	begun := time.Now()
	n, err := f()
	took := time.Since(begun)
	if err != nil {
		return took, err
	}
	out.Values = append(out.Values,
		iotax.Value{Name: iotax.ValueDuration, Value: took.Seconds(), Unit: iotax.Seconds, Better: iotax.Down},
		iotax.Value{Name: iotax.ValueOperations, Value: float64(n), Unit: iotax.Count})
	if start > 0 {
		out.Values = append(out.Values, iotax.Value{Name: "start", Value: start.Seconds(), Unit: iotax.Seconds})
	}
	judgeStart(out, start, took)
	return took, nil
}

// emptyCommand returns how long a command that does nothing takes on m.
func emptyCommand(ctx context.Context, m iotax.Machine) (time.Duration, error) {
	args := []string{"true"}
	if goos, err := System(ctx, m); err != nil {
		return 0, err
	} else if goos == "windows" {
		args = []string{"cmd.exe", "/c", "exit 0"}
	}
	begun := time.Now()
	if _, err := Bounded(ctx, m, GlanceTime, iotax.Command(args...)); err != nil {
		return 0, err
	}
	return time.Since(begun), nil
}

// System returns the operating system of m, as in runtime.GOOS. It returns "" for a machine other than this host that
// has no agent session. Such a machine is POSIX, because sh starts its agents.
func System(ctx context.Context, m iotax.Machine) (string, error) {
	if agent.LinkOf(m) == nil && !iotax.IsLocal(m) {
		return "", nil
	}
	s, err := agent.System(ctx, m)
	goos, _, _ := strings.Cut(s, "/")
	return goos, err
}

func judgeStart(out *iotax.Trial, start, took time.Duration) {
	if share := start.Seconds() / took.Seconds(); share > startShare {
		out.Findings = append(out.Findings, rules.StartDominates.Found(iotax.AboutTrial(out), "an empty command takes %v there, %s of %v", start.Round(time.Millisecond), rules.Percent(share), took.Round(time.Millisecond)))
	}
}

// Placeholders maps the kind of a place to its placeholder in a command.
var Placeholders = map[iotax.PlaceKind]string{
	iotax.PlaceDir: "{dir}", iotax.PlaceDevice: "{device}", iotax.PlaceURL: "{url}",
}

// Holds reports whether one of `texts` contains p. It returns false if p is empty.
func Holds(p string, texts ...string) bool {
	return p != "" && slices.ContainsFunc(texts, func(s string) bool { return strings.Contains(s, p) })
}

// GuardFio returns an error if fio must not run at t's place. It also checks a job that only reads in a directory,
// because fio creates missing files there.
func GuardFio(ctx context.Context, t *iotax.Target, writes bool) error {
	if t.Place.Guard == nil || !writes && t.Place.Kind != iotax.PlaceDir {
		return nil
	}
	return t.Place.Guard(ctx)
}

// Misplaced returns a placeholder in `texts` that t's place cannot fill, or "".
func Misplaced(t *iotax.Target, texts ...string) string {
	for kind, p := range Placeholders {
		if kind != t.Place.Kind && Holds(p, texts...) {
			return p
		}
	}
	return ""
}

// LabelBuild is the label of a target that uses one of several builds. Its value is the directory of that build and
// replaces {build} in a command.
const LabelBuild = "build"

// FillIn replaces the placeholders in `text` with the place, the round's seed, the target's labels, including its build,
// and the workload's labels. It passes the place and the labels through `quote`.
func (e Env) FillIn(text string, t *iotax.Target, seed uint64, quote func(string) string) string {
	pairs := []string{Placeholders[t.Place.Kind], quote(t.Place.Path), "{seed}", fmt.Sprint(seed)}
	for _, labels := range []map[string]string{t.Labels, e.labels} { // the replacer takes the first of two equal names
		for name, value := range labels {
			pairs = append(pairs, "{"+name+"}", quote(value))
		}
	}
	return strings.NewReplacer(pairs...).Replace(text)
}

func AsItIs(s string) string { return s }

// WorkDir returns the working directory for commands of t: its place if that is a directory, else "", which leaves the
// choice to the machine.
func WorkDir(t *iotax.Target) string {
	if t.Place.Kind == iotax.PlaceDir {
		return t.Place.Path
	}
	return ""
}

// Failed wraps err in an *iotax.Error. It drops `hint` if err already contains a hint.
func Failed(op, on string, err error, hint string) error {
	var already *iotax.Error
	if errors.As(err, &already) && already.Hint != "" {
		hint = ""
	}
	return &iotax.Error{Op: op, On: on, Err: err, Hint: hint}
}
