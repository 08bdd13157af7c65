package input

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"

	"iotax"
	"iotax/internal/rules/lint"
)

// A container's memory limit counts if it is below the memory of the host.
func TestMemoryLimit(t *testing.T) {
	for limit, want := range map[string]int64{"": 8 << 30, "512 MiB": 512 << 20, "16 GiB": 8 << 30} {
		if got := memoryOf(map[string]string{iotax.FactMemoryBytes: "8589934592", iotax.FactMemoryLimit: limit}); got != want {
			t.Errorf("limit %q: %d, want %d", limit, got, want)
		}
	}
}

func TestHeld(t *testing.T) {
	const lsblk = `{"blockdevices": [
		{"name": "/dev/sda", "type": "disk", "fstype": null, "pttype": "gpt", "mountpoint": null, "children": [
			{"name": "/dev/sda1", "type": "part", "fstype": "vfat", "pttype": "gpt", "mountpoint": "/boot/efi"},
			{"name": "/dev/sda2", "type": "part", "fstype": "LVM2_member", "pttype": "gpt", "mountpoint": null, "children": [
				{"name": "/dev/mapper/vg-root", "type": "lvm", "fstype": "ext4", "pttype": null, "mountpoint": "/"}]}]},
		{"name": "/dev/sdb", "type": "disk", "fstype": null, "pttype": null, "mountpoint": null},
		{"name": "/dev/sdc", "type": "disk", "fstype": "linux_raid_member", "pttype": null, "mountpoint": null, "children": [
			{"name": "/dev/md0", "type": "raid1", "fstype": null, "pttype": null, "mountpoint": null}]},
		{"name": "/dev/zram0", "type": "disk", "fstype": "swap", "pttype": null, "mountpoint": "[SWAP]"}]}`
	for device, want := range map[string][]string{
		"/dev/sda":   {"a partition table (gpt)", "mounted at /boot/efi on /dev/sda1", "LVM2_member on /dev/sda2", "mounted at / on /dev/mapper/vg-root"},
		"/dev/sda2":  {"LVM2_member", "mounted at / on /dev/mapper/vg-root"},
		"/dev/sdb":   nil,
		"/dev/sdc":   {"linux_raid_member", "/dev/md0 (raid1) on it"},
		"/dev/zram0": {"swap"},
		"/dev/none":  nil,
	} {
		if got := held([]byte(lsblk), device); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", device, got, want)
		}
	}
}

// A document that quotes a plan is not linted as a plan.
func TestLintOfTheDocs(t *testing.T) {
	docs, err := filepath.Glob("../../../../docs/*/*.md")
	if err != nil || len(docs) < 10 {
		t.Fatal(docs, err)
	}
	for _, name := range append(docs, "../../../../README.md") {
		l := &Reader{}
		if err := l.Lint(name); err != nil && !strings.Contains(err.Error(), "it contains no fio command") && !strings.Contains(err.Error(), "it is not a job file") {
			t.Error(err)
		}
		for _, f := range l.Found {
			if f.Rule == "not-a-plan" {
				t.Errorf("%s:%d: %s: %s", name, f.Line, f.Rule, f.Evidence)
			}
		}
	}
}

// No line is wider than the terminal, and the output contains no control sequence from a finding.
func TestFindingsFitTheTerminal(t *testing.T) {
	found := []lint.Finding{
		{Finding: iotax.Finding{Rule: "libaio-buffered", Severity: iotax.Warning, Evidence: strings.Repeat("evidence ", 40), Hint: strings.Repeat("hint ", 50), File: "a.fio", Line: 3, Column: 70},
			Source: strings.Repeat("0123456789", 30), Width: 200},
		{Finding: iotax.Finding{Rule: "size-units", Severity: iotax.Invalid, Evidence: "日本語 " + strings.Repeat("長い", 80)}, Source: "\tbs=4KiB"},
		{Finding: iotax.Finding{Rule: "short-run", Severity: iotax.Info, Evidence: "a\x1b[31mb\u202ec", File: "x\x1b[2J"}},
	}
	for _, width := range []int{80, 120} {
		for _, color := range []bool{false, true} {
			w := &findingWriter{width: width, color: color, explained: map[string]bool{}}
			for _, f := range found {
				w.finding(f)
			}
			w.summary(found)
			for line := range strings.Lines(w.String()) {
				line = strings.TrimRight(line, "\n")
				if n := ansi.StringWidth(line); n > width {
					t.Errorf("%d columns of %d: %q", n, width, line)
				}
				if !color && strings.Contains(line, "\x1b") || strings.Contains(line, "\x1b[2J") || strings.Contains(line, "\u202e") || strings.Contains(line, "\x1b[m") {
					t.Errorf("a control sequence came through: %q", line)
				}
			}
			if !strings.Contains(ansi.Strip(w.String()), "1 error, 1 warning, 1 note; more about a rule: iotax lint --explain size-units") {
				t.Errorf("no summary: %s", w.String())
			}
		}
	}
}
