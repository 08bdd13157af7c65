package wired

import (
	"errors"
	"strings"

	"iotax"
	"iotax/internal/plan"
)

// Destroy lists block devices that workloads may overwrite: the command line names them. A plan cannot.
type Destroy map[string][]string // by machine, as the plan writes the paths

// ParseDestroy reads the values of --destroy. Each must name a device of a target of p exactly: one that
// does not is a slip, and slips of this kind are not guessed at.
func ParseDestroy(words []string, p *plan.Plan) (Destroy, error) {
	given := Destroy{}
	for _, w := range words {
		on, path := plan.Host, w
		if m, d, ok := strings.Cut(w, ":/"); ok && !strings.HasPrefix(w, "/") {
			on, path = m, "/"+d
		}
		var devices []string
		found := false
		for _, t := range p.Targets {
			device := t.Traits().Device
			if device == "" {
				continue
			}
			devices = append(devices, t.Device())
			found = found || t.On == on && device == path
		}
		if !found {
			e := &iotax.Error{Op: "read --destroy", On: w, Err: errors.New("no target of the plan is this block device"), Hint: "name one exactly as the plan does: " + strings.Join(devices, ", ")}
			if len(devices) == 0 {
				e.Hint = "leave it out: the plan has no block devices"
			}
			return nil, iotax.Usage(e)
		}
		given[on] = append(given[on], path)
	}
	return given, nil
}
