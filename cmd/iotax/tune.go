package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"iotax"
	"iotax/internal/calibrate"
	"iotax/internal/plan"
	"iotax/internal/plan/schedule"
	"iotax/internal/report/format"
	"iotax/internal/rules"
	"iotax/internal/run"
	"iotax/internal/run/estimate"
	"iotax/internal/statefile"
	"iotax/internal/store"
	"iotax/internal/terminal"
	"iotax/internal/tune"
	"iotax/stat"
)

// tuneRounds is the default for the rounds of the final comparison. Its maximum also limits the screening.
var tuneRounds = plan.Rounds{Min: 6, Max: 300}

type tuneFlags struct {
	planFlags
	metric, state      string
	reset, allowWeaker bool
}

func (a *app) tuneCommand() *cobra.Command {
	var fl tuneFlags
	c := &cobra.Command{
		Use:   "tune PLAN.yaml | [DIRECTORY] TARGET --for METRIC",
		Short: "Find the fastest options of a disk, share or mount",
		Long: `tune finds the best combination of the options that a plan lists, without
measuring all of them. The last target of the plan has lists of values, as in
cache: [writeback, none]. The first value of each list is the present one. For a
target of the command line there are built-in lists of options, and its own
values are the present ones: guest disks, shared folders and NFS have lists.

A screening design measures a few combinations, and estimates what each value
does on average. The combinations of those that do something are then compared
in paired rounds, and the worse ones are dropped, until one is surely within
--margin of the best. Of several, the one with the fewest changes is taken.

Values under which a flush promises less than with the present options are not
recommended, except with --allow-weaker. Values whose gain comes from a cache
are never recommended.

An interrupted search continues with the same command. The exit status is 0 if
the answer is sure, and 4 if it is not after the most rounds or the budget.`,
		Example: `  iotax tune disk.yaml --for read.iops
  iotax tune qemu:virtio-blk,cache=writeback --for read.iops
  iotax tune /srv/images qemu:virtiofs --for write.iops
  iotax tune shares.yaml --for write.latency.p99 -w 'small writes' --margin 10%
  iotax tune disk.yaml --for read.iops --budget 2h --json`,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 0 && c.Flags().NFlag() == 0 {
				return c.Help()
			}
			return a.tune(c.Context(), &fl, args)
		},
	}
	fl.add(c)
	f := c.Flags()
	for _, name := range append(notInSearch, "metric") {
		_ = f.MarkHidden(name)
	}
	f.StringVar(&fl.metric, "for", "", "the value to improve, as in read.iops or write.latency.p99")
	f.StringVar(&fl.state, "state", ".iotax-tune", "directory of what is known so far, until the search ends")
	f.BoolVar(&fl.reset, "reset", false, "forget an interrupted search, and start anew")
	f.BoolVar(&fl.allowWeaker, "allow-weaker", false, "recommend options under which a flush promises less, too")
	completeBy(c, "for", completeMetrics)
	return c
}

// words adds defaults to the arguments: /var/tmp as the first target if only one target is given, and a workload if
// none is given.
func (fl *tuneFlags) words(args []string) []string {
	if len(args) == 1 {
		args = append([]string{"dir:/var/tmp"}, args...)
	}
	if len(fl.workloads) == 0 {
		fl.workloads = workloadWords{"randread-4k"}
		if strings.HasPrefix(fl.metric, "write.") || strings.HasPrefix(fl.metric, "sync.") {
			fl.workloads = workloadWords{"randwrite-4k"}
		}
	}
	return args
}

