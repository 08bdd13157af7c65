package plan

import (
	"strings"
	"testing"
)

// The command before each trial may come from the command line. It is stored with the plan, so it must not
// contain a password.
func TestPrepareHoldsNoPassword(t *testing.T) {
	m := Defaults()
	m.Prepare = "curl https://me:hunter2@h/x"
	if err := m.Check(); err == nil || !strings.Contains(err.Error(), "a password does not belong in a plan") || strings.Contains(err.Error(), "hunter2") {
		t.Error(err)
	}
	m.Prepare = "curl https://h:443/x"
	if err := m.Check(); err != nil {
		t.Error(err)
	}
}
