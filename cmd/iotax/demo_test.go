package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// demo overwrites an earlier report, but not another report.html in the working directory.
func TestDemoOverwritesOnlyReports(t *testing.T) {
	report, err := filepath.Abs("../../internal/report/output/testdata/report.html")
	if err != nil {
		t.Fatal(err)
	}
	if err := overwrites(report); err != nil {
		t.Error(err)
	}
	t.Chdir(t.TempDir())
	if err := overwrites(demoReport); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(demoReport, []byte("<html>coverage"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, out, errs := cli(t, "demo"); code != exitUsage || !strings.Contains(errs, "is not a report of iotax") {
		t.Errorf("status %d, %s%s", code, out, errs)
	}
}
