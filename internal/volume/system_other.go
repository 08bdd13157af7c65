//go:build !linux

package volume

import (
	"os"
	"syscall"
)

func dirID(string) string { return "" }

func allocate(*os.File, int64) error { return syscall.ENOTSUP }

// refusesDirect returns false: this system has no O_DIRECT.
func refusesDirect(string) bool { return false }
