package plan

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"

	"iotax/internal/plan/syntax"
	"iotax/internal/testenv/long"
)

var update = flag.Bool("update", false, "write the golden files")

// golden compares got with the contents of file. With -update it writes the file.
func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs\n--- got\n%s\n--- want\n%s", file, got, want)
	}
}

// A target has the labels of the machines that it is on, in the parsed plan and in the plan that a run saves.
func TestLabelsOfMachines(t *testing.T) {
	p, err := Parse("plan.yaml", []byte(`
machines:
  outer: {qemu: {memory: [1GiB, 2GiB]}, labels: {tier: slow, rack: "7"}}
  inner: {box: {}, on: outer memory=2GiB, labels: {tier: fast}}
targets:
  a: {dir: /a, on: inner}
  b: {dir: /b, on: outer memory=1GiB, labels: {rack: "8"}}
  c: {dir: /c}
workloads: {w: {fio: {rw: read, bs: 4k}}}
`), testKinds())
	for range 2 {
		if err != nil {
			t.Fatal(err)
		}
		got := fmt.Sprint(p.Targets[0].Labels, p.Targets[1].Labels, p.Targets[2].Labels)
		if got != "map[memory:2GiB rack:7 tier:fast] map[memory:1GiB rack:8 tier:slow] map[]" {
			t.Errorf("labels %s", got)
		}
		text, _ := p.YAML()
		p, err = Parse("plan.yaml", text, testKinds())
	}
}

// Every plan in testdata/errors is invalid. Its .txt file contains the error messages.
func TestErrors(t *testing.T) {
	files, err := filepath.Glob("testdata/errors/*.yaml")
	if err != nil || len(files) < 60 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, f := range files {
		name := strings.TrimSuffix(filepath.Base(f), ".yaml")
		t.Run(name, func(t *testing.T) {
			src, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			p, err := Parse("plan.yaml", src, testKinds())
			if err == nil {
				y, _ := p.YAML()
				t.Fatalf("no error; the plan is\n%s", y)
			}
			var all Errors
			var one *Error
			if p != nil || !errors.As(err, &all) || !errors.As(err, &one) {
				t.Fatalf("plan %v, error %T", p, err)
			}
			for _, e := range all {
				if e.Pos.File != "plan.yaml" {
					t.Errorf("no file in %+v", e)
				}
				if e.Column > 0 && e.Column > utf8.RuneCountInString(e.Source)+1 {
					t.Errorf("column %d is outside of %q", e.Column, e.Source)
				}
			}
			if i := strings.IndexFunc(err.Error(), func(r rune) bool { return r < ' ' && r != '\n' || r == utf8.RuneError }); i >= 0 {
				t.Errorf("a control character in %q", err.Error()[i:])
			}
			golden(t, strings.TrimSuffix(f, ".yaml")+".txt", err.Error()+"\n")
		})
	}
}

// Every plan in testdata/plans is valid. Its .txt file contains the resolved plan.
func TestPlans(t *testing.T) {
	files, err := filepath.Glob("testdata/plans/*.yaml")
	if err != nil || len(files) < 4 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, f := range files {
		t.Run(filepath.Base(f), func(t *testing.T) {
			src, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			p, err := Parse(f, src, testKinds())
			if err != nil {
				t.Fatal(err)
			}
			golden(t, strings.TrimSuffix(f, ".yaml")+".txt", roundTrip(t, p))
		})
	}
}

// roundTrip returns the plan as YAML. It checks that the YAML parses back to the same plan.
func roundTrip(t interface {
	Helper()
	Fatalf(string, ...any)
}, p *Plan,
) string {
	t.Helper()
	y, err := p.YAML()
	if err != nil {
		t.Fatalf("write: %v", err)
	}
	again, err := Parse(p.File, y, testKinds())
	if err != nil {
		t.Fatalf("read back: %v\n%s", err, y)
	}
	z, err := again.YAML()
	if err != nil || string(z) != string(y) {
		t.Fatalf("reads back as\n%s\nnot\n%s\n%v", z, y, err)
	}
	if a, b := withoutPlaces(p), withoutPlaces(again); !reflect.DeepEqual(a, b) {
		t.Fatalf("not the same plan: %+v\n%+v\n%s", a, b, y)
	}
	return string(y)
}

