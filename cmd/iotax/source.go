package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"iotax"
	"iotax/internal/kinds"
	"iotax/internal/machine"
	"iotax/internal/machine/pod"
	"iotax/internal/plan"
	"iotax/internal/plan/schedule"
	"iotax/internal/plan/syntax"
	"iotax/internal/report/format"
	"iotax/internal/suite"
)

// planFlags are the flags that change the plan.
type planFlags struct {
	workloads workloadWords
	size      string
	scale     float64
	image     string
	metrics   []string
	protocol  string
	restarts  int
	seed      uint64
	prepare   string
	prepareOn string
	governor  string
	nodes     string
	expect    []string
	warm      bool

	flags     *pflag.FlagSet
	names     []string                // names of flags that cannot be combined with --resume
	overrides []func(m *plan.Measure) // set the fields whose flags are given
}

// override defines a flag that overrides a field in the measure section of the plan.
func override[T any](pf *planFlags, c *cobra.Command, name, usage string, parse func(string) (T, error), field func(*plan.Measure) *T) {
	var v T
	typedFlag(c, &v, name, usage, parse)
	pf.overrides = append(pf.overrides, func(m *plan.Measure) {
		if pf.given(name) {
			*field(m) = v
		}
	})
}

// given reports whether at least one of these flags is on the command line.
func (pf *planFlags) given(names ...string) bool {
	return pf.flags != nil && slices.ContainsFunc(names, pf.flags.Changed)
}

func (pf *planFlags) add(c *cobra.Command) {
	d := plan.Defaults()
	or := func(usage string, standard any) string {
		return fmt.Sprintf("%s (default %v, or the plan's)", usage, standard)
	}
	f := c.Flags()
	pf.flags = f
	f.VarP(&pf.workloads, "workload", "w", "workloads: words such as randread-4k,seqread-1m, a job file, a fio command line, or command:CMD; for a plan or suite: names of its workloads to keep (default "+strings.Join(plan.DefaultWorkloads, ",")+")")
	metricFlag(c, &pf.metrics, "the run continues until each is precise")
	f.StringVar(&pf.size, "size", "", "size of the test file of fio workloads, as in 4GiB (default 1GiB, or the plan's)")
	f.StringVar(&pf.image, "image", "", "image for the machines that boot one ("+strings.Join(imaged(), ", ")+"), instead of the plan's")
	f.StringVar(&pf.nodes, "nodes", "", "nodes for the pods that name no node, one target for each: all, or names with commas between")
	override(pf, c, "trial", or("measured window of a trial, as in 30s", d.Trial), plan.ParseDuration, func(m *plan.Measure) *plan.Duration { return &m.Trial })
	override(pf, c, "ramp", or("time before the window that is not measured", d.Ramp), plan.ParseDuration, func(m *plan.Measure) *plan.Duration { return &m.Ramp })
	override(pf, c, "rounds", or("rounds of trials: a number, or the least and the most, as in 6..30", d.Rounds), plan.ParseRounds, func(m *plan.Measure) *plan.Rounds { return &m.Rounds })
	f.IntVar(&pf.restarts, "restarts", 0, "divide the most rounds between this many starts, which boot guests and make volumes and test files anew; 1: start once (default: the plan's, or as many as rounds in a long run if that takes little time)")
	override(pf, c, "budget", or("time of the whole run: after the first round of each workload, no round starts that would end later", d.Budget),
		plan.ParseDuration, func(m *plan.Measure) *plan.Duration { return &m.Budget })
	override(pf, c, "precision", or("stop when the interval of the ratio is this narrow", d.Precision), plan.ParsePercent, func(m *plan.Measure) *plan.Percent { return &m.Precision })
	f.StringVar(&pf.protocol, "protocol", "", or("adaptive (stop at --precision), or a fixed one, as in fixed:5x60s", d.Protocol))
	f.StringArrayVar(&pf.expect, "expect", nil, "decide whether a limit is met, as in 'read.latency.p99 < 10ms', 'read.iops >= 80% of baseline' or 'WORKLOAD: read.iops > 5k at TARGET'; the run ends when all are decided; may be repeated")
	f.Bool("to-precision", false, "with expectations: measure until the precision is reached, also when all are decided")
	f.Float64Var(&pf.scale, "scale", 1, "multiply sizes, the length of trials and the budget by this factor, as in 0.1 to try a suite out")
	override(pf, c, "margin", or("differences inside this margin count as equivalent", d.Margin), plan.ParsePercent, func(m *plan.Measure) *plan.Percent { return &m.Margin })
	f.Uint64Var(&pf.seed, "seed", 0, "seed for trial order and I/O offsets; 0 picks one at random")
	f.Bool("cold", false, "drop caches before each trial (the default)")
	f.BoolVar(&pf.warm, "warm", false, "leave caches as they are")
	f.StringVar(&pf.prepare, "prepare", "", "shell command to run before each trial, as in 'sync'")
	choiceFlag(c, &pf.prepareOn, "prepare-on", or("where to run it: both (this host and the target's machine), host or target", "both"), "both", "host", "target")
	f.Bool("explain", false, "run an explained trial next to each trial, and show in which stage an I/O spends its time; takes twice as long")
	f.StringVar(&pf.governor, "governor", "", "set the CPU frequency governor for the run and restore it: performance")
	c.MarkFlagsMutuallyExclusive("cold", "warm")
	f.Bool("profile", false, "run a profiled trial next to each trial, and show which functions of QEMU, virtiofsd, servers and fio use the CPU time; takes twice as long")
	f.VisitAll(func(f *pflag.Flag) { pf.names = append(pf.names, f.Name) })
	group(c, groupWhat, "workload", "metric", "expect", "explain", "profile", "size", "image", "nodes")
	group(c, groupHowLong, "trial", "ramp", "rounds", "restarts", "budget", "precision", "to-precision", "protocol", "scale")
	group(c, groupConditions, "margin", "seed", "cold", "warm", "prepare", "prepare-on", "governor")
	completeBy(c, "workload", completeWorkloads)
	complete(c, "protocol", "adaptive", "fixed:5x60s")
	complete(c, "governor", "performance")
	c.ValidArgsFunction = completeTargets
}

