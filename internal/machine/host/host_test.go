package host

import (
	"testing"

	"iotax"
	"iotax/internal/testenv/machinetest"
)

func TestLocal(t *testing.T) {
	t.Parallel()
	machinetest.Run(t, func(*testing.T) iotax.Machine { return Local() })
}
