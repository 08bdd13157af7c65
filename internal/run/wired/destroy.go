package wired

import (
	"errors"
	"strings"

	"iotax"
	"iotax/internal/plan"
)

// Destroy lists the block devices that workloads may overwrite, by machine, with paths as written in the plan. Only
// the command line can permit this, not a plan.
type Destroy map[string][]string

// ParseDestroy parses the values of --destroy. Each must match a device of a target of p exactly. Any other value is
// an error: a guess could destroy data.
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
