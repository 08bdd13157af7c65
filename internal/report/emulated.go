package report

import (
	"strings"

	"iotax"
)

// Emulated are the targets whose work was done in an emulated guest, in the run's order.
func (r *Report) Emulated() []string {
	var names []string
	for _, t := range r.Run.Targets {
		if t.Emulated() {
			names = append(names, t.Name)
		}
	}
	return names
}

// Banner is the caveat that stands under the first line of every report of emulated guests; "" where there are none.
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
