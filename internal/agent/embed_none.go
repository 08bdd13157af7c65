//go:build !agents

package agent

import "io/fs"

// embedded is nil because this build contains no agents.
var embedded fs.FS
