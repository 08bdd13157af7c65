package suite_test

import (
	"strings"
	"testing"

	"iotax/internal/suite"
)

// The first line of every suite describes what the suite measures, and is short enough for a list.
func TestDocs(t *testing.T) {
	names := suite.Names()
	if len(names) < 4 {
		t.Fatalf("suites %v", names)
	}
	for _, n := range names {
		src, ok := suite.Source(n)
		if !ok || !strings.HasPrefix(string(src), "# ") || suite.Doc(n) == "" || len(suite.Doc(n)) > 160 {
			t.Errorf("%s: %q", n, suite.Doc(n))
		}
		if !strings.Contains(string(src), "\nname: "+n+"\n") {
			t.Errorf("%s is not called so in its plan", n)
		}
	}
}
