package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/perf/benchunit"

	"iotax"
	"iotax/lint"
	"iotax/plan"
	"iotax/stat"
	"iotax/workload"
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
			return a.printPlan(p, found)
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
		_, took := beside(p)
		return writeJSON(a.out, map[string]any{"plan": string(text), "seconds": map[string]float64{"min": least.Seconds(), "max": most.Seconds(), "beside": took.Seconds()}, "schedule": p.Schedule(p.Measure.Blocks.Min), "findings": plain(found)})
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
	fmt.Fprintf(&b, "# %s × %s, %s", count(len(p.Targets), "target"), count(len(p.Workloads), "workload"), n)
	if t, alike := blockTime(p); alike {
		fmt.Fprintf(&b, " of %s each", elapsed(t))
	} else {
		fmt.Fprintf(&b, " of %s for all workloads together", count(p.Trials(), "trial"))
	}
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
	for i := range p.Workloads {
		if w := &p.Workloads[i]; w.Assumed > 0 {
			fmt.Fprintf(&b, "\n#   %s ends by itself: %s a trial is assumed until one has been measured", w.Name, elapsed(w.Assumed))
		}
	}
	what, took := beside(p)
	fmt.Fprintf(&b, "\n# beside them: %s: about %s, so that it takes about %s in all", what, elapsed(took), elapsed(least+took))
	if most > least {
		fmt.Fprint(&b, " or more")
	}
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

// What opening and preparing are assumed to take. They are of a small machine under emulation; the report of
// a run has what it took.
const (
	assumedBoot  = 10 * time.Second // of a guest, until its places are mounted
	assumedWrite = 150 << 20        // bytes of test files a second, through shares too
	assumedStart = 400 * time.Millisecond
)

// beside says what comes on top of the trials, and how long that is assumed to take.
func beside(p *plan.Plan) (text string, took time.Duration) {
	var guests int
	for _, m := range p.Machines {
		if m.Kind == "qemu" {
			guests++
		}
	}
	bytes := testBytes(p)
	trials := p.Trials() * p.Measure.Blocks.Min
	took = time.Duration(guests)*assumedBoot + time.Duration(float64(bytes)/assumedWrite*float64(time.Second)) + time.Duration(trials)*assumedStart
	what := []string{"opening"}
	if guests > 0 {
		what = append(what, "booting "+count(guests, "guest"))
	}
	if bytes > 0 {
		what = append(what, "writing "+benchunit.Scale(float64(bytes), benchunit.Binary)+"B of test files")
	}
	return fmt.Sprintf("%s, starting %s", strings.Join(what, ", "), count(trials, "load generator")), took.Round(time.Second)
}

// testBytes are the test files of all targets. A workload that cannot be made is told of when it is run.
func testBytes(p *plan.Plan) (sum int64) {
	type file struct {
		target string
		size   int64
	}
	seen := map[file]bool{}
	for _, w := range p.Workloads {
		made, err := workload.New(w, workloadEnv())
		if err != nil {
			continue
		}
		s, ok := made.(iotax.Sizer)
		if !ok {
			continue
		}
		size := s.Space()
		for _, t := range p.Targets {
			if f := (file{t.Name, size}); w.Done(t.Name) && !seen[f] {
				seen[f] = true
				sum += size
			}
		}
	}
	return sum
}
