package agent_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"iotax"
	"iotax/internal/agent"
)

type peer struct {
	iotax.Machine
	caps iotax.MachineCaps
}

func (peer) String() string            { return "db1" }
func (p peer) Caps() iotax.MachineCaps { return p.caps }

// Without Landlock, a program runs unconfined only for machines that no other party controls.
func TestConfineWithoutLandlock(t *testing.T) {
	const never = 1 << 30 // no kernel has this version
	args := []string{"/usr/lib/openssh/sftp-server", "-e"}
	for _, own := range []iotax.MachineCaps{{Local: true}, {Alone: true}, {Started: time.Now()}} {
		if got, err := agent.Confine(never, "/srv", args, peer{caps: own}); err != nil || !slices.Equal(got, args) {
			t.Errorf("%+v: %q, %v", own, got, err)
		}
	}
	if _, err := agent.Confine(never, "/srv", args, peer{caps: iotax.MachineCaps{Local: true}}, peer{}); err == nil || !strings.Contains(err.Error(), "cannot confine sftp-server, which would give db1") {
		t.Error(err)
	}
}
