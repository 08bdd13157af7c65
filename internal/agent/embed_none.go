//go:build !agents

package agent

import "io/fs"

// embedded is nil: this program is the agent on machines of its own system.
var embedded fs.FS
