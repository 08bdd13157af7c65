package fiojob

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"iotax"
	"iotax/fio"
	"iotax/internal/machine/host"
	"iotax/internal/plan"
	"iotax/internal/testenv/worktest"
	"iotax/internal/workload/support"
)

func sums(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	for _, n := range names(t, dir) {
		text, err := os.ReadFile(filepath.Join(dir, n))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%s %x\n", n, sha256.Sum256(text))
	}
	return b.String()
}

// A job file cannot change anything outside of its target: each line is refused with a hint. DIR is the neighbour's
// directory, FILE is a file in it, and CMD creates another one.
func TestJobsStayInTheirTarget(t *testing.T) {
	neighbour := worktest.OnDisk(t)
	file := filepath.Join(neighbour, "large")
	for _, n := range []string{"large", "small"} {
		if err := os.WriteFile(filepath.Join(neighbour, n), []byte(strings.Repeat(n, 1<<16)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	before := sums(t, neighbour)
	fill := strings.NewReplacer("DIR", neighbour, "FILE", file, "CMD", "touch "+filepath.Join(neighbour, "ran"), "|", "\n")
	for lines, want := range map[string]string{
		"opendi=DIR|rw=randwrite":                `"opendir"`,
		"opendir=DIR|rw=randwrite":               "the target sets the place",
		"output=FILE":                            "option of fio itself",
		"outp=FILE":                              "", // several options begin with "outp"
		"latency-log=FILE":                       "option of fio itself",
		"trigger=CMD|trigger-timeout=1":          "option of fio itself",
		"aux-path=DIR":                           "option of fio itself",
		"mem=mmapshared:FILE":                    "not in a file",
		"iomem=mmap:FILE":                        "not in a file",
		"write_iolog=FILE":                       "outside the target",
		"write_iol=FILE":                         `"write_iolog"`,
		"merge_blktrace_file=FILE":               "not supported",
		"replay_redirect=FILE":                   "not supported",
		"exec_prerun=CMD":                        "a command of its own",
		"exec_postrun=CMD":                       "a command of its own",
		"ioengine=exec|program=CMD":              "a command of its own",
		"ioengine=external:FILE":                 "load a library",
		"ioengine=FILE":                          "not an engine",
		"ioengine=libiao":                        `"libaio"`,
		"ioengine=e4defrag|donorname=FILE":       "test files",
		"ioengine=net|hostname=localhost|port=9": "over the network",
		"ioengine=sg":                            "whole disk",
		"hostname=localhost":                     "an option of the engine net",
		"profile=tiobench":                       "other jobs",
		"ioscheduler=none":                       "change the machine",
		"cgroup=x":                               "change the machine",
		"buffer_pattern='FILE'":                  "read a file",
		"verify_state_load=1":                    "read a file",
		"rw=randwrite|thinktime":                 "has no value",
		"never_heard_of=FILE":                    "has no option",
		"mem=${KIND}":                            "not in a file",
		"ioengine=${ENGINE}":                     "a command of its own",
		"iodepth=${LINES}":                       "control characters",
		"mem=${AGAIN}":                           "a variable of a variable",
		"http_s3_key=x":                          "a secret",
	} {
		dir := worktest.OnDisk(t)
		jobs := filepath.Join(t.TempDir(), "j.fio")
		if err := os.WriteFile(jobs, []byte("[a]\nsize=64k\nrw=randread\n"+fill.Replace(lines)+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		spec := &Fio{File: jobs, Env: map[string]string{"KIND": "mmapshared:" + file, "ENGINE": "exec", "LINES": "1\nwrite_iolog=" + file, "AGAIN": "${KIND}"}}
		err := func() error {
			w, err := Kind.New(plan.Workload{Name: "w", Kind: "fio", Spec: spec}, support.Env{})
			if err != nil {
				if !strings.Contains(err.Error(), "j.fio: line 4: ") && !strings.Contains(err.Error(), "j.fio: line 5: ") {
					t.Errorf("%s: no place: %v", lines, err)
				}
				return err
			}
			if strings.Contains(want, "machine") || strings.Contains(want, "network") {
				return nil // if it were accepted, the test must not run it
			}
			tg := worktest.Target(host.Local(), dir)
			if err := w.Check(worktest.CtxFor(t), tg); err != nil {
				return err
			}
			if err := w.Prepare(worktest.CtxFor(t), tg); err != nil {
				return err
			}
			return w.Run(worktest.CtxFor(t), tg, trial(100*time.Millisecond))
		}()
		if err == nil || !strings.Contains(fmt.Sprintf("%v", err)+hintOf(err), want) || hintOf(err) == "" {
			t.Errorf("%s: got %v (hint %q), want %s", lines, err, hintOf(err), want)
		}
		if after := sums(t, neighbour); after != before {
			t.Errorf("%s: the neighbour had\n%sand has\n%s", lines, before, after)
			before = after
		}
		// A plan's own keys are refused in the same way.
		key, value, _ := strings.Cut(strings.Split(fill.Replace(lines), "\n")[0], "=")
		if strings.Contains(lines, "$") || strings.HasPrefix(lines, "rw=") {
			continue
		}
		if err := (&Fio{}).SetOption(key, value); err == nil {
			t.Errorf("a plan may have %s=%s", key, value)
		}
	}
}

// Each option in fio.OptionNames passes or is refused with a hint. If older versions of fio lack an accepted option,
// its name must not be a prefix of a refused option, because those versions would read it as an abbreviation.
func TestEveryOptionIsDecided(t *testing.T) {
	passes := func(name string) bool {
		_, ours := decided[fio.Canonical(name)]
		e := refuse(fio.Setting{Key: name, Value: "1"})
		if e != nil && e.Hint == "" {
			t.Errorf("%s has no hint", name)
		}
		return e == nil && !ours
	}
	for _, name := range fio.OptionNames() {
		if !passes(name) {
			continue
		}
		o, _ := fio.LookupOption(name)
		for _, other := range fio.OptionNames() {
			if other != name && strings.HasPrefix(other, name) && o.Since != "" && !passes(other) && decided[fio.Canonical(other)] == "" {
				t.Errorf("%s is the beginning of %s", name, other)
			}
		}
	}
	for name := range barred {
		if _, ok := fio.LookupOption(name); !ok {
			t.Errorf("fio has no option %s", name)
		}
	}
}

func hintOf(err error) string {
	var e *iotax.Error
	if errors.As(err, &e) {
		return e.Hint
	}
	return ""
}
