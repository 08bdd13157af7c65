//go:build !agents

package agent

import "io/fs"

// embedded is nil: this build has no agents. It can copy only itself, to machines of its own system.
var embedded fs.FS
