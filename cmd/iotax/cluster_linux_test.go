package main

import (
	"bytes"
	"os"
	"strings"
	"testing"
)

// The suite on one machine from nothing, as small as it goes: every section has numbers, and nothing stays. What is
// not in it here (images, multipart) has tests of its own.
func TestClusterSuite(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root to make network namespaces")
	}
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	var out, stderr bytes.Buffer
	code := Main(t.Context(), []string{"run", "cluster", "--scale", "0.1", "--protocol", "fixed:1x1s", "-w",
		"network,sequential read,4k random read,materialize"}, strings.NewReader(""), &out, &stderr)
	text := out.String()
	for _, want := range []string{"tcp node04 to node01", "controller export", "node-local export", "node05 node-local export", "materialize"} {
		if !strings.Contains(text, want) {
			t.Errorf("the report has no %q", want)
		}
	}
	if code != exitOK && code != exitIncomplete || strings.Contains(text, "left-behind") || strings.Contains(text, "materialize: ") {
		t.Errorf("exit status %d\n%s\n%s", code, text, stderr.String())
	}
	for _, dir := range []string{"/run/netns", "/var/tmp"} {
		entries, _ := os.ReadDir(dir)
		for _, e := range entries {
			if strings.HasPrefix(e.Name(), "iotax-r") && strings.HasSuffix(e.Name(), "node01") {
				t.Logf("another run's: %s", e.Name())
			}
		}
	}
}
