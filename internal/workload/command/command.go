// Package command contains the workloads that run a program: a command, timed from its start to its end, and an app,
// timed from its start until it is ready.
package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"

	"iotax"
	"iotax/internal/agent"
	"iotax/internal/metric"
	"iotax/internal/plan"
	"iotax/internal/secret"
	"iotax/internal/workload/support"
	"iotax/internal/workload/task"
)

// Command is the spec of `command: make -j2`: any command, timed from its start to its end on every target. The command
// and its hooks run in the directory that the plan sets, or else in the target's directory. If the target has none,
// iotax creates a directory.
type Command struct {
	Run      string `yaml:"run" doc:"command to run; {dir}, {device} or {url} is the target's place, {seed} a number that changes with each round, {NAME} a label of the target or of the workload"`
	Shell    bool   `yaml:"shell" doc:"run the command with the machine's shell; otherwise it is split into words as a shell does, without expansion"`
	Setup    string `yaml:"setup" doc:"shell command to run once on each target, before the first trial"`
	Prepare  string `yaml:"prepare" doc:"shell command to run before each trial; not timed"`
	Conclude string `yaml:"conclude" doc:"shell command to run after each trial; not timed"`
	Cleanup  string `yaml:"cleanup" doc:"shell command to run once on each target, after the last trial"`

	Directory string `yaml:"directory" doc:"absolute path of another working directory for these commands, which may change its contents; without it they run in the target's directory, or for a device or URL in an empty one that iotax makes and removes"`

	Warmup int   `yaml:"warmup" doc:"number of runs on each target before the first trial, with prepare and conclude; not measured"`
	Status []int `yaml:"status" doc:"exit statuses that count as success, in addition to 0, as in [1, 2]"`

	Values  map[string]string `yaml:"values" doc:"values to take from its output: a regular expression with one named group, whose name is the unit, as in 'tps = (?<per_s>[0-9.]+)'; or a JSON path and a unit, as in '$.jobs[0].tps 1/s'"`
	Env     map[string]string `yaml:"env" doc:"environment of the command; $NAME takes a secret from the environment of iotax, as in PGPASSWORD: $PGPASSWORD"`
	Timeout plan.Duration     `yaml:"timeout" doc:"time limit of one run"`
	Space   plan.Size         `yaml:"space" doc:"space that it needs at the place; guest disks are made large enough"`
}

func newCommand() plan.Spec { return &Command{Timeout: plan.Duration(10 * time.Minute)} }

// SetScalar sets only the command.
func (s *Command) SetScalar(text string) error {
	s.Run = text
	return nil
}

func (s *Command) Traits() plan.Traits { return plan.Traits{Metrics: s.metrics} }

func (s *Command) metrics() []metric.Metric {
	all := metric.Of(iotax.Seconds, iotax.Down, iotax.ValueDuration, "time from the start of the command to its end")
	for _, name := range slices.Sorted(maps.Keys(s.Values)) {
		if x, err := parseExtract(name, s.Values[name]); err == nil { // otherwise, Validate reports the error
			all = append(all, metric.Of(x.unit.unit, x.unit.better, name, "by values:")...)
		}
	}
	return all
}

