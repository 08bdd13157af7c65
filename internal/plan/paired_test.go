package plan_test

import (
	"fmt"
	"strings"
	"testing"

	"iotax/internal/plan"
)

// Paired adds the old variant of each changed target, with its machines.
func TestPaired(t *testing.T) {
	const work = "workloads: {w: {fio: {rw: randread, bs: 4k}}}\n"
	parse := func(text string) *plan.Plan {
		t.Helper()
		if !strings.Contains(text, "workloads:") {
			text += work
		}
		p, err := plan.Parse("plan.yaml", []byte(text), realKinds())
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	const before = "machines: {vm: {qemu: {cpus: 1}}}\ntargets: {host: {dir: /a}, disk: {on: vm, disk: {cache: none}}, share: {on: vm, share: 9p}}\n"
	for _, c := range []struct {
		name, old, now string
		targets        string // NAME on MACHINE (TARGET below) against TARGETS; the baseline comes first
		notes          string
		err            string
	}{
		{"nothing", before, before, "", "", "configured otherwise"},
		{"an option", before, strings.Replace(before, "none", "writeback", 1),
			"host on host; disk on vm (host) against disk of R; share on vm (host); disk of R on vm (host)", "disk of R is measured as in run R", ""},
		{"the machine", before, strings.Replace(before, "cpus: 1", "cpus: 2", 1),
			"host on host; disk on vm (host) against disk of R; share on vm (host) against share of R; disk of R on vm of R (host); share of R on vm of R (host)", "share of R is measured", ""},
		{"the baseline", before, strings.Replace(before, "/a", "/b", 1),
			"host of R on host; host on host; disk on vm (host) against disk of R; share on vm (host) against share of R; disk of R on vm (host of R); share of R on vm (host of R)", "", ""},
		{"names", "targets: {host: {dir: /a}, x: {dir: /x}}\n", "targets: {host: {dir: /a}, y: {dir: /y}}\n", "host on host; y on host against x; x on host", "x is measured as in run R", ""},
		{"more targets", "targets: {host: {dir: /a}, x: {dir: /x}}\n", "targets: {host: {dir: /a}, x: {dir: /z}, y: {dir: /y}}\n",
			"host on host; x on host against x of R; y on host; x of R on host", "y is not in run R", ""},
		{"other work", before, strings.Replace(before, "none", "writeback", 1) + strings.Replace(work, "4k", "8k", 1), "", "", `bs was "4k", and is "8k"`},
		{"work at", before + strings.Replace(work, "fio", "at: [disk], fio", 1), strings.Replace(before, "none", "writeback", 1) + strings.Replace(work, "fio", "at: [disk], fio", 1),
			"host on host; disk on vm (host) against disk of R; share on vm (host); disk of R on vm (host)", "", ""},
		{"a group", "targets: {a: {dir: /a}, b: {dir: /b}, both: {group: {of: [a, b]}}}\n", "targets: {a: {dir: /a}, b: {dir: /c}, both: {group: {of: [a, b]}}}\n", "", "", "made of others"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, pairs, notes, err := parse(c.now).Paired(parse(c.old), "R")
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Fatalf("no error with %s: %v", c.err, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, x := range p.Targets {
				word := x.Name + " on " + x.On
				if of := x.Traits().Of; of != nil {
					word += " (" + *of + ")"
				}
				if len(x.Against) > 0 {
					word += " against " + strings.Join(x.Against, " ")
				}
				got = append(got, word)
				for _, name := range x.Against {
					if _, ok := p.Target(name); !ok || pairs[name] == "" {
						t.Errorf("%s is against %s, of %v", x.Name, name, pairs)
					}
				}
			}
			if all := strings.Join(got, "; "); all != c.targets || p.Baseline != p.Targets[0].Name {
				t.Errorf("targets %s\nwant    %s", all, c.targets)
			}
			if all := strings.Join(notes, "\n"); !strings.Contains(all, c.notes) {
				t.Errorf("notes %s", all)
			}
			at := fmt.Sprint(p.Workloads[0].At)
			if c.name == "work at" && at != "[disk disk of R]" {
				t.Errorf("work at %s", at)
			}
			text, err := p.YAML()
			if err != nil {
				t.Fatal(err)
			}
			again, err := plan.Parse("again.yaml", text, realKinds())
			if err != nil {
				t.Fatalf("it cannot be read back: %v\n%s", err, text)
			}
			if second, err := again.YAML(); err != nil || string(second) != string(text) {
				t.Errorf("it reads back as\n%s\nnot\n%s", second, text)
			}
		})
	}
}
