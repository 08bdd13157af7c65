package agent

import (
	"fmt"
	"os"
	"path/filepath"

	"iotax"
)

// Confine returns the command that runs args on this host for the machines `peers`, whose requests may be hostile. The
// program runs in dir, changes only files below dir, and reads only these and its libraries. This needs Landlock of at
// least version abi. Without it, Confine returns args, or an error if another party may control one of the machines: one
// that is not a container or virtual machine and that iotax did not start.
func Confine(abi int, dir string, args []string, peers ...iotax.Machine) ([]string, error) {
	if landlock() >= abi {
		self, err := os.Executable()
		return append([]string{self, "agent", "confine", dir}, args...), err
	}
	for _, m := range peers {
		if c := m.Caps(); !c.Local && !c.Alone && c.Started.IsZero() {
			return nil, fmt.Errorf("this host cannot confine %s, which would give %v access to all files of this user: it has no Landlock of version %d",
				filepath.Base(args[0]), m, abi)
		}
	}
	return args, nil
}
