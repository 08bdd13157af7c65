package machine_test

import (
	"testing"

	"iotax"
	"iotax/machine"
	"iotax/machine/machinetest"
)

func TestLocal(t *testing.T) {
	machinetest.Run(t, func(*testing.T) iotax.Machine { return machine.Local() })
}
