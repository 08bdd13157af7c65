package main

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"iotax/internal/testenv/engine"
	"iotax/internal/testenv/long"
)

// Docker and Podman build packaging/Dockerfile into an image that can measure. The base image of this test has fio,
// because the test cannot download packages.
func TestContainerImage(t *testing.T) {
	long.Test(t)
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	// Use a directory outside of the source tree, because the tree may contain a user's packages.
	context := t.TempDir()
	if out, err := exec.Command("make", "-C", root, "package-program", "SYSTEMS=linux/amd64", "BIN="+context+"/bin").CombinedOutput(); err != nil {
		t.Fatalf("make package-program: %v: %s", err, out)
	}
	if out, err := exec.Command("cp", root+"/.dockerignore", context).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for name, start := range map[string]func(*testing.T) *engine.Engine{"docker": engine.Docker, "podman": engine.Podman} {
		t.Run(name, func(t *testing.T) {
			if name == "podman" {
				repeats(t, "TestContainerImage/docker")
			}
			e := start(t)
			e.Load(t, boxImage, true)
			const image = "localhost/iotax:built"
			e.CLI(t, "build", "--network=none", "--build-arg", "BASE="+boxImage, "-f", root+"/packaging/Dockerfile", "-t", image, context)
			run := []string{"run", "--rm", "--network=none", image}
			if out := e.CLI(t, append(run, "--version")...); !strings.Contains(out, "iotax ") {
				t.Errorf("the program says that it is %q", out)
			}
			out := e.CLI(t, append(run, "run", "dir:/tmp", "dir:/var/tmp", "-w", "randread-4k", "--size", "4MiB", "--protocol", "fixed:2x200ms", "--ramp", "0s", "--calibrate", "no")...)
			if !strings.Contains(out, "dir:/var/tmp") || !strings.Contains(out, " IOPS") {
				t.Errorf("the program in the image measured nothing: %s", out)
			}
		})
	}
}
