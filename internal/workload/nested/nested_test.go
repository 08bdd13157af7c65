package nested

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"iotax"
	"iotax/internal/machine/host"
)

// The jobs that run in the guest, on this host.
func TestMeasureFio(t *testing.T) {
	base, err := os.MkdirTemp("/var/tmp", "iotax-test-") // on a disk: tmpfs may refuse direct I/O
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(base)
	dir := filepath.Join(base, "job")
	j := Job{Size: 4 << 20, Each: 300 * time.Millisecond, Seed: 7}
	for _, c := range []struct{ rw, bs, depth, value string }{
		{"write", "1M", "8", iotax.ValueWriteBandwidth},
		{"randread", "4k", "1", iotax.ValueReadIOPS},
	} {
		v, err := measureFio(t.Context(), host.Local(), j, dir, c.rw, c.bs, c.depth, c.value)
		if err != nil || v.Value <= 0 {
			t.Errorf("%s: %+v, %v", c.rw, v, err)
		}
		if _, err := os.Stat(dir); !os.IsNotExist(err) {
			t.Errorf("%s: the directory is left: %v", c.rw, err)
		}
	}
	if _, err := measureFio(t.Context(), host.Local(), j, dir, "sideways", "4k", "1", iotax.ValueReadIOPS); err == nil {
		t.Error("fio took an unknown direction")
	} else {
		t.Log(err)
	}
}
