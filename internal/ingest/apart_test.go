package ingest

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"iotax"
)

// The names of workloads include each option that makes the work of two results different, even if the first results
// do not differ in it. They do not include file names, run times, explicit defaults, or other spellings of the same
// value.
func TestApartInAnyOrder(t *testing.T) {
	text := func(bs string) string {
		head := ""
		if bs != "" {
			head = fmt.Sprintf("a: (g=0): rw=read, bs=(R) %s-%[1]s, (W) %[1]s-%[1]s, (T) %[1]s-%[1]s, ioengine=psync, iodepth=1\nfio-3.28\n", bs)
		}
		return head + "a: (groupid=0, jobs=1): err= 0: pid=1559: Mon Jan  5 20:39:06 2026\n  read: IOPS=45, BW=45.7MiB/s (47.9MB/s)(958MiB/20975msec)\n"
	}
	jsonOf := func(options string) string {
		return doc(now, `"ioengine" : "libaio"`, job("a", 0, 1000, 1000, options))
	}
	engine := func(name string) string { return strings.Replace(text("4096B"), "psync", name, 1) }
	for _, c := range []struct {
		name, text string
		want       []string
	}{
		{"the first shows no block size", text("") + text("32.0KiB") + text("4096B"), []string{"a", "a bs=32k", "a bs=4k"}},
		{"the first two are alike", text("4096B") + text("4096B") + text("32.0KiB"), []string{"a bs=4k", "a bs=4k", "a bs=32k"}},
		{"flushes", jsonOf(`"rw" : "write"`) + later(jsonOf(`"rw" : "write", "fsync" : "1"`)), []string{"a", "a fsync=1"}},
		{"an option and its default", jsonOf(`"direct" : "0"`) + later(jsonOf(``)), []string{"a", "a"}},
		{"two names of an option", jsonOf(`"buffered" : "0", "blocksize" : "4k"`) + later(jsonOf(`"direct" : "1", "bs" : "4096"`)), []string{"a", "a"}},
		{"another file and another time", jsonOf(`"filename" : "x", "runtime" : "10"`) + later(jsonOf(`"filename" : "y", "runtime" : "20"`)), []string{"a", "a"}},
		{"offsets", jsonOf(`"randrepeat" : "0"`) + later(jsonOf(``)), []string{"a", "a"}},
		{"defaults and what is recorded", jsonOf(`"invalidate" : "1", "bwavgtime" : "500", "unlink" : "1"`) + later(jsonOf(``)), []string{"a", "a"}},
		{"two ways to write a mix", jsonOf(`"rw" : "rw", "rwmixread" : "70"`) + later(jsonOf(`"readwrite" : "readwrite", "rwmixwrite" : "30"`)), []string{"a", "a"}},
		{"an engine and the default, of which text shows both", engine("psync") + engine("libaio"), []string{"a", "a ioengine=libaio"}},
		{"the base of all and a size of the job", doc(now, `"kb_base" : "1000"`, job("a", 0, 1000, 1000, `"bs" : "4k"`)) + later(doc(now, "", job("a", 0, 1000, 1000, `"bs" : "4000"`))), []string{"a", "a"}},
		{"the base of the job and a size of all", doc(now, `"bs" : "4k"`, job("a", 0, 1000, 1000, `"kb_base" : "1000"`)) + later(doc(now, `"bs" : "4000"`, job("a", 0, 1000, 1000, ""))), []string{"a", "a"}},
		{"a base of the job that is not that of all", doc(now, `"kb_base" : "1000", "bs" : "4k"`, job("a", 0, 1000, 1000, `"kb_base" : "1024"`)) + later(doc(now, `"bs" : "4096"`, job("a", 0, 1000, 1000, ""))), []string{"a", "a"}},
	} {
		var b Batch
		add(t, &b, Source{Name: "x.txt"}, c.text)
		_, trials, _ := finish(t, &b)
		var got []string
		for _, x := range trials {
			got = append(got, x.Workload)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// later returns the document s with a timestamp that is one hour later.
func later(s string) string {
	return strings.Replace(s, fmt.Sprint(now.UnixMilli()), fmt.Sprint(now.Add(time.Hour).UnixMilli()), 1)
}

// If a row sums several sections, numjobs counts the jobs of all of them, and the iodepth of one section is not used
// for the others.
func TestJobsOfARow(t *testing.T) {
	const row = "a: (groupid=0, jobs=2): err= 0: pid=%d: Mon Jan  5 20:39:06 2026\n  read: IOPS=45, BW=45.7MiB/s (47.9MB/s)(958MiB/20975msec)\n"
	head := func(name string, depth int) string {
		return fmt.Sprintf("%s: (g=0): rw=read, bs=(R) 1024KiB-1024KiB, (W) 1024KiB-1024KiB, (T) 1024KiB-1024KiB, ioengine=libaio, iodepth=%d\n", name, depth)
	}
	two := strings.Replace(strings.Replace(doc(now, `"ioengine" : "libaio", "iodepth" : "4"`, job("a", 0, 1000, 1000, `"rw" : "read", "iodepth" : "32"`)), `"job_runtime" : 1000`, `"job_runtime" : 2000`, 1), `"usr_cpu" : 1,`, `"usr_cpu" : 90,`, 1)
	for _, c := range []struct{ name, text, jobs, depth string }{
		{"sections of several depths", head("a", 1) + head("b", 32) + fmt.Sprintf(row, 7), "2", ""},
		{"sections of one depth", head("a", 32) + head("b", 32) + fmt.Sprintf(row, 7), "2", "32"},
		{"clones of two clients", head("a", 32) + fmt.Sprintf(row, 7) + fmt.Sprintf(row, 8), "4", "32"},
		{"sections in JSON, which may override a global depth", two, "2", ""},
	} {
		var b Batch
		add(t, &b, Source{Name: "x.txt"}, c.text)
		_, trials, _ := finish(t, &b)
		if f := trials[0].Facts; len(trials) != 1 || f["numjobs"] != c.jobs || f["iodepth"] != c.depth {
			t.Errorf("%s: %d trials, %v", c.name, len(trials), f)
		}
		for _, f := range trials[0].Findings {
			if f.Rule == "generator-bound" || f.Rule == "rate-mismatch" {
				t.Errorf("%s: %+v", c.name, f)
			}
		}
	}
}

// If a row sums several sections, only their common options are known, and defaults are not filled in.
func TestWorkOfSections(t *testing.T) {
	for _, ran := range []int{1000, 2000} {
		var b Batch
		text := doc(now, `"ioengine" : "libaio", "bs" : "4k"`, job("a", 0, 1000, 1000, `"rw" : "randwrite"`))
		add(t, &b, Source{Name: "x.json"}, strings.Replace(text, `"job_runtime" : 1000`, fmt.Sprintf(`"job_runtime" : %d`, ran), 1))
		_, trials, _ := finish(t, &b)
		var work map[string]string
		if err := json.Unmarshal([]byte(trials[0].Facts[iotax.FactJob]), &work); err != nil {
			t.Fatal(err)
		}
		want := map[string]string{"kind": "fio", "rw": "randwrite", "bs": "4096", "ioengine": "libaio", "iodepth": "1", "numjobs": "1", "direct": "0"}
		depth := "1"
		if ran > 1000 {
			want = map[string]string{"kind": "fio", "bs": "4096", "ioengine": "libaio", iotax.PartlyKnown: "yes"}
			depth = ""
		}
		if !maps.Equal(work, want) || trials[0].Facts["iodepth"] != depth {
			t.Errorf("after %d ms of jobs: %v, depth %q; want %v", ran, work, trials[0].Facts["iodepth"], want)
		}
	}
}

// fio's option buffered is the inverse of direct.
func TestBufferedIsNotDirect(t *testing.T) {
	for options, want := range map[string]string{
		`"buffered" : "0"`: "1", `"buffered" : "1"`: "0", `"direct" : "1"`: "1", `"rw" : "read"`: "",
	} {
		var b Batch
		add(t, &b, Source{Name: "x.txt"}, doc(now, `"ioengine" : "libaio"`, job("a", 0, 1000, 1000, options)))
		_, trials, _ := finish(t, &b)
		if got := trials[0].Facts[iotax.FactDirect]; got != want {
			t.Errorf("%s: %q, want %q", options, got, want)
		}
	}
}

// The depth of one section is not used for other sections that ran at the same time.
func TestDepthOfSections(t *testing.T) {
	t.Parallel() // the test mostly waits for fio
	dir := t.TempDir()
	deep, flat := "[deep]\niodepth=64\nrate_iops=2000\n", "[flat]\niodepth=1\n"
	for _, c := range []struct {
		name, global, sections string
		found                  bool
	}{
		{"a job that does not reach its depth", "runtime=300ms", "[a]\niodepth=64\n", true},
		{"a group that does not reach its depth", "runtime=300ms\ngroup_reporting", "[a]\niodepth=64\nnumjobs=2\n", true},
		{"sections", "runtime=300ms", deep + flat, false},
		{"sections in the other order", "runtime=300ms", flat + deep, false},
		{"sections of several engines", "runtime=300ms\niodepth=64", "[a]\nioengine=psync\n[b]\n", false},
		{"sections in one row", "runtime=300ms\ngroup_reporting", deep + flat, false},
		{"sections in one row, the last is deep", "runtime=300ms\ngroup_reporting", flat + "[deep]\niodepth=64\n", false},
		{"the same within 50 ms", "runtime=50ms\ngroup_reporting", flat + "[deep]\niodepth=64\n", false},
		{"the same, unified", "runtime=300ms\ngroup_reporting\nunified_rw_reporting=1", flat + "[deep]\niodepth=64\n", false},
		{"a short section, the last", "runtime=300ms\ngroup_reporting", flat + "[deep]\niodepth=64\nruntime=30ms\n", false},
	} {
		job := filepath.Join(dir, "j.fio")
		text := "[global]\nioengine=null\nsize=1g\nbs=4k\nrw=randread\ntime_based\n" + c.global + "\n" + c.sections
		if err := os.WriteFile(job, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("fio", "--output-format=json,normal", job)
		cmd.Dir = dir
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		for kind, data := range kinds(out) {
			var b Batch
			add(t, &b, Source{Name: "x.txt"}, string(data))
			_, trials, _ := finish(t, &b)
			if got := slices.Contains(ids(trials[0]), "depth-not-reached"); got != c.found {
				t.Errorf("%s, %s: %v, %v", c.name, kind, ids(trials[0]), trials[0].Facts)
			}
		}
	}
}
