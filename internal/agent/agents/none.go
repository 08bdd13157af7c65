//go:build !agents

package agents

import "embed"

var files embed.FS
