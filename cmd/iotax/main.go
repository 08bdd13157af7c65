// Command iotax measures what each layer between an application and its disk costs.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"iotax"
	"iotax/internal/agent"
	"iotax/internal/guest"
	"iotax/internal/machine/host"
	"iotax/internal/machine/ssh"
	"iotax/internal/plan"
	"iotax/internal/plan/syntax"
	"iotax/internal/report/format"
	"iotax/internal/suite"
	"iotax/internal/terminal"
)

// storeVariable names the environment variable with the address of the store. --store overrides it.
const storeVariable = "IOTAX_STORE"

// Exit statuses, described in the topic exit-status of the help.
const (
	exitOK          = 0 // run: a report was made
	exitError       = 1
	exitUsage       = 2
	exitGate        = 3
	exitIncomplete  = 4 // run --strict: measured less than planned; tune and bisect: no certain answer yet
	exitInterrupted = 130
)

func main() {
	agent.Main(host.Local()) // before IsInit, because an agent in a container may also be process 1
	if guest.IsInit() {
		guest.Main(host.Local()) // a guest starts this binary as its init
		return
	}
	ssh.Askpass()
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // SIGHUP is ignored under nohup
		signals = append(signals, syscall.SIGHUP) // when the terminal closes, iotax still removes what it made
	}
	received := make(chan os.Signal, 1)
	signal.Notify(received, signals...)
	ctx, interrupt := context.WithCancel(context.Background())
	go func() {
		<-received
		undoing.Lock()
		if !undoing.begun {
			fmt.Fprintln(os.Stderr, "iotax: interrupted")
			os.Exit(exitInterrupted)
		}
		undoing.Unlock()
		interrupt()
		// A later signal ends the process at once, because removal may hang on a machine that does not answer. A signal
		// within the pause is part of the first one: timeout(1) signals the process and then its group.
		time.Sleep(200 * time.Millisecond)
		signal.Stop(received)
	}()
	code := Main(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	os.Exit(code)
}

// undoing records whether the process may have made something that it must remove. While begun is false, the first signal
// ends the process at once.
var undoing struct {
	sync.Mutex
	begun bool
}

// mustUndo must be called before the process makes something that it must remove. From then on, the first signal only
// cancels the context. If standard output or standard error is a closed pipe, writes return an error, but do not end the
// process.
func mustUndo() {
	undoing.Lock()
	defer undoing.Unlock()
	if !undoing.begun {
		undoing.begun = true
		signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) // signal.Ignore would also apply to child processes
	}
}

// exitCode is an error that only sets the exit status. Any message has already been printed.
type exitCode int

func (e exitCode) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

// errInterrupted is the error of an interrupted command. Its text describes how to continue.
type errInterrupted struct{ error }

// Main runs the command line args and returns the exit status.
func Main(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	a := &app{args: args, in: stdin, out: stdout, err: stderr}
	root := a.root()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	command, err := root.ExecuteContextC(ctx)
	var code exitCode
	var wrong plan.Errors
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &code):
		return int(code)
	case errors.As(err, new(errInterrupted)):
		printError(stderr, err.Error(), err, exitInterrupted, a.json)
		return exitInterrupted
	case ctx.Err() != nil:
		printError(stderr, "interrupted", context.Cause(ctx), exitInterrupted, a.json)
		return exitInterrupted
	case errors.Is(err, iotax.ErrUsage) || errors.As(err, &wrong) || isCobraUsage(err):
		text := wrongArguments(command, terminal.CleanLines(err.Error()))
		if !strings.Contains(text, "hint: ") && !strings.Contains(text, "did you mean") {
			text += "\n  hint: " + command.CommandPath() + " --help shows the arguments"
		}
		code = exitUsage
		printError(stderr, text, err, code, a.json || asksForJSON(args))
		return int(code)
	}
	printError(stderr, terminal.CleanLines(err.Error()), err, exitError, a.json)
	return exitError
}

