package probe

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"iotax/internal/leftover"
	"iotax/internal/machine/host"
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
	undo, found, err := fs.setGovernor("performance", "")
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
	undo, found, err := fs.setGovernor("performance", "")
	if err != nil || len(found) != 1 || found[0].Rule != "no-governor" || now() != "powersave" || undo() != nil {
		t.Errorf("%v, %v, %s", found, err, now())
	}
	undo, found, err = system{sys: t.TempDir()}.setGovernor("performance", "")
	if undo != nil || err != nil || len(found) != 1 || !strings.Contains(found[0].Evidence, "no cpufreq") {
		t.Errorf("without cpufreq: %v, %v", found, err)
	}
}

// Of two runs at the same time, only one sets the governor. Otherwise the second run would take the governor of the
// first for the earlier one, and the first run would restore the governor while the second measures.
func TestGovernorOfTwoRuns(t *testing.T) {
	fs, now := cpufreq(t, "powersave performance", "powersave", "powersave")
	undo, _, err := fs.setGovernor("performance", "")
	if err != nil {
		t.Fatal(err)
	}
	if second, _, err := fs.setGovernor("performance", ""); err == nil || second != nil || !strings.Contains(err.Error(), "another run") || now() != "performance performance" {
		t.Errorf("the second run: error %v, %s", err, now())
	}
	if err := undo(); err != nil || now() != "powersave powersave" {
		t.Errorf("restored to %s (%v)", now(), err)
	}
	if undo, _, err = fs.setGovernor("performance", ""); err != nil || undo() != nil {
		t.Errorf("the next run: %v", err)
	}
}

// After a crash, the governors are restored, except where another program has changed them since.
func TestGovernorOfCrashedRun(t *testing.T) {
	fs, now := cpufreq(t, "powersave performance ondemand", "powersave", "performance", "powersave")
	dir := t.TempDir()
	work := filepath.Join(dir, "iotax-died")
	l := leftover.Label{Run: "r", Runner: leftover.Self()}
	l.Runner.Start++ // the runner counts as dead
	if err := errors.Join(os.Mkdir(work, 0o700), os.WriteFile(filepath.Join(work, leftover.Marker), []byte(l.String()+"\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	find := func() []leftover.Item {
		items, err := fs.governorLeft(t.Context(), leftover.Place{Machine: host.Local(), Dirs: []string{dir}})
		if err != nil {
			t.Fatal(err)
		}
		return items
	}
	undo, _, err := fs.setGovernor("performance", work)
	if err != nil {
		t.Fatal(err)
	}
	items := find()
	if len(items) != 1 || items[0].Label != l {
		t.Fatalf("found %+v", items)
	}
	if err := items[0].End(t.Context()); err == nil || now() != "performance performance performance" {
		t.Errorf("restored while a run uses it: %s, %v", now(), err)
	}
	if err := undo(); err != nil || len(find()) > 0 {
		t.Errorf("after the run: %+v, %v", find(), err)
	}

	if undo, _, err = fs.setGovernor("performance", work); err != nil {
		t.Fatal(err)
	}
	note := filepath.Join(work, "made-governor-iotax-governor")
	text, err := os.ReadFile(note)
	if err != nil {
		t.Fatal(err)
	}
	if err := undo(); err != nil { // releases the lock, as a crash would
		t.Fatal(err)
	}
	for i, g := range []string{"performance", "performance", "ondemand"} {
		if err := os.WriteFile(filepath.Join(fs.sys, "devices/system/cpu/cpufreq", "policy"+string(rune('0'+i)), "scaling_governor"), []byte(g), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(note, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := find()[0].End(t.Context()); err != nil || now() != "powersave performance ondemand" || len(find()) > 0 {
		t.Errorf("%v: %s, left %+v", err, now(), find())
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
	undo, _, err := fs.setGovernor("performance", "")
	if err == nil || !strings.Contains(err.Error(), second) {
		t.Fatalf("error %v", err)
	}
	if err := undo(); err != nil || !strings.HasPrefix(now(), "powersave ") {
		t.Errorf("restored to %s (%v)", now(), err)
	}
	first := filepath.Join(fs.cpufreq(), "policy0/scaling_governor")
	if err := errors.Join(os.Remove(first), os.Symlink("/proc/version", first)); err != nil {
		t.Fatal(err)
	}
	if undo, _, err = fs.setGovernor("performance", ""); err == nil || undo() != nil {
		t.Errorf("without permission: %v", err)
	}
}
