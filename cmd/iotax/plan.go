package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"iotax/lint"
	"iotax/plan"
	"iotax/stat"
)

func (a *app) planCommand() *cobra.Command {
	var pf planFlags
	c := &cobra.Command{
		Use:   "plan [SUITE | PLAN.yaml | TARGET…] [-- fio --name=…]",
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
			return a.printPlan(p, lintPlan(c.Context(), p))
		},
	}
	pf.add(c)
	return c
}

func (a *app) printPlan(p *plan.Plan, found []lint.Finding) error {
	text, err := p.YAML()
	if err != nil {
		return err
	}
	least, most := p.Estimate()
	if a.json {
		return writeJSON(a.out, map[string]any{"plan": string(text), "seconds": map[string]float64{"min": least.Seconds(), "max": most.Seconds()}, "schedule": p.Schedule(p.Measure.Blocks.Min), "findings": plain(found)})
	}
	if _, err := fmt.Fprintf(a.out, "%s\n", text); err != nil {
		return err
	}
	if err := printSchedule(a.out, p, least, most); err != nil {
		return err
	}
	return commentFindings(a.out, found)
}

// shownSlots is how much of the schedule is shown.
const shownSlots = 12

// printSchedule writes, as comments behind the plan, how long the trials take and who comes when.
func printSchedule(w io.Writer, p *plan.Plan, least, most time.Duration) error {
	var b strings.Builder
	blocks := p.Measure.Blocks
	n := fmt.Sprintf("%d to %d blocks", blocks.Min, blocks.Max)
	if blocks.Min == blocks.Max {
		n = count(blocks.Min, "block")
	}
	fmt.Fprintf(&b, "# %s × %s, %s of %s each", count(len(p.Targets), "target"), count(len(p.Workloads), "workload"), n, elapsed(p.BlockTime()))
	if looks := stat.Looks(blocks.Min, blocks.Max); !p.Measure.Fixed() && len(looks) > 1 {
		fmt.Fprintf(&b, ",\n#   until ± %s is reached at one of the looks after %s", p.Measure.Precision, enumerate(looks))
	}
	fmt.Fprint(&b, "\n# trials: ", elapsed(least))
	if most > least {
		fmt.Fprint(&b, " to ", elapsed(most))
	}
	if budget := time.Duration(p.Measure.Budget); budget > 0 && most == budget {
		fmt.Fprint(&b, ", where the budget ends them")
	}
	fmt.Fprint(&b, "\n# beside them: opening, preparing, about 0.2 s a trial to start the load generator")
	if least >= worthCalibrating {
		fmt.Fprint(&b, ",\n#   and 10 s once a week to calibrate the rig (--calibrate=no leaves that out)")
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