// Validate returns an error for invalid fields.
func (s *Command) Validate() error {
	var errs []error
	bad := func(field, msg, hint string) {
		errs = append(errs, &plan.FieldError{Field: field, Msg: msg, Hint: hint})
	}
	switch args, err := s.args(""); {
	case strings.TrimSpace(s.Run) == "":
		bad("run", "there is no command", "as in run: git clone /srv/repo {dir}/clone")
	case err != nil:
		bad("run", err.Error(), "shell: true, if a shell is to run it")
	case len(args) == 0:
		bad("run", "it has no words", "")
	}
	if s.Timeout <= 0 {
		bad("timeout", "it must be more than nothing", "as in 10m")
	}
	if !filepath.IsAbs(s.Directory) && !strings.HasPrefix(s.Directory, "/") && s.Directory != "" {
		bad("directory", fmt.Sprintf("%q is not an absolute path", s.Directory), "as in /srv/src")
	}
	if s.Space < 0 {
		bad("space", "it is negative", "as in 1GiB")
	}
	if s.Warmup < 0 {
		bad("warmup", "it is negative", "as in 3")
	}
	for _, k := range slices.Sorted(maps.Keys(s.Env)) {
		if secret.Refused(k, s.Env[k]) && !s.fromHere(k) {
			bad("env", k+" is named like a secret, and the plan of a run is stored and shown", "set it in the environment of iotax, and write "+k+": $"+k)
		}
	}
	for _, n := range s.Status {
		if n < 0 || n > 255 {
			bad("status", fmt.Sprintf("%d is not an exit status", n), "from 0 to 255; a command that a signal ends has none")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Values)) {
		if _, err := parseExtract(name, s.Values[name]); err != nil {
			var ve *plan.ValueError
			errors.As(err, &ve)
			bad("values", name+": "+ve.Msg, ve.Hint)
		}
	}
	return errors.Join(errs...)
}

// fromHere reports whether a variable is named like a secret and gets its value from the environment of iotax (NAME:
// $NAME). A plan may name a secret only in this form.
func (s *Command) fromHere(name string) bool { return s.Env[name] == "$"+name && secret.Named(name) }

// args returns the words of the command for an operating system. Placeholders are not replaced yet.
func (s *Command) args(goos string) ([]string, error) {
	if s.Shell {
		return agent.Shell(goos, s.Run), nil
	}
	return SplitWords(s.Run)
}

// SplitWords splits a command as a shell would. It returns an error if the command needs a shell.
func SplitWords(text string) ([]string, error) {
	f, err := syntax.NewParser(syntax.Variant(syntax.LangPOSIX)).Parse(strings.NewReader(text), "")
	if err != nil {
		return nil, fmt.Errorf("it cannot be split into words: %w", err)
	}
	if len(f.Stmts) == 0 {
		return nil, nil
	}
	call, ok := f.Stmts[0].Cmd.(*syntax.CallExpr)
	if s := f.Stmts[0]; !ok || len(f.Stmts) > 1 || len(s.Redirs) > 0 || s.Background || s.Negated || len(call.Assigns) > 0 {
		return nil, errors.New("it is more than one plain command, which takes a shell")
	}
	var words []string
	for _, w := range call.Args {
		plain := true
		syntax.Walk(w, func(n syntax.Node) bool {
			switch n.(type) {
			case *syntax.ParamExp, *syntax.CmdSubst, *syntax.ArithmExp, *syntax.ProcSubst:
				plain = false
			}
			return plain
		})
		if !plain {
			return nil, fmt.Errorf("%s is expanded by a shell alone", text[w.Pos().Offset():w.End().Offset()])
		}
		fields, err := expand.Fields(&expand.Config{Env: expand.ListEnviron()}, w) // without ReadDir, * is not expanded
		if err != nil {
			return nil, err
		}
		words = append(words, fields...)
	}
	return words, nil
}

type command struct {
	name      string
	spec      *Command
	env       support.Env
	scratches map[*iotax.Target]*support.Scratch // working directories of targets without a directory
	extracts  []extract
}

// Kind is the workload kind command.
var Kind = support.KindOf(plan.Kind{Name: "command", Doc: "any command, timed from its start to its end", New: newCommand, Assumed: 10 * time.Second}, openCommand)

func openCommand(w plan.Workload, s *Command, e support.Env) (iotax.Workload, error) {
	if err := s.Validate(); err != nil {
		return nil, &iotax.Error{Op: "make workload", On: w.Name, Err: err}
	}
	c := &command{name: w.Name, spec: s, env: e, scratches: map[*iotax.Target]*support.Scratch{}}
	for _, name := range slices.Sorted(maps.Keys(s.Values)) {
		x, _ := parseExtract(name, s.Values[name]) // Validate has checked it
		c.extracts = append(c.extracts, x)
	}
	return c, nil
}

// Metrics returns the duration, followed by the values from the output.
func (c *command) Metrics() []string {
	out := []string{"duration"}
	for _, x := range c.extracts {
		out = append(out, x.name)
	}
	return out
}

