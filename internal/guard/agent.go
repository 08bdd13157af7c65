package guard

import "iotax/internal/agent"

// These functions run on the machine that has the device.
var (
	// Inspect collects the facts of a block device. It changes nothing and needs root.
	Inspect = agent.New("guard.inspect", inspect)
	// Survey finds a block device and reads its first bytes, because a user may see the size of a device without
	// permission to read it.
	Survey = agent.New("guard.survey", survey)
)
