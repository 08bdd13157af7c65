package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The suite on one machine from nothing, as small as it goes: every section has numbers, and nothing stays. What is
// not in it here (images, multipart) has tests of its own.
func TestClusterSuite(t *testing.T) {
	needsRoot(t)
	s := newStage(t)
	made := func() (all []string) { // by labs of runs: their namespaces, state and directories
		t.Helper()
		for _, pattern := range []string{"/run/netns/iotax-r*", "/run/iotax-lab/r*", "/var/tmp/iotax-lab-r*"} {
			found, err := filepath.Glob(pattern)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, found...)
		}
		return all
	}
	before := made()
	r := s.iotax("run", "cluster", "--scale", "0.1", "--protocol", "fixed:1x1s", "--calibrate", "no", "-w", "network,sequential read,materialize,guest")
	text := r.stdout
	for _, want := range []string{"tcp node04 to node01", "tcp node03 to node01", "tcp node05 to node01", "network rtt mean", "controller export", "node-local export", "node05 node-local export", "materialize duration",
		"guest disk attached", "guest up", "guest root read bandwidth"} {
		if !strings.Contains(text, want) {
			t.Errorf("the report has no %q", want)
		}
	}
	if r.code != exitOK && r.code != exitIncomplete || strings.Contains(text, "left-behind") || strings.Contains(text, "guest has no result") || strings.Contains(text, "materialize has no result") || strings.Contains(text, "could not be opened") {
		t.Error(r)
	}
	if left := slices.DeleteFunc(made(), func(s string) bool { return slices.Contains(before, s) }); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}
