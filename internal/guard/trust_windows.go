package guard

// Distrust trusts every directory: Windows has no such owners.
func Distrust(string) error { return nil }
