// Package made contains the common parts of the machines that iotax makes for a run.
package made

import (
	"crypto/rand"
	"encoding/hex"
	"strings"
)

// Name returns a new random name. Its prefix shows that iotax made the machine.
func Name() string {
	var b [4]byte
	rand.Read(b[:]) // never fails
	return "iotax-" + hex.EncodeToString(b[:])
}

// Sleep returns the command that keeps a container running until it is stopped. The shell waits for a background sleep,
// because it then handles SIGTERM at once.
func Sleep() []string {
	return []string{"sh", "-c", "trap 'exit 0' TERM; while :; do sleep 3600 & wait $!; done"}
}

// NoShell is the hint for an image in which the agent cannot be started.
const NoShell = "use an image that has a POSIX shell (busybox will do)"

// Mount returns the path of the mount `id` in a container.
func Mount(id string) string { return "/mnt/" + id }

// ShortID shortens the id of a container or an image to the length that engines show.
func ShortID(id string) string {
	id = strings.TrimPrefix(id, "sha256:")
	return id[:min(len(id), 12)]
}