func (c *command) Caps() iotax.WorkloadCaps {
	return iotax.WorkloadCaps{Space: func() int64 { return int64(c.spec.Space) }, Limit: c.limit(), Preparation: c.preparation(), Stage: c.Stage, Unstage: c.Unstage}
}

func (c *command) limit() time.Duration { return time.Duration(c.spec.Timeout) }

// Check returns an error if the command cannot run on t, or if it could write to a read-only device or URL.
func (c *command) Check(ctx context.Context, t *iotax.Target) error {
	s := c.spec
	if p := support.Misplaced(t, s.Run, s.Setup, s.Prepare, s.Conclude, s.Cleanup); p != "" {
		return &iotax.Error{Op: "check " + c.name + " on", On: t.Name, Err: fmt.Errorf("it contains %s, and the place is a %s", p, t.Place.Kind),
			Hint: "write " + support.Placeholders[t.Place.Kind] + ", or leave the target out"}
	}
	if t.Place.ReadOnly && t.Place.Kind != iotax.PlaceDir && support.Holds(support.Placeholders[t.Place.Kind], s.Run, s.Setup, s.Prepare, s.Conclude, s.Cleanup) {
		hint := "a fio workload that reads"
		if t.Place.Kind == iotax.PlaceDevice {
			hint += "; if all that is on the device may be lost: iotax run --destroy " + iotax.Quote(cmp.Or(t.Device, t.Place.Path))
		}
		return &iotax.Error{Op: "check " + c.name + " on", On: t.Name, Err: fmt.Errorf("%s may only be read, and nothing holds a command to that", t.Place.Path), Hint: hint}
	}
	for _, k := range slices.Sorted(maps.Keys(s.Env)) {
		if _, set := secret.Lookup(k); s.fromHere(k) && !set {
			return &iotax.Error{Op: "check " + c.name + " on", On: t.Name, Err: fmt.Errorf("the variable %s is not set", k), Hint: "set it in the environment of iotax; variables that only iotax reads are not passed on"}
		}
	}
	args, err := s.args("")
	if err != nil {
		return err
	}
	if t.Machine.Caps().RunOnConsole != nil {
		if s.Shell || s.Setup+s.Prepare+s.Conclude+s.Cleanup+s.Directory != "" || len(s.Env)+len(s.Status) > 0 {
			return &iotax.Error{Op: "check " + c.name + " on", On: t.Name, Err: errors.New("the guest has no shell, no other commands and no directory"),
				Hint: "leave out shell, setup, prepare, conclude, cleanup, directory, env and status"}
		}
		return nil
	}
	if s.Shell {
		return nil
	}
	program := c.env.FillIn(args[0], t, 0, support.AsItIs)
	if strings.Contains(program, "/") && !strings.HasPrefix(program, "/") && !strings.Contains(program, ":") && c.placeDir(t)+s.Setup == "" { // C:/bench.exe is absolute
		return &iotax.Error{Op: "check " + c.name + " on", On: t.Name, Err: fmt.Errorf("%s is a relative path, and the command runs in an empty directory", program), Hint: "write the path in full, or add directory:"}
	}
	found, err := task.Installed.On(ctx, t.Machine, task.Program{Name: program, Dir: c.placeDir(t)})
	if err != nil {
		return err
	}
	if !found {
		if strings.Contains(program, "/") && s.Setup != "" {
			return nil // setup may install it
		}
		return &iotax.Error{Op: "check " + c.name + " on", On: t.Name, Err: fmt.Errorf("%s is not there", program), Hint: "install it on " + t.Machine.String() + ", or bring it with setup:"}
	}
	return nil
}

