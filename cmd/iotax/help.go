package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"iotax"
	"iotax/internal/plan"
	"iotax/internal/terminal"
)

// Headings of the flags in help, in this order. Flags without a group come first, under "Flags".
const (
	groupWhat       = "What"
	groupHowLong    = "How long"
	groupConditions = "Conditions"
	groupOutput     = "Output"
	groupSafety     = "Safety"
	groupShards     = "Several hosts, Kubernetes"
	groupGlobal     = "Flags of all commands"
)

var flagGroups = []string{"", groupWhat, groupHowLong, groupConditions, groupOutput, groupSafety, groupShards, groupGlobal}

const groupAnnotation = "iotax_group"

// group lists the named flags under a heading in the help of c. It panics if a flag does not exist.
func group(c *cobra.Command, heading string, names ...string) {
	for _, n := range names {
		if err := c.Flags().SetAnnotation(n, groupAnnotation, []string{heading}); err != nil {
			panic(err)
		}
	}
}

// commandGroups lists the command groups in the order in which help shows them.
var commandGroups = []*cobra.Group{
	{ID: "measure", Title: "Measure"},
	{ID: "results", Title: "Results"},
	{ID: "setup", Title: "Set-up"},
	{ID: "advanced", Title: "Advanced"},
}

func grouped(root *cobra.Command, id string, commands ...*cobra.Command) {
	for _, c := range commands {
		c.GroupID = id
		root.AddCommand(c)
	}
}

// usage prints the usage line, examples, commands and grouped flags of c. For a help topic, it prints nothing.
func (a *app) usage(c *cobra.Command) error {
	if c.IsAdditionalHelpTopicCommand() {
		return nil
	}
	var b strings.Builder
	columns := max(60, min(terminal.Width(a.out, 80), 120))
	form := c.UseLine()
	if c.HasAvailableSubCommands() {
		form = c.CommandPath() + " COMMAND"
	}
	fmt.Fprintf(&b, "Usage: %s\n", form)
	if c.HasExample() {
		fmt.Fprintf(&b, "\n%s\n", c.Example)
	}
	listed := func(id string) {
		for _, s := range c.Commands() {
			if s.GroupID == id && s.IsAvailableCommand() {
				fmt.Fprintf(&b, "  %-*s  %s\n", s.NamePadding(), s.Name(), s.Short)
			}
		}
	}
	if c.HasAvailableSubCommands() && len(c.Groups()) == 0 {
		fmt.Fprintln(&b, "\nCommands")
		listed("")
	}
	for _, g := range c.Groups() {
		fmt.Fprintf(&b, "\n%s\n", g.Title)
		listed(g.ID)
	}
	c.Flags().SortFlags, c.Root().PersistentFlags().SortFlags = false, false
	local, inherited := c.LocalFlags(), c.InheritedFlags()
	for _, heading := range flagGroups {
		set := pflag.FlagSet{SortFlags: false}
		add := func(f *pflag.Flag) {
			at := ""
			if g := f.Annotations[groupAnnotation]; len(g) > 0 {
				at = g[0]
			}
			if c.Root().PersistentFlags().Lookup(f.Name) != nil || f.Name == "help" {
				at = groupGlobal
			}
			if at == heading {
				set.AddFlag(f)
			}
		}
		local.VisitAll(add)
		inherited.VisitAll(add)
		if !set.HasAvailableFlags() {
			continue
		}
		if heading == "" {
			heading = "Flags"
		}
		fmt.Fprintf(&b, "\n%s\n%s", heading, set.FlagUsagesWrapped(columns))
	}
	if c.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "\n%s COMMAND --help shows more about a command.\n", c.CommandPath())
	}
	if !c.HasParent() {
		fmt.Fprintf(&b, "iotax help exit-status, environment or files: what scripts need.\n")
	}
	_, err := io.WriteString(c.OutOrStderr(), b.String())
	return err
}

// brought maps flags of fio, hyperfine and k6 to hints about what to write in iotax.
var brought = map[string]string{
	"runtime": "--trial 10s", "ramp_time": "--ramp 2s", "loops": "--rounds 6..30", "time_based": "leave it out: trials have a length (--trial 10s)",
	"iodepth": "-w randread-4k-qd32", "numjobs": "-w randread-4k-j4", "bs": "-w randread-4k", "blocksize": "-w randread-4k", "rw": "-w randread-4k", "readwrite": "-w randread-4k",
	"direct": "leave it out: workload words use O_DIRECT; for buffered I/O write a fio command: -- fio --direct=0 …", "ioengine": "-w 'fio --ioengine=…', or a command behind --: -- fio --ioengine=…",
	"filename": "name a directory or a device as a target: /srv/data, device:/dev/sdb", "directory": "name it as a target: /srv/data", "rate_iops": "an open loop: -w randread-4k-rate5000",
	"output-format": "--format json, or -o FILE.json",
	"runs":          "--rounds 10", "min-runs": "--rounds 6..30", "max-runs": "--rounds 6..30", "warmup": "--ramp 2s",
	"setup": "--prepare COMMAND", "export-json": "-o FILE.json", "export-markdown": "-o FILE.md", "export-csv": "iotax export --format csv", "show-output": "--verbose", "parameter-list": "a plan file: a list is an axis",
	"duration": "--trial 10s for each trial, --budget 20m for the run", "iterations": "--rounds 10", "vus": "-w randread-4k-j8", "threshold": "iotax compare A B --fail-on worse --margin 5%",
	"thresholds": "iotax compare A B --fail-on worse --margin 5%", "summary-export": "-o FILE.json", "out": "-o FILE",
}