func withoutPlaces(p *Plan) Plan {
	q := *p
	q.measured = nil
	q.Machines, q.Targets, q.Workloads = slices.Clone(p.Machines), slices.Clone(p.Targets), slices.Clone(p.Workloads)
	for i := range q.Machines {
		q.Machines[i].Pos, q.Machines[i].origin = Pos{}, origin{}
	}
	for i := range q.Targets {
		q.Targets[i].Pos, q.Targets[i].origin = Pos{}, origin{}
	}
	for i := range q.Workloads {
		q.Workloads[i].Pos, q.Workloads[i].origin = Pos{}, origin{}
	}
	q.Expectations = slices.Clone(p.Expectations)
	for i := range q.Expectations {
		q.Expectations[i].Pos = Pos{}
	}
	return q
}

func TestPositions(t *testing.T) {
	p, err := Parse("p.yaml", []byte("targets:\n  a: {dir: /x}\n  日本: {dir: /y}\nworkloads: {w: {fio: {rw: read}}, v: {fio: {rw: [read, write]}}}\n"), testKinds())
	if err != nil {
		t.Fatal(err)
	}
	want := []Pos{{File: "p.yaml", Line: 2, Column: 3}, {File: "p.yaml", Line: 3, Column: 3}, {File: "p.yaml", Line: 4, Column: 13}, {File: "p.yaml", Line: 4, Column: 35}, {File: "p.yaml", Line: 4, Column: 35}}
	got := []Pos{p.Targets[0].Pos, p.Targets[1].Pos, p.Workloads[0].Pos, p.Workloads[1].Pos, p.Workloads[2].Pos}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if p.File != "p.yaml" || p.Name != "p" {
		t.Errorf("file %q, name %q", p.File, p.Name)
	}
}

// Printable names, and values with any text, survive a round trip.
func TestRoundTripOfAnything(t *testing.T) {
	text := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{
		"", " ", "a", "true", "No", "null", "~", "1e3", "0x10", "- a", "a: b", "a #b", "#", "{a}", "[a]", "&a", "*a", "!a", "|", ">", "%", "@", "`",
		"'", "\"", "\\", "a\nb", "a\n", "\ta", "\u2028", "\u0085", "\ufeff", "\x00", "\x1b[0m", "...", "---", "--- a", "... ", "?", "? a", ":", "a:", "<<", "=", ".", ".inf", "12:30", "2001-01-01", "日本", "é", "on", "x-y",
	}))
	rapid.Check(t, func(t *rapid.T) {
		name := func(s string) string {
			s = strings.TrimSpace(strings.Map(func(r rune) rune {
				if unicode.IsPrint(r) {
					return r
				}
				return -1
			}, strings.ToValidUTF8(s, "")))
			if len([]rune(s)) > 50 {
				s = string([]rune(s)[:50])
			}
			return strings.TrimSpace("n" + s)
		}
		// YAML can only represent valid UTF-8.
		value := func(s string) string { return strings.ToValidUTF8(s, "?") }
		p := &Plan{Name: name(text.Draw(t, "plan")), File: "f", Measure: Defaults()}
		p.Measure.Trial = Duration(rapid.Int64Range(int64(3*time.Second), int64(10*time.Minute)).Draw(t, "trial"))
		p.Measure.Precision = Percent(rapid.Float64Range(1e-9, 1).Draw(t, "precision"))
		p.Measure.Seed = rapid.Uint64().Draw(t, "seed")
		k := testKinds()
		yes := rapid.Bool().Draw(t, "fast")
		p.Machines = []Machine{
			{Name: "host", Kind: "host", Spec: k.Machines[0].New(), fresh: k.Machines[0].New()},
			{Name: name("g" + text.Draw(t, "guest")), Kind: "qemu", fresh: k.Machines[2].New(), Spec: &guestSpec{
				Memory: Size(rapid.Int64Range(64<<20, 1<<62).Draw(t, "memory")), CPUs: 3, Image: value(text.Draw(t, "image")), Fast: &yes}},
		}
		base := name("d" + text.Draw(t, "dir"))
		p.Baseline = base
		dir := value(text.Draw(t, "path"))
		if dir == "" {
			dir = "/"
		}
		p.Targets = []Target{
			{Name: base, On: "host", Kind: "dir", Spec: &dirSpec{dir}, fresh: k.Volumes[0].New(), Labels: map[string]string{value(text.Draw(t, "label")): value(text.Draw(t, "labelled"))}},
			{Name: name("s" + text.Draw(t, "disk")), On: p.Machines[1].Name, Kind: "disk", fresh: k.Volumes[2].New(), Spec: &diskSpec{
				Bus: "nvme", Format: "raw", Cache: "none", AIO: "native", Base: base, Limit: throttle{IOPS: 4, Burst: rapid.Float64Range(-1e300, 1e300).Draw(t, "burst")}}},
		}
		p.Workloads = []Workload{
			{Name: name(text.Draw(t, "workload")), Kind: "fio", fresh: k.Workloads[0].New(), Spec: &fioSpec{
				File: value(text.Draw(t, "file")), Engines: rapid.SliceOfN(rapid.Map(text, value), 1, 3).Draw(t, "engines"),
				Env: map[string]string{value(text.Draw(t, "variable")): value(text.Draw(t, "content"))}, Warm: 0.125, Think: 7, options: []Option{{Key: "bs", Value: "4k"}}}},
			{Name: name("z" + text.Draw(t, "note")), Kind: "note", fresh: k.Workloads[1].New(), Spec: &noteSpec{
				Text: value(text.Draw(t, "text")), Options: map[string]string{"o" + value(text.Draw(t, "option")): value(text.Draw(t, "set"))}}},
		}
		if p.Workloads[0].Name == p.Workloads[1].Name || p.Targets[0].Name == p.Targets[1].Name {
			t.Skip("needs names of their own")
		}
		roundTrip(t, p)
	})
}

