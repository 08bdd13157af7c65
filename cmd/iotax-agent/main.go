// Command iotax-agent runs the functions that iotax calls on other machines. It is also the init process of guests
// that iotax starts.
package main

import (
	"fmt"
	"os"

	"iotax/internal/agent"
	_ "iotax/internal/generate"
	_ "iotax/internal/guard" // registers its functions, like the other blank imports
	"iotax/internal/guest"
	_ "iotax/internal/leftover"
	"iotax/internal/machine/host"
	_ "iotax/internal/machine/vm"
	_ "iotax/internal/object"
	_ "iotax/internal/probe"
	_ "iotax/internal/volume"
	_ "iotax/internal/workload/task"
)

func main() {
	agent.Main(host.Local()) // before IsInit, because an agent in a container may be process 1 of its PID namespace
	if guest.IsInit() {
		guest.Main(host.Local())
		return
	}
	fmt.Fprintln(os.Stderr, "iotax-agent: iotax starts this program on other machines")
	os.Exit(2)
}
