package pod

import (
	"os"
	"testing"

	"iotax/internal/agent"
	"iotax/internal/machine/host"
)

// The test binary is also the agent that the tests start in pods.
func TestMain(m *testing.M) {
	agent.Main(host.Local())
	os.Exit(m.Run())
}
