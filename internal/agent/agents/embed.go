//go:build agents

package agents

import "embed"

//go:embed *.gz
var files embed.FS