// workloadWords is a flag that may be repeated. Its value is a list of words separated by commas, or a single fio
// command line or command:CMD.
type workloadWords []string

func (w *workloadWords) String() string { return strings.Join(*w, ",") }
func (w *workloadWords) Type() string   { return "words" }

// GetSlice, Append and Replace implement pflag.SliceValue, so that refuseEmpty checks every word.
func (w *workloadWords) GetSlice() []string           { return *w }
func (w *workloadWords) Append(s string) error        { return w.Set(s) }
func (w *workloadWords) Replace(words []string) error { *w = words; return nil }

func (w *workloadWords) Set(s string) error {
	if plan.IsCommand(s) || strings.HasPrefix(s, "command:") {
		*w = append(*w, s)
		return nil
	}
	*w = append(*w, strings.Split(s, ",")...)
	return nil
}

// command adds the words after "--" as a workload, and returns the arguments before "--".
func (pf *planFlags) command(c *cobra.Command, args []string) ([]string, error) {
	n := c.ArgsLenAtDash()
	if n < 0 {
		return args, nil
	}
	text := iotax.QuoteAll(args[n:])
	switch {
	case n == 0:
		return nil, iotax.Usage(&iotax.Error{Op: "read command line", Err: errors.New("no target is given before the command"), Hint: "name one, as in: iotax " + c.Name() + " dir:/var/tmp -- " + text})
	case !plan.IsCommand(text + " "):
		return nil, iotax.Usage(&iotax.Error{Op: "read command line", On: text, Err: errors.New("the words behind -- are not a fio command"), Hint: "write it as in: -- fio --name=test --rw=randread --size=1g"})
	}
	pf.workloads = append(pf.workloads, text)
	return args[:n], nil
}

