package fio

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

const jobText = `; the usual four
[global]
size=2*1024*1024*$mb_memory ; of memory
bs =4k
  ioengine=null
direct=1
group_reporting

[random-read]
rw=randread
numjobs=$ncpus

# writes
[global]
blocksize=8k
[random-write]
stonewall
rw=randwrite
iodepth=4	# deep
name with spaces=1`

func TestJobRoundTrip(t *testing.T) {
	for _, text := range []string{jobText, "", "\r\n[a]\r\nrw=read\r\n", "; only a comment"} {
		f, err := ParseJob(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := f.String(); got != text {
			t.Errorf("got %q, want %q", got, text)
		}
	}
}

func TestJobSections(t *testing.T) {
	f, err := ParseJob(jobText)
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(f.Names()); got != "[random-read random-write]" {
		t.Error(got)
	}
	show := func(name string) string {
		s, err := f.Job(name)
		if err != nil {
			t.Fatal(err)
		}
		var words []string
		for _, o := range s {
			words = append(words, o.String())
		}
		return strings.Join(words, " ")
	}
	if got, want := show("random-read"), "--size=2*1024*1024*$mb_memory --bs=4k --ioengine=null --direct=1 --group_reporting --rw=randread --numjobs=$ncpus"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	// A later [global] applies to the jobs after it, and an alias sets the same option.
	if got := show("random-write"); !strings.Contains(got, "--blocksize=8k") || strings.Contains(got, "--bs=4k") || !strings.Contains(got, "--iodepth=4 ") {
		t.Error(got)
	}
	for name, want := range map[string]string{"": "several sections: random-read, random-write", "random": `no section "random"; it has random-read`} {
		if _, err := f.Job(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestJobErrors(t *testing.T) {
	for text, want := range map[string]string{
		"rw=read\n":                           "line 1: rw is before the first [section]",
		"include x\n[a]\n":                    "line 1: include x is before the first [section]",
		"[a]\n[b\n":                           `line 2: "[b" has no closing bracket`,
		"[a;b]\n":                             `line 1: "[a" has no closing bracket`,
		"[]\n":                                "line 1: the section has no name",
		"[a]\n=4k\n":                          `line 2: "=4k" has no option name`,
		"[a]\ninclude other.fio\n":            "line 2: include is not supported here",
		"[a]\ninclude\n":                      "line 2: include names no file",
		"[a]\ninclude  b\n":                   "line 2: fio expects exactly one character",
		"[a]\nx=\x00y\n":                      "line 2: the line has a NUL byte",
		"[a]\nx=" + strings.Repeat("y", 5000): "line 2: the line is longer than 4094 bytes",
	} {
		if _, err := ParseJob(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestExpand(t *testing.T) {
	vars := map[string]string{"ncpus": "4", "mb_memory": "2000", "pagesize": "4096", "DIR": "/mnt/a b"}
	lookup := func(n string) (string, bool) { v, ok := vars[n]; return v, ok }
	for in, want := range map[string]string{
		"4k":                     "4k",
		"${DIR}/x":               "/mnt/a b/x",
		"$ncpus":                 "4",
		"2*1024*1024*$mb_memory": "4194304000",
		"($ncpus+1)*3 - 2":       "13",
		"iotax.$jobnum.$filenum": "iotax.$jobnum.$filenum",
		"0-1":                    "0-1",
		"4k/50:64k/50":           "4k/50:64k/50",
		"$":                      "$",
		"7%$ncpus":               "7%4", // fio only calculates if the value contains + - * or /
		"($ncpus)":               "(4)",
		"$ncpus^2+1":             "17",
		"7%$ncpus+0":             "3",
		"'$ncpus-1'":             "'4-1'",
	} {
		if got, err := Expand(in, lookup); err != nil || got != want {
			t.Errorf("%q: got %q, %v, want %q", in, got, err, want)
		}
	}
	for in, want := range map[string]string{
		"${NO}": "the variable NO", "${DIR": "no closing }", "$ncpus/0": "division by zero", "($ncpus+1": "a ) is missing",
		"9000000000000*9000000000000*$ncpus": "out of range", "$ncpus*": "not a number", "$pagesize/1k": "does not fit", "/mnt/$ncpus": "not a number", "2^99*$ncpus": "out of range",
	} {
		if got, err := Expand(in, lookup); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %q, %v", in, got, err)
		}
	}
}

// The installed fio defines the expected sizes: its debug output prints them in bytes.
func TestSizesAgreeWithFio(t *testing.T) {
	sizes := []string{"4096", "8k", "8K", "8kb", "8ki", "8KiB", "3m", "3MiB", "3MB", "2g", "2GB", "2Gi", "2GiB", "1t", "1TiB"}
	for _, kb := range []int{1024, 1000} {
		text := fmt.Sprintf("[global]\nioengine=null\nkb_base=%d\n", kb)
		for i, size := range sizes {
			text += fmt.Sprintf("[job%d]\nsize=%s\n", i, size)
		}
		job := filepath.Join(t.TempDir(), "a.fio")
		if err := os.WriteFile(job, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command("fio", "--debug=parse", "--parse-only", job).CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		judged := regexp.MustCompile(`handle_option=size, .*ptr=(\S+)\n.*ret=0, out=(\d+)`).FindAllSubmatch(out, -1)
		if len(judged) != len(sizes) {
			t.Fatalf("%d of %d sizes found in\n%s", len(judged), len(sizes), out)
		}
		for _, m := range judged {
			if got, err := ParseSize(string(m[1]), kb); err != nil || fmt.Sprint(got) != string(m[2]) {
				t.Errorf("kb_base %d: %s is %d, %v; fio says %s", kb, m[1], got, err, m[2])
			}
		}
	}
	for _, bad := range []string{"", "k", "4x", "-1", "99999999999g", "4kk", "4 k 4", "("} {
		if n, err := ParseSize(bad, 1024); err == nil {
			t.Errorf("%q is taken for %d", bad, n)
		}
	}
}

func TestOptions(t *testing.T) {
	for name, want := range map[string]string{"blocksize": "bs", "readwrite": "rw", "bs": "bs", "timeout": "runtime", "sqthread_poll": "sqthread_poll", "sqthread-poll": "sqthread-poll"} {
		if got := Canonical(name); got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
	for name, want := range map[string]string{"end_syncfs": "3.42", "cmdprio_bssplit": "3.28", "blocksize": "", "fdp": "3.34", "sqthread_poll": "3.13"} {
		if o, ok := LookupOption(name); !ok || o.Since != want {
			t.Errorf("%s: %+v, want %s", name, o, want)
		}
	}
	for version, want := range map[string]bool{"fio-3.33": true, "fio-3.42": false, "3.100": false, "fio-3.41-12-gabc": false, "fio-2.2.10": true, "fio-git": false} {
		if o, _ := LookupOption("end_syncfs"); o.NewerThan(version) != want {
			t.Errorf("%s: end_syncfs is newer: %v", version, !want)
		}
	}
	if _, ok := LookupOption("iodeph"); ok {
		t.Error("iodeph is known")
	}
}

func FuzzParseJob(f *testing.F) {
	f.Add(jobText)
	f.Add("[a]\n[global]\nx\n=\n;[")
	f.Add("[a]\ninclude b\nbs= 8k\n[global2]\nstonewall\nkb_base=1000\nsize=$ncpus*2^3\n[a]\nname=c\nbuffered=1\ndirect=0\n")
	f.Fuzz(func(t *testing.T, text string) {
		j, _ := ParseJob(text)
		if got := j.String(); got != text {
			t.Fatalf("got %q, want %q", got, text)
		}
		// Included files have the same text without [, and therefore without sections. This text may include more
		// files.
		read := func(name string) ([]byte, error) {
			if name == "a" {
				return []byte(text), nil
			}
			return []byte(strings.ReplaceAll(text, "[", "")), nil
		}
		if r, _ := ReadJob("a", read); r.String() != text {
			t.Fatalf("got %q, want %q", r.String(), text)
		}
		all := j.Jobs()
		if len(all) != len(Labels(all)) || len(all) != len(j.Names()) {
			t.Fatalf("%d jobs, labels %q, names %q", len(all), Labels(all), j.Names())
		}
		for i, n := range Labels(all) {
			if i > 0 && all[i].Group < all[i-1].Group {
				t.Fatal("groups go back")
			}
			_, _ = j.Job(n)
		}
		_ = CommandLine(all)
		_, _ = Expand(text, func(string) (string, bool) { return text, true })
		_, _ = ParseSize(text, 1024)
		_, _, _ = ParseShare(text, 1000)
		_, _ = ParseTime(text, time.Second)
		_, _, _ = PerDirection(text)
	})
}
