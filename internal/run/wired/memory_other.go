//go:build !linux

package wired

import "runtime/debug"

// giveBack returns to the OS the memory that setup used and trials do not need.
func giveBack() { debug.FreeOSMemory() }
