package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"iotax"
	"iotax/internal/bisect"
	"iotax/internal/kinds"
	"iotax/internal/leftover"
	"iotax/internal/plan"
	"iotax/internal/report/format"
	"iotax/internal/run"
	"iotax/internal/run/saved"
	"iotax/internal/run/wired"
	"iotax/internal/statefile"
	"iotax/internal/store"
	"iotax/stat"
)

// bisectRounds limits the rounds of one step, unless the plan or --rounds sets other limits.
var bisectRounds = plan.Rounds{Min: 6, Max: 300}

// Exit statuses of iotax bisect --step, as git bisect run defines them.
const (
	gitGood  = 0
	gitBad   = 1
	gitSkip  = 125
	gitAbort = 128
)

type bisectFlags struct {
	planFlags
	good, bad, repo, state string
	versions               []string
	buildTime              plan.Duration
	step, reset            bool
}

func (a *app) bisectCommand() *cobra.Command {
	fl := bisectFlags{buildTime: plan.Duration(2 * time.Hour)}
	c := &cobra.Command{
		Use:   "bisect [PLAN.yaml | TARGET] --good A --bad B -- BUILD…",
		Short: "Find the version that made it slower: program, kernel or QEMU",
		Long: `bisect finds the version of a program, of a kernel or of any other software that
made a workload slower. It searches between a good version and a slow one. At
each step it builds one version, and compares it with the good one in paired
rounds until the answer is sure. A wrong result has a chance of at most 5 % over
all steps.

The versions are commits of a git repository, or those of --versions. The words
after -- are the build command. It runs in a directory of its own for each
version: a checkout of the commit, or an empty directory. The version is in
$IOTAX_VERSION. A version that cannot be built is skipped, and listed.

{build} is the directory of the build, in the command that is timed or in the
plan. A plan has one workload. Its last target is measured.

An interrupted search continues with the same command. --step tests only the
commit that is checked out, for git bisect run: the exit status is 0 if it is
good, 1 if it is slow, 125 if that cannot be decided, and 128 after an error.`,
		Example: `  iotax bisect --good v1.0 --bad HEAD \
      -w 'command:{build}/tool {dir}/file' -- make tool
  iotax bisect boot.yaml --good v6.6 --bad v6.12 -- make bzImage
  iotax bisect --versions 3.33,3.35,3.36 --good 3.33 --bad 3.36 \
      -w 'command:{build}/fio --version' -- ./fetch-fio.sh
  git bisect run iotax bisect --step --good v1.0 --bad HEAD \
      -w 'command:{build}/tool {dir}/file' -- make tool`,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 0 && c.Flags().NFlag() == 0 {
				return c.Help()
			}
			err := a.bisect(c.Context(), &fl, c, args)
			var code exitCode
			if err == nil || !fl.step || errors.As(err, &code) {
				return err
			}
			printError(a.err, err.Error(), err, gitAbort, a.json)
			return exitCode(gitAbort)
		},
	}
	fl.add(c)
	f := c.Flags()
	for _, name := range notInSearch {
		_ = f.MarkHidden(name)
	}
	f.StringVar(&fl.good, "good", "", "a version that is fast enough: a revision, a date as in 2025-03-01, or one of --versions")
	f.StringVar(&fl.bad, "bad", "HEAD", "a later version that is slower")
	f.StringVar(&fl.repo, "repo", ".", "the git repository")
	f.StringSliceVar(&fl.versions, "versions", nil, "versions instead of commits, from the oldest to the newest, with commas between")
	f.StringVar(&fl.state, "state", "", "directory of the builds and of what is known so far (default iotax-bisect in the .git directory, .iotax-bisect with --versions)")
	typedFlag(c, &fl.buildTime, "build-limit", "a build that takes longer has failed (default "+fl.buildTime.String()+")", plan.ParseDuration)
	f.BoolVar(&fl.step, "step", false, "test only the commit that is checked out, as the script of git bisect run")
	f.BoolVar(&fl.reset, "reset", false, "forget an earlier search, and start anew")
	return c
}

