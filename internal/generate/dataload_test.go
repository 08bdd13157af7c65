package generate

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestDataload(t *testing.T) {
	d := Dataload{Dir: filepath.Join(t.TempDir(), "w"), Shards: 3, Records: 11, Size: 10_000, Workers: 4, Batch: 5, Step: 5 * time.Millisecond, Checkpoint: 3 << 20, Seed: 2}
	made := func() {
		t.Helper()
		if _, err := makeShards(t.Context(), d); err != nil {
			t.Fatal(err)
		}
	}
	made()
	out, err := doDataload(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	v := values(out)
	if v["duration"] < .035 || v["step.latency.mean"] < .005 || v["waited.share"] < 0 || v["waited.share"] > 1 || v["read.bytes"] != 330_000 || v["checkpoint.write.duration"] <= 0 || v["checkpoint.read.duration"] <= 0 {
		t.Errorf("%v", v)
	}
	for _, h := range out.Histograms {
		var n uint64
		for _, b := range h.Bins {
			n += b.Count
		}
		if want := map[string]uint64{"step.latency": 7, "record.latency": 33}[h.Name]; n != want {
			t.Errorf("%d of %d %s", n, want, h.Name)
		}
	}
	var used int64
	err = filepath.Walk(d.Dir, func(_ string, st os.FileInfo, err error) error {
		if err == nil {
			used += st.Size()
		}
		return err
	})
	if err != nil || used > d.Space() {
		t.Errorf("%d bytes, %d announced (%v)", used, d.Space(), err)
	}
	for says, harm := range map[string]func() error{
		"does not hold what was": func() error { return os.WriteFile(d.shard(1), make([]byte, 110_000), 0o600) },
		"EOF":                    func() error { return os.Truncate(d.shard(2), 105_000) },
		"no such file":           func() error { return os.Remove(d.shard(0)) },
		"write a checkpoint":     func() error { return os.Mkdir(filepath.Join(d.Dir, "checkpoint"), 0o700) },
	} {
		made()
		if err := harm(); err != nil {
			t.Fatal(err)
		}
		if _, err := doDataload(t.Context(), d); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
	}
}
