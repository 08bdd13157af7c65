package main

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"iotax/internal/testenv/long"
)

// mutate makes one to three small mistakes in a valid text, like those that people and programs make.
func mutate(d *rand.Rand, text string) string {
	words := []string{"null", "-1", "0", "1e999", "9999999999999999999999", "{}", "[]", "\x00", "\xff\xfe", "'", "\"", ":", "%", "$x", "${", "é", "\t", "~", "&a *a", "!!binary x", "|", ">", "---\n", "../..", "/", "NaN", "=", ";", ","}
	b := []byte(text)
	for range 1 + d.IntN(3) {
		if len(b) == 0 {
			return words[d.IntN(len(words))]
		}
		at := d.IntN(len(b))
		end := min(len(b), at+1+d.IntN(12))
		switch d.IntN(8) {
		case 0: // cut short
			b = b[:at]
		case 1: // a part is missing
			b = append(bytes.Clone(b[:at]), b[end:]...)
		case 2: // a part is doubled
			b = append(bytes.Clone(b[:end]), b[at:]...)
		case 3: // a character is replaced
			b = bytes.Clone(b)
			b[at] = byte(d.IntN(256))
		case 4, 5: // a word is inserted
			b = append(append(bytes.Clone(b[:at]), words[d.IntN(len(words))]...), b[at:]...)
		case 6: // two letters are swapped
			b = bytes.Clone(b)
			if at+1 < len(b) {
				b[at], b[at+1] = b[at+1], b[at]
			}
		case 7: // two lines are swapped
			lines := strings.SplitAfter(string(b), "\n")
			i, j := d.IntN(len(lines)), d.IntN(len(lines))
			lines[i], lines[j] = lines[j], lines[i]
			b = []byte(strings.Join(lines, ""))
		}
	}
	return string(b)
}