func (a *app) bisect(ctx context.Context, fl *bisectFlags, c *cobra.Command, args []string) error {
	n := c.ArgsLenAtDash()
	if n < 0 || n == len(args) {
		return iotax.Usage(&iotax.Error{Op: "read command line", Err: errors.New("no build command is given"), Hint: "add it behind --, as in: -- make tool"})
	}
	if fl.good == "" {
		return iotax.Usage(&iotax.Error{Op: "read command line", Err: errors.New("no good version is given"), Hint: "add --good and a revision that is fast enough"})
	}
	script, args := args[n:], args[:n]
	if len(args) == 0 {
		args = []string{"dir:/var/tmp"}
	}
	p, err := a.loadSearch(&fl.planFlags, args, bisectRounds)
	if err != nil {
		return err
	}
	if err := errors.Join(bisect.Check(p), p.Measure.Check()); err != nil {
		return iotax.Usage(err)
	}
	if full, err := filepath.Abs(script[0]); err == nil && strings.Contains(script[0], "/") {
		if _, err := os.Stat(full); err == nil { // a path that does not exist here is relative to the checkout
			script[0] = full
		}
	} else if _, err := exec.LookPath(script[0]); err != nil {
		return iotax.Usage(&iotax.Error{Op: "find build command", On: script[0], Err: err, Hint: "name a program that is installed, or write a path"})
	}
	found, err := a.search(ctx, fl, p, script)
	if err != nil {
		return err
	}
	defer found.dir.Close()
	// Builds start processes, which iotax must end. The first build is before the first run.
	mustUndo()
	if _, err := leftover.Begin("bisect"); err != nil {
		return err
	}
	s, b, subject := found.Search, found.builder, found.subject
	db, err := store.Open(ctx, a.store)
	if err != nil {
		return err
	}
	defer db.Close()
	s.Ratios = func(ctx context.Context, id string) ([]float64, error) {
		d, _, err := bisectRatios(ctx, db, id)
		return d, err
	}
	iotaxVersion, begun := version(), time.Now()
	s.Measure = func(ctx context.Context, version, id string, enough func([]float64) string) error {
		twin, err := bisect.Twin(p, kinds.All(), subjectless(s.State.Good), b.Of(s.State.Good), subjectless(version), b.Of(version))
		if err == nil {
			err = twin.Absolute()
		}
		if err != nil {
			return err
		}
		left := &allowance{end: begun.Add(time.Duration(p.Measure.Budget)), last: time.Now(), enough: enough}
		if twin.Measure.Budget > 0 {
			twin.Measure.Budget, enough = 0, left.ends // the budget limits the whole search, not this step
		}
		if err := a.measureStep(ctx, db, twin, run.Options{ID: id, Version: iotaxVersion, Enough: enough}); err != nil {
			return err
		}
		if left.spent && !fl.step { // with --step, git bisect run skips an undecided version
			return &iotax.Error{Op: "bisect", On: subjectless(version), Err: errBudgetSpent, Hint: "the same command with a larger --budget continues"}
		}
		_, invalid, err := bisectRatios(ctx, db, id)
		if err == nil && invalid != "" {
			return &bisect.BuildError{Err: errors.New(invalid)}
		}
		return err
	}
	if fl.step {
		head, err := bisect.Repo{Dir: fl.repo}.Commit(ctx, "HEAD")
		if err != nil {
			return err
		}
		answer, r, err := s.One(ctx, head)
		switch {
		case err != nil:
			return err
		case r.None || r.Unsure:
			return &iotax.Error{Op: "bisect", On: s.State.Bad, Err: errors.New(a.without(s, r)), Hint: "git bisect reset"}
		}
		return exitCode(map[bisect.Answer]int{bisect.Good: gitGood, bisect.Bad: gitBad, bisect.Unsure: gitSkip, bisect.Failed: gitSkip}[answer]).orNil()
	}
	r, err := s.Run(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return errInterrupted{errors.New("interrupted; what is known is saved: the same command continues")}
		}
		return err
	}
	for _, v := range append([]string{s.State.Good, s.State.Bad}, stepped(s.State)...) {
		if err := b.Clear(ctx, v); err != nil {
			return err
		}
	}
	if err := a.printBisection(ctx, db, s, r, subject); err != nil {
		return err
	}
	if r.Unsure || len(r.Suspects) > 0 {
		return exitCode(exitIncomplete)
	}
	return nil
}

