package fio

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A row that sums several sections does not contain options that differ between these sections.
func TestSectionsInOneRow(t *testing.T) {
	t.Parallel() // the test mostly waits for fio
	job := filepath.Join(t.TempDir(), "g.fio")
	if err := os.WriteFile(job, []byte("[global]\nioengine=null\nsize=16m\nrate=16m\nrw=read\ngroup_reporting\n[a]\nbs=4k\n[b]\nbs=64k\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, format := range []string{"normal", "json"} {
		r := one(t, run(t, "--output-format="+format, job), "").Result
		j := r.Jobs[0]
		if len(r.Jobs) != 1 || j.Members != 2 || !slices.Equal(j.Unlike, []string{"bs"}) || j.Options["bs"] != "" {
			t.Errorf("%s: %+v", format, j)
		}
		if rw := j.Options["rw"] + r.Options["rw"]; rw != "read" {
			t.Errorf("%s: what both have is %q", format, rw)
		}
	}
	// Clones, jobs with separate rows, and a job that verifies its data keep their options.
	for _, args := range [][]string{{"--numjobs=2", "--group_reporting"}, {"--numjobs=2"}, {"--verify=crc32c", "--rw=write", "--ioengine=psync", "--filename=" + job + ".data"}} {
		args = append([]string{"--name=a", "--rw=randrw", "--bs=4k", "--size=8m", "--rate=8m", "--ioengine=null", "--output-format=json"}, args...)
		for _, j := range one(t, run(t, args...), "").Result.Jobs {
			if len(j.Unlike) > 0 || j.Options["bs"] != "4k" {
				t.Errorf("%s: %+v", strings.Join(args, " "), j)
			}
		}
	}
}