// asksForJSON reports whether args contain --json before any "--", even if args cannot be parsed.
func asksForJSON(args []string) bool {
	if i := slices.Index(args, "--"); i >= 0 {
		args = args[:i]
	}
	return slices.Contains(args, "--json") || slices.Contains(args, "--json=true")
}

func printError(w io.Writer, text string, err error, code exitCode, asJSON bool) {
	if !asJSON {
		fmt.Fprintf(w, "iotax: %s\n", text)
		return
	}
	type place struct {
		File    string `json:"file,omitempty"`
		Line    int    `json:"line,omitempty"`
		Column  int    `json:"column,omitempty"`
		Message string `json:"message"`
		Hint    string `json:"hint,omitempty"`
	}
	e := struct {
		Error  string  `json:"error"`
		Hint   string  `json:"hint,omitempty"`
		Status int     `json:"status"`
		Plan   []place `json:"plan,omitempty"` // errors in the plan
	}{Status: int(code)}
	var hint string
	e.Error, hint, _ = strings.Cut(text, "\n  hint: ")
	e.Hint = hint
	var wrong plan.Errors
	if errors.As(err, &wrong) {
		e.Error, e.Hint = "the plan is wrong", ""
		for _, w := range wrong {
			e.Plan = append(e.Plan, place{w.Pos.File, w.Pos.Line, w.Pos.Column, w.Msg, w.Hint})
		}
	}
	if err := writeJSON(w, e); err != nil {
		fmt.Fprintf(w, "iotax: %s\n", text)
	}
}

// isCobraUsage reports whether err is an error of cobra about flags, commands or arguments. Cobra has no types for
// these errors.
func isCobraUsage(err error) bool {
	for _, s := range []string{"unknown command", "unknown flag", "unknown shorthand", "accepts ", "requires at least", "invalid argument", "flag needs an argument", "required flag", "if any flags in the group"} {
		if strings.HasPrefix(err.Error(), s) {
			return true
		}
	}
	return false
}

var cobraCount = regexp.MustCompile(`^(accepts|accepts at most|requires at least) (\d+) arg\(s\), (?:only )?received (\d+)$`)

var cobraWord = regexp.MustCompile(`^(?:unknown command|invalid argument) "(.+)" for ".+"$`)

// wrongArguments adds a hint, if it finds one, to cobra's errors about commands and arguments. It rewords errors about
// the number of arguments.
func wrongArguments(c *cobra.Command, text string) string {
	if problem, near, ok := strings.Cut(text, "\n\nDid you mean this?\n"); ok { // an unknown command
		return problem + "\n  hint: did you mean " + strings.Join(strings.Fields(near), ", ") + "?"
	}
	if m := cobraWord.FindStringSubmatch(text); m != nil {
		if _, isSuite := suite.Source(m[1]); isSuite && !c.HasParent() {
			return text + "\n  hint: iotax run " + m[1]
		}
		names := slices.Clone(c.ValidArgs)
		for _, sub := range c.Commands() {
			names = append(names, sub.Name())
		}
		if hint := syntax.DidYouMean(m[1], names); hint != "" {
			text += "\n  hint: " + hint
		}
		return text
	}
	m := cobraCount.FindStringSubmatch(text)
	if m == nil {
		return text
	}
	n, _ := strconv.Atoi(m[2])
	how := map[string]string{"accepts": "takes ", "accepts at most": "takes at most ", "requires at least": "takes at least "}[m[1]]
	return c.Name() + " " + how + format.Plural(n, "argument") + ", not " + m[3] + "\n  hint: " + strings.TrimSuffix(c.UseLine(), " [flags]") + " (--help shows more)"
}