func (a *app) tune(ctx context.Context, fl *tuneFlags, args []string) error {
	if fl.metric == "" {
		return iotax.Usage(&iotax.Error{Op: "read command line", Err: errors.New("no metric is given"), Hint: "add --for and what to improve, as in --for read.iops"})
	}
	fl.metrics = []string{fl.metric}
	words := len(args) > 1 || len(args) == 1 && isWord(args[0])
	if words {
		args = fl.words(args)
	}
	p, err := a.loadSearch(&fl.planFlags, args, tuneRounds)
	if err != nil {
		return err
	}
	if words {
		if p, err = p.Spread(fl.kinds()); err != nil {
			return iotax.Usage(err)
		}
	}
	m, err := matrixOf(p)
	if err != nil {
		return iotax.Usage(err)
	}
	if err := p.Absolute(); err != nil {
		return err
	}
	if err := lacks(ctx, p); err != nil {
		return err
	}
	dir, err := statefile.Open(fl.state, "iotax tune")
	if err != nil {
		return err
	}
	defer dir.Close()
	if fl.reset {
		if err := dir.Clear(); err != nil {
			return err
		}
	}
	same := *p // without the budget, because a search may resume with another budget
	same.Measure.Budget = 0
	text, err := same.YAML()
	if err != nil {
		return err
	}
	t := &tuning{app: a, p: p, matrix: m, metric: p.Workloads[0].Metrics[0], dir: dir, begun: time.Now(), weaker: fl.allowWeaker}
	what := fmt.Sprintf("%x", sha256.Sum256(fmt.Appendf(text, "%q %v", t.metric, fl.allowWeaker)))
	if found, err := dir.Read(&t.state); err != nil {
		return err
	} else if found && t.state.What != what {
		return &iotax.Error{Op: "resume search", On: fl.state, Err: errors.New("it is one of another plan or another metric"), Hint: "start anew with --reset, or give this one a directory of its own: --state DIR"}
	}
	t.state.What = what
	if t.db, err = store.Open(ctx, a.store); err != nil {
		return err
	}
	defer t.db.Close()
	s := &tune.Search{Factors: m.factors, Margin: float64(p.Measure.Margin), Least: p.Measure.Rounds.Min, Most: p.Measure.Rounds.Max, Measure: t.measure, Note: a.note}
	r, err := s.Run(ctx)
	spent := errors.Is(err, errBudgetSpent)
	switch {
	case ctx.Err() != nil:
		return errInterrupted{errors.New("interrupted; what is known is saved: the same command continues")}
	case spent && (len(r.Effects) > 0 || len(r.Finalists) > 0):
		a.note("%v; the same command with a larger --budget continues", err)
		r.Sure = false
	case spent:
		return &iotax.Error{Op: "tune", On: p.Name, Err: err, Hint: "the same command with a larger --budget continues. A larger --margin, or fewer --rounds, needs less time: start that anew with --reset"}
	case err != nil:
		return err
	}
	if err := t.print(ctx, s, &r); err != nil {
		return err
	}
	if !spent {
		if err := dir.Remove(); err != nil {
			return err
		}
	}
	if !r.Sure {
		return exitCode(exitIncomplete)
	}
	return nil
}

var errBudgetSpent = errors.New("the budget is spent")

// A matrix holds the targets of the plan's last entry, by their combination of options.
type matrix struct {
	entry   string
	factors []tune.Factor
	targets map[string]plan.Target // keys are combinations, formatted with fmt.Sprint
}

// matrixOf returns the matrix of p, or an error if p cannot be tuned.
func matrixOf(p *plan.Plan) (*matrix, error) {
	fail := func(what, hint string) (*matrix, error) {
		return nil, &iotax.Error{Op: "tune", On: p.Name, Err: errors.New(what), Hint: hint}
	}
	if len(p.Workloads) != 1 {
		return fail(fmt.Sprintf("the plan has %d workloads, and one decides", len(p.Workloads)), "choose one: -w NAME")
	}
	m := &matrix{targets: map[string]plan.Target{}}
	m.entry, _ = p.Targets[len(p.Targets)-1].Axes()
	var combos []tune.Combo
	var of []plan.Target
	for _, t := range p.Targets {
		entry, values := t.Axes()
		if entry != m.entry {
			continue
		}
		if can := t.Traits(); can.Gather != nil {
			return fail("a target that is made of several targets has no options of its own", "let a plain target be the last one")
		}
		c := make(tune.Combo, len(m.factors))
		for _, v := range values {
			f := slices.IndexFunc(m.factors, func(f tune.Factor) bool { return f.Name == v.Key })
			if f < 0 {
				f = len(m.factors)
				m.factors, c = append(m.factors, tune.Factor{Name: v.Key}), append(c, 0)
			}
			level := slices.Index(m.factors[f].Levels, v.Value)
			if level < 0 {
				level = len(m.factors[f].Levels)
				m.factors[f].Levels = append(m.factors[f].Levels, v.Value)
			}
			c[f] = level
		}
		combos, of = append(combos, c), append(of, t)
	}
	all := 1
	for _, f := range m.factors {
		all *= len(f.Levels)
	}
	switch {
	case len(of) < 2:
		return fail(fmt.Sprintf("%s has no list of values to choose from", m.entry), "write several values for an option, the present one first, as in cache: [writeback, none]")
	case all != len(of):
		return fail(fmt.Sprintf("the %d targets of %s are not all combinations of its lists", len(of), m.entry), "put lists on machines that have the same options")
	}
	for i, c := range combos {
		m.targets[fmt.Sprint(c)] = of[i]
	}
	return m, nil
}

