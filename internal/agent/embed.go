//go:build agents

package agent

import (
	"embed"
	"io/fs"
)

//go:embed agents/*.gz
var files embed.FS

// embedded contains the agents that `make agents` built.
var embedded fs.FS = files
