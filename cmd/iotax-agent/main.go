// Command iotax-agent serves the functions that iotax calls on other machines. It is the part of iotax that they need.
package main

import (
	"fmt"
	"os"

	"iotax/internal/agent"
	_ "iotax/internal/leftover" // its functions, as those of probe and volume
	"iotax/internal/machine/host"
	_ "iotax/internal/probe"
	_ "iotax/internal/volume"
)

func main() {
	agent.Main(host.Local())
	fmt.Fprintln(os.Stderr, "iotax-agent: iotax starts this program on other machines")
	os.Exit(2)
}