// An invalid plan is rejected quickly, whatever its size and structure.
func TestHugePlans(t *testing.T) {
	long.Test(t)
	repeat := strings.Repeat
	for name, src := range map[string]string{
		"spaces": repeat(" ", syntax.MaxBytes), "lines": repeat("\n", syntax.MaxBytes), "comments": repeat("#\n", syntax.MaxBytes/2),
		"keys": repeat("a:\n", syntax.MaxBytes/3), "list": repeat("- a\n", syntax.MaxBytes/4), "flow": "[" + repeat("a,", syntax.MaxBytes/2-1) + "]",
		"open": repeat("[", syntax.MaxBytes), "open mappings": repeat("{", syntax.MaxBytes), "mixed": repeat("[{a: ", syntax.MaxBytes/5),
		"dashes": repeat("- ", syntax.MaxBytes/2), "questions": repeat("? ", syntax.MaxBytes/2), "anchors": repeat("&a ", syntax.MaxBytes/3),
		"tags": repeat("!a ", syntax.MaxBytes/3), "aliases": repeat("*a ", syntax.MaxBytes/3), "quotes": repeat("\"", syntax.MaxBytes),
		"key": repeat("k", syntax.MaxBytes-3) + ": v", "text": "name: " + repeat("x", syntax.MaxBytes-6), "block": "name: |\n" + repeat("  x\n", syntax.MaxBytes/4-4),
		"colons": repeat("a: ", syntax.MaxBytes/3), "too long": repeat("a", syntax.MaxBytes+1), "merges": repeat("<<: {}\n", syntax.MaxBytes/7),
		"stairs": stairs(2000), "percent": repeat("%", syntax.MaxBytes), "documents": repeat("---\n", syntax.MaxBytes/4), "dots": repeat("...\n", syntax.MaxBytes/4),
		"long path": longPath(), "cells": grid(2000, 600),
	} {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			_, err := Parse("plan.yaml", []byte(src), testKinds())
			if err == nil {
				t.Error("no error")
			} else if len(err.Error()) > 20_000 {
				t.Errorf("the error is %d bytes long", len(err.Error()))
			}
			if took := time.Since(start); took > time.Minute { // quadratic time would take hours
				t.Errorf("it took %s", took)
			}
		})
	}
}

