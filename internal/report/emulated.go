package report

import (
	"strings"

	"iotax"
)

// Emulated returns the targets whose guests were emulated, in the run's order.
func (r *Report) Emulated() []string {
	var names []string
	for _, t := range r.Run.Targets {
		if t.Emulated() {
			names = append(names, t.Name)
		}
	}
	return names
}

// Banner returns the caveat below the first line of every report of emulated guests, or "".
func (r *Report) Banner() string {
	names := r.Emulated()
	if len(names) == 0 {
		return ""
	}
	how := "QEMU TCG"
	if why := r.Target(names[0]).Facts[iotax.FactAccelWhy]; strings.HasPrefix(why, "no KVM") {
		how += ": no KVM on this host"
	}
	return "Guests were EMULATED (" + how + "). With KVM these losses are usually far smaller. Do not publish these numbers. → iotax doctor"
}