// hook runs `text`, one of the commands that are not timed, unless it is empty. `what` describes the command in errors.
func (c *command) hook(ctx context.Context, t *iotax.Target, what, text string, seed uint64) error {
	if text == "" {
		return nil
	}
	dir, err := c.enter(ctx, t)
	if err != nil {
		return err
	}
	goos, err := support.System(ctx, t.Machine)
	if err != nil {
		return err
	}
	text = c.env.FillIn(text, t, seed, quoteFor(goos))
	if err := t.Machine.Run(ctx, &iotax.Cmd{Args: agent.Shell(goos, text), Env: c.environ(), Dir: dir}); err != nil {
		if ctx.Err() != nil {
			return err
		}
		return support.Failed(what+" "+c.name+" on", t.Name, err, "try the command there by hand: "+text)
	}
	return nil
}

// placeDir returns the directory in which the commands run at t, or "" if one must be created.
func (c *command) placeDir(t *iotax.Target) string {
	return cmp.Or(c.spec.Directory, support.WorkDir(t))
}

// enter returns the directory in which a command runs at t. It calls the place's guard first, because a command can
// reach the place without naming it.
func (c *command) enter(ctx context.Context, t *iotax.Target) (dir string, err error) {
	if t.Place.Guard != nil {
		if err := t.Place.Guard(ctx); err != nil {
			return "", err
		}
	}
	if dir := c.placeDir(t); dir != "" {
		return dir, nil
	}
	if c.scratches[t] == nil {
		s, err := support.NewScratch(ctx, c.env, t.Machine, support.Lodging{})
		if err != nil {
			return "", err
		}
		c.scratches[t] = s
	}
	return c.scratches[t].Path, nil
}

func (c *command) environ() []string {
	var env []string
	for _, k := range slices.Sorted(maps.Keys(c.spec.Env)) {
		v := c.spec.Env[k]
		if c.spec.fromHere(k) {
			v, _ = secret.Lookup(k)
		}
		env = append(env, k+"="+v)
	}
	return env
}

func (c *command) Prepare(ctx context.Context, t *iotax.Target) error {
	err := support.Limited(ctx, c.limit(), func(ctx context.Context) error { return c.hook(ctx, t, "set up", c.spec.Setup, 0) })
	if err != nil {
		return err
	}
	for range c.spec.Warmup {
		if err := c.warm(ctx, t); err != nil {
			return err
		}
	}
	return nil
}

// preparation returns the time limit of Prepare.
func (c *command) preparation() time.Duration {
	const most = 365 * 24 * time.Hour
	one := c.limit() + 2*iotax.StageTime
	if time.Duration(c.spec.Warmup) > most/one {
		return most
	}
	return c.limit() + time.Duration(c.spec.Warmup)*one
}

// warm runs a trial with its usual limits, and discards the result.
func (c *command) warm(ctx context.Context, t *iotax.Target) (err error) {
	var out iotax.Trial
	defer func() {
		if ctx.Err() == nil {
			err = errors.Join(err, support.Limited(ctx, iotax.StageTime, func(ctx context.Context) error { return c.Unstage(ctx, t, &out) }))
		}
	}()
	if err := support.Limited(ctx, iotax.StageTime, func(ctx context.Context) error { return c.Stage(ctx, t, &out) }); err != nil {
		return err
	}
	return support.Limited(ctx, c.limit(), func(ctx context.Context) error { return c.Run(ctx, t, &out) })
}

func (c *command) Stage(ctx context.Context, t *iotax.Target, out *iotax.Trial) error {
	return c.hook(ctx, t, "prepare", c.spec.Prepare, out.Seed)
}

func (c *command) Unstage(ctx context.Context, t *iotax.Target, out *iotax.Trial) error {
	return c.hook(ctx, t, "conclude", c.spec.Conclude, out.Seed)
}

func (c *command) Cleanup(ctx context.Context, t *iotax.Target) error {
	err := c.hook(ctx, t, "clean up", c.spec.Cleanup, 0)
	s := c.scratches[t]
	delete(c.scratches, t)
	return errors.Join(err, s.Remove(ctx))
}

// words returns the arguments of the command at t. `more` replaces additional placeholders before those of the target.
func (c *command) words(ctx context.Context, t *iotax.Target, seed uint64, more *strings.Replacer) ([]string, error) {
	goos, err := support.System(ctx, t.Machine)
	if err != nil {
		return nil, err
	}
	args, err := c.spec.args(goos)
	quote := support.AsItIs
	if c.spec.Shell {
		quote = quoteFor(goos)
	}
	for i := range args {
		args[i] = c.env.FillIn(more.Replace(args[i]), t, seed, quote)
	}
	return args, err
}

