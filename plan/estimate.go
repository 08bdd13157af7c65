package plan

import "time"

// BlockTime is how long one block of a workload takes: every target once.
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
	round := mul(p.BlockTime(), len(p.Workloads))
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
			for _, k := range Order(p.Measure.Seed+uint64(i), len(p.Targets), block) {
				s.Targets = append(s.Targets, p.Targets[k].Name)
			}
			out = append(out, s)
		}
	}
	return out
}
