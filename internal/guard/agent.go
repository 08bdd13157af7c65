package guard

import "iotax/internal/agent"

// These run on the machine that has the files.
var (
	// Inspect collects the facts of a block device, and changes nothing. Only root can.
	Inspect = agent.New("guard.inspect", inspect)
	// Survey finds a block device and reads its start: a device may have a size and be refused to this user.
	Survey = agent.New("guard.survey", survey)
)