func (m *matrix) target(c tune.Combo) plan.Target { return m.targets[fmt.Sprint(c)] }

// A tuning measures combinations of a plan's options for a search.
type tuning struct {
	*app
	p      *plan.Plan
	matrix *matrix
	metric string
	weaker bool // allow weaker durability
	db     *store.Store
	dir    *statefile.Dir
	state  tuneState
	step   int // index of the next step in state.Steps
	begun  time.Time
}

// A tuneState contains the steps of a search so far, with their runs. A resumed search repeats the same steps, and
// reads the results from these runs.
type tuneState struct {
	What  string     `json:"what"` // hash of the plan, the metric and --allow-weaker
	Steps []tuneStep `json:"steps"`
}

type tuneStep struct {
	Combos []tune.Combo `json:"combos"`
	Rounds int          `json:"rounds"`
	Runs   []string     `json:"runs"` // several if the step was interrupted
	Done   bool         `json:"done"`
}

// pace returns the mean time of a trial so far, including its share of opening and closing targets. It uses only steps
// that were completed without an interruption, and returns 0 if no step was.
func (t *tuning) pace(ctx context.Context) (time.Duration, error) {
	took, trials := time.Duration(0), 0
	for _, step := range t.state.Steps {
		if !step.Done || len(step.Runs) != 1 {
			continue
		}
		r, err := t.db.Get(ctx, step.Runs[0])
		if err != nil {
			return 0, err
		}
		took, trials = took+r.End.Sub(r.Start), trials+len(step.Combos)*step.Rounds
	}
	return took / time.Duration(max(1, trials)), nil
}

