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

func TestParseCounters(t *testing.T) {
	for _, line := range []string{"", "cpu", "cpu 1 2 3 4 5 6 7", "cpu 1 2 3 4 5 6 7 x", "cpu0 1 2 3 4 5 6 7 8"} {
		if st, ok := parseCPU(line); ok {
			t.Errorf("%q: %+v", line, st)
		}
	}
	if st, ok := parseCPU("cpu  100 200 300 400 500 600 700 800 900 1000"); !ok || st.User != 1 || st.Steal != 8 {
		t.Errorf("%+v, %v", st, ok)
	}
	for _, line := range []string{"", "1 2 3", "1 2 3 4 5 6 7 8 9 10 -1"} {
		if st, ok := parseDisk(line); ok {
			t.Errorf("%q: %+v", line, st)
		}
	}
	if st, ok := parseDisk("1 2 3 4 5 6 7 8 9 10 11"); !ok || st.ReadIOs != 1 || st.ReadSectors != 3 || st.WriteIOs != 5 || st.WriteSectors != 7 || st.flushes {
		t.Errorf("%+v, %v", st, ok)
	}
	if st, ok := parseDisk("1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17"); !ok || st.FlushRequestsCompleted != 16 || !st.flushes {
		t.Errorf("%+v, %v", st, ok)
	}
}

// A machine elsewhere is asked for the counters of its own device, and for what was stolen of its CPUs;
// its view of the rest of its CPU time is left out.
func TestInside(t *testing.T) {
	dir, device := loopMount(t, false)
	facts, err := Place(t.Context(), there, dir)
	if err != nil {
		t.Fatal(err)
	}
	w, err := Start(t.Context(), &iotax.Target{Machine: there, Place: iotax.Place{Path: dir, Facts: facts}})
	if err != nil {
		t.Fatal(err)
	}
	const n = 4 << 20
	writeDirect(t, filepath.Join(dir, "x"), n)
	time.Sleep(50 * time.Millisecond) // some ticks of the counters of CPU time
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
	// A place without a block device, and a machine that is gone.
	if s := inside(t.Context(), &iotax.Target{Machine: there}); len(s.disks) != 0 || !s.cpuOK {
		t.Errorf("%+v", s)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if s := inside(ctx, &iotax.Target{Machine: mute{there}}); !reflect.DeepEqual(s, snapshot{disks: map[string]diskStat{}}) {
		t.Errorf("%+v", s)
	}
}