// load returns the plan that args name, with the changes that the flags request.
func (pf *planFlags) load(args []string, stdin io.Reader) (*plan.Plan, error) {
	p, err := pf.read(args, stdin)
	if err != nil {
		return nil, err
	}
	for _, change := range []func(*plan.Plan) error{pf.adapt, pf.shrink, pf.boot, pf.pinned, pf.apply, pf.resize, pf.choose, pf.decide, explainable, coldEnough, schedule.CheckTrials} {
		if err := change(p); err != nil {
			return nil, iotax.Usage(err)
		}
	}
	return p, nil
}

// notInSearch are the flags that a search refuses, because it has a stop rule of its own.
var notInSearch = []string{"expect", "precision", "to-precision"}

// loadSearch returns the plan of a search. Unless the plan or a flag sets the rounds, it sets them to `rounds`. Unless the
// plan or a flag sets the budget, the search has none.
func (a *app) loadSearch(pf *planFlags, args []string, rounds plan.Rounds) (*plan.Plan, error) {
	if i := slices.IndexFunc(notInSearch, func(name string) bool { return pf.given(name) }); i >= 0 {
		return nil, iotax.Usage(&iotax.Error{Op: "read command line", On: "--" + notInSearch[i], Err: errors.New("a search has a stop rule of its own"), Hint: "leave it out; --margin and --rounds change the rule"})
	}
	p, err := pf.load(args, a.in)
	if err != nil {
		return nil, err
	}
	if len(p.Expectations) > 0 {
		a.note("the search does not check the expectations of %s; iotax run does", p.Name)
	}
	if !pf.given("rounds") && p.Measure.Rounds == plan.Defaults().Rounds && p.Where("rounds") == (plan.Mark{}) {
		p.Measure.Rounds = rounds
	}
	if m := p.Measure; m.Restarts > 1 && m.Restarts < m.Rounds.Max { // rounds of one start resemble each other
		return nil, iotax.Usage(&iotax.Error{Op: "read plan", On: p.Name, Err: fmt.Errorf("%d starts of %d rounds: a search takes rounds as independent", m.Restarts, m.Rounds.Max), Hint: fmt.Sprintf("--rounds %d..%[2]d --restarts %[2]d gives each round its own start, --restarts 1 starts once in each step", min(rounds.Min, m.Rounds.Max), m.Rounds.Max)})
	}
	if !pf.given("budget") && p.Where("budget") == (plan.Mark{}) {
		p.Measure.Budget = 0
	}
	return p, nil
}

func (pf *planFlags) read(args []string, stdin io.Reader) (*plan.Plan, error) {
	if len(args) == 0 {
		return nil, iotax.Usage(&iotax.Error{Op: "read command line", Err: errors.New("no target, suite or plan is given"), Hint: "name two directories, as in: /var/tmp /mnt/data; or a suite: quick"})
	}
	for i, arg := range args {
		if strings.EqualFold(filepath.Ext(arg), ".fio") {
			return nil, iotax.Usage(&iotax.Error{Op: "read target", On: arg, Err: errors.New("a job file is a workload, not a target"), Hint: "name the targets first: iotax run /srv/data /mnt/nfs -w " + iotax.Quote(arg)})
		}
		if _, isSuite := suite.Source(arg); isSuite && i == 0 || strings.ContainsAny(arg, ":/,") || arg == "." || arg == ".." {
			continue
		}
		if st, err := os.Stat(arg); err == nil && st.IsDir() {
			args[i] = "./" + arg
		} else if near := plan.Nearest(arg, suite.Names()); near != "" && i > 0 {
			return nil, iotax.Usage(&iotax.Error{Op: "read target", On: arg, Err: errors.New("this is not a target"), Hint: "if you mean the suite " + near + ", name it first: iotax run " + near + " " + iotax.QuoteAll(args[:i])})
		} else if near != "" && len(args) > 1 {
			return nil, noPlan(arg)
		}
	}
	if src, ok := suite.Source(args[0]); ok && len(args) > 1 {
		return pf.elsewhere(args[0], src, args[1:])
	}
	if len(args) > 1 || isWord(args[0]) {
		m := plan.Defaults()
		p, err := plan.FromWords(args, pf.workloads, m, pf.kinds())
		if err != nil {
			return nil, iotax.Usage(err)
		}
		return p, nil
	}
	name, src, err := source(args[0], stdin)
	if err != nil {
		return nil, err
	}
	p, err := plan.Parse(name, src, pf.kinds())
	if err != nil {
		return nil, err
	}
	return p, pf.keep(p)
}

