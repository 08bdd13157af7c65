package machine_test

import (
	"os"
	"path/filepath"
	"testing"

	"iotax/internal/lab"
	"iotax/internal/leftover"
	"iotax/internal/machine"
	"iotax/internal/machine/container"
	"iotax/internal/machine/host"
	"iotax/internal/plan"
	"iotax/internal/testenv/engine"
	"iotax/internal/testenv/long"
)

// died returns the label of a run whose runner no longer exists.
func died(t *testing.T) leftover.Label {
	t.Helper()
	l := leftover.Label{Run: "run-" + filepath.Base(t.TempDir()), Runner: leftover.Self()}
	l.Runner.Start++
	if l.Runner.State() != leftover.Dead {
		t.Fatalf("%v is %s", l.Runner, l.Runner.State())
	}
	return l
}

// left returns the leftovers with the label.
func left(t *testing.T, l leftover.Label, made ...plan.Machine) (items []leftover.Item) {
	t.Helper()
	all, err := leftover.Find(t.Context(), leftover.Place{Machine: host.Local(), Dirs: []string{"/var/tmp"}, Also: machine.Leftovers(made)})
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range all {
		if i.Label == l {
			items = append(items, i)
		}
	}
	return items
}

// Find finds the namespaces and the directory of a crashed run's lab, and Remove removes them. A lab without a label
// stays.
func TestLeftLab(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root to make network namespaces")
	}
	l := died(t)
	for name, label := range map[string]leftover.Label{"left1": l, "stays": {}} {
		if _, err := lab.Up(t.Context(), lab.Config{Name: name, Nodes: 2, Label: label}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := lab.Down(t.Context(), name); err != nil && t.Context().Err() == nil {
				t.Error(err)
			}
		})
	}
	items := left(t, l)
	if len(items) != 2 || items[0].Kind != "lab" || items[0].Name != "left1" || items[1].Kind != "directory" {
		t.Fatalf("found %+v", items)
	}
	for _, i := range items {
		if err := i.Remove(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if items := left(t, l); len(items) > 0 {
		t.Errorf("after the removal: %+v", items)
	}
	for path, there := range map[string]bool{"/run/netns/iotax-left1-node01": false, "/var/tmp/iotax-lab-left1": false, "/run/netns/iotax-stays-node01": true} {
		if _, err := os.Stat(path); (err == nil) != there {
			t.Errorf("%s: %v", path, err)
		}
	}
	if err := lab.Down(t.Context(), "stays"); err != nil {
		t.Error(err)
	}
}

// Find finds the container and the volume of a crashed run through the engine that the run used, and Remove removes
// them. Containers without the label stay.
func TestLeftContainer(t *testing.T) {
	long.Test(t)
	for name, start := range map[string]func(*testing.T) *engine.Engine{"docker": engine.Docker, "podman": engine.Podman} {
		t.Run(name, func(t *testing.T) {
			e := start(t)
			e.Load(t, "localhost/iotax-test:1", false)
			l := died(t)
			label := []string{"--label", "iotax.run=" + l.Run, "--label", "iotax.runner=" + l.Runner.String()}
			e.CLI(t, append(append([]string{"volume", "create"}, label...), "left")...)
			e.CLI(t, append(append([]string{"run", "-d", "--network", "none", "-v", "left:/mnt"}, label...), "localhost/iotax-test:1", "sleep", "300")...)
			e.CLI(t, "run", "-d", "--name", "mine", "--network", "none", "localhost/iotax-test:1", "sleep", "300")
			made := plan.Machine{Kind: name, Spec: &container.Spec{Host: e.Host}}
			items := left(t, l, made)
			if len(items) != 2 || items[0].Kind != "container" || items[1].Kind != "volume" || items[1].Name != "left" {
				t.Fatalf("found %+v", items)
			}
			for _, i := range items {
				if err := i.Remove(t.Context()); err != nil {
					t.Error(err)
				}
			}
			if items := left(t, l, made); len(items) > 0 {
				t.Errorf("after the removal: %+v", items)
			}
			e.CLI(t, "rm", "-f", "mine") // fails the test if this container was removed, too
		})
	}
}
