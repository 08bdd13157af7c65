package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"iotax/internal/kinds"
	"iotax/internal/plan"
)

// --scale multiplies the budget, keeps a minimum, and does not add a budget to a plan without one.
func TestScaleOfBudget(t *testing.T) {
	for _, c := range []struct {
		scale        float64
		budget, want time.Duration
	}{
		{.1, 14 * time.Minute, 3 * time.Minute}, {.5, 14 * time.Minute, 7 * time.Minute}, {1, 14 * time.Minute, 14 * time.Minute},
		{2, 14 * time.Minute, 28 * time.Minute}, {.1, time.Minute, time.Minute}, {.1, 0, 0},
	} {
		pf, p := planFlags{scale: c.scale}, &plan.Plan{Measure: plan.Defaults()}
		p.Measure.Budget = plan.Duration(c.budget)
		if err := pf.shrink(p); err != nil || time.Duration(p.Measure.Budget) != c.want {
			t.Errorf("%v × %v: %v, %v, want %v", c.scale, c.budget, p.Measure.Budget, err, c.want)
		}
	}
}

// --size refuses a file smaller than a block, a plan without fio, and --scale. --scale does not shrink a file below a
// block.
func TestFileBelowBlock(t *testing.T) {
	for _, c := range []struct {
		pf   planFlags
		args []string
		want string
	}{
		{planFlags{scale: 1, size: "4KiB", workloads: []string{"seqread-1m"}}, []string{"dir:/a", "dir:/b"}, "--size: change seqread-1m: size: 4KiB is less than one block of 1MiB\n  hint: "},
		{planFlags{scale: 0.5, size: "1MiB"}, []string{"dir:/a", "dir:/b"}, "--size and --scale both set the size"},
		{planFlags{scale: 1, size: "1MiB", workloads: []string{"command:true"}}, []string{"dir:/a", "dir:/b"}, "read --size 1MiB: only fio workloads have a test file"},
		{planFlags{scale: 1, size: "2MiB", workloads: []string{"command:true", "randread-4k"}}, []string{"dir:/a", "dir:/b"}, ""},
		{planFlags{scale: 0.001}, []string{"virtiofs"}, ""},
		{planFlags{scale: 0.001}, []string{"cluster"}, ""},
	} {
		_, err := c.pf.load(c.args, nil)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%v: %v, want %q", c.args, err, c.want)
		}
	}
}

// loaded returns the plan of a command line.
func loaded(args ...string) (*plan.Plan, error) {
	var pf planFlags
	c := &cobra.Command{}
	pf.add(c)
	if err := c.ParseFlags(args); err != nil {
		return nil, err
	}
	return pf.load(c.Flags().Args(), nil)
}

// --protocol adaptive replaces the fixed number of rounds of a plan. --precision is refused if the number is fixed.
func TestAdaptive(t *testing.T) {
	d := plan.Defaults()
	own := filepath.Join(t.TempDir(), "own.yaml")
	if err := os.WriteFile(own, []byte("targets: {a: {dir: /a}}\nworkloads: {w: {fio: {rw: read}}}\nmeasure: {protocol: fixed:4x3s, budget: 2m}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args string
		want plan.Measure // Trial, Rounds, Budget
		err  string
	}{
		{"randrw /a /b", plan.Measure{Trial: d.Trial, Rounds: plan.Rounds{Min: 6, Max: 6}}, ""},
		{"randrw /a /b --protocol adaptive --precision 1%", plan.Measure{Trial: d.Trial, Rounds: d.Rounds, Budget: d.Budget}, ""},
		{"randrw /a /b --protocol adaptive --rounds 7..9 --budget 0 --scale 0.5", plan.Measure{Trial: d.Trial / 2, Rounds: plan.Rounds{Min: 7, Max: 9}}, ""},
		{own + " --protocol adaptive", plan.Measure{Trial: plan.Duration(3 * time.Second), Rounds: d.Rounds, Budget: plan.Duration(2 * time.Minute)}, ""},
		{"/a /b --protocol adaptive --budget 9m", plan.Measure{Trial: d.Trial, Rounds: d.Rounds, Budget: plan.Duration(9 * time.Minute)}, ""},
		{"randrw /a /b --precision 1%", plan.Measure{}, "--precision and --to-precision have no effect on 6 rounds"},
		{"/a /b --rounds 8 --to-precision", plan.Measure{}, "no effect on 8 rounds"},
		{"/a /b --restarts 3 --precision 1%", plan.Measure{}, "no effect on 30 rounds"},
	} {
		p, err := loaded(strings.Fields(c.args)...)
		switch {
		case c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)), c.err == "" && err != nil:
			t.Errorf("%s: error %v, want %q", c.args, err, c.err)
		case err == nil && (p.Measure.Trial != c.want.Trial || p.Measure.Rounds != c.want.Rounds || p.Measure.Budget != c.want.Budget):
			t.Errorf("%s: trial %s, rounds %s, budget %s", c.args, p.Measure.Trial, p.Measure.Rounds, p.Measure.Budget)
		}
	}
}

