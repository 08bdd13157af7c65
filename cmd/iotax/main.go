// Command iotax measures what every layer between an application and the disk costs.
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

	"github.com/charmbracelet/x/ansi"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"iotax"
	"iotax/internal/agent"
	"iotax/internal/guest"
	"iotax/internal/machine/host"
	"iotax/internal/plan"
)

// storeVariable names the store where --store does not: an address with a password is in no list of processes then.
const storeVariable = "IOTAX_STORE"

// Exit codes that scripts rely on.
const (
	exitOK          = 0 // run made a report
	exitError       = 1
	exitUsage       = 2
	exitGate        = 3
	exitIncomplete  = 4 // with --strict
	exitInterrupted = 130
)

func main() {
	if guest.IsInit() {
		guest.Main() // this binary is also the init of the micro-guest
		return
	}
	agent.Main(host.Local())
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // nohup
		signals = append(signals, syscall.SIGHUP) // the terminal was closed: what was made is removed all the same
	}
	ctx, stop := signal.NotifyContext(context.Background(), signals...)
	context.AfterFunc(ctx, func() {
		stop() // a second signal kills at once: the first may hang on a machine that is gone
		undoing.Lock()
		if !undoing.begun {
			fmt.Fprintln(os.Stderr, "iotax: interrupted")
			os.Exit(exitInterrupted)
		}
		undoing.Unlock()
	})
	code := Main(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	os.Exit(code)
}

// undoing is whether the process has begun to make what it must undo. Until then the first signal ends it at once, whatever it
// reads or computes.
var undoing struct {
	sync.Mutex
	begun bool
}

// mustUndo is called before the process makes what it must undo. From then on the first signal ends its context.
func mustUndo() {
	undoing.Lock()
	undoing.begun = true
	undoing.Unlock()
}

// exitCode is an error that only sets the exit status; what it means has been printed.
type exitCode int

func (e exitCode) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

// usageError is a mistake in the words of a command.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// Main runs the command line args and returns the exit status.
func Main(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	a := &app{in: stdin, out: stdout, err: stderr}
	root := a.root()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	command, err := root.ExecuteContextC(ctx)
	var code exitCode
	var usage usageError
	var wrong plan.Errors
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &code):
		return int(code)
	case ctx.Err() != nil:
		mustUndo() // or main has printed it, and ends the process
		fmt.Fprintln(stderr, "iotax: interrupted")
		return exitInterrupted
	case errors.As(err, &usage) || errors.As(err, &wrong) || isCobraUsage(err):
		text := argumentCount(command, cleanLines(err.Error()))
		if !strings.Contains(text, "hint: ") && !strings.Contains(text, "did you mean") {
			text += "\n  hint: " + command.CommandPath() + " --help tells what it takes"
		}
		fmt.Fprintf(stderr, "iotax: %s\n", text)
		return exitUsage
	}
	fmt.Fprintf(stderr, "iotax: %s\n", cleanLines(err.Error()))
	return exitError
}

// isCobraUsage recognises cobra's own complaints about flags and commands, which have no type.
func isCobraUsage(err error) bool {
	for _, s := range []string{"unknown command", "unknown flag", "unknown shorthand", "accepts ", "requires at least", "invalid argument", "flag needs an argument", "required flag", "if any flags in the group"} {
		if strings.HasPrefix(err.Error(), s) {
			return true
		}
	}
	return false
}

var cobraCount = regexp.MustCompile(`^(accepts|accepts at most|requires at least) (\d+) arg\(s\), (?:only )?received (\d+)$`)

// argumentCount tells cobra's complaint about the number of arguments as people would, with what c takes.
func argumentCount(c *cobra.Command, text string) string {
	m := cobraCount.FindStringSubmatch(text)
	if m == nil {
		return text
	}
	n, _ := strconv.Atoi(m[2])
	how := map[string]string{"accepts": "takes ", "accepts at most": "takes at most ", "requires at least": "takes at least "}[m[1]]
	return c.Name() + " " + how + count(n, "argument") + ", not " + m[3] + "\n  hint: " + strings.TrimSuffix(c.UseLine(), " [flags]") + " (--help tells more)"
}

