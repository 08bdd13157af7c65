//go:build !agents

package agent

import "io/fs"

// embedded is nil because this build contains no agents. This program can copy only itself, to machines with the same
// system.
var embedded fs.FS