// elsewhere returns the plan of the suite with the given targets instead of the suite's own.
func (pf *planFlags) elsewhere(name string, src []byte, targets []string) (*plan.Plan, error) {
	p, err := plan.Parse(name, src, kinds.All())
	if err != nil {
		return nil, err
	}
	at, err := plan.FromWords(targets, nil, p.Measure, pf.kinds())
	if err != nil {
		return nil, iotax.Usage(err)
	}
	for _, w := range p.Workloads {
		if len(w.At) > 0 {
			return nil, iotax.Usage(&iotax.Error{Op: "run suite elsewhere", On: name, Err: fmt.Errorf("its workload %q needs the targets of the suite", w.Name),
				Hint: "run the suite alone, or copy it: iotax plan " + name})
		}
	}
	p.Name, p.File, p.Baseline, p.Machines, p.Targets = name+" on "+at.Name, at.File, at.Baseline, at.Machines, at.Targets
	p.Layers, p.Reference = nil, nil // they name targets of the suite
	return p, pf.keep(p)
}

// kinds returns all kinds. A new pod whose spec names no node gets one target for each node of --nodes.
func (pf *planFlags) kinds() plan.Kinds {
	ks := kinds.All()
	for i := range ks.Machines {
		if ks.Machines[i].Name == pod.Kind.Name {
			ks.Machines[i].Spread = pod.Spread(pf.nodes)
		}
	}
	return ks
}

// metricFlag defines --metric. use is the end of its help text.
func metricFlag(c *cobra.Command, to *[]string, use string) {
	c.Flags().StringSliceVar(to, "metric", nil, "compare targets by these values instead of the workload's own, as in read.latency.p99,read.iops; "+use)
	completeBy(c, "metric", completeMetrics)
}

// choose replaces the headline metrics of p's workloads with those of --metric.
func (pf *planFlags) choose(p *plan.Plan) error {
	if len(pf.metrics) == 0 {
		return nil
	}
	if err := p.Choose(pf.metrics); err != nil {
		return fmt.Errorf("--metric: %w", err)
	}
	return nil
}

// pinned refuses --nodes if no pod of the plan has a node.
func (pf *planFlags) pinned(p *plan.Plan) error {
	if pf.nodes == "" || slices.ContainsFunc(p.Machines, func(m plan.Machine) bool { s, ok := m.Spec.(*pod.Spec); return ok && s.Node != "" }) {
		return nil
	}
	return &iotax.Error{Op: "read --nodes", On: pf.nodes, Err: errors.New("the plan makes no pod"), Hint: "leave it out, or add a target such as k8s://storageclass/NAME"}
}

// isWord reports whether arg is a target word rather than a suite or a plan file.
func isWord(arg string) bool {
	if _, ok := suite.Source(arg); ok || arg == "-" || strings.HasSuffix(arg, ".yaml") || strings.HasSuffix(arg, ".yml") {
		return false
	}
	return arg == "." || arg == ".." || strings.ContainsAny(arg, ":/")
}

