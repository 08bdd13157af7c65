package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"iotax/internal/calibrate"
	"iotax/internal/machine/host"
	"iotax/internal/plan"
	"iotax/internal/plan/schedule"
	"iotax/internal/report/format"
	"iotax/internal/rules/lint"
	"iotax/internal/rules/lint/input"
	"iotax/internal/run/estimate"
	"iotax/internal/store"
	"iotax/internal/terminal"
	"iotax/internal/volume"
	"iotax/stat"
)

func (a *app) planCommand() *cobra.Command {
	var pf planFlags
	var asYAML bool
	c := &cobra.Command{
		Use:   "plan [SUITE | PLAN.yaml] [TARGET…] [-- fio --name=…]",
		Short: "Show how long a run takes, its trials, and what it writes",
		Long: `plan takes the arguments of run and measures nothing. It prints how long the run
takes, how many trials it has, how much it writes, and what iotax lint finds.
With --yaml it prints the plan file.`,
		Example: `  iotax plan /srv/data /mnt/nfs
  iotax plan quick --trial 10s
  iotax plan /srv/data qemu:virtiofs --yaml > mine.yaml`,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 0 && c.Flags().NFlag() == 0 {
				return c.Help()
			}
			args, err := pf.command(c, args)
			if err != nil {
				return err
			}
			p, err := pf.load(args, a.in)
			if err != nil {
				return err
			}
			estimate.Restart(p)
			found := input.Plan(c.Context(), p)
			if err := p.Absolute(); err != nil {
				return err
			}
			if !asYAML && !p.Measure.KeepGoing { // a plan file may be for another host
				if err := volume.CheckDirs(c.Context(), p, host.Local()); err != nil {
					return err
				}
			}
			return a.printPlan(c.Context(), p, found, asYAML)
		},
	}
	pf.add(c)
	c.Flags().BoolVar(&asYAML, "yaml", false, "print the plan file, with all defaults")
	group(c, groupOutput, "yaml")
	return c
}

// costs returns the costs of p, and the id of the earlier run in which they were measured, or "" if they are assumed.
// It does not create a missing store.
func (a *app) costs(ctx context.Context, p *plan.Plan) (schedule.Costs, string, error) {
	note := func(format string, args ...any) { fmt.Fprintf(a.err, "iotax: "+format+"\n", args...) }
	var db *store.Store
	if store.Exists(a.store) {
		var err error
		if db, err = store.Open(ctx, a.store); err != nil {
			note("the estimate does not use earlier runs: %v", err)
		} else {
			defer db.Close()
		}
	}
	return estimate.Costs(ctx, db, p, calibrate.Auto, note)
}

func (a *app) printPlan(ctx context.Context, p *plan.Plan, found []lint.Finding, asYAML bool) error {
	text, err := p.YAML()
	if err != nil {
		return err
	}
	if asYAML && !a.json {
		_, err := a.out.Write(text)
		return err
	}
	c, from, err := a.costs(ctx, p)
	if err != nil {
		return err
	}
	if a.json {
		least, most, _ := schedule.Estimate(p, c)
		return writeJSON(a.out, map[string]any{"plan": string(text), "seconds": map[string]float64{"min": least.Seconds(), "max": most.Seconds(), "open": c.Open.Seconds()}, "from": from,
			"bytes": estimate.TestBytes(p), "schedule": schedule.Slots(p, p.Measure.Rounds.Min), "findings": plain(found)})
	}
	return printSummary(a.out, p, c, from, found)
}

// shownSlots is the number of schedule slots that `iotax plan` prints before a line with the number of the remaining slots.
// If only one slot remains, it prints that slot, too.
const shownSlots = 12

// printSummary writes a summary of p, its costs and the findings of lint as text.
func printSummary(out io.Writer, p *plan.Plan, c schedule.Costs, from string, found []lint.Finding) error {
	var b strings.Builder
	columns := terminal.Width(out, 100)
	lead := ""
	line := func(format string, args ...any) {
		b.WriteString(terminal.Hanging(fmt.Sprintf("%-10s ", lead), terminal.Clean(fmt.Sprintf(format, args...)), columns) + "\n")
		lead = ""
	}
	under := func(name string) { lead = name }

	under("Time")
	for _, text := range estimate.Lines(p, c, from) {
		line("%s", text)
	}
	rounds := p.Measure.Rounds
	n := fmt.Sprintf("%d to %d rounds", rounds.Min, rounds.Max)
	if rounds.Min == rounds.Max {
		n = format.Plural(rounds.Min, "round")
	}
	if t, alike := roundTime(p); alike {
		n += " of " + terminal.Elapsed(t) + " each"
	} else {
		n += " of " + format.Plural(schedule.Trials(p), "trial") + " for all workloads together"
	}
	switch starts := p.Measure.Starts(); {
	case starts > 1 && starts == rounds.Max:
		n += ", a start for each"
	case starts > 1:
		n += fmt.Sprintf(", divided between %d starts", starts)
	}
	under("Trials")
	line("%s × %s, %s", format.Plural(len(p.Targets), "target"), format.Plural(len(p.Workloads), "workload"), n)
	if checks := stat.Looks(rounds.Min, rounds.Max); !p.Measure.Fixed() && len(checks) > 1 {
		until := fmt.Sprintf("± %s is reached", p.Measure.Precision)
		switch {
		case len(p.Expectations) > 0 && p.Measure.Precisely:
			until = "its expectations are decided and " + until
		case len(p.Expectations) > 0:
			until = "its expectations are decided (without any: " + until + ")"
		}
		line("each workload until %s at one of the checks after %s rounds", until, format.Enumerate(strings.Fields(strings.Trim(fmt.Sprint(checks), "[]")), len(checks), ""))
	}
	under("Writes")
	if bytes := estimate.TestBytes(p); bytes > 0 {
		line("%s of test files, which iotax removes at the end", plan.Size(bytes))
	} else {
		line("no test files of a size known before the run")
	}
	under("Baseline")
	line("%s", p.Baseline)
	under("Targets")
	for _, t := range p.Targets {
		line("%s  (%s on %s)", t.Name, t.Kind, strings.Join(append([]string{t.On}, t.In...), ", in "))
	}
	under("Workloads")
	for _, w := range p.Workloads {
		line("%s  (%s)", w.Name, w.Kind)
	}
	under("Expect")
	for _, e := range p.Expectations {
		line("%s", e)
	}
	under("Order")
	slots := schedule.Slots(p, min(2, rounds.Max))
	for i, s := range slots {
		if i == shownSlots && len(slots) > shownSlots+1 {
			line("… and %d more", len(slots)-shownSlots)
			break
		}
		line("round %d  %s: %s", s.Round+1, s.Workload, strings.Join(s.Targets, ", "))
	}
	if p.Measure.Seed == 0 {
		line("(each run has its own order; --seed fixes it)")
	}
	for i, f := range found {
		if i == 0 {
			fmt.Fprint(&b, "\nFound before the run (iotax lint shows more):\n")
		}
		b.WriteString(terminal.Hanging("  ", fmt.Sprintf("%s: %s: %s", f.Severity, f.Rule, f.Evidence), columns) + "\n")
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// roundTime returns the time of a round if it is the same for all workloads. Otherwise alike is false.
func roundTime(p *plan.Plan) (each time.Duration, alike bool) {
	for i := range p.Workloads {
		t := schedule.RoundTime(p, &p.Workloads[i])
		if i > 0 && t != each {
			return 0, false
		}
		each = t
	}
	return each, true
}
