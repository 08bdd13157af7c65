package plan

import "time"

// targetsOf names the targets of w, in the plan's order.
func (p *Plan) targetsOf(w *Workload) (names []string) {
	for _, t := range p.Targets {
		if w.Done(t.Name) {
			names = append(names, t.Name)
		}
	}
	return names
}

// BlockTime is how long one block of a workload that is done at every target takes.
func (p *Plan) BlockTime() time.Duration {
	return mul(p.trialTime(), len(p.Targets))
}

func (p *Plan) trialTime() time.Duration {
	m := p.Measure
	return time.Duration(m.Settle + m.Ramp + m.Trial)
}

// Estimate returns the least and the most time that the blocks of the plan take, by the clock of
// the trials alone: opening machines, writing test files, starting the load generator and blocks
// that are voided and run again come on top. No block starts that would end beyond the budget.
func (p *Plan) Estimate() (least, most time.Duration) {
	trials := 0
	for i := range p.Workloads {
		trials += len(p.targetsOf(&p.Workloads[i]))
	}
	round := mul(p.trialTime(), trials)
	least, most = mul(round, p.Measure.Blocks.Min), mul(round, p.Measure.Blocks.Max)
	if budget := time.Duration(p.Measure.Budget); budget > 0 {
		least, most = min(least, budget), min(most, budget)
	}
	return least, most
}

// A Slot is one block of the schedule.
type Slot struct {
	Block    int      `json:"block"` // from 0
	Workload string   `json:"workload"`
	Seed     uint64   `json:"seed"`    // of the offsets; the same for all targets
	Targets  []string `json:"targets"` // in the order they are run
}

// Schedule lists n blocks of every workload in the order in which they run while no workload is
// finished: the workloads take turns, block by block.
func (p *Plan) Schedule(n int) []Slot {
	var out []Slot
	for block := range max(0, n) {
		for i, w := range p.Workloads {
			s := Slot{Block: block, Workload: w.Name, Seed: BlockSeed(p.Measure.Seed, w.Name, block)}
			at := p.targetsOf(&p.Workloads[i])
			for _, k := range Order(p.Measure.Seed+uint64(i), len(at), block) {
				s.Targets = append(s.Targets, at[k])
			}
			out = append(out, s)
		}
	}
	return out
}
