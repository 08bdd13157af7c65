// Command iotax-agent serves the functions that iotax calls on other machines. It is the part of iotax that they need. It is
// also the init of guests that it starts.
package main

import (
	"fmt"
	"os"

	"iotax/internal/agent"
	_ "iotax/internal/generate"
	_ "iotax/internal/guard" // its functions, as those of the others below
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
	agent.Main(host.Local()) // before IsInit: in a container of namespaces, an agent is process 1
	if guest.IsInit() {
		guest.Main(host.Local())
		return
	}
	fmt.Fprintln(os.Stderr, "iotax-agent: iotax starts this program on other machines")
	os.Exit(2)
}