// grid returns a plan with the given numbers of targets and workloads.
func grid(targets, works int) string {
	var b strings.Builder
	b.WriteString("targets:\n")
	for i := range targets {
		fmt.Fprintf(&b, "  t%d: {dir: /t/%d}\n", i, i)
	}
	b.WriteString("workloads:\n")
	for i := range works {
		fmt.Fprintf(&b, "  w%d: {fio: {rw: randread}}\n", i)
	}
	return b.String()
}

func stairs(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(strings.Repeat(" ", i%500) + "a:\n")
	}
	return b.String()
}

// longPath returns a plan with many values below nested keys of the maximum length and depth. If Read did not reject the
// plan, the parser would store the path of every value, and use too much memory.
func longPath() string {
	var b strings.Builder
	key := strings.Repeat("k", syntax.MaxKey)
	for range syntax.MaxDepth - 2 {
		b.WriteString("{" + key + ": ")
	}
	b.WriteString("[" + strings.Repeat("a,", 40_000) + "]" + strings.Repeat("}", syntax.MaxDepth-2))
	return b.String()
}

func FuzzParse(f *testing.F) {
	for _, pattern := range []string{"testdata/errors/*.yaml", "testdata/plans/*.yaml"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			f.Fatalf("%s: %v", pattern, err)
		}
		for _, file := range files {
			src, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(src)
		}
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		p, err := Parse("plan.yaml", src, testKinds())
		if err == nil {
			roundTrip(t, p)
			return
		}
		var all Errors
		if !errors.As(err, &all) || len(all) == 0 || p != nil {
			t.Fatalf("plan %v, error %T %v", p, err, err)
		}
		if s := err.Error(); strings.ContainsFunc(s, func(r rune) bool { return r != '\n' && !strconv.IsPrint(r) }) || !utf8.ValidString(s) {
			t.Fatalf("not printable: %q", s)
		}
		for _, e := range all {
			if e.Pos.Line > 0 && (e.Column != e.Pos.Column || e.Column > utf8.RuneCountInString(e.Source)+1) {
				t.Fatalf("column %d (%d) of %q", e.Pos.Column, e.Column, e.Source)
			}
		}
	})
}

func FuzzWords(f *testing.F) {
	f.Add("dir:/var/tmp", "qemu:virtio-blk,cache=none,memory=2GiB", "randread-4k-qd4-j2-1GiB")
	f.Add("ssh://me@db1:22/mnt?port=22&path=/x", "qemu:9p,of=a", "seqrw-1m")
	f.Add("/x", "qemu:disk,limit=5,fast,iothread", "randread-")
	f.Fuzz(func(t *testing.T, one, two, w string) {
		p, err := FromWords([]string{one, two}, []string{w}, Defaults(), testKinds())
		if err == nil {
			roundTrip(t, p)
			return
		}
		if s := err.Error(); strings.ContainsFunc(s, func(r rune) bool { return r != '\n' && !strconv.IsPrint(r) }) || !utf8.ValidString(s) {
			t.Fatalf("not printable: %q", s)
		}
	})
}

type rawSpec struct{ path string }

func (s rawSpec) Validate() error { return nil }

func (s rawSpec) Traits() Traits { return Traits{Device: s.path} }

// Device returns the form that run --destroy takes. It includes the machine unless that is this host.
func TestDevice(t *testing.T) {
	for want, target := range map[string]Target{
		"/dev/sdb":       {On: Host, Spec: rawSpec{"/dev/sdb"}},
		"guest:/dev/sdb": {On: "guest", Spec: rawSpec{"/dev/sdb"}},
		"":               {On: "guest", Spec: rawSpec{}},
	} {
		if got := target.Device(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got := (Target{On: "guest", Spec: &hostSpec{}}).Device(); got != "" {
		t.Errorf("a directory is the device %q", got)
	}
}