// meantFlag adds the flag's name to an error about the value of a typed flag, and a hint to an error about an unknown
// flag of more than one letter.
func meantFlag(c *cobra.Command, err error) error {
	var bad *pflag.InvalidValueError
	if errors.As(err, &bad) && errors.Is(err, iotax.ErrUsage) {
		return fmt.Errorf("--%s: %w", bad.GetFlag().Name, bad.Unwrap())
	}
	var none *pflag.NotExistError
	if !errors.As(err, &none) {
		return err
	}
	name := none.GetSpecifiedName()
	measures := c.Flags().Lookup("trial") != nil && c.Flags().Lookup("rounds") != nil
	switch hint, known := brought[name]; {
	case known && measures:
		return fmt.Errorf("%w\n  hint: %s", err, hint)
	case name == "name" && measures: // probably a fio command without "--" before it
		return fmt.Errorf("%w\n  hint: write a fio command behind --, as in: %s /srv/data -- fio --name=test --rw=randread", err, c.CommandPath())
	case len(name) < 2:
		return err
	}
	var names []string
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	if near := plan.Nearest(name, names); near != "" {
		return fmt.Errorf("%w\n  hint: did you mean --%s?", err, near)
	}
	return fmt.Errorf("%w\n  hint: %s --help lists the flags", err, c.CommandPath())
}

// A topic is a page of help that is not about a command. The manual page of iotax contains all topics.
type topic struct {
	name, title string
	entries     [][2]string
}

var topics = []topic{
	{"exit-status", "Exit status", [][2]string{
		{"0", "A report was made, also if the run stopped at its budget or is too noisy for a verdict: the report shows it. Other commands: done."},
		{"1", "iotax could not measure or compare anything, doctor found that something a plan needs is missing, or the command failed."},
		{"2", "The command line or the plan is wrong. Nothing was measured."},
		{"3", "An expectation of the run is missed (with --strict also: undecided), compare, trend or report --fail-on found a change or a missed expectation, or lint found an error."},
		{"4", "With --strict: the run measured less than its plan asks for. tune and bisect: no answer is certain yet."},
		{"125, 128", "bisect --step, for git bisect run: not decided, and an error. There 1 means that the commit is slow."},
		{"130", "Interrupted (Ctrl-C, SIGTERM). The finished trials are saved."},
	}},
	{"environment", "Environment", [][2]string{
		{storeVariable, "The store, if --store is not given. An address with a password belongs here: it appears in no list of processes."},
		{podStoreVariable, "The store as the pods of run --kubernetes reach it, if --pod-store is not given."},
		{tokenVariable, "The token of serve, if --token-file is not given."},
		{"IOTAX_SSH_PASSWORD", "Password for SSH hosts that accept no key."},
		{iotax.AloneVariable, "1 declares that no other user works on this host: iotax then uses directories that another user could replace."},
		{"TMPDIR", "Directory for temporary files (default /tmp)."},
		{"XDG_STATE_HOME", "The default store is iotax/iotax.db below it (default ~/.local/state)."},
		{"XDG_CACHE_HOME", "Kernels, guest images and calibrations are in iotax below it (default ~/.cache)."},
		{"NO_COLOR", "Any value turns colours off."},
		{"KUBECONFIG", "Configuration of Kubernetes clusters."},
		{"DOCKER_HOST, DOCKER_CONTEXT, CONTAINER_HOST", "The container engine to use."},
		{"LIMA_HOME", "Where Lima keeps its instances."},
		{"SSH_AUTH_SOCK", "The SSH agent to use."},
		{"AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY", "Keys for buckets."},
		{"AWS_PROFILE", "Profile in the file of the plan key credentials."},
	}},
	{"files", "Files", [][2]string{
		{"~/.local/state/iotax/iotax.db", "The default store of runs (SQLite)."},
		{"~/.cache/iotax", "Kernels and images for guests, noise floors that calibrate measured. It may be deleted."},
		{"$TMPDIR/iotax-*", "Working directories of runs. iotax removes them; iotax clean removes those of crashed runs."},
		{"iotax-* in a target", "The directory in which a run makes its test files. iotax removes it at the end."},
		{"~/.ssh/config, ~/.ssh/known_hosts", "How SSH hosts are reached."},
		{"*.yaml", "Plan files. iotax schema prints their JSON Schema."},
	}},
}

// text formats the entries of the topic for a terminal of this many columns.
func (t topic) text(columns int) string {
	var b strings.Builder
	for _, e := range t.entries {
		if lead := "  " + e[0] + "  "; len(e[0]) <= 4 {
			b.WriteString(terminal.Hanging(fmt.Sprintf("  %-5s", e[0]), e[1], columns) + "\n")
		} else {
			b.WriteString(strings.TrimRight(lead, " ") + "\n" + terminal.Hanging("      ", e[1], columns) + "\n")
		}
	}
	return strings.TrimRight(b.String(), "\n")
}

// addTopics adds help topics such as `iotax help exit-status`.
func (a *app) addTopics(root *cobra.Command) {
	for _, t := range topics {
		root.AddCommand(&cobra.Command{Use: t.name, Short: t.title, Long: t.title + "\n\n" + t.text(max(60, min(terminal.Width(a.out, 80), 120)))})
	}
}
