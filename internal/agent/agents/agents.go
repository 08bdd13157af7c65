// Package agents contains the agents that `make agents` built, if the build has the tag agents.
package agents

import "embed"

// Files has a file OS-ARCHITECTURE-SHA256-SIZE.gz for each agent. It is not inlined, so that the packages that use it are the
// same in all builds, and are compiled once.
//
//go:noinline
func Files() embed.FS { return files }