// measure implements tune.Search.Measure.
func (t *tuning) measure(ctx context.Context, combos []tune.Combo, rounds int) ([]tune.Row, error) {
	if t.step == len(t.state.Steps) {
		t.state.Steps = append(t.state.Steps, tuneStep{Combos: combos, Rounds: rounds})
	}
	step := &t.state.Steps[t.step]
	if fmt.Sprint(step.Combos, step.Rounds) != fmt.Sprint(combos, rounds) {
		return nil, &iotax.Error{Op: "resume search", On: t.dir.Path, Err: errors.New("its runs have changed since"), Hint: "start anew with --reset"}
	}
	t.step++
	rows, err := t.rows(ctx, combos, step.Runs)
	if err != nil || step.Done {
		return rows, err
	}
	if more := rounds - len(rows[0].D); more > 0 {
		p := t.plan(combos, more)
		pace, err := t.pace(ctx)
		if err != nil {
			return nil, err
		}
		length := pace * time.Duration(len(combos)*more)
		says := "about " + terminal.Elapsed(length) + " at the pace so far"
		if pace == 0 {
			costs, from, err := estimate.Costs(ctx, t.db, p, calibrate.Never, t.note)
			if err != nil {
				return nil, err
			}
			_, length, _ = schedule.Estimate(p, costs)
			says = estimate.Lines(p, costs, from)[0]
		}
		if budget := time.Duration(t.p.Measure.Budget); budget > 0 && time.Since(t.begun)+length > budget {
			return nil, fmt.Errorf("%w: the next %s take about %v of %v", errBudgetSpent, format.Plural(len(combos)*more, "trial"), length.Round(time.Second), budget)
		}
		t.note("%s take %s", format.Plural(len(combos)*more, "trial"), says)
		id := store.NewID(time.Now())
		step.Runs = append(step.Runs, id)
		if err := t.dir.Write(t.state); err != nil {
			return nil, err
		}
		if err := t.measureStep(ctx, t.db, p, run.Options{ID: id, Version: version(), KeepGoing: true}); err != nil {
			return nil, err
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if rows, err = t.rows(ctx, combos, step.Runs); err != nil {
			return nil, err
		}
	}
	step.Done = true
	return rows, t.dir.Write(t.state)
}

// plan returns a plan that measures combos for this number of rounds. It keeps targets outside of the matrix, because
// combinations may be based on them.
func (t *tuning) plan(combos []tune.Combo, rounds int) *plan.Plan {
	p := *t.p
	p.Expectations, p.Layers, p.Reference, p.Layout = nil, nil, nil, ""
	p.Targets, p.Workloads = nil, slices.Clone(p.Workloads)
	p.Workloads[0].At = nil
	for _, c := range combos {
		target := t.matrix.target(c)
		target.Against = nil
		p.Targets = append(p.Targets, target)
		p.Workloads[0].At = append(p.Workloads[0].At, target.Name)
	}
	for _, target := range t.p.Targets {
		if entry, _ := target.Axes(); entry != t.matrix.entry {
			p.Targets = append(p.Targets, target)
		}
	}
	used := p.Used()
	p.Machines = slices.DeleteFunc(slices.Clone(p.Machines), func(m plan.Machine) bool { return !used[m.Name] })
	p.Baseline = p.Targets[0].Name
	p.Name = fmt.Sprintf("%s: tune, step %d", t.p.Name, t.step)
	m := &p.Measure
	m.Rounds, m.Protocol, m.Restarts = plan.Rounds{Min: rounds, Max: rounds}, plan.Adaptive, min(m.Restarts, rounds)
	m.Budget, m.Drop = 0, ""
	return &p
}

// rows returns the measurements of the runs of a step, one row for each combination, without the invalid trials. It
// skips runs that are not in the store, or that ended before their targets were open.
func (t *tuning) rows(ctx context.Context, combos []tune.Combo, runs []string) ([]tune.Row, error) {
	rows := make([]tune.Row, len(combos))
	good := make([]int, len(combos))
	names := make([]string, len(combos))
	for i, c := range combos {
		names[i] = t.matrix.target(c).Name
	}
	for _, id := range runs {
		r, err := t.db.Get(ctx, id)
		if errors.Is(err, store.ErrNotFound) || err == nil && len(r.Targets) == 0 {
			continue
		} else if err != nil {
			return nil, err
		}
		rounds := map[int][]float64{} // logarithms; higher is better
		discarded := map[int]bool{}
		for trial, err := range t.db.Each(ctx, id, store.Full) {
			if err != nil {
				return nil, err
			}
			if rounds[trial.Round] == nil {
				rounds[trial.Round] = slices.Repeat([]float64{math.NaN()}, len(combos))
			}
			discarded[trial.Round] = discarded[trial.Round] || trial.Discarded != ""
			i := slices.Index(names, trial.Target)
			if i < 0 || trial.Err != "" {
				continue
			}
			v, ok := trial.Value(t.metric)
			if !ok || !(v.Value > 0) {
				continue
			}
			good[i]++
			if slices.ContainsFunc(trial.Findings, isInvalid) {
				continue
			}
			rounds[trial.Round][i] = math.Log(v.Value)
			if v.Better == iotax.Down {
				rounds[trial.Round][i] *= -1
			}
		}
		order := slices.Sorted(maps.Keys(rounds))
		if r.Status != iotax.Done && r.Status != iotax.Incomplete && len(order) > 0 {
			order = order[:len(order)-1] // the last round may lack combinations
		}
		for _, round := range order {
			if discarded[round] {
				continue
			}
			for i, x := range rounds[round] {
				rows[i].D = append(rows[i].D, x-rounds[round][0])
			}
		}
		present := r.Targets[0].Durability
		for i, name := range names {
			k := slices.IndexFunc(r.Targets, func(info iotax.TargetInfo) bool { return info.Name == name })
			if k < 0 {
				continue
			}
			info := r.Targets[k]
			switch {
			case info.Err != "":
				rows[i].Wrong, rows[i].Why = tune.Failed, info.Err
			case !t.weaker && info.Durability != present && iotax.Weakest(info.Durability, present) == info.Durability:
				rows[i].Wrong, rows[i].Why = tune.Weaker, fmt.Sprintf("what a flush promises there (%s) is less than with the present options (%s)", info.Durability, present)
			}
		}
	}
	found, err := t.invalid(ctx, names)
	if err != nil {
		return nil, err
	}
	for i := range rows {
		why, bad := found[names[i]]
		switch {
		case rows[i].Wrong != "" || len(rows[0].D) == 0:
		case good[i] == 0:
			rows[i].Wrong, rows[i].Why = tune.Failed, "no trial has "+t.metric+": iotax show "+runs[len(runs)-1]
		case bad && byCache(why):
			rows[i].Wrong, rows[i].Why = tune.Cached, "a cache answered, not the device: "+why.Evidence
		case bad:
			rows[i].Wrong, rows[i].Why = tune.Failed, "its trials are invalid: "+why.Rule+": "+why.Evidence
		}
	}
	return rows, nil
}

// invalid returns a finding for each target that has too many invalid trials. It counts the trials of all steps so far,
// because a step may have only two rounds.
func (t *tuning) invalid(ctx context.Context, targets []string) (map[string]iotax.Finding, error) {
	valid, bad, last := map[string]int{}, map[string]int{}, map[string]iotax.Finding{}
	for _, step := range t.state.Steps[:t.step] {
		for _, id := range step.Runs {
			for trial, err := range t.db.Each(ctx, id, store.Brief) {
				if errors.Is(err, store.ErrNotFound) {
					break
				} else if err != nil {
					return nil, err
				}
				if trial.Err != "" || trial.Discarded != "" || !slices.Contains(targets, trial.Target) {
					continue
				}
				valid[trial.Target]++
				if k := slices.IndexFunc(trial.Findings, isInvalid); k >= 0 {
					bad[trial.Target]++
					last[trial.Target] = trial.Findings[k]
				}
			}
		}
	}
	maps.DeleteFunc(last, func(target string, _ iotax.Finding) bool {
		return float64(bad[target]) <= stat.MaxDiscarded*float64(valid[target])
	})
	return last, nil
}

// isInvalid reports whether a finding makes the numbers of a trial invalid.
func isInvalid(f iotax.Finding) bool { return f.Severity == iotax.Invalid }

// byCache reports whether an invalid finding means that a cache did a trial's I/O instead of the device.
func byCache(f iotax.Finding) bool {
	return slices.Contains([]string{rules.CacheServed.ID, rules.WriteAbsorbed.ID, rules.LineRateExceeded.ID}, f.Rule)
}

// A tuneChange is a key of the plan with its old and new value.
type tuneChange struct {
	Key  string `json:"key"`
	From string `json:"from"`
	To   string `json:"to"`
}

// changes returns the keys in which a combination differs from the present options.
func (m *matrix) changes(c tune.Combo) []tuneChange {
	all := []tuneChange{}
	for f, level := range c {
		if level != 0 {
			all = append(all, tuneChange{m.factors[f].Name, m.factors[f].Levels[0], m.factors[f].Levels[level]})
		}
	}
	return all
}

// lines returns the options of the recommended target in the form that programs take, such as the arguments of QEMU.
func (t *tuning) lines(ctx context.Context, c tune.Combo) (lines []string, err error) {
	var runs []string
	for _, step := range t.state.Steps {
		if slices.ContainsFunc(step.Combos, func(o tune.Combo) bool { return slices.Equal(o, c) }) {
			runs = append(runs, step.Runs...)
		}
	}
	for _, id := range slices.Backward(runs) {
		r, err := t.db.Get(ctx, id)
		if errors.Is(err, store.ErrNotFound) || err == nil && len(r.Targets) == 0 {
			continue
		} else if err != nil {
			return nil, err
		}
		facts := func(name string) map[iotax.FactKey]string {
			i := slices.IndexFunc(r.Targets, func(info iotax.TargetInfo) bool { return info.Name == name })
			return r.Targets[max(0, i)].Facts
		}
		mount := func(f map[iotax.FactKey]string) string {
			return fmt.Sprintf("mount -t %s -o %s", f[iotax.FactFilesystem], f[iotax.FactFilesystemOptions])
		}
		best := facts(t.matrix.target(c).Name)
		// The facts of a guest contain the arguments of all its disks and shares, by serial number and by mount tag.
		if line := best["device."+cmp.Or(best[iotax.FactDiskSerial], best[iotax.FactFilesystemSource])]; line != "" {
			lines = append(lines, "QEMU: "+line)
		}
		if line := mount(best); line != mount(facts(r.Targets[0].Name)) {
			lines = append(lines, line)
		}
		for _, s := range t.matrix.target(c).Traits().Elsewhere {
			lines = append(lines, s.For+": "+s.Text)
		}
		return lines, nil
	}
	return nil, nil
}

// idle returns the options that make no difference: none of their values was recommended or refused, and the intervals
// of their effects are within the margin.
func (t *tuning) idle(r *tune.Result) (names []string) {
	most := 1 + float64(t.p.Measure.Margin)
	for f, factor := range t.matrix.factors {
		found := r.Best[f] != 0 || slices.ContainsFunc(r.Refused, func(x tune.Refusal) bool { return x.Combo[f] != 0 })
		for _, e := range r.Effects {
			found = found || e.Factor == f && (e.Gain.Hi > most || e.Gain.Lo < 1/most)
		}
		if !found && len(r.Effects) > 0 {
			names = append(names, factor.Name)
		}
	}
	return names
}

func (t *tuning) print(ctx context.Context, s *tune.Search, r *tune.Result) error {
	changes := t.matrix.changes(r.Best)
	lines, err := t.lines(ctx, r.Best)
	if err != nil {
		return err
	}
	var runs []string
	for _, step := range t.state.Steps {
		runs = append(runs, step.Runs...)
	}
	idle := t.idle(r)
	margin := plan.Percent(t.p.Measure.Margin)
	if t.json {
		type row struct {
			Options string       `json:"options"`
			Gain    *tune.Gain   `json:"gain,omitempty"`
			Changes []tuneChange `json:"changes"`
			Dropped bool         `json:"dropped,omitempty"`
			Wrong   tune.Wrong   `json:"wrong,omitempty"`
			Why     string       `json:"why,omitempty"`
		}
		out := struct {
			Metric    string       `json:"metric"`
			Target    string       `json:"target"`
			Changes   []tuneChange `json:"changes"`
			Gain      tune.Gain    `json:"gain"`
			Sure      bool         `json:"sure"`
			Margin    float64      `json:"margin"`
			Lines     []string     `json:"lines"`
			Idle      []string     `json:"no_difference"`
			Effects   []row        `json:"effects"`
			Finalists []row        `json:"finalists"`
			Refused   []row        `json:"refused"`
			Trials    int          `json:"trials"`
			Of        int          `json:"combinations"`
			Runs      []string     `json:"runs"`
		}{t.metric, t.matrix.target(r.Best).Name, changes, r.Gain, r.Sure, float64(margin), lines, idle, nil, nil, nil, r.Trials, len(t.matrix.targets), runs}
		for _, e := range r.Effects {
			c := make(tune.Combo, len(r.Best))
			c[e.Factor] = e.Level
			out.Effects = append(out.Effects, row{Options: s.Name(c), Gain: &e.Gain, Changes: t.matrix.changes(c)})
		}
		for _, f := range r.Finalists {
			out.Finalists = append(out.Finalists, row{Options: s.Name(f.Combo), Gain: &f.Gain, Changes: t.matrix.changes(f.Combo), Dropped: f.Dropped})
		}
		for _, x := range r.Refused {
			out.Refused = append(out.Refused, row{Options: s.Name(x.Combo), Changes: t.matrix.changes(x.Combo), Wrong: x.Wrong, Why: x.Why})
		}
		return writeJSON(t.out, out)
	}
	var b strings.Builder
	percent := fmt.Sprintf("%.3g %%", 100*float64(margin))
	compared := len(r.Finalists) > 1 // otherwise the screening left no value to compare, or the search stopped
	switch {
	case len(changes) == 0 && r.Sure && !compared:
		fmt.Fprintf(&b, "Keep the present options of %s: no other value is shown to improve %s.\n", t.matrix.entry, t.metric)
	case len(changes) == 0 && r.Sure:
		fmt.Fprintf(&b, "Keep the present options of %s: no finalist is better in %s by %s or more.\n", t.matrix.entry, t.metric, percent)
	case len(changes) == 0:
		fmt.Fprintf(&b, "Keep the present options of %s for now: none is surely better in %s.\n", t.matrix.entry, t.metric)
	default:
		fmt.Fprintf(&b, "Change %s of %s: %s improves %s.\n\n", format.Plural(len(changes), "option"), t.matrix.entry, t.metric, format.Times(r.Gain))
		for _, c := range changes {
			fmt.Fprintf(&b, "  %s: %s    (now %s)\n", c.Key, c.To, c.From)
		}
		for _, line := range lines {
			fmt.Fprintf(&b, "  %s\n", line)
		}
	}
	switch {
	case !r.Sure && !compared:
		fmt.Fprintln(&b, "\nThis is not sure: the search stopped before it compared the best combinations.")
	case !r.Sure:
		fmt.Fprintf(&b, "\nThis is not sure: another finalist may be better by more than %s. More rounds (--rounds 6..1000) may decide.\n", percent)
	case compared:
		fmt.Fprintf(&b, "\nThis is within %s of the best of %s, with a chance of %.0f %%.\n", percent, format.Plural(len(r.Finalists), "finalist"), 100*(1-tune.Alpha))
	default:
		fmt.Fprintln(&b)
	}
	fmt.Fprintf(&b, "%s, of %s. iotax list shows the runs.\n", format.Plural(r.Trials, "trial"), format.Plural(len(t.matrix.targets), "combination"))
	if len(idle) > 0 {
		fmt.Fprintf(&b, "\nNo difference of %s or more: %s\n", percent, strings.Join(idle, ", "))
	}
	if len(r.Refused) > 0 {
		fmt.Fprintln(&b, "\nNot recommended:")
		for _, x := range r.Refused {
			fmt.Fprintf(&b, "  %s: %s\n", s.Name(x.Combo), x.Why)
		}
	}
	table := func(title string, n int, row func(i int) (string, tune.Gain, string)) {
		if n == 0 {
			return
		}
		fmt.Fprintf(&b, "\n%s\n", title)
		for i := range n {
			name, gain, mark := row(i)
			fmt.Fprintf(&b, "  %-40s %s%s\n", name, cmp.Or(gainText(gain), "?"), mark)
		}
	}
	table("What each value does on average, over the combinations that were screened:", len(r.Effects), func(i int) (string, tune.Gain, string) {
		e := r.Effects[i]
		return t.matrix.factors[e.Factor].Name + "=" + t.matrix.factors[e.Factor].Levels[e.Level], e.Gain, ""
	})
	finalists := len(r.Finalists)
	if !compared {
		finalists = 0
	}
	table("Finalists, against the present options:", finalists, func(i int) (string, tune.Gain, string) {
		f := r.Finalists[i]
		mark := ""
		if f.Dropped {
			mark = "  dropped"
		}
		return s.Name(f.Combo), f.Gain, mark
	})
	_, err = t.out.Write([]byte(b.String()))
	return err
}

// gainText formats a gain, for example "1.2× [1.1–1.3]". It returns "" if the gain has no estimate.
func gainText(g tune.Gain) string {
	if math.IsNaN(g.Estimate) {
		return ""
	}
	return format.Times(g)
}
