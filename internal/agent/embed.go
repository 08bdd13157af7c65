//go:build agents

package agent

import (
	"embed"
	"io/fs"
)

//go:embed agents/*.gz
var files embed.FS

// embedded holds what make agents has built.
var embedded fs.FS = files
