package inside

import (
	"os"
	"testing"

	"iotax/internal/agent"
	"iotax/internal/machine/host"
)

// The test binary also serves as the agent in the containers of the tests.
func TestMain(m *testing.M) {
	agent.Main(host.Local())
	os.Exit(m.Run())
}
