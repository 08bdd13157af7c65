package input

import (
	"context"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"iotax"
	"iotax/internal/kinds"
	"iotax/internal/plan"
	"iotax/internal/rules"
	"iotax/internal/rules/lint"
)

// lint finds the file system on a device that a command would overwrite.
func TestHolds(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root for a loop device")
	}
	image := t.TempDir() + "/image"
	run := func(args ...string) string {
		t.Helper()
		out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	run("truncate", "-s", "8M", image)
	loop := run("losetup", "--find", "--show", image)
	t.Cleanup(func() { run("losetup", "--detach", loop) })
	if held := holds(context.Background(), loop); held != "" {
		t.Errorf("an empty device holds %q", held)
	}
	run("mke2fs", "-q", "-t", "ext4", loop)
	if held := holds(context.Background(), loop); !strings.Contains(held, "ext4") {
		t.Errorf("a device with ext4 holds %q", held)
	}
	l := &Reader{Facts: Here(t.Context())}
	if err := l.Lint("fio --name=a --rw=randwrite --direct=1 --filename=" + loop); err != nil ||
		!slices.ContainsFunc(l.Found, func(f lint.Finding) bool { return f.Rule == "device-overwritten" && f.Severity == iotax.Invalid }) {
		t.Errorf("%v: %+v", err, l.Found)
	}
}

// A job that writes more than this machine's memory is not reported as overwriting its file in the cache.
func TestPlanBeyondMemory(t *testing.T) {
	for size, want := range map[string]bool{"1MiB": true, "1000TiB": false} {
		p, err := plan.Parse("p.yaml", []byte("targets: {a: {dir: /tmp}}\nworkloads: {w: {fio: {rw: write, direct: 0, size: "+size+"}}}\n"), kinds.All())
		if err != nil {
			t.Fatal(err)
		}
		found := slices.ContainsFunc(Plan(t.Context(), p), func(f lint.Finding) bool { return f.Rule == rules.OverwrittenInCache.ID })
		if found != want {
			t.Errorf("%s: found is %v", size, found)
		}
	}
}
