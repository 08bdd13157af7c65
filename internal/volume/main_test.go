package volume

import (
	"os"
	"testing"

	"iotax/internal/agent"
	"iotax/internal/machine/host"
)

// This program also plays the iotax on another machine.
func TestMain(m *testing.M) {
	agent.Main(host.Local())
	os.Exit(m.Run())
}
