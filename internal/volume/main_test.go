package volume

import (
	"os"
	"testing"

	"iotax/internal/agent"
	"iotax/internal/machine/host"
	"iotax/internal/plan"
)

// newSpec returns the spec of a kind with its defaults.
func newSpec(kind string) plan.Spec {
	for _, k := range Kinds() {
		if k.Name == kind {
			return k.New()
		}
	}
	panic("no kind " + kind)
}

// The test binary also runs as the agent on other machines. Its copies there are in a temporary cache directory.
func TestMain(m *testing.M) {
	agent.Main(host.Local())
	cache, err := os.MkdirTemp("", "iotax-test-")
	if err == nil {
		err = os.Setenv("XDG_CACHE_HOME", cache)
	}
	if err != nil {
		panic(err)
	}
	status := m.Run()
	os.RemoveAll(cache)
	os.Exit(status)
}
