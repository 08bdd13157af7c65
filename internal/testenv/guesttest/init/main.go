// Init is a program that can only be the init of a guest: what tests boot when their own binary
// cannot be one, because it is linked dynamically.
package main

import (
	"fmt"
	"os"

	"iotax/internal/agent"
	"iotax/internal/guest"
	"iotax/internal/machine/host"
	_ "iotax/internal/probe" // its functions, as those of the others
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