// quoteFor returns the function that quotes a word for the shell of an operating system. See agent.Shell.
func quoteFor(goos string) func(string) string {
	if goos == "windows" {
		return func(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
	}
	return iotax.Quote
}

// Run runs the command once. Its exit status must be 0 or listed in the spec, and its output must contain each value.
func (c *command) Run(ctx context.Context, t *iotax.Target, out *iotax.Trial) error {
	onConsole := t.Machine.Caps().RunOnConsole
	dir := ""
	var err error
	if onConsole == nil {
		if dir, err = c.enter(ctx, t); err != nil {
			return err
		}
	}
	args, err := c.words(ctx, t, out.Seed, strings.NewReplacer())
	if err != nil {
		return err
	}
	if out.Facts == nil {
		out.Facts = map[string]string{}
	}
	out.Facts[iotax.FactCommand] = iotax.QuoteAll(args)
	stdout, stderr := &task.Head{Limit: support.RawLimit}, &task.Head{Limit: support.RawLimit}
	if onConsole != nil {
		r, err := onConsole(ctx, args)
		return c.fromConsole(ctx, r, err, t, out)
	}
	_, err = support.Timed(ctx, t.Machine, out, func() (int, error) {
		err := t.Machine.Run(ctx, &iotax.Cmd{Args: args, Env: c.environ(), Dir: dir, Stdout: stdout, Stderr: stderr})
		var exit *iotax.ExitError
		if errors.As(err, &exit) && exit.Signal == "" && slices.Contains(c.spec.Status, exit.Code) {
			out.Facts["status"] = strconv.Itoa(exit.Code)
			err = nil
		}
		return 1, err
	})
	out.Raw = append(stdout.Bytes(), stderr.Bytes()...)
	if err != nil {
		if ctx.Err() != nil {
			return err
		}
		return support.Failed("run "+c.name+" on", t.Name, err, "try it there by hand: "+out.Facts[iotax.FactCommand])
	}
	if n := stdout.More + stderr.More; n > 0 {
		out.Facts["output.dropped"] = plan.Size(n).String()
	}
	return c.take(t, out, stdout.Bytes(), stderr.Bytes())
}

// fromConsole adds the values of a command on a guest without a shell. The duration includes the start and the end of
// the virtual machine. boot.duration is the boot time that the guest reports, and is part of the duration.
func (c *command) fromConsole(ctx context.Context, r iotax.ConsoleRun, err error, t *iotax.Target, out *iotax.Trial) error {
	out.Raw = r.Output
	if err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return support.Failed("run "+c.name+" on", t.Name, err, "")
	}
	out.Values = append(out.Values, iotax.Value{Name: iotax.ValueDuration, Value: r.Took.Seconds(), Unit: iotax.Seconds, Better: iotax.Down},
		iotax.Value{Name: iotax.ValueOperations, Value: 1, Unit: iotax.Count},
		iotax.Value{Name: iotax.ValueCPUHost, Value: r.CPU.Seconds() / r.Took.Seconds(), Unit: iotax.RatioUnit, Better: iotax.Down})
	if r.Boot > 0 {
		out.Values = append(out.Values, iotax.Value{Name: "boot.duration", Value: r.Boot.Seconds(), Unit: iotax.Seconds, Better: iotax.Down})
	}
	return c.take(t, out, r.Output, nil)
}

// take adds the values in the command's output to the trial.
func (c *command) take(t *iotax.Target, out *iotax.Trial, stdout, stderr []byte) error {
	for _, x := range c.extracts {
		v, err := x.take(stdout, stderr)
		if err != nil {
			return support.Failed("read "+x.name+" from the output of "+c.name+" on", t.Name, err, "see what it prints: iotax show")
		}
		out.Values = append(out.Values, v)
	}
	return nil
}
