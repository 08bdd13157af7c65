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
)

// mutate changes a good text a little, in the ways in which people and programs do.
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
		case 2: // twice
			b = append(bytes.Clone(b[:end]), b[at:]...)
		case 3: // a character is another
			b = bytes.Clone(b)
			b[at] = byte(d.IntN(256))
		case 4, 5: // a word in between
			b = append(append(bytes.Clone(b[:at]), words[d.IntN(len(words))]...), b[at:]...)
		case 6: // two letters exchanged, as fingers do
			b = bytes.Clone(b)
			if at+1 < len(b) {
				b[at], b[at+1] = b[at+1], b[at]
			}
		case 7: // a line elsewhere
			lines := strings.SplitAfter(string(b), "\n")
			i, j := d.IntN(len(lines)), d.IntN(len(lines))
			lines[i], lines[j] = lines[j], lines[i]
			b = []byte(strings.Join(lines, ""))
		}
	}
	return string(b)
}

// try runs the command in this process, and fails on what no input may cause.
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
  host: {dir: /var/tmp/iotax}
  disk:
    on: guest
    disk: {of: host, format: raw, cache: [none, writeback], aio: threads}
  share: {on: guest, share: {of: host, type: virtiofs}}
  far: {on: db1, dir: /srv}
  raw: {device: /dev/loop0}
workloads:
  4k random read: {fio: {rw: randread, bs: 4k, iodepth: 32, size: 1GiB}}
  open: {fio: {rw: randread, load: [30%, 60%]}}
measure: {precision: 5%, margin: 5%, trial: 10s, ramp: 2s, blocks: {min: 6, max: 30}, budget: 20m}
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
	"plan dir:/var/tmp qemu:virtio-blk,cache=none qemu:virtiofs -w randread-4k,seqread-1m --trial 10s --blocks 6..30",
	"plan dir:/var/tmp ssh://me@db1:22/srv?accept_new=true -w randwrite-4k-qd8 --precision 5% --margin 3% --budget 20m",
	"plan dir:/a dir:/b --protocol fixed:5x60s --size 1GiB --seed 7 --cold",
	"plan dir:/a dir:/b -- fio --name=x --rw=randread --size=1g --bs=4k",
	"lint fio --name=x --rw=randread --size=1g --direct=1 --ioengine=libaio --iodepth=32",
	"compare latest~1 latest --margin 5%",
	"report latest --format md",
	"show latest --trial 3 --raw",
	"evaluate --studies 1 --models iid",
	"plan quick --scale 0.1",
}

// placed is the beginning of an error that points into a file.
var placed = regexp.MustCompile(`in\.(yaml|fio|json):\d+`)

// TestMutatedInput gives the commands a thousand inputs that were good before something happened to
// them: none may cause a panic or a run, and what is wrong with a plan is said with its place.
func TestMutatedInput(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("HOME", dir)
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
	const each = 250
	refused, pointed, mended := 0, 0, 0
	for i := range each {
		d := rand.New(rand.NewPCG(9, uint64(i)))
		text := mutate(d, mutablePlan)
		file := put("in.yaml", text)
		code, _, stderr := try(t, text, "plan", file)
		if code != 0 {
			refused++
			if code != 2 {
				t.Errorf("a wrong plan exits with %d: %s\ninput: %q", code, stderr, text)
			}
			if placed.MatchString(stderr) {
				pointed++
			} else {
				t.Errorf("no place is named: %s\ninput: %q", stderr, text)
			}
			if strings.Contains(stderr, "mend:") || strings.Contains(stderr, "did you mean") {
				mended++
			}
		}
		text = mutate(d, mutableJob)
		file = put("in.fio", text)
		if i%5 == 0 { // it asks fio
			try(t, text, "lint", file)
		}
		try(t, text, "plan", "dir:/a", "dir:/b", "-w", file)

		text = mutate(d, outputs[d.IntN(len(outputs))])
		file = put("in.json", text)
		try(t, text, "import", "--store", filepath.Join(dir, fmt.Sprintf("import-%d.db", i%4)), file)

		words := strings.Fields(mutate(d, mutableWords[d.IntN(len(mutableWords))]))
		if len(words) == 0 || strings.HasPrefix(strings.Join(words, " "), "evaluate") && !strings.Contains(strings.Join(words, " "), "--studies 1 ") {
			continue // a hundred thousand studies are no slip
		}
		if words[0] == "run" || words[0] == "serve" || words[0] == "calibrate" || words[0] == "kernel" || words[0] == "lab" {
			continue
		}
		try(t, strings.Join(words, " "), words...)
	}
	t.Logf("%d plans of %d were wrong; the place was named in %d and a mend in %d", refused, each, pointed, mended)
	if refused < each/3 || mended < refused/2 {
		t.Errorf("%d plans were refused, %d with a mend: the mutations or the errors are too weak", refused, mended)
	}
	if left, _ := filepath.Glob(dir + "/state/iotax/*"); len(left) > 2 { // the store and its lock
		t.Errorf("left behind: %q", left)
	}
}
