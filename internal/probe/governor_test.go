package probe

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// cpufreq makes the files of a host whose CPUs have these governors. The returned function returns the current
// governors.
func cpufreq(t *testing.T, available string, governors ...string) (system, func() string) {
	t.Helper()
	fs := system{sys: t.TempDir()}
	var files []string
	for i, g := range governors {
		dir := filepath.Join(fs.sys, "devices/system/cpu/cpufreq", "policy"+string(rune('0'+i)))
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		for name, text := range map[string]string{"scaling_governor": g + "\n", "scaling_available_governors": available + "\n"} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		files = append(files, filepath.Join(dir, "scaling_governor"))
	}
	return fs, func() string {
		var now []string
		for _, f := range files {
			b, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			now = append(now, strings.TrimSpace(string(b)))
		}
		return strings.Join(now, " ")
	}
}

func TestGovernorIsSetAndRestored(t *testing.T) {
	fs, now := cpufreq(t, "powersave performance", "powersave", "performance", "powersave")
	undo, found, err := fs.setGovernor("performance")
	if err != nil || len(found) > 0 {
		t.Fatalf("%v, %v", found, err)
	}
	if now() != "performance performance performance" {
		t.Errorf("they are %s", now())
	}
	if err := undo(); err != nil || now() != "powersave performance powersave" {
		t.Errorf("restored to %s (%v)", now(), err)
	}
}

func TestGovernorThatIsNotThere(t *testing.T) {
	fs, now := cpufreq(t, "powersave", "powersave")
	undo, found, err := fs.setGovernor("performance")
	if err != nil || len(found) != 1 || found[0].Rule != "no-governor" || now() != "powersave" || undo() != nil {
		t.Errorf("%v, %v, %s", found, err, now())
	}
	undo, found, err = system{sys: t.TempDir()}.setGovernor("performance")
	if undo != nil || err != nil || len(found) != 1 || !strings.Contains(found[0].Evidence, "no cpufreq") {
		t.Errorf("without cpufreq: %v, %v", found, err)
	}
}

// Of two runs at the same time, only one sets the governor. Otherwise the second run would keep the governor of the first
// as the earlier one, and the first run would restore the governor while the second measures.
func TestGovernorOfTwoRuns(t *testing.T) {
	fs, now := cpufreq(t, "powersave performance", "powersave", "powersave")
	undo, _, err := fs.setGovernor("performance")
	if err != nil {
		t.Fatal(err)
	}
	if second, _, err := fs.setGovernor("performance"); err == nil || second != nil || !strings.Contains(err.Error(), "another run") || now() != "performance performance" {
		t.Errorf("the second run: error %v, %s", err, now())
	}
	if err := undo(); err != nil || now() != "powersave powersave" {
		t.Errorf("restored to %s (%v)", now(), err)
	}
	if undo, _, err = fs.setGovernor("performance"); err != nil || undo() != nil {
		t.Errorf("the next run: %v", err)
	}
}

// If the governor of one CPU cannot be set, setGovernor returns an error, and undo restores the other CPUs.
func TestGovernorHalfWay(t *testing.T) {
	fs, now := cpufreq(t, "powersave performance", "powersave", "powersave")
	second := filepath.Join(fs.sys, "devices/system/cpu/cpufreq/policy1/scaling_governor")
	if err := os.Remove(second); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/proc/version", second); err != nil { // not even root can write to it
		t.Fatal(err)
	}
	undo, _, err := fs.setGovernor("performance")
	if err == nil || !strings.Contains(err.Error(), second) {
		t.Fatalf("error %v", err)
	}
	if err := undo(); err != nil || !strings.HasPrefix(now(), "powersave ") {
		t.Errorf("restored to %s (%v)", now(), err)
	}
}
