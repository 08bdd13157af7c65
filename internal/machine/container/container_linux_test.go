package container

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"iotax"
	"iotax/internal/machine/kind"
	"iotax/internal/testenv/engine"
	"iotax/internal/testenv/machinetest"
)

const testImage = "localhost/iotax-test:1"

// TestContainers runs the machine test suite in containers of each installed engine.
func TestContainers(t *testing.T) {
	for name, start := range map[string]func(*testing.T) *engine.Engine{"docker": engine.Docker, "podman": engine.Podman} {
		t.Run(name, func(t *testing.T) {
			k := map[string]kind.Kind{"docker": Docker, "podman": Podman}[name]
			e := start(t)
			e.Load(t, testImage, false)
			open := func(t *testing.T) iotax.Machine {
				m, err := k.Open(t.Context(), &Spec{Image: testImage, Pull: "never", Host: e.Host}, kind.Options{Name: "box", WorkDir: t.TempDir()})
				if err != nil {
					t.Fatal(err)
				}
				return m
			}
			// The facts describe the runtime that started the container. Podman's service ignores the requested
			// runtime.
			m, err := k.Open(t.Context(), &Spec{Image: testImage, Pull: "never", Host: e.Host, Runtime: "runc"}, kind.Options{Name: "box", WorkDir: t.TempDir()})
			if name == "podman" {
				if err == nil || !strings.Contains(err.Error(), "not runc") {
					t.Errorf("Podman with a runtime: %v", err)
				}
				m = open(t)
			} else if err != nil {
				t.Fatal(err)
			}
			f := m.Caps().Facts
			if f["runtime"] != "runc" || filepath.Base(f["runtime.path"]) != "runc" || len(f["runtime.sha256"]) != 64 || !strings.HasPrefix(f["runtime.version"], "runc version ") {
				t.Errorf("facts of the runtime: %v", f)
			}
			if err := m.Close(t.Context()); err != nil {
				t.Error(err)
			}
			machinetest.Run(t, open, machinetest.Options{Patience: 30 * time.Second, Kill: func(m iotax.Machine) error {
				e.CLI(t, "kill", e.CLIFirst(t, "ps", "-q", "--latest"))
				return nil
			}})
			if err := context.Cause(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}