func source(arg string, stdin io.Reader) (name string, src []byte, err error) {
	if src, ok := suite.Source(arg); ok {
		return arg, src, nil
	}
	if arg == "-" {
		src, err = iotax.ReadAll(stdin, syntax.MaxFile)
		if err != nil {
			err = &iotax.Error{Op: "read plan", On: "standard input", Err: err, Hint: "write a plan file of at most 1 MiB"}
		}
		return "standard input", src, err
	}
	src, err = iotax.ReadFile(arg, syntax.MaxFile)
	if errors.Is(err, fs.ErrNotExist) && filepath.Ext(arg) == "" {
		return "", nil, noPlan(arg)
	}
	if err != nil {
		return "", nil, iotax.Usage(&iotax.Error{Op: "read plan", On: arg, Err: iotax.Cause(err),
			Hint: "name a plan file that can be read, a suite (" + strings.Join(suite.Names(), ", ") + "), or directories such as /var/tmp"})
	}
	return arg, src, nil
}

// noPlan returns the error for a word that names neither a suite nor a file.
func noPlan(arg string) error {
	hint := "suites are " + strings.Join(suite.Names(), ", ") + "; a plan file ends in .yaml; a directory is a path, as in /srv/data"
	if near := plan.Nearest(arg, suite.Names()); near != "" {
		hint = "did you mean the suite " + near + "?"
	}
	return iotax.Usage(&iotax.Error{Op: "read plan", On: arg, Err: errors.New("no suite, plan file or directory has this name"), Hint: hint})
}

// keep removes the workloads that -w does not name, with their expectations and their names in the reference. It keeps
// workloads that run only as noise.
func (pf *planFlags) keep(p *plan.Plan) error {
	if len(pf.workloads) == 0 {
		return nil
	}
	var names []string
	for _, w := range p.Workloads {
		names = append(names, w.Name)
	}
	chosen, err := choose(names, pf.workloads)
	if err != nil {
		return iotax.Usage(err)
	}
	p.Workloads = slices.DeleteFunc(p.Workloads, func(w plan.Workload) bool { return !slices.Contains(chosen, w.Name) && !w.Aside })
	p.Expectations = slices.DeleteFunc(p.Expectations, func(e plan.Expectation) bool { return !slices.Contains(chosen, e.Workload) })
	if p.Reference != nil {
		maps.DeleteFunc(p.Reference.Workloads, func(name, _ string) bool { return !slices.Contains(chosen, name) })
	}
	return nil
}

// choose returns the names that words select. A name may contain a comma, so choose joins as many consecutive words as
// possible.
func choose(names, words []string) ([]string, error) {
	var chosen []string
	for i := 0; i < len(words); {
		n := len(words) - i
		for n > 0 && !slices.Contains(names, strings.TrimSpace(strings.Join(words[i:i+n], ","))) {
			n--
		}
		if n == 0 {
			var quoted []string
			for _, name := range names {
				if strings.Contains(name, ",") {
					name = strconv.Quote(name)
				}
				quoted = append(quoted, name)
			}
			return nil, &iotax.Error{Op: "choose workload", On: strings.TrimSpace(words[i]), Err: errors.New("the plan has no workload of this name"),
				Hint: "its workloads are " + strings.Join(quoted, ", ")}
		}
		chosen = append(chosen, strings.TrimSpace(strings.Join(words[i:i+n], ",")))
		i += n
	}
	return chosen, nil
}

// adapt applies `--protocol adaptive` to a plan with a fixed protocol. It sets the default rounds and, unless the plan sets
// a budget, the default budget.
func (pf *planFlags) adapt(p *plan.Plan) error {
	m, d := &p.Measure, plan.Defaults()
	if pf.protocol != plan.Adaptive || !m.Fixed() {
		return nil
	}
	m.Protocol, m.Rounds = plan.Adaptive, d.Rounds
	if p.Where("budget") == (plan.Mark{}) {
		m.Budget = d.Budget
	}
	return nil
}

