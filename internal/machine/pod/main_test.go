package pod

import (
	"os"
	"testing"

	"iotax/internal/agent"
	"iotax/internal/machine/host"
)

// This program is also the agent in what the tests open.
func TestMain(m *testing.M) {
	agent.Main(host.Local())
	os.Exit(m.Run())
}
