package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"iotax/internal/plan"
	"iotax/internal/rules/lint"
	"iotax/stat"
)

func (a *app) planCommand() *cobra.Command {
	var pf planFlags
	c := &cobra.Command{
		Use:   "plan [SUITE | PLAN.yaml] [TARGET…] [-- fio --name=…]",
		Short: "Print what would be measured, in which order and how long it takes",
		RunE: func(c *cobra.Command, args []string) error {
			args, err := pf.command(c, args)
			if err != nil {
				return err
			}
			p, err := pf.load(args, a.in)
			if err != nil {
				return err
			}
			found := lintPlan(c.Context(), p)
			if err := p.Absolute(); err != nil {
				return err
			}
			return a.printPlan(c.Context(), p, found)
		},
	}
	pf.add(c)
	return c
}

func (a *app) printPlan(ctx context.Context, p *plan.Plan, found []lint.Finding) error {
	text, err := p.YAML()
	if err != nil {
		return err
	}
	c, from, err := a.costs(ctx, p)
	if err != nil {
		return err
	}
	if a.json {
		least, most, _ := p.Estimate(c)
		return writeJSON(a.out, map[string]any{"plan": string(text), "seconds": map[string]float64{"min": least.Seconds(), "max": most.Seconds(), "open": c.Open.Seconds()}, "from": from,
			"schedule": p.Schedule(p.Measure.Blocks.Min), "findings": plain(found)})
	}
	if _, err := fmt.Fprintf(a.out, "%s\n", text); err != nil {
		return err
	}
	if err := printSchedule(a.out, p, c, from); err != nil {
		return err
	}
	return commentFindings(a.out, found)
}

// shownSlots is how much of the schedule is shown.
const shownSlots = 12

// printSchedule writes, as comments behind the plan, how long the trials take and who comes when.
func printSchedule(w io.Writer, p *plan.Plan, c plan.Costs, from string) error {
	var b strings.Builder
	blocks := p.Measure.Blocks
	n := fmt.Sprintf("%d to %d blocks", blocks.Min, blocks.Max)
	if blocks.Min == blocks.Max {
		n = count(blocks.Min, "block")
	}
	fmt.Fprintf(&b, "# %s × %s, %s", count(len(p.Targets), "target"), count(len(p.Workloads), "workload"), n)
	if t, alike := blockTime(p); alike {
		fmt.Fprintf(&b, " of %s each", elapsed(t))
	} else {
		fmt.Fprintf(&b, " of %s for all workloads together", count(p.Trials(), "trial"))
	}
	if looks := stat.Looks(blocks.Min, blocks.Max); !p.Measure.Fixed() && len(looks) > 1 {
		fmt.Fprintf(&b, ",\n#   until ± %s is reached at one of the looks after %s", p.Measure.Precision, enumerate(looks))
	}
	printTime(&b, p, c, from)
	if least, _, _ := p.Estimate(plan.Costs{}); least >= worthCalibrating {
		fmt.Fprint(&b, "\n#   and 10 s once a week to calibrate the rig (--calibrate=no leaves that out)")
	}
	if p.Measure.Seed == 0 {
		fmt.Fprint(&b, "\n# order of the first blocks (another for every seed; --seed fixes it):\n")
	} else {
		fmt.Fprint(&b, "\n# order of the first blocks:\n")
	}
	slots := p.Schedule(min(2, blocks.Max))
	for i, s := range slots {
		if i == shownSlots && len(slots) > shownSlots+1 {
			fmt.Fprintf(&b, "#   … and so on for %d more\n", len(slots)-shownSlots)
			break
		}
		fmt.Fprintf(&b, "#   block %d  %s: %s\n", s.Block+1, s.Workload, strings.Join(s.Targets, ", "))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// enumerate writes "6, 8 and 12".
func enumerate(ns []int) string {
	var words []string
	for _, n := range ns {
		words = append(words, fmt.Sprint(n))
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " and " + words[last]
}

// blockTime is how long a block takes, and whether that is so for all workloads.
func blockTime(p *plan.Plan) (each time.Duration, alike bool) {
	for i := range p.Workloads {
		t := p.BlockTime(&p.Workloads[i])
		if i > 0 && t != each {
			return 0, false
		}
		each = t
	}
	return each, true
}