// apply overrides the settings in p.Measure with the flags that were given.
func (pf *planFlags) apply(p *plan.Plan) error {
	m := &p.Measure
	for _, set := range pf.overrides {
		set(m)
	}
	if pf.given("restarts") {
		m.Restarts = pf.restarts
	}
	if pf.protocol != "" {
		m.Protocol = pf.protocol
		if m.Fixed() && !pf.given("budget") {
			m.Budget = 0 // unlimited
		}
	}
	if m.Fixed() {
		// Flags may repeat the fixed protocol, but not contradict it.
		asked := *m
		if err := m.Check(); err == nil && (pf.given("trial") && asked.Trial != m.Trial || pf.given("rounds") && asked.Rounds != m.Rounds) {
			return fmt.Errorf("--trial and --rounds contradict the protocol %s\n  hint: leave them out, or give --protocol adaptive", m.Protocol)
		}
	}
	if pf.given("trial", "protocol") && !pf.given("ramp") {
		fixed := *m
		_ = fixed.Check()                   // sets the trial of a fixed protocol; the last Check below returns any error
		m.Ramp = min(m.Ramp, fixed.Trial/5) // shorter trials get a shorter ramp
	}
	m.Prepare, m.PrepareOn, m.Governor = cmp.Or(pf.prepare, m.Prepare), cmp.Or(pf.prepareOn, m.PrepareOn), cmp.Or(pf.governor, m.Governor)
	if pf.given("seed") {
		m.Seed = pf.seed
	}
	if pf.given("warm") {
		m.Cold = !pf.warm
	}
	for name, field := range map[string]*bool{"to-precision": &m.Precisely, "explain": &m.Explain, "profile": &m.Profile, "cold": &m.Cold} {
		if pf.given(name) {
			*field, _ = pf.flags.GetBool(name)
		}
	}
	if err := m.Check(); err != nil {
		return err
	}
	if m.Rounds.Min == m.Rounds.Max && pf.given("precision", "to-precision") {
		return fmt.Errorf("--precision and --to-precision have no effect on %s, which the plan or a flag fixes\n  hint: leave them out, or give the least and the most rounds without restarts, as in --rounds 6..30 --restarts 1 --protocol adaptive", format.Plural(m.Rounds.Max, "round"))
	}
	return nil
}

// explainable returns an error if the plan has explain: true, and no workload can be explained.
func explainable(p *plan.Plan) error {
	if p.Measure.Explain && len(unexplained(p)) == len(slices.DeleteFunc(slices.Clone(p.Workloads), func(w plan.Workload) bool { return w.Aside })) {
		return &iotax.Error{Op: "explain", On: p.Name, Err: errors.New("no workload of the plan has trials of a fixed length, which explained trials need"), Hint: "leave --explain (explain: of the plan) out, or measure a fio workload"}
	}
	return nil
}

// coldEnough returns an error if the plan drops no caches, and a workload needs an empty one.
func coldEnough(p *plan.Plan) error {
	for _, w := range p.Workloads {
		if !p.Measure.Cold && w.Traits().Cold {
			return &iotax.Error{Op: "plan", On: w.Name, Err: fmt.Errorf("%s reads from an empty cache, and the plan drops no caches", w.Kind), Hint: "leave out --warm and cold: false"}
		}
	}
	return nil
}

// unexplained returns the names of the workloads of a plan with explain: true that have no explained trials, because
// their trials end by themselves.
func unexplained(p *plan.Plan) (names []string) {
	for _, w := range p.Workloads {
		if !w.Aside && p.Measure.Explain && (w.Assumed > 0 || w.Value("by_size") == "true") {
			names = append(names, w.Name)
		}
	}
	return names
}

// decide adds the expectations of the command line to those of the plan.
func (pf *planFlags) decide(p *plan.Plan) error { return p.Expect(pf.expect) }

