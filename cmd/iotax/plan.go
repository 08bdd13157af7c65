package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"iotax/plan"
)

func (a *app) planCommand() *cobra.Command {
	var pf planFlags
	c := &cobra.Command{
		Use:   "plan [SUITE | PLAN.yaml | TARGET…]",
		Short: "Print what would be measured, in which order and how long it takes",
		RunE: func(c *cobra.Command, args []string) error {
			p, err := pf.load(args, a.in)
			if err != nil {
				return err
			}
			return a.printPlan(p)
		},
	}
	pf.add(c)
	return c
}

func (a *app) printPlan(p *plan.Plan) error {
	text, err := p.YAML()
	if err != nil {
		return err
	}
	least, most := p.Estimate()
	if a.json {
		return writeJSON(a.out, map[string]any{"plan": string(text), "seconds": map[string]float64{"min": least.Seconds(), "max": most.Seconds()}, "schedule": p.Schedule(p.Measure.Blocks.Min)})
	}
	if _, err := fmt.Fprintf(a.out, "%s\n", text); err != nil {
		return err
	}
	return printSchedule(a.out, p, least, most)
}

func printSchedule(w io.Writer, p *plan.Plan, least, most time.Duration) error {
	fmt.Fprintf(w, "# %d targets × %d workloads; %s to %s", len(p.Targets), len(p.Workloads), elapsed(least), elapsed(most))
	fmt.Fprint(w, ", without opening and preparing\n")
	if p.Measure.Seed == 0 {
		fmt.Fprintln(w, "# order of the first blocks (another for every seed; --seed fixes it):")
	} else {
		fmt.Fprintln(w, "# order of the first blocks:")
	}
	for i, s := range p.Schedule(2) {
		if i == 12 {
			_, err := fmt.Fprintln(w, "#   …")
			return err
		}
		if _, err := fmt.Fprintf(w, "#   block %d  %s: %s\n", s.Block+1, s.Workload, strings.Join(s.Targets, ", ")); err != nil {
			return err
		}
	}
	return nil
}
