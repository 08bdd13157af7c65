package guard

// Distrust always returns nil, because Windows does not have Unix owners and modes.
func Distrust(string) error { return nil }
