//go:build unix

package leftover

import (
	"io/fs"
	"os"
	"syscall"

	"iotax/internal/agent"
)

// Mine reports whether a file belongs to this user, or to the user for whom sudo started this agent.
func Mine(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	caller, called := agent.Caller()
	return ok && (int(st.Uid) == os.Geteuid() || called && int(st.Uid) == caller)
}
