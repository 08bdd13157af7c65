package probe

import (
	"context"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"iotax"
)

// For a remote machine, the watch returns the counters of that machine's device, and its steal time, but not its other
// CPU times.
func TestInside(t *testing.T) {
	dir, device := loopMount(t, false)
	facts, err := Place(t.Context(), there, dir)
	if err != nil {
		t.Fatal(err)
	}
	w, err := start(t.Context(), &iotax.Target{Machine: there, Place: iotax.Place{Path: dir, Facts: facts}}, thisHost, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	const n = 4 << 20
	writeDirect(t, filepath.Join(dir, "x"), n)
	time.Sleep(50 * time.Millisecond) // some ticks of the CPU counters
	seen, err := w.Stop(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	v := byName(seen.Values)
	if got := v["machine.device.write.bytes"]; got < n || got > 3*n {
		t.Errorf("%s wrote %v of %d", device, got, n)
	}
	for name := range v {
		if strings.HasPrefix(name, "device.") || strings.HasPrefix(name, "cpu.host.") || strings.HasPrefix(name, "own.") {
			t.Errorf("%s beside a machine that has nothing to do with this host", name)
		}
	}
	if s, ok := v["cpu.machine.steal"]; !ok || s < 0 || s > 1 {
		t.Errorf("cpu.machine.steal = %v, %v", s, ok)
	}
	if len(v) != 8 {
		t.Errorf("values %v", seen.Values)
	}
	// Without a block device, only the CPU counters are read. A machine that does not answer has no counters.
	if s := inside(t.Context(), &iotax.Target{Machine: there}); len(s.disks) != 0 || !s.cpuOK {
		t.Errorf("%+v", s)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if s := inside(ctx, &iotax.Target{Machine: mute{there}}); !reflect.DeepEqual(s, snapshot{disks: map[string]diskStat{}}) {
		t.Errorf("%+v", s)
	}
}
