package kube

import "testing"

// withEvents skips events that repeat a message, because the events of a pod and of its claims often have the same
// message.
func TestWithEvents(t *testing.T) {
	full := event{reason: "FailedScheduling", message: "0/2 nodes are available"}
	claim := event{"claim data", "ProvisioningFailed", "no such class"}
	for want, events := range map[string][]event{
		"no node takes it: 0/2 nodes are available":                                                                  {full, {"claim data", "FailedBinding", full.message}},
		"no node takes it: 0/2 nodes are available (events: claim data: ProvisioningFailed: no such class)":          {full, claim, {"claim more", claim.reason, claim.message}},
		"no node takes it: 0/2 nodes are available (events: Evicted; claim data: ProvisioningFailed: no such class)": {{reason: "Evicted"}, claim},
	} {
		if got := withEvents("no node takes it: 0/2 nodes are available", events); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
