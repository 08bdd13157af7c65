package report

// Emulated returns the names of the targets with emulated guests, in the run's order.
func (r *Report) Emulated() []string {
	var names []string
	for _, t := range r.Run.Targets {
		if t.Emulated() {
			names = append(names, t.Name)
		}
	}
	return names
}

// Banner returns the warning for a report of emulated guests, or "" if no guest was emulated.
func (r *Report) Banner() string {
	if len(r.Emulated()) == 0 {
		return ""
	}
	return "Guests were EMULATED (QEMU TCG): do not publish. KVM is usually far faster."
}
