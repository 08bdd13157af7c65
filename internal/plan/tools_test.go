package plan

import (
	"slices"
	"testing"
)

type toolSpec struct{ tool, by, peer string }

func (s toolSpec) Validate() error { return nil }

func (s toolSpec) Traits() Traits {
	return Traits{Tools: []string{s.tool}, Served: &Served{Key: "from", Machine: s.by, PeersKey: "replicas", Peers: []string{s.peer}}}
}

type machineTool string

func (s machineTool) Validate() error { return nil }

func (s machineTool) Traits() Traits { return Traits{Tools: []string{string(s)}} }

// iotax does not start a machine that no target needs, so the programs of that machine may be missing.
func TestToolsOfMachines(t *testing.T) {
	p := &Plan{Targets: []Target{{Name: "x", On: "used", Spec: toolSpec{"volume", "server", "peer"}}, {Name: "y", On: Host, Spec: machineTool("dir")}}}
	for _, name := range []string{Host, "used", "server", "peer", "idle"} {
		p.Machines = append(p.Machines, Machine{Name: name, Spec: machineTool(name + "-tool")})
	}
	got := p.Tools(func(m Machine) bool { return m.Name == Host || m.Name == "server" })
	if want := []string{"dir", "host-tool", "peer-tool", "server-tool", "used-tool", "volume"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	p.Machines = append(p.Machines, Machine{Name: "inner", On: "middle"}, Machine{Name: "middle", On: "outer"}, Machine{Name: "outer"})
	p.Targets = append(p.Targets, Target{Name: "z", On: "inner", Spec: machineTool("dir")})
	if used := p.Used(); !used["inner"] || !used["middle"] || !used["outer"] || used["idle"] {
		t.Errorf("of a nested machine: %v", used)
	}
}
