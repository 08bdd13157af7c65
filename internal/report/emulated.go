package report

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
	if len(r.Emulated()) == 0 {
		return ""
	}
	return "Guests were EMULATED (QEMU TCG): do not publish. KVM usually costs far less."
}
