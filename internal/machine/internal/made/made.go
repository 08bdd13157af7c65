// Package made holds what the machines that are made for a run have in common: their names, and of containers,
// whoever runs them, what keeps them and where they find their mounts.
package made

import (
	"crypto/rand"
	"encoding/hex"
	"strings"
)

// Name is a fresh name: whoever finds the machine knows whose it was.
func Name() string {
	var b [4]byte
	rand.Read(b[:]) // never fails
	return "iotax-" + hex.EncodeToString(b[:])
}

// Sleep is what a container that is made runs until its end. A shell that waits hears SIGTERM, and any image with
// sh has both.
func Sleep() []string {
	return []string{"sh", "-c", "trap 'exit 0' TERM; while :; do sleep 3600 & wait $!; done"}
}

// NoShell is the hint for an image in which no agent can be started.
const NoShell = "use an image that has a POSIX shell (busybox will do)"

// Mount is where a container finds the mount with that id; package volume looks there.
func Mount(id string) string { return "/mnt/" + id }

// ShortID is as much of the id of a container or an image as engines show.
func ShortID(id string) string {
	id = strings.TrimPrefix(id, "sha256:")
	return id[:min(len(id), 12)]
}