// imaged returns the kinds of machines that boot an image.
func imaged() (names []string) {
	for _, k := range machine.Kinds() {
		if k.New().Traits().SetImage != nil {
			names = append(names, k.Name)
		}
	}
	return names
}

// boot sets the image of all machines that boot an image to the value of --image.
func (pf *planFlags) boot(p *plan.Plan) error {
	if pf.image == "" {
		return nil
	}
	booted := false
	for _, m := range p.Machines {
		set := m.Traits().SetImage
		if set == nil {
			continue
		}
		set(pf.image)
		booted = true
		if err := m.Spec.Validate(); err != nil {
			return fmt.Errorf("--image: machine %s: %w", m.Name, err)
		}
	}
	if !booted {
		return &iotax.Error{Op: "boot", On: pf.image, Err: errors.New("no machine of the plan boots an image"), Hint: "leave --image out, or add a machine of kind " + strings.Join(imaged(), " or ")}
	}
	return nil
}

// shrink multiplies sizes, the lengths of trials and ramps, and the budget by --scale. It does not reduce a trial below
// one second, a ramp below 100 ms, or a budget below leastBudget.
func (pf *planFlags) shrink(p *plan.Plan) error {
	if !(pf.scale > 0 && pf.scale <= 1000) {
		return fmt.Errorf("--scale: %g is out of range\n  hint: write a factor above 0, as in 0.1", pf.scale)
	}
	if pf.scale == 1 {
		return nil
	}
	for _, w := range p.Workloads {
		if scale := w.Traits().Scale; scale != nil {
			scale(pf.scale)
			if err := stillValid(w); err != nil {
				return fmt.Errorf("--scale %g: %w", pf.scale, err)
			}
		}
	}
	times := func(d plan.Duration, least time.Duration) plan.Duration {
		return max(plan.Duration(float64(d)*pf.scale), min(d, plan.Duration(least)))
	}
	m := &p.Measure
	m.Trial, m.Ramp = times(m.Trial, time.Second), times(m.Ramp, 100*time.Millisecond)
	p.Name = fmt.Sprintf("%s, scaled by %g", p.Name, pf.scale) // the workloads' names no longer match their sizes
	m.Budget = times(m.Budget, leastBudget)
	if m.Fixed() {
		m.Protocol = fmt.Sprintf("fixed:%dx%v", m.Rounds.Min, m.Trial)
	}
	return nil
}

// leastBudget is the minimum to which --scale reduces a budget, because opening the targets takes part of the budget.
const leastBudget = 3 * time.Minute

// resize sets the size of the test file of every fio workload.
func (pf *planFlags) resize(p *plan.Plan) error {
	if pf.size == "" {
		return nil
	}
	if pf.scale != 1 {
		return errors.New("--size and --scale both set the size of the test file\n  hint: leave one of them out; --trial and --budget set the time")
	}
	_, err := plan.ParseSize(pf.size)
	found := false
	for _, w := range p.Workloads {
		if o := w.Traits().Options; o != nil && err == nil {
			found = true
			if err = o.Set("size", pf.size); err == nil {
				err = stillValid(w)
			}
		}
	}
	if err != nil {
		return fmt.Errorf("--size: %w", err)
	}
	if !found {
		return &iotax.Error{Op: "read --size", On: pf.size, Err: errors.New("only fio workloads have a test file of this size"), Hint: "leave it out, or set the size of the workload in the plan"}
	}
	return nil
}

// stillValid returns an error if a flag has made a workload's spec invalid.
func stillValid(w plan.Workload) error {
	err := w.Spec.Validate()
	var fe *plan.FieldError
	if errors.As(err, &fe) {
		return &iotax.Error{Op: "change", On: w.Name, Err: fmt.Errorf("%s: %s", fe.Field, fe.Msg), Hint: fe.Hint}
	}
	return err
}
