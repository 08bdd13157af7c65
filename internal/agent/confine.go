package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"iotax"
)

// Confine returns the command that runs args on this host for the machines `peers`, whose requests may be hostile. The
// program runs in dir and can change only files below dir. Outside dir, it can read only its executable, libraries and
// files that libc needs. This requires Landlock of at least version abi. Confine returns args if each peer is this host,
// and without Landlock also if a peer is a container or virtual machine, or a machine that iotax started. Otherwise,
// another party may control a peer, and Confine returns an error.
func Confine(abi int, dir string, args []string, peers ...iotax.Machine) ([]string, error) {
	peers = slices.DeleteFunc(slices.Clone(peers), iotax.IsLocal)
	if len(peers) > 0 && landlock() >= abi {
		self, err := os.Executable()
		return append([]string{self, "agent", "confine", dir}, args...), err
	}
	for _, m := range peers {
		if c := m.Caps(); !c.Alone && c.Started.IsZero() {
			return nil, fmt.Errorf("this host cannot confine %s, which would give %v access to all files of this user: it has no Landlock of version %d",
				filepath.Base(args[0]), m, abi)
		}
	}
	return args, nil
}
