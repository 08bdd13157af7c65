//go:build !linux

package input

func written(string) (float64, bool) { return 0, false }
