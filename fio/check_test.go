package fio

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestCheckAgainstFio compares Check with the values that fio --parse-only rejects. fio reports every invalid line of a
// section.
func TestCheckAgainstFio(t *testing.T) {
	out, err := exec.Command("fio", "--version").Output()
	if err != nil || strings.TrimSpace(string(out)) != "fio-3.33" {
		t.Skipf("needs fio-3.33, the version of tables.json: %s (%v)", out, err)
	}
	dir := t.TempDir()
	common := []string{"0", "1", "2", "-1", "5", "64", "100", "101", "150", "512", "1000", "1024", "3000000000", "99999999999", "4k", "4kb", "4KiB", "1m", "2Mi", "3z", "z", "10%", "100%", "150%",
		"0.5", "1.5", "yes", "no", "true", "false", "foo", "read", "a:b", "1,foo", "foo,1", "1-2", "2:1", "1:2:3", "0:100:101", "0x10", " 5", "4k,8k,16k", ",8k", "4k-8k", "4k:8k,16k:32k", "1s", "10sec",
		"zipf:1", "zipf:1.2", "zipf:1.2:0.5", "zipf:x", "pareto:2", "pareto:0.3", "normal:100", "normal:5", "zoned:60/10:40/90", "zoned:60/10", "zoned_abs:60/10g:40/1g",
		"4k/50:8k/50", "4k/50:8k", "4k/80:8k:16k/30:1k", "x/50", "4k/50,8k/50", "iops:5%", "iops", "bw:x", "bw:1m", "iops_slope:0.3%", "0xdeadbeef", `"abcd"`, "write:4k", "randread:8", "write,", "sequential:8", "roundrobin", ""}
	byEngine := map[string][]Option{}
	for _, list := range [][]Option{tables().Options, hidden} {
		for _, o := range list {
			byEngine[o.Engine] = append(byEngine[o.Engine], o)
		}
	}
	missed, invented, asked := 0, 0, 0
	for _, engine := range slices.Sorted(maps.Keys(byEngine)) {
		type ask struct {
			o     Option
			value string
			bare  bool
		}
		lines := map[string]ask{}
		var text strings.Builder
		fmt.Fprintf(&text, "[j]\n")
		if engine != "" {
			fmt.Fprintf(&text, "ioengine=%s\n", engine)
		}
		for _, o := range byEngine[engine] {
			if f, ok := o.form(); !ok || f.Kind == "" {
				t.Errorf("%s (%s) has no form", o.Name, o.Engine)
			}
			if o.Name == "ioengine" || o.Name == "kb_base" {
				continue // these options change how fio reads the others
			}
			values := append(slices.Clone(common), o.Values...)
			for _, v := range o.Values {
				values = append(values, v+":4k", v+"x", v+",")
			}
			for _, v := range values {
				lines[o.Name+"="+v] = ask{o: o, value: v}
			}
			if f, _ := o.form(); f.Kind != "STR" || !f.Any || strings.HasPrefix(o.Name, "write_") { // the excluded options crash fio if they have no value
				lines[o.Name] = ask{o: o, bare: true}
			}
		}
		for _, l := range slices.Sorted(maps.Keys(lines)) {
			text.WriteString(l + "\n")
		}
		job := filepath.Join(dir, "j"+engine+".fio")
		if err := os.WriteFile(job, []byte(text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("fio", "--parse-only", job)
		cmd.Dir = dir
		var stderr strings.Builder
		cmd.Stderr = &stderr
		_ = cmd.Run() // fails, because the job contains invalid values
		out := stderr.String()
		if !strings.Contains(out, "fio: job j dropped") {
			t.Fatalf("%s: fio did not read the whole section: …%s", engine, out[max(0, len(out)-1000):])
		}
		refuses := map[string]int{}
		for l := range strings.Lines(out) {
			if line, ok := strings.CutPrefix(strings.TrimRight(l, "\n"), "fio: failed parsing "); ok {
				refuses[line]++
			}
		}
		predicted := map[string]int{}
		for _, l := range slices.Sorted(maps.Keys(lines)) {
			a := lines[l]
			asked++
			err := a.o.Check(a.value, a.bare, 1024)
			if err == nil && engine == "" && refuses[l] > 0 {
				missed++
				t.Errorf("missed: fio refuses %s", l)
			}
			if err == nil {
				continue
			}
			predicted[a.o.Name]++
			if engine == "" && refuses[l] == 0 {
				invented++
				t.Errorf("invented: fio takes %s: %v", l, err)
			}
		}
		for _, o := range byEngine[engine] {
			// In an error about an engine option, fio prints only the name of the option.
			if n := refuses[o.Name]; engine != "" && n != predicted[o.Name] {
				t.Errorf("%s of %s: fio refuses %d values, %d are predicted", o.Name, engine, n, predicted[o.Name])
			}
		}
	}
	t.Logf("%d values: %d refusals missed, %d invented", asked, missed, invented)
}
