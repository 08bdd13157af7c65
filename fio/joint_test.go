package fio

import (
	"fmt"
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

// A text row gets the options of its own head, even if other heads have the same name.
func TestHeadsOfRows(t *testing.T) {
	head := func(name string, group int, rw, low, high string) string {
		return fmt.Sprintf("%s: (g=%d): rw=%s, bs=(R) %s-%s, (W) 4096B-4096B, (T) 4096B-4096B, ioengine=psync, iodepth=1\n", name, group, rw, low, high)
	}
	pid := 0
	row := func(name string, group, members int) string {
		pid++
		return fmt.Sprintf("%s: (groupid=%d, jobs=%d): err= 0: pid=%d: Mon Jan  5 20:39:06 2026\n  read: IOPS=45, BW=45.7MiB/s (47.9MB/s)(958MiB/20975msec)\n", name, group, members, pid)
	}
	const first = "fio-3.33\nStarting 2 processes\n"
	for _, c := range []struct {
		name, text string
		want       []string // of each row: members, the options, and those in which its jobs differ
	}{
		{"a range, as fio shows a bssplit", head("a", 0, "read", "512B", "16.0KiB") + first + row("a", 0, 1),
			[]string{"1 map[bsrange:512-16384,4096-4096,4096-4096 iodepth:1 ioengine:psync rw:read] []"}},
		{"blocks of 20 kB", head("a", 0, "read", "20.0kB", "20.0kB") + first + row("a", 0, 1),
			[]string{"1 map[bs:20000,4096,4096 iodepth:1 ioengine:psync rw:read] []"}},
		{"blocks of 256 KiB, which fio rounds with kb_base=1000", head("a", 0, "read", "262kB", "262kB") + first + row("a", 0, 1),
			[]string{"1 map[iodepth:1 ioengine:psync rw:read] []"}},
		{"sections of one name", head("a", 0, "read", "4096B", "4096B") + head("a", 0, "randread", "4096B", "4096B") + first + row("a", 0, 1) + row("a", 0, 1),
			[]string{"1 map[bs:4096 iodepth:1 ioengine:psync rw:read] []", "1 map[bs:4096 iodepth:1 ioengine:psync rw:randread] []"}},
		{"sections of one name, one of them with clones", head("a", 0, "read", "4096B", "4096B") + "...\n" + head("a", 0, "randread", "4096B", "4096B") + first + row("a", 0, 1) + row("a", 0, 1) + row("a", 0, 1),
			[]string{"1 map[bs:4096 iodepth:1 ioengine:psync] []", "1 map[bs:4096 iodepth:1 ioengine:psync] []", "1 map[bs:4096 iodepth:1 ioengine:psync] []"}},
		{"the sum of two sections, one with the name of a row of another group", head("a", 0, "read", "4096B", "4096B") + head("b", 1, "read", "4096B", "4096B") + head("a", 1, "randread", "4096B", "4096B") + first + row("a", 0, 1) + row("b", 1, 2),
			[]string{"1 map[bs:4096 iodepth:1 ioengine:psync rw:read] []", "2 map[bs:4096 iodepth:1 ioengine:psync] [rw]"}},
	} {
		var got []string
		for _, j := range one(t, []byte(c.text), "").Result.Jobs {
			got = append(got, fmt.Sprint(j.Members, " ", j.Options, " ", j.Unlike))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
