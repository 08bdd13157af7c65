package saved

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"iotax"
	"iotax/internal/leftover"
	"iotax/internal/rules"
)

// Others collects the other runs that are active on this host.
type Others map[string]bool

// Look adds the runs that are active now.
func (o Others) Look() {
	for _, l := range leftover.Others(leftover.Current().Run) {
		o[fmt.Sprintf("run %s (process %d)", l.Run, l.Runner.PID)] = true
	}
}

// Findings returns a finding about the collected runs, or none.
func (o Others) Findings() []iotax.Finding {
	if len(o) == 0 {
		return nil
	}
	return []iotax.Finding{rules.AnotherRun.Found(iotax.AboutRun(), "%s", strings.Join(slices.Sorted(maps.Keys(o)), ", "))}
}
