//go:build !linux

package wired

import "runtime/debug"

// giveBack returns what starting and preparing needed and measuring does not.
func giveBack() { debug.FreeOSMemory() }