// try runs a command in this process. It fails the test on results that no input may cause.
func try(t *testing.T, in string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	defer func() {
		if r := recover(); r != nil {
			t.Errorf("iotax %q panics: %v\n%s\ninput: %q", args, r, debug.Stack(), in)
		}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var out, errs bytes.Buffer
	code = Main(ctx, args, strings.NewReader(""), &out, &errs)
	switch {
	case ctx.Err() != nil:
		t.Errorf("iotax %q does not end\ninput: %q", args, in)
	case strings.Contains(errs.String(), "goroutine ") || strings.Contains(errs.String(), "runtime error"):
		t.Errorf("iotax %q prints a stack trace: %s\ninput: %q", args, errs.String(), in)
	case code < 0 || code > 4:
		t.Errorf("iotax %q exits with %d\ninput: %q", args, code, in)
	case code != 0 && code != 3 && errs.Len() == 0 && out.Len() == 0:
		t.Errorf("iotax %q fails without a word\ninput: %q", args, in)
	case strings.IndexFunc(errs.String(), func(r rune) bool { return r < ' ' && r != '\n' && r != '\t' }) >= 0:
		t.Errorf("iotax %q steers the terminal: %q\ninput: %q", args, errs.String(), in)
	}
	return code, out.String(), errs.String()
}

const mutablePlan = `name: shares
baseline: host
machines:
  guest: {qemu: {memory: 512MiB, cpus: 2}}
  db1:
    ssh: {host: db1.example, user: me}
targets:
  host: {dir: {path: /var/tmp/iotax, create: true}}
  disk:
    on: guest
    disk: {of: host, format: raw, cache: [none, writeback], aio: threads}
  share: {on: guest, share: {of: host, type: virtiofs}}
  far: {on: db1, dir: /srv}
  raw: {device: /dev/loop0}
workloads:
  4k random read: {fio: {rw: randread, bs: 4k, iodepth: 32, size: 1GiB}}
  open: {fio: {rw: randread, load: [30%, 60%]}}
measure: {precision: 5%, margin: 5%, trial: 10s, ramp: 2s, rounds: {min: 6, max: 30}, budget: 20m}
`

const mutableJob = `; a job file
[global]
ioengine=libaio
direct=1
size=$mb_memory
bs=4k
runtime=30
include other.fio

[random read]
rw=randread
iodepth=32
numjobs=$ncpus

[write]
stonewall
rw=write
bs=1m
filename=/tmp/x
rate=10m,20m
`

var mutableWords = []string{
	"plan dir:/var/tmp qemu:virtio-blk,cache=none qemu:virtiofs -w randread-4k,seqread-1m --trial 10s --rounds 6..30",
	"plan dir:/var/tmp ssh://me@db1:22/srv?accept_new=true -w randwrite-4k-qd8 --precision 5% --margin 3% --budget 20m",
	"plan dir:/a dir:/b --protocol fixed:5x60s --size 1GiB --seed 7 --cold",
	"plan dir:/a dir:/b -- fio --name=x --rw=randread --size=1g --bs=4k",
	"lint fio --name=x --rw=randread --size=1g --direct=1 --ioengine=libaio --iodepth=32",
	"compare latest~1 latest --margin 5%",
	"report latest --format md",
	"show latest --trial 3 --raw",
	"plan quick --scale 0.1",
}

// foreignOptions are misspelt options, options of the fio command itself, and options with effects outside of a target.
var foreignOptions = []string{"opendi=/a", "write_iol=/a", "output=/a", "trigger=/a", "aux-path=/a", "write_iolog=/a", "exec_prerun=/a", "ioengine=external:/a", "mem=mmap:/a"}

// mutableFake is a plan for fake machines. It can start at once, so an overlooked mistake would start a run.
const mutableFake = `name: at once
baseline: a
machines: {one: {fake: {}}, other: {fake: {}}}
targets:
  a: {on: one, dir: {path: /var/tmp/iotax-mutated, create: true}}
  b: {on: other, dir: {path: /var/tmp/iotax-mutated, create: true}, network: false}
workloads:
  reads: {fio: {rw: randread, bs: 4k, size: 1MiB, iodepth: [1, 4]}}
  waits: {command: {run: "true", timeout: 1s}}
measure: {protocol: "fixed:1x50ms", ramp: 0s, cold: false, order: random}
`

// placed matches an error that names a position in a file, or a job file without jobs.
var placed = regexp.MustCompile(`in\.yaml:\d+|in\.fio: line \d+|in\.fio has no job`)

// mended reports whether an error has a hint.
func mended(stderr string) bool {
	return strings.Contains(stderr, "hint:") || strings.Contains(stderr, "did you mean")
}

// TestMutatedInput gives the commands about a thousand inputs with small mistakes. None may cause a panic. iotax must
// refuse a wrong input before it measures or saves anything, with a hint and, for plans and job files, a position.
func TestMutatedInput(t *testing.T) {
	long.Test(t)
	dir := t.TempDir()
	t.Setenv("HOME", dir)
	t.Setenv("TMPDIR", dir)
	t.Setenv("XDG_STATE_HOME", dir+"/state")
	t.Setenv("XDG_CACHE_HOME", dir+"/cache")
	var outputs []string
	for _, format := range []string{"json", "json+", "terse", "normal"} {
		out, err := exec.Command("fio", "--name=x", "--ioengine=null", "--size=1m", "--rw=randrw", "--output-format="+format).Output()
		if err != nil {
			t.Fatal(err)
		}
		outputs = append(outputs, string(out))
	}
	put := func(name, text string) string {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return filepath.Join(dir, name)
	}
	put("other.fio", "rwmixread=70\n")
	runs := filepath.Join(dir, "runs.db")
	refused := map[string]int{}
	// refuse runs the plan command on an input. If plan refuses the input, the run command must refuse it, too.
	refuse := func(kind, text string, words ...string) {
		t.Helper()
		code, _, stderr := try(t, text, append([]string{"plan"}, words...)...)
		if code == exitOK || strings.Contains(stderr, "use directory") { // the directory does not exist here
			return
		}
		refused[kind]++
		for _, line := range []string{"plan", "run"} {
			if line == "run" {
				var stdout string
				code, stdout, stderr = try(t, text, append([]string{"run", "--store", runs, "--calibrate=no"}, words...)...)
				if stdout != "" || strings.Contains(stderr, "opening") {
					t.Errorf("it began: %s%s\ninput: %q", stdout, stderr, text)
				}
			}
			if code != exitUsage {
				t.Errorf("a wrong %s exits with %d: %s\ninput: %q", kind, code, stderr, text)
			}
			if kind != "command line" && !placed.MatchString(stderr) {
				t.Errorf("no place is named: %s\ninput: %q", stderr, text)
			}
			if !mended(stderr) {
				t.Errorf("no hint is named: %s\ninput: %q", stderr, text)
			}
		}
	}
	const each = 250
	for i := range each {
		d := rand.New(rand.NewPCG(9, uint64(i)))
		from := mutablePlan
		if i%2 == 1 {
			from = mutableFake
		}
		text := mutate(d, from)
		refuse("plan", text, put("in.yaml", text))

		text = mutate(d, mutableJob)
		file := put("in.fio", text)
		if i%5 == 0 { // not for each input, because lint starts fio
			try(t, text, "lint", file)
		}
		refuse("job file", text, "dir:/a", "dir:/b", "-w", file)
		if i < len(foreignOptions) {
			text = strings.Replace(mutableJob, "iodepth=32\n", "iodepth=32\n"+foreignOptions[i]+"\n", 1)
			before := refused["foreign option"]
			if refuse("foreign option", text, "dir:/a", "dir:/b", "-w", put("in.fio", text)); refused["foreign option"] == before {
				t.Errorf("%s is taken", foreignOptions[i])
			}
		}

		text = mutate(d, outputs[d.IntN(len(outputs))])
		file = put("in.json", text)
		if code, _, stderr := try(t, text, "import", "--store", filepath.Join(dir, fmt.Sprintf("import-%d.db", i%4)), file); code != exitOK {
			refused["output"]++
			if !strings.Contains(stderr, "in.json") || !mended(stderr) {
				t.Errorf("no file or no hint is named: %s\ninput: %q", stderr, text)
			}
		}

		words := strings.Fields(mutate(d, mutableWords[d.IntN(len(mutableWords))]))
		if len(words) == 0 {
			continue
		}
		switch words[0] {
		case "run", "serve", "calibrate", "kernel", "lab":
		case "plan":
			refuse("command line", strings.Join(words, " "), words[1:]...)
		default:
			if code, _, stderr := try(t, strings.Join(words, " "), words...); code == exitUsage {
				refused["command line"]++
				if !mended(stderr) {
					t.Errorf("no hint is named: %s\ninput: %q", stderr, words)
				}
			}
		}
	}
	t.Logf("of %d of each kind were refused: %v", each, refused)
	for _, kind := range []string{"plan", "job file", "output", "command line"} {
		if refused[kind] < each/10 {
			t.Errorf("of %d mutations of a %s %d were refused: they are too weak", each, kind, refused[kind])
		}
	}
	// No run has begun: the store contains no run, and no directory was made.
	if code, stdout, stderr := try(t, "", "list", "--all", "--json", "--store", runs); code != exitOK || strings.TrimSpace(stdout) != "[]" {
		t.Errorf("runs were begun: %s%s", stdout, stderr)
	}
	for _, pattern := range []string{dir + "/iotax-*", "/var/tmp/iotax-mutated*"} {
		if left, _ := filepath.Glob(pattern); len(left) > 0 {
			t.Errorf("left behind: %q", left)
		}
	}
	if left, _ := filepath.Glob(dir + "/state/iotax/*"); len(left) > 2 { // the store and its lock
		t.Errorf("left behind: %q", left)
	}
}
