package probe

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// recorded parses a recorded result of system.environment. Each text follows a line that consists of @@ and the text's
// name.
func recorded(text string) map[string]string {
	g := map[string]string{}
	for _, part := range strings.Split(text, "@@")[1:] {
		name, text, _ := strings.Cut(part, "\n")
		g[name] = text
	}
	return g
}

func TestEnvironmentRecorded(t *testing.T) {
	files, err := filepath.Glob("testdata/*.out")
	if err != nil || len(files) == 0 {
		t.Fatal("no recordings", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			out, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := environment(recorded(string(out)))
			text, err := os.ReadFile(strings.TrimSuffix(file, ".out") + ".facts")
			if err != nil {
				t.Fatal(err)
			}
			want := map[string]string{}
			for line := range strings.Lines(string(text)) {
				k, v, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
				want[k] = v
			}
			for k := range maps.All(got) {
				if got[k] != want[k] {
					t.Errorf("%s = %q, want %q", k, got[k], want[k])
				}
			}
			for k := range want {
				if _, ok := got[k]; !ok {
					t.Errorf("%s is missing, want %q", k, want[k])
				}
			}
		})
	}
}

func TestHypervisor(t *testing.T) {
	for _, x := range []struct {
		g    map[string]string
		cpu  string
		kern string
		want string
	}{
		{map[string]string{"virt": "kvm\n", "vendor": "Amazon EC2"}, "hypervisor", "", "kvm"},
		{map[string]string{"vendor": "Amazon EC2\n", "product": "m7i.metal-24xl\n"}, "fpu", "", "none"},
		{map[string]string{"vendor": "Amazon EC2\n", "product": "m5.large\n"}, "fpu hypervisor", "", "amazon"},
		{map[string]string{"vendor": "Microsoft Corporation", "product": "Virtual Machine"}, "hypervisor", "", "microsoft"},
		{map[string]string{"vendor": "Microsoft Corporation", "product": "Surface Laptop"}, "fpu", "", "none"},
		{map[string]string{"clocksources": "tsc kvm-clock acpi_pm"}, "hypervisor", "", "kvm"},
		{map[string]string{"xen": "xen\n"}, "", "", "xen"},
		{map[string]string{}, "fpu hypervisor vme", "", "unknown"},
		{map[string]string{"virt": "none\n"}, "", "", "none"},
		{map[string]string{}, "", "5.15.90.1-microsoft-standard-WSL2", "wsl"},
		{map[string]string{}, "", "", ""},
	} {
		cpu := map[string]string{}
		if x.cpu != "" {
			cpu["flags"] = x.cpu
		}
		if got := hypervisor(x.g, cpu, x.kern); got != x.want {
			t.Errorf("%v, flags %q, kernel %q: %q, want %q", x.g, x.cpu, x.kern, got, x.want)
		}
	}
}

func TestMitigations(t *testing.T) {
	for _, x := range []struct{ files, cmdline, want string }{
		{"", "", ""},
		{"a Not affected\nb Not affected\n", "quiet", "none needed"},
		{"b Mitigation: x\na Mitigation: y\nc Vulnerable: no microcode\n", "", "mitigated: a b; vulnerable: c"},
		{"a Vulnerable\n", "ro mitigations=off quiet", "mitigations=off; vulnerable: a"},
		{"mds Unknown: No mitigations\na Not affected\n", "", "unknown: mds"},
		{"itlb_multihit Processor vulnerable\nmds Unknown: Dependent on hypervisor status\nb Mitigation: x\n", "", "mitigated: b; vulnerable: itlb_multihit; unknown: mds"},
		{"itlb_multihit KVM: Mitigation: VMX disabled\n", "", "mitigated: itlb_multihit"},
	} {
		if got := mitigations(x.files, x.cmdline); got != x.want {
			t.Errorf("%q: %q, want %q", x.files, got, x.want)
		}
	}
}

func TestCountList(t *testing.T) {
	for s, want := range map[string]int{"0-3,8,10-11\n": 7, "0": 1, "": 0, "x": 0, "3-1": 0, "0-127": 128} {
		if got := countList(s); got != want {
			t.Errorf("countList(%q) = %d, want %d", s, got, want)
		}
	}
}

func TestEnvironmentFails(t *testing.T) {
	dead := errors.New("connection lost")
	if _, err := Environment(t.Context(), wordy{there, "", dead}); !errors.Is(err, dead) {
		t.Errorf("dead machine: %v", err)
	}
	// Malformed recordings yield no facts except os, and cause no panic.
	for _, out := range []string{"", "@@", "@@uname", "@@uname\nDarwin\n@@darwin\n", "@@cpuinfo\n:::\n@@meminfo\nMemTotal: x kB\n@@cpu.max\nmax\n@@online\n-\n"} {
		got := environment(recorded(out))
		delete(got, "os")
		if len(got) > 0 {
			t.Errorf("%q: %v", out, got)
		}
	}
}