// An app contains the arguments, the streams, and the flags that commands share.
type app struct {
	args     []string
	in       io.Reader
	out, err io.Writer
	store    string
	json     bool
	details  bool // print reports with all details
	quiet    bool
	verbose  bool
	strict   bool
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "iotax",
		Short: "Measure what every layer between an application and the disk costs",
		Long: `iotax runs the same I/O on a baseline and on each place to compare, in paired,
interleaved rounds. It reports with confidence intervals how much slower each
place is, where the loss arises, and whether the comparison was fair.

A place is a directory, a block device, a disk or folder of a VM, a container, a
pod, a bucket, or a directory of another host: iotax run --help shows how. Of
several places, the first is the baseline.

Existing files are safe: in each place iotax writes only into a new directory,
iotax-…, and removes it at the end. It writes to a block device only if
--destroy names it.`,
		Example: `  iotax run /srv/data /mnt/nfs          is /mnt/nfs slower? (8 to 20 min)
  iotax run quick /srv/data /mnt/nfs    a first look (about a minute)
  iotax run etcd /srv/data              is this disk fast enough for etcd?
  iotax demo                            what a VM's disk and folders cost here
  iotax compare latest~1 latest         what changed between the last two runs?`,
		SilenceUsage: true, SilenceErrors: true,
		Version: version(),
	}
	root.SetVersionTemplate(about() + "\n")
	root.SetUsageFunc(a.usage)
	root.PersistentPreRunE = func(c *cobra.Command, args []string) error {
		if err := refuseEmpty(c, args); err != nil {
			return err
		}
		if a.store == "" {
			a.store = os.Getenv(storeVariable)
		}
		return nil
	}
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error { return iotax.Usage(meantFlag(c, err)) })
	f := root.PersistentFlags()
	f.StringVar(&a.store, "store", "", "where runs are saved: a file, sqlite://FILE or postgres://USER@HOST/DATABASE (default: $"+storeVariable+", else iotax/iotax.db in the state directory)")
	f.BoolVar(&a.json, "json", false, "print results as JSON on standard output, and errors as JSON on standard error")
	f.BoolVarP(&a.quiet, "quiet", "q", false, "print no progress")
	f.BoolVarP(&a.verbose, "verbose", "v", false, "print each trial, its command line, and its output if it fails")
	cobra.EnableCommandSorting = false
	root.AddGroup(commandGroups...)
	grouped(root, "measure", a.runCommand(), a.planCommand(), a.demoCommand(), a.doctorCommand(), a.lintCommand(), a.tuneCommand(), a.bisectCommand())
	grouped(root, "results", a.reportCommand(), a.compareCommand(), a.trendCommand(), a.listCommand(), a.showCommand(), a.exportCommand(), a.importCommand(), a.rmCommand(), a.serveCommand())
	grouped(root, "setup", a.calibrateCommand(), a.cleanCommand(), a.suitesCommand(), a.versionCommand())
	grouped(root, "advanced", a.labCommand(), a.kernelCommand(), a.schemaCommand())
	root.SetCompletionCommandGroupID("setup")
	root.SetHelpCommandGroupID("setup")
	root.AddCommand(a.manCommand())
	a.addTopics(root)
	return root
}

// refuseEmpty refuses empty arguments and empty values of flags. They usually come from an unset shell variable, and
// would select a default such as the latest run.
func refuseEmpty(c *cobra.Command, args []string) (err error) {
	if c.DisableFlagParsing { // cobra's completion command: its last argument may be empty
		return nil
	}
	refuse := func(what string) {
		err = iotax.Usage(&iotax.Error{Op: "read command line", On: what, Err: errors.New("it is empty"), Hint: "is a shell variable unset? Write a value, or leave the argument out"})
	}
	c.Flags().Visit(func(f *pflag.Flag) {
		values := []string{f.Value.String()}
		if l, ok := f.Value.(pflag.SliceValue); ok {
			values = l.GetSlice()
		}
		if slices.Contains(values, "") {
			refuse("--" + f.Name)
		}
	})
	if n := c.ArgsLenAtDash(); n >= 0 {
		args = args[:n] // the arguments after -- are another program's command line
	}
	if i := slices.Index(args, ""); i >= 0 {
		refuse(fmt.Sprintf("argument %d of %s", i+1, c.CommandPath()))
	}
	return err
}
