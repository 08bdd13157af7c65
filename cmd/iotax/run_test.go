package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// A command line that may contain a password is not saved.
func TestRepeatable(t *testing.T) {
	for arg, want := range map[string]string{"dir:/a b": "iotax 'dir:/a b'", "postgres://u:x@db/x": "", "postgres://db/x?password=x": "", "host=db password = x": ""} {
		if got := repeatable([]string{arg}); got != want {
			t.Errorf("%s: %q", arg, got)
		}
	}
}

// Flags that have no effect are refused.
func TestFlagsWithoutEffect(t *testing.T) {
	for args, want := range map[string]string{
		"--shards 4":                             "read command line --shards: it has no effect without --kubernetes",
		"--resume --kube-context x":              "--kube-context: it has no effect without --kubernetes",
		"--kubernetes --detach -o report.html":   "--output: --detach prints no report",
		"--kubernetes --detach --strict --json":  "--detach prints no report",
		"--kubernetes --detach --format=text":    "--format: --detach prints no report",
		"--kubernetes --detach --pod-image x":    "the pods of a cluster cannot share a file",
		"--kubernetes --shards 2 --pod-image=x":  "the pods of a cluster cannot share a file",
		"--kubernetes --pod-image x -o new.html": "the pods of a cluster cannot share a file",
	} {
		store := filepath.Join(t.TempDir(), "iotax.db")
		code, stdout, stderr := cli(t, append([]string{"run", "dir:/nonexistent/a", "dir:/nonexistent/b", "--store", store}, strings.Fields(args)...)...)
		if code != exitUsage || !strings.Contains(stdout+stderr, want) {
			t.Errorf("%s: %d, %s%s, want %q", args, code, stdout, stderr, want)
		}
	}
}
