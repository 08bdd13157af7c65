package container

import (
	"os"
	"path/filepath"
	"testing"
)

// deviceBytes finds the counters in both versions of control groups and sums them over all devices.
func TestDeviceBytes(t *testing.T) {
	for name, c := range map[string]struct{ groups, file, text string }{
		"version 2": {"0::/box\n", "box/io.stat", "8:0 rbytes=1000 wbytes=30 rios=192 wios=5\n7:0 rbytes=500 wbytes=12 dbytes=9\n"},
		"version 1": {"4:memory:/x\n3:cpu,blkio:/box\n", "blkio/box/blkio.throttle.io_service_bytes", "8:0 Read 1000\n8:0 Write 42\n7:0 Read 500\n8:0 Total 1042\nTotal 1542\n"},
	} {
		root := t.TempDir()
		path := filepath.Join(root, c.file)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if read, written, ok := deviceBytes(c.groups, root); read != 1500 || written != 42 || !ok {
			t.Errorf("%s: %d, %d, %v", name, read, written, ok)
		}
		if _, _, ok := deviceBytes("5:pids:/box\n", root); ok {
			t.Errorf("%s: counters of a group that has none", name)
		}
	}
}
