package node

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"iotax"
	"iotax/internal/lab"
	"iotax/internal/machine/host"
	"iotax/internal/machine/kind"
	"iotax/internal/testenv/machinetest"
)

// openNodes opens nodes as a run does: in a lab that is made for the run.
func openNodes(t *testing.T, work string, names ...string) []iotax.Machine {
	t.Helper()
	if runtime.GOOS != "linux" || os.Geteuid() != 0 {
		t.Skip("needs root to make network namespaces")
	}
	var out []iotax.Machine
	for _, n := range names {
		m, err := Kind.Open(t.Context(), &Spec{Name: n, Lab: "tnone"}, kind.Options{Name: n, WorkDir: work})
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, m)
	}
	return out
}

func TestNode(t *testing.T) {
	machinetest.Run(t, func(t *testing.T) iotax.Machine { return openNodes(t, "/tmp/iotax-1042", "node02")[0] })
}

// All nodes of a run share a lab, which is removed when the last of them closes.
func TestNodesOfARun(t *testing.T) {
	work := filepath.Join(t.TempDir(), "iotax-77aa")
	ms := openNodes(t, work, "node01", "node05")
	for i, want := range []string{"10.77.0.1/24", "10.77.0.5/24"} {
		out, err := iotax.Output(t.Context(), ms[i], "ip", "-o", "-4", "addr", "show", "eth0")
		if err != nil || !strings.Contains(string(out), want) {
			t.Errorf("%v: %s (%v)", ms[i], out, err)
		}
	}
	_, err := Kind.Open(t.Context(), &Spec{Name: "node07", Lab: "tnone"}, kind.Options{Name: "far", WorkDir: work})
	var e *iotax.Error
	if !errors.As(err, &e) || !strings.Contains(e.Error(), "node07") || e.Hint != "iotax lab up --nodes 7" {
		t.Errorf("a node that the lab has not: %v", err)
	}
	for why, s := range map[string]Spec{"rate": {Name: "node02", Lab: "tnone", Rate: 1e9}, "tother": {Name: "node02", Lab: "tother"}} {
		if _, err := Kind.Open(t.Context(), &s, kind.Options{Name: "other", WorkDir: work}); !errors.As(err, &e) || !strings.Contains(e.Error(), why) || e.Hint == "" {
			t.Errorf("a node that needs another lab: %v", err)
		}
	}
	// A spec with the default rate can use a lab of any rate. Another rate in a spec must be equal to the lab's rate.
	for rate, fits := range map[lab.Rate]bool{defaultRate: true, 0: true, 1e9: false} {
		m, err := Kind.Open(t.Context(), &Spec{Name: "node02", Lab: "r77aa", Rate: rate}, kind.Options{Name: "up", WorkDir: work})
		if fits != (err == nil) || !fits && (!errors.As(err, &e) || !strings.Contains(e.Error(), "rate") || e.Hint == "") {
			t.Errorf("rate %v in a lab of rate none: %v", rate, err)
		}
		if m != nil {
			if err := m.Close(t.Context()); err != nil {
				t.Error(err)
			}
		}
	}
	for i, m := range ms {
		if err := m.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if _, err := lab.Get("r77aa"); (i == 0) == errors.Is(err, lab.ErrDown) {
			t.Errorf("after %v: %v", m, err)
		}
	}
}

func TestCapsKept(t *testing.T) {
	machinetest.Keeps(t, &node{lab: new(lab.Lab)}, host.Local())
}
