package guest

import (
	"context"
	"os"
	"strings"

	"iotax"
	"iotax/internal/agent"
)

// Describe returns the facts that only the guest itself can read.
var Describe = agent.New("guest describe", func(context.Context, struct{}) (map[string]string, error) {
	facts := map[string]string{}
	for key, file := range map[string]string{
		iotax.FactKernel: "/proc/sys/kernel/osrelease",
		"clocksource":    "/sys/devices/system/clocksource/clocksource0/current_clocksource",
	} {
		b, err := os.ReadFile(file)
		if err != nil {
			return facts, err
		}
		facts[key] = strings.TrimSpace(string(b))
	}
	return facts, nil
})
