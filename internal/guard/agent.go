package guard

import "iotax/internal/agent"

// These functions run on the machine that has the device.
var (
	// Inspect collects the facts of a block device. It changes nothing and needs root.
	Inspect = agent.New("guard.inspect", inspect)
	// Survey finds a block device and checks that its first bytes can be read.
	Survey = agent.New("guard.survey", survey)
)