// A flag with the value false or 0 overrides the plan, too.
func TestFalseFlags(t *testing.T) {
	own := filepath.Join(t.TempDir(), "own.yaml")
	if err := os.WriteFile(own, []byte("targets: {a: {dir: /a}}\nworkloads: {w: {fio: {rw: read}}}\nmeasure: {explain: true, profile: true, to_precision: true, cold: true, seed: 7}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{
		own: "true true true true 7",
		own + " --explain=false --profile=false --to-precision=false --cold=false --seed 0": "false false false false 0",
		"/a /b --warm":                      "false false false false 0",
		"/a /b --warm=false --explain":      "true false false true 0",
		"/a /b --cold --profile --seed 100": "false true false true 100",
	} {
		p, err := loaded(strings.Fields(args)...)
		if err != nil {
			t.Fatal(err)
		}
		if m := p.Measure; fmt.Sprint(m.Explain, m.Profile, m.Precisely, m.Cold, m.Seed) != want {
			t.Errorf("%s: %v %v %v %v %d, want %s", args, m.Explain, m.Profile, m.Precisely, m.Cold, m.Seed, want)
		}
	}
}

// A plan that drops no caches has no workload that needs an empty one.
func TestColdEnough(t *testing.T) {
	for args, want := range map[string]string{
		"/a /b -w dataload":                    "",
		"/a /b -w dataload,randread-4k":        "",
		"/a /b --warm -w randread-4k":          "",
		"/a /b --warm -w dataload":             "plan dataload: dataload reads from an empty cache, and the plan drops no caches\n  hint: leave out --warm and cold: false",
		"/a /b --warm -w randread-4k,dataload": "plan dataload: ",
	} {
		if _, err := loaded(strings.Fields(args)...); want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
	}
}

// --explain is refused if it would explain no workload.
func TestExplainable(t *testing.T) {
	sized := filepath.Join(t.TempDir(), "sized.yaml")
	if err := os.WriteFile(sized, []byte("targets: {a: {dir: /a}}\nworkloads: {w: {fio: {rw: read, by_size: true}}}\nmeasure: {explain: true}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{
		"/a /b --explain":                 "[]",
		"/a /b -w command:true":           "[]",
		"/a /b -w command:true --explain": "explain /a vs /b: no workload of the plan has trials of a fixed length",
		sized:                             "explain sized: no workload",
		sized + " --explain=false":        "[]",
		"/a /b -w command:true -w randread-4k,git --explain": "[command:true git]",
	} {
		p, err := loaded(strings.Fields(args)...)
		if err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", args, err, want)
		} else if err == nil && fmt.Sprint(unexplained(p)) != want {
			t.Errorf("%s: %v, want %s", args, unexplained(p), want)
		}
	}
}

// A suite keeps its expectations if it runs at other targets.
func TestSuiteElsewhereExpects(t *testing.T) {
	p, err := (&planFlags{scale: 1}).load([]string{"etcd", "dir:/a"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Expectations) != 1 || p.Expectations[0].String() != "etcd: sync.latency.p99 < 10ms" {
		t.Errorf("expectations: %v", p.Expectations)
	}
}

// A search with a suite on other targets keeps the suite's rounds and budget.
func TestSearchOfSuiteElsewhere(t *testing.T) {
	pf := planFlags{scale: 1}
	p, err := (&app{}).loadSearch(&pf, []string{"quick", "dir:/a"}, bisectRounds)
	if err != nil {
		t.Fatal(err)
	}
	if m := p.Measure; m.Budget != plan.Duration(5*time.Minute) || m.Rounds.Max != 6 {
		t.Errorf("budget %v, rounds %v", m.Budget, m.Rounds)
	}
}

// -w splits words at commas, and still finds names that contain commas.
func TestChoose(t *testing.T) {
	names := []string{"network", "4 MiB", "4 MiB, 8 clients", "a,b"}
	for said, want := range map[string]string{
		"network":                  "network",
		"4 MiB":                    "4 MiB",
		"4 MiB, 8 clients":         "4 MiB, 8 clients",
		"4 MiB, 8 clients,network": "4 MiB, 8 clients|network",
		"network, 4 MiB,a,b":       "network|4 MiB|a,b",
		"4 MiB,4 MiB, 8 clients":   "4 MiB|4 MiB, 8 clients",
	} {
		var w workloadWords
		if err := w.Set(said); err != nil {
			t.Fatal(err)
		}
		if got, err := choose(names, w); err != nil || strings.Join(got, "|") != want {
			t.Errorf("%q: %q, %v, want %q", said, got, err, want)
		}
	}
	for _, said := range []string{"", "b", "a", "8 clients", "network,nothing"} {
		got, err := choose(names, strings.Split(said, ","))
		if err == nil || !strings.Contains(err.Error(), "no workload of this name") || !strings.Contains(err.Error(), `"4 MiB, 8 clients"`) {
			t.Errorf("%q: %q, %v", said, got, err)
		}
	}
	if got, err := choose(names, nil); err != nil || !slices.Equal(got, nil) {
		t.Errorf("%q, %v", got, err)
	}
}

// Paths on this host are relative to the folder of the plan, and absolute in the saved plan. Paths that begin with ~
// become absolute, too. Values that are not files (none, limactl), absolute paths, and paths on other machines are not
// changed.
func TestAbsolute(t *testing.T) {
	folder, home := t.TempDir(), t.TempDir()
	t.Chdir(t.TempDir())
	t.Setenv("HOME", home)
	const text = `machines:
  S: {ssh: {host: db1, identity: key, known_hosts: ./known, password_file: ../secret, config: conf}}
  none: {ssh: {host: db2, config: none, identity: ~/.ssh/key}}
  K: {k8s: {image: busybox, kubeconfig: kube.yaml}}
  V: {qemu: {image: disk.qcow2, kernel: vmlinuz, initrd: initrd, identity: key}}
  L: {lima: {template: lima.yaml, program: bin/limactl}}
  words: {lima: {template: 'template://debian', program: limactl}}
  T: {tart: {image: macos, password_file: secret, identity: key, program: ./tart}}
  W: {wsl: {program: wsl/wsl.exe}}
targets:
  here: {dir: a/b}
  full: {dir: /x}
  there: {on: S, dir: /c}
  bucket: {bucket: {url: 'https://s3.example/b', ca: ca.pem, credentials: ./aws}}
  served: {bucket: {path: objects}}
  nbd: {nbd: {path: images}}
workloads:
  tar: {archive: {file: src.tar}}
  boot: {boot: {root: ./tree, run: 'app {port}'}}
  python: {boot: {root: python}}
`
	p, err := plan.Parse(filepath.Join(folder, "p.yaml"), []byte(text), kinds.All())
	if err == nil {
		err = p.Absolute()
	}
	if err != nil {
		t.Fatal(err)
	}
	got, err := p.YAML()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"identity: ./key", "known_hosts: ./known", "password_file: " + filepath.Dir(folder) + "/secret", "config: ./conf", "config: none", "identity: " + home + "/.ssh/key",
		"kubeconfig: ./kube.yaml", "image: ./disk.qcow2", "kernel: ./vmlinuz", "initrd: ./initrd",
		"template: ./lima.yaml", "program: ./bin/limactl", `template: "template://debian"`, "program: limactl", "image: macos", "password_file: ./secret", "program: ./tart", "program: ./wsl/wsl.exe",
		"path: ./a/b", "path: /x", "path: /c", "ca: ./ca.pem", "credentials: ./aws", "path: ./objects", "path: ./images",
		"file: ./src.tar", "root: ./tree", "root: python",
	} {
		want = strings.Replace(want, "./", folder+"/", 1)
		if !strings.Contains(string(got), want+"\n") && !strings.Contains(string(got), want+",") && !strings.Contains(string(got), want+"}") {
			t.Errorf("no %s", want)
		}
	}
	again, err := plan.Parse("plan of a run", got, kinds.All())
	if err == nil {
		err = again.Absolute()
	}
	if err != nil {
		t.Fatal(err)
	}
	if text, err := again.YAML(); err != nil || !bytes.Equal(text, got) {
		t.Errorf("%v; read again elsewhere, the plan is\n%s\nit was\n%s", err, text, got)
	}
}
