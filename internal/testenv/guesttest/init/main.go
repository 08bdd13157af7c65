// Init is an init process for guests. Tests boot it if their own binary is linked dynamically, because such a binary
// cannot be an init.
package main

import (
	"fmt"
	"os"

	"iotax/internal/agent"
	"iotax/internal/guest"
	"iotax/internal/machine/host"
	_ "iotax/internal/probe" // these packages declare the functions that the agent calls
	_ "iotax/internal/volume"
	_ "iotax/internal/workload/task"
)

func main() {
	agent.Main(host.Local())
	if !guest.IsInit() {
		fmt.Fprintln(os.Stderr, "this is the init of a guest")
		os.Exit(2)
	}
	guest.Main(host.Local())
}
