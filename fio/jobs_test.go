package fio

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// writeJobs writes files to a temporary directory and returns the path of the first file.
func writeJobs(t *testing.T, nameText ...string) string {
	t.Helper()
	dir := t.TempDir()
	for i := 0; i < len(nameText); i += 2 {
		f := filepath.Join(dir, nameText[i])
		if err := os.MkdirAll(filepath.Dir(f), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(f, []byte(nameText[i+1]), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, nameText[0])
}

// The installed fio defines the expected settings: --showcmd prints the options of each section as fio read them.
func TestJobsAgreeWithFio(t *testing.T) {
	t.Setenv("DIR", "/mnt/x")
	vars := func(name string) (string, bool) {
		switch name {
		case "DIR":
			return "/mnt/x", true
		case "ncpus":
			out, err := exec.Command("getconf", "_NPROCESSORS_ONLN").Output()
			return strings.TrimSpace(string(out)), err == nil
		case "pagesize":
			return fmt.Sprint(os.Getpagesize()), true
		}
		return "", false
	}
	for name, files := range map[string][]string{
		"comments": {"a.fio", "; c\n# c\n\n\t ; c\n[ one ]\t# c\n  rw=read;c\n\tbs =4k # c\ndirectory=${DIR}#x\ntime_based\n"},
		"defaults": {"a.fio", "[global]\nbs=4k\n[one]\nrw=read\n[global2]\nbs=8k\niodepth=4\n[Global]\nrw=write\n[two]\nblocksize=16k\nbs=32k\n"},
		"include":  {"a.fio", "[one]\nsize=1m\ninclude sub/b.fio\nrw=read\n[two]\ninclude=sub/c.fio\n", "sub/b.fio", "; c\n\nbs=8k ; c\ninclude c.fio\nnumjobs=2\n", "sub/c.fio", "iodepth=2"},
		"order":    {"a.fio", "[one]\nfilename=x\nsize=4k\nkb_base=1000\nrw=read\nrw=write\n"},
		"math":     {"a.fio", "[one]\nsize=2*1024*1024*$ncpus\nnumjobs=$ncpus\nbs=($pagesize+1)*2/3\niodepth=$ncpus-1+1\n"},
		"twice":    {"a.fio", "[one]\nsize=1m\n[one]\nsize=2m\n"},
		"spaces":   {"a.fio", "[a b]\nsize=1m\ndescription=two words \nbs= 8k\n"},
		"crlf":     {"a.fio", "[a]\r\nsize=1m\r\n\r\n[b]\r\nrw=read"},
	} {
		t.Run(name, func(t *testing.T) {
			path := writeJobs(t, files...)
			f, err := ReadJob(path, os.ReadFile)
			if err != nil {
				t.Fatal(err)
			}
			if f.String() != files[1] {
				t.Errorf("written back as %q", f)
			}
			all := f.Jobs()
			for i, j := range all {
				out, err := exec.Command("fio", "--showcmd", "--section="+j.Name, path).Output()
				if err != nil {
					t.Fatalf("%v\n%s", err, out)
				}
				// The output also contains global sections after the job, and jobs with the same name.
				parts := strings.Split(strings.TrimSpace(string(out)), " --name=")
				same := slices.IndexFunc(all, func(o JobSpec) bool { return o.Name == j.Name })
				judged := judge(parts[0] + strings.TrimPrefix(parts[1+i-same], j.Name))
				if n := globalsBehind(f, j.Section); n > 0 {
					judged = judged[:len(judged)-n]
				}
				want := latest(judged)
				var got []Setting
				for _, s := range j.Settings {
					v, err := Expand(s.Value, vars)
					if err != nil {
						t.Fatal(err)
					}
					got = append(got, Setting{Key: Canonical(s.Key), Value: v, Bare: s.Bare})
				}
				if fmt.Sprint(got) != fmt.Sprint(want) {
					t.Errorf("%s:\ngot  %v\nwant %v\n%s", j.Name, got, want, out)
				}
			}
		})
	}
}

// judge reads the options that fio prints. A value may contain spaces, but not " --".
func judge(shown string) (out []Setting) {
	for i, w := range strings.Split(" "+strings.TrimPrefix(shown, "fio"), " --") {
		if i == 0 {
			continue
		}
		key, value, has := strings.Cut(strings.TrimSuffix(w, " "), "=")
		if strings.HasPrefix(value, `"`) {
			value = strings.Trim(value, `"`)
		}
		out = append(out, Setting{Key: key, Value: value, Bare: !has})
	}
	return out
}

// globalsBehind returns the number of global options that fio prints after the options of a job. For each later
// global section, fio prints all global options up to that section.
func globalsBehind(f *JobFile, sec *Section) (n int) {
	all, behind := 0, false
	for _, s := range f.Sections {
		if s.Global() {
			if all += len(settings(nil, s.Lines, "")); behind {
				n += all
			}
		}
		behind = behind || s == sec
	}
	return n
}

func TestJobGroups(t *testing.T) {
	f, err := ParseJob("[a]\nstonewall\n[b]\n[c]\nstonewall=0\n[d]\nwait_for_previous\nname=dd\n[e]\nwait_for=d\n[global]\nstonewall=1\nbuffered=1\n[f]\n[g]\ndirect=1\nbuffered=0\n[h]\nstonewall=0\n")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, j := range f.Jobs() {
		got = append(got, fmt.Sprintf("%s%d%s", j.Name, j.Group, j.WaitFor()))
	}
	if s := strings.Join(got, " "); s != "a0 b0 c0 dd1 e1d f2 g3 h3" {
		t.Error(s)
	}
	g := f.Jobs("g")
	if len(g) != 1 || fmt.Sprint(g[0].Settings) != "[--stonewall=1 --buffered=0]" || !g[0].Settings[0].Global || g[0].Settings[1].Global || g[0].Settings[1].Line != 17 {
		t.Errorf("%+v", g)
	}
	if got := strings.Join(Args(f.Jobs("a", "d", "g")), " "); got != "--name=a --stonewall --name=dd --wait_for_previous --name=g --stonewall=1 --buffered=0" {
		t.Error(got)
	}
}

func TestJobsOfOneName(t *testing.T) {
	f, err := ParseJob("[a]\nbs=1k\n[b]\n[a]\nbs=2k\n")
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(Labels(f.Jobs())); got != "[a b a#2]" {
		t.Error(got)
	}
	if s, err := f.Job("a#2"); err != nil || fmt.Sprint(s) != "[--bs=2k]" {
		t.Error(s, err)
	}
	if _, err := f.Job("a"); err == nil || !strings.Contains(err.Error(), "several sections named a") {
		t.Error(err)
	}
}

// A size uses the kb_base of the section that sets the size. Args keeps this base in the command line.
func TestKBBaseOfEachSetting(t *testing.T) {
	f, err := ParseJob("[global]\nioengine=null\nsize=1k\n[a]\nbs=1k\nkb_base=1000\n[b]\nbs=1k\n")
	if err != nil {
		t.Fatal(err)
	}
	a := f.Jobs("a")[0]
	size, _ := a.Get("size")
	bs, _ := a.Get("blocksize")
	if size.KBBase != 1024 || bs.KBBase != 1000 {
		t.Error(size, bs)
	}
	args := Args(f.Jobs())
	if got := strings.Join(args, " "); got != "--name=a --ioengine=null --size=1k --kb_base=1000 --bs=1k --name=b --ioengine=null --size=1k --bs=1k" {
		t.Error(got)
	}
	out, err := exec.Command("fio", append([]string{"--debug=parse", "--parse-only"}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var bytes []string
	for _, m := range regexp.MustCompile(`__handle_option=(?:size|bs), .*\n.*out=(\d+)`).FindAllSubmatch(out, -1) {
		bytes = append(bytes, string(m[1]))
	}
	if fmt.Sprint(bytes) != "[1024 1000 1024 1024]" {
		t.Errorf("%v\n%s", bytes, out)
	}
}

func TestInclude(t *testing.T) {
	for want, files := range map[string][]string{
		"x.fio, line 1: the files include each other": {"a.fio", "[a]\ninclude x.fio\n", "x.fio", "include ./x.fio\n"},
		"line 2: include": {"a.fio", "[a]\ninclude no.fio\n"},
		"x.fio, line 2: fio does not allow a section in an included file": {"a.fio", "[a]\ninclude x.fio\n", "x.fio", "bs=4k\n[b]\n"},
	} {
		_, err := ReadJob(writeJobs(t, files...), os.ReadFile)
		var je *JobError
		if !errors.As(err, &je) || !strings.Contains(err.Error(), want) || je.Hint == "" {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	deep := func(string) ([]byte, error) { return []byte("[a]\n"), nil }
	n := 0
	chain := func(name string) ([]byte, error) {
		if n++; n == 1 {
			return []byte("[a]\ninclude 1\n"), nil
		}
		return fmt.Appendf(nil, "include %d\n", n), nil
	}
	if _, err := ReadJob("0", deep); err != nil {
		t.Error(err)
	}
	if _, err := ReadJob("0", chain); err == nil || !strings.Contains(err.Error(), "more than 20 files") {
		t.Error(err)
	}
	wide := func(name string) ([]byte, error) {
		n++
		text := fmt.Sprintf("include %d\ninclude %d\ninclude %d\n", 3*n, 3*n+1, 3*n+2)
		if name == "a" {
			text = "[a]\n" + text
		}
		return []byte(text), nil
	}
	if _, err := ReadJob("a", wide); err == nil || !strings.Contains(err.Error(), "more than 1000 files are included") {
		t.Errorf("%.200v", err)
	}
	f, err := ReadJob(writeJobs(t, "a.fio", "[a]\ninclude x.fio\n", "x.fio", "\n  bs=4k\n"), os.ReadFile)
	if err != nil {
		t.Fatal(err)
	}
	if s := f.Jobs()[0].Settings; len(s) != 1 || filepath.Base(s[0].File) != "x.fio" || s[0].Line != 2 || s[0].Column != 3 {
		t.Errorf("%+v", s)
	}
}

// judgeValue returns the values that the installed fio reads from one option.
func judgeValue(t *testing.T, option string) (out []string) {
	t.Helper()
	path := writeJobs(t, "a.fio", "[a]\nioengine=null\n"+option+"\n")
	text, _ := exec.Command("fio", "--debug=parse", "--parse-only", path).CombinedOutput()
	key, _, _ := strings.Cut(option, "=")
	for _, m := range regexp.MustCompile(`__handle_option=`+key+`,.*\n.*ret=0, out=(\d+)`).FindAllSubmatch(text, -1) {
		out = append(out, string(m[1]))
	}
	return out
}

func TestValuesAgreeWithFio(t *testing.T) {
	t.Parallel() // the test mostly waits for fio
	for _, v := range []string{"4k", "0x10", "0x10k", "1.5g", "4Q", "10 m", " 8k", " 8", "3MiB ", "4kk"} {
		n, err := ParseSize(v, 1024)
		var misread *MisreadError
		if got := judgeValue(t, "size="+v); len(got) != 1 || got[0] != fmt.Sprint(n) || err != nil && !errors.As(err, &misread) {
			t.Errorf("size=%s: %d, %v; fio says %s", v, n, err, got)
		}
		if misread != (*MisreadError)(nil) != slices.Contains([]string{"0x10k", "1.5g", "4Q", "10 m", " 8k", "4kk"}, v) {
			t.Errorf("size=%s: %v", v, err)
		}
	}
	for v, bad := range map[string]bool{"10": false, "0.4": true, "10sec": true, "2m": false, "10min": true, "5S": false, "5usecs": false, "7ms": false, "1d": false, " 3s": false, " 3m": true, "5us": false} {
		d, err := ParseTime(v, time.Second)
		var misread *MisreadError
		if got := judgeValue(t, "runtime="+v); len(got) != 1 || got[0] != fmt.Sprint(d.Microseconds()) || errors.As(err, &misread) != bad || !bad && err != nil {
			t.Errorf("runtime=%s: %v, %v; fio says %s", v, d, err, got)
		}
	}
	for _, v := range []string{"", "s", "x", "-1", "99999999999999d"} {
		if d, err := ParseTime(v, time.Second); err == nil {
			t.Errorf("%q is %v", v, d)
		}
	}
	for v, want := range map[string]string{"4k": "4k 4k 4k", "4k,8k": "4k 8k 8k", "4k,8k,16k": "4k 8k 16k", "4k:8k": "4k 8k 8k", "4k-8k": "4k 8k 8k", ",8k": " 8k 8k", "4k,8k-16k": "4k 8k 16k", "4k,": "4k 4k 4k", "": "  "} {
		r, w, tr := PerDirection(v)
		if got := r + " " + w + " " + tr; got != want {
			t.Errorf("bs=%s: %q, want %q", v, got, want)
		}
	}
	for v, want := range map[string]string{"10%": "10 37", "4z": "4 122", "4k": "4096 0", "5": "5 0"} {
		n, unit, err := ParseShare(v, 1024)
		if got := fmt.Sprint(n, unit); got != want || err != nil {
			t.Errorf("%s: %s %v", v, got, err)
		}
	}
}
