package plan

import (
	"slices"
	"testing"
)

type toolSpec struct{ tool, by, peer string }

func (s toolSpec) Tools() []string              { return []string{s.tool} }
func (s toolSpec) ServedBy() (_, _ string)      { return "from", s.by }
func (s toolSpec) JoinedBy() (string, []string) { return "replicas", []string{s.peer} }

type machineTool string

func (s machineTool) Tools() []string { return []string{string(s)} }

// A machine that no target needs is not started, so its programs may be missing.
func TestToolsOfMachines(t *testing.T) {
	p := &Plan{Targets: []Target{{Name: "x", On: "used", Spec: toolSpec{"volume", "server", "peer"}}, {Name: "y", On: Host, Spec: machineTool("dir")}}}
	for _, name := range []string{Host, "used", "server", "peer", "idle"} {
		p.Machines = append(p.Machines, Machine{Name: name, Spec: machineTool(name + "-tool")})
	}
	got := p.Tools(func(m Machine) bool { return m.Name == Host || m.Name == "server" })
	if want := []string{"dir", "host-tool", "peer-tool", "server-tool", "used-tool", "volume"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