// An app holds what all commands share: the streams and the flags of the root.
type app struct {
	in       io.Reader
	out, err io.Writer
	store    string
	json     bool
	details  bool // of printed reports
	quiet    bool
	debug    bool
	strict   bool
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "iotax",
		Short: "Measure what every layer between an application and the disk costs",
		Long: `iotax runs the same I/O on a baseline and on each place to compare, in paired,
interleaved rounds, and says with confidence intervals what is lost, where, and
whether the comparison was fair.`,
		SilenceUsage: true, SilenceErrors: true,
		Version: version(),
	}
	root.SetVersionTemplate(about() + "\n")
	columns := fmt.Sprint(max(60, min(width(a.out, 80), 120)))
	root.SetUsageTemplate(strings.ReplaceAll(root.UsageTemplate(), "Flags.FlagUsages ", "Flags.FlagUsagesWrapped "+columns+" "))
	root.PersistentPreRunE = func(c *cobra.Command, args []string) error {
		if a.store == "" {
			a.store = os.Getenv(storeVariable)
		}
		return refuseEmpty(c, args)
	}
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error { return usageError{meantFlag(c, err)} })
	f := root.PersistentFlags()
	f.StringVar(&a.store, "store", "", "where runs are kept: a file, sqlite://FILE or postgres://USER@HOST/DATABASE (default: $"+storeVariable+", or the user's state directory)")
	f.BoolVar(&a.json, "json", false, "print results as JSON")
	f.BoolVarP(&a.quiet, "quiet", "q", false, "no progress")
	root.AddCommand(a.runCommand(), a.planCommand(), a.lintCommand(), a.reportCommand(), a.listCommand(), a.showCommand(),
		a.rmCommand(), a.exportCommand(), a.importCommand(), a.compareCommand(), a.calibrateCommand(), a.suitesCommand(), a.doctorCommand(), a.kernelCommand(), a.schemaCommand(), a.versionCommand())
	root.AddCommand(a.cleanCommand(), a.manCommand())
	root.AddCommand(a.labCommand(), a.agentCommand())
	root.AddCommand(a.serveCommand())
	return root
}

// refuseEmpty refuses empty arguments and values of flags: as what a shell makes of a variable that is not set, they
// would mean what stands for nothing, the latest run say.
func refuseEmpty(c *cobra.Command, args []string) (err error) {
	if c.DisableFlagParsing { // the shell's completion
		return nil
	}
	refuse := func(what string) {
		err = usageError{&iotax.Error{Op: "read command line", On: what, Err: errors.New("it is empty"), Hint: "is a variable of the shell not set? Write a value, or leave it out"}}
	}
	c.Flags().Visit(func(f *pflag.Flag) {
		values := []string{f.Value.String()}
		if l, ok := f.Value.(interface{ GetSlice() []string }); ok {
			values = l.GetSlice()
		}
		if slices.Contains(values, "") {
			refuse("--" + f.Name)
		}
	})
	if n := c.ArgsLenAtDash(); n >= 0 {
		args = args[:n] // the words of another command
	}
	if i := slices.Index(args, ""); i >= 0 {
		refuse(fmt.Sprintf("argument %d of %s", i+1, c.CommandPath()))
	}
	return err
}

// meantFlag adds to the complaint about a flag that is none which one was probably meant.
func meantFlag(c *cobra.Command, err error) error {
	var none *pflag.NotExistError
	if !errors.As(err, &none) || len(none.GetSpecifiedName()) < 2 {
		return err
	}
	var names []string
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	if near := plan.Nearest(none.GetSpecifiedName(), names); near != "" {
		return fmt.Errorf("%w\n  hint: did you mean --%s?", err, near)
	}
	return fmt.Errorf("%w\n  hint: %s --help lists those that there are", err, c.CommandPath())
}

// width returns the columns of the terminal behind w, or fallback when w is none.
func width(w io.Writer, fallback int) int {
	if f, ok := w.(*os.File); ok {
		if n, _, err := term.GetSize(int(f.Fd())); err == nil && n > 0 {
			return n
		}
	}
	return fallback
}

// hanging is text behind lead, and below itself where it is broken at the columns of a terminal; 0 is none.
func hanging(lead, text string, columns int) string {
	n := ansi.StringWidth(lead)
	if columns > 0 {
		const unbroken = "\u2011" // a name with hyphens is to be copied
		text = strings.ReplaceAll(ansi.Wordwrap(strings.ReplaceAll(text, "-", unbroken), max(20, columns-n), ""), unbroken, "-")
	}
	return lead + strings.ReplaceAll(text, "\n", "\n"+strings.Repeat(" ", n))
}

// rowsOf returns the rows of the terminal behind w, or 0 when w is none.
func rowsOf(w io.Writer) int {
	if f, ok := w.(*os.File); ok {
		if _, n, err := term.GetSize(int(f.Fd())); err == nil {
			return n
		}
	}
	return 0
}

// isTerminal reports whether a stream is one.
func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// color reports whether w should get colours: a terminal, and NO_COLOR unset.
func color(w io.Writer) bool {
	return isTerminal(w) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}