// An allowance ends the run of a step if `enough` returns a reason, or if another round as long as the last one would end
// after the budget of the search.
type allowance struct {
	end, last time.Time // end of the budget; when the last round ended
	enough    func([]float64) string
	spent     bool
}

func (a *allowance) ends(d []float64) string {
	why, now := a.enough(d), time.Now()
	if why == "" && now.Add(now.Sub(a.last)).After(a.end) {
		a.spent, why = true, errBudgetSpent.Error()
	}
	a.last = now
	return why
}

func (e exitCode) orNil() error {
	if e == exitOK {
		return nil
	}
	return e
}

func stepped(s *bisect.State) (all []string) {
	for _, step := range s.Steps {
		all = append(all, step.Version)
	}
	return all
}

// subjectless returns the target name for a version: for a commit, the first 12 digits of its hash.
func subjectless(version string) string {
	if len(version) == 40 && strings.Trim(version, "0123456789abcdef") == "" {
		return version[:12]
	}
	return version
}

type bisection struct {
	*bisect.Search
	builder *bisect.Builder
	subject func(ctx context.Context, version string) string // returns one line about a version
	dir     *statefile.Dir                                   // locked until the search ends
}

// search prepares the search that fl describes, or resumes it from its state directory. The caller closes dir of the
// result.
func (a *app) search(ctx context.Context, fl *bisectFlags, p *plan.Plan, script []string) (_ *bisection, err error) {
	s := &bisect.Search{Margin: float64(p.Measure.Margin), Least: p.Measure.Rounds.Min, Most: p.Measure.Rounds.Max}
	b := &bisect.Builder{Script: script, Limit: time.Duration(fl.buildTime)}
	repo := bisect.Repo{Dir: fl.repo}
	good, bad, dir := fl.good, fl.bad, fl.state
	subject := func(_ context.Context, version string) string { return version }
	if len(fl.versions) > 0 {
		if fl.step {
			return nil, iotax.Usage(errors.New("--step is for commits: it cannot be combined with --versions"))
		}
		for i, v := range fl.versions {
			// Some file systems ignore case, and two versions must not share the directory of their builds.
			if k := slices.IndexFunc(fl.versions[:i], func(u string) bool { return strings.EqualFold(u, v) }); k >= 0 {
				return nil, iotax.Usage(&iotax.Error{Op: "read --versions", On: v, Err: fmt.Errorf("%s and %s differ at most in upper and lower case", fl.versions[k], v), Hint: "give each version its own name"})
			}
		}
		if bad == "HEAD" {
			bad = fl.versions[len(fl.versions)-1]
		}
		s.Left = bisect.List(fl.versions)
		if dir == "" {
			dir = ".iotax-bisect"
		}
	} else {
		if good, err = repo.Commit(ctx, good); err == nil {
			bad, err = repo.Commit(ctx, bad)
		}
		if err == nil && dir == "" {
			dir, err = repo.StateDir(ctx)
		}
		if err != nil {
			return nil, err
		}
		s.Left, b.Checkout, b.Remove = repo.Left, repo.Checkout, repo.Remove
		subject = func(ctx context.Context, version string) string {
			if text, err := repo.Subject(ctx, version); err == nil {
				return text
			}
			return version
		}
	}
	if _, err := s.Left(ctx, []string{good}, bad); err != nil {
		return nil, iotax.Usage(err)
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, err
	}
	state, err := statefile.Open(dir, "iotax bisect", "builds", "build.log")
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, state.Close())
		}
	}()
	if b.Dir = filepath.Join(dir, "builds"); fl.reset {
		var old bisect.State
		if found, err := state.Read(&old); err == nil && found {
			for _, v := range append(stepped(&old), old.Good, old.Bad) {
				if err := b.Clear(ctx, v); err != nil {
					return nil, err
				}
			}
		}
		if err := state.Clear(); err != nil {
			return nil, err
		}
	}
	same := *p // without the budget, because a search may resume with another budget
	same.Measure.Budget = 0
	text, err := same.YAML()
	if err != nil {
		return nil, err
	}
	what := fmt.Sprintf("%x", sha256.Sum256(fmt.Appendf(text, "%q %q", script, fl.versions)))
	if s.State, err = bisect.Resume(state, good, bad, what); err != nil {
		return nil, err
	}
	s.Save, s.NewID, s.Build = func(st *bisect.State) error { return state.Write(st) }, func() string { return store.NewID(time.Now()) }, b.Build
	s.Note = a.note
	if err := os.MkdirAll(b.Dir, 0o700); err != nil {
		return nil, &iotax.Error{Op: "make directory of builds", On: b.Dir, Err: err, Hint: "name another one: --state DIR"}
	}
	log, err := os.OpenFile(filepath.Join(dir, "build.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600) //nolint:gosec // this program made the directory
	if err != nil {
		return nil, err
	}
	b.Log = log
	return &bisection{s, b, subject, state}, nil
}

// note prints a line about the progress of a search, unless --quiet is given.
func (a *app) note(format string, args ...any) {
	if !a.quiet {
		fmt.Fprintf(a.err, "iotax: "+format+"\n", args...)
	}
}

// measureStep measures the plan of a step as a run with the id opts.ID. If the target of the tested version could not
// be opened, it returns a *bisect.BuildError.
func (a *app) measureStep(ctx context.Context, db *store.Store, p *plan.Plan, opts run.Options) error {
	id := opts.ID
	work, err := beginWork(id)
	if err != nil {
		return err
	}
	defer a.endWork(work)
	show := a.progress()
	defer saved.Beat(ctx, db, id)()
	r, err := run.Run(ctx, p, wired.Deps(db, work, nil, show, a.verbose), opts)
	show.End()
	a.printUnremoved(r)
	if err != nil && r != nil && len(r.Targets) > 1 && r.Targets[1].Err != "" {
		return &bisect.BuildError{Err: err} // only this version is affected
	}
	return err
}

// bisectRatios returns the log ratios of a run of two targets. It returns nil if the run does not exist or has no
// usable rounds. If too many trials of a target are invalid, it also returns nil, with the evidence in `invalid`.
func bisectRatios(ctx context.Context, db *store.Store, id string) (d []float64, invalid string, err error) {
	r, err := db.Get(ctx, id)
	if errors.Is(err, store.ErrNotFound) || err == nil && (len(r.Targets) < 2 || len(r.Workloads) == 0) {
		return nil, "", nil
	}
	if err != nil {
		return nil, "", err
	}
	pairing := stat.Pairing{Metric: r.Workloads[0].Metrics[0], SetAside: true}
	var brief []*iotax.Trial
	for t, err := range db.Each(ctx, id, store.Full) {
		if err != nil {
			return nil, "", err
		}
		pairing.Add(t)
		brief = append(brief, &iotax.Trial{Target: t.Target, Workload: t.Workload, Err: t.Err, Discarded: t.Discarded, Findings: t.Findings})
	}
	for _, t := range stat.SetAside(brief) {
		k := slices.IndexFunc(t.Findings, isInvalid)
		if k >= 0 && t.Err == "" && t.Discarded == "" && t.Workload == r.Workloads[0].Name {
			return nil, fmt.Sprintf("more than %.0f %% of the trials of %s are invalid: %s: %s", 100*stat.MaxDiscarded, t.Target, t.Findings[k].Rule, t.Findings[k].Evidence), nil
		}
	}
	if d, err := pairing.LogRatios(r.Targets[0].Name, r.Targets[1].Name); err == nil {
		return d, "", nil
	}
	return nil, "", nil // usually no round is valid
}

// without describes the result of a search that found no slowdown, or could not decide whether the bad version is
// slower.
func (a *app) without(s *bisect.Search, r bisect.Result) string {
	bad := s.State.Steps[0]
	if r.None {
		return fmt.Sprintf("%s is not slower than %s by %s or more, sure to %.0f %% after %s", subjectless(bad.Version), subjectless(s.State.Good), plan.Percent(s.Margin), 100*(1-bisect.Alpha), format.Plural(bad.Rounds, "round"))
	}
	return fmt.Sprintf("whether %s is slower than %s is not decided after %s", subjectless(bad.Version), subjectless(s.State.Good), format.Plural(bad.Rounds, "round"))
}

func (a *app) printBisection(ctx context.Context, db *store.Store, s *bisect.Search, r bisect.Result, subject func(context.Context, string) string) error {
	s.State.Result = r.First
	if err := s.Save(s.State); err != nil {
		return err
	}
	rounds := 0
	for _, step := range s.State.Steps {
		rounds += step.Rounds
	}
	ratio, err := s.Slowdown(ctx)
	if err != nil {
		return err
	}
	if a.json {
		return writeJSON(a.out, map[string]any{"good": s.State.Good, "bad": s.State.Bad, "first": r.First, "none": r.None, "undecided": r.Unsure, "suspects": r.Suspects,
			"ratio": ratio, "rounds": rounds, "steps": s.State.Steps})
	}
	var b strings.Builder
	switch {
	case r.None || r.Unsure:
		fmt.Fprintln(&b, a.without(s, r))
	case len(r.Suspects) > 0:
		fmt.Fprintf(&b, "The first slow version is one of these %d:\n", len(r.Suspects)+1)
		for _, v := range append(slices.Clone(r.Suspects), r.First) {
			fmt.Fprintf(&b, "  %s\n", subject(ctx, v))
		}
	default:
		fmt.Fprintf(&b, "The first slow version is %s\n", subject(ctx, r.First))
	}
	if r.First != "" {
		c, err := contrastOf(ctx, db, s.State)
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "Slow versions, against %s: %s.\n", subjectless(s.State.Good), c.Interval(ratio.Interval))
	}
	fmt.Fprintf(&b, "%s, %s. The chance of a wrong result is at most %.0f %%.\n\n", format.Plural(len(s.State.Steps), "step"), format.Plural(rounds, "round"), 100*bisect.Alpha)
	for _, step := range s.State.Steps {
		fmt.Fprintf(&b, "  %-14s %-7s %4d rounds", subjectless(step.Version), step.Answer, step.Rounds)
		if step.Ratio > 0 {
			fmt.Fprintf(&b, "  %.3f×", step.Ratio)
		}
		if step.Why != "" {
			why, _, _ := strings.Cut(step.Why, "\n")
			fmt.Fprintf(&b, "  skipped: %s", why)
		}
		if n := len(step.Runs); n > 0 {
			fmt.Fprintf(&b, "  iotax report %s", step.Runs[n-1])
		}
		fmt.Fprintln(&b)
	}
	_, err = a.out.Write([]byte(b.String()))
	return err
}

// contrastOf returns the words, such as "slower", for the metric by which the bad versions were measured.
func contrastOf(ctx context.Context, db *store.Store, s *bisect.State) (format.Contrast, error) {
	for _, step := range s.Steps {
		if step.Answer != bisect.Bad {
			continue
		}
		for _, id := range step.Runs {
			r, err := db.Get(ctx, id)
			if errors.Is(err, store.ErrNotFound) || err == nil && len(r.Workloads) == 0 {
				continue
			} else if err != nil {
				return format.Contrast{}, err
			}
			for t, err := range db.Each(ctx, id, store.Brief) {
				if err != nil {
					return format.Contrast{}, err
				}
				if v, ok := t.Value(r.Workloads[0].Metrics[0]); ok {
					return format.ContrastOf(v.Name, v.Better, v.Unit), nil
				}
			}
		}
	}
	return format.ContrastOf("", iotax.Down, iotax.Seconds), nil
}
