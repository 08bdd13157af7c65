package generate

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The records are large, so that the log can recycle its segments. Checkpoints are frequent.
func TestWAL(t *testing.T) {
	for _, method := range Methods {
		t.Run(method, func(t *testing.T) {
			w := WAL{Dir: filepath.Join(t.TempDir(), "w"), Committers: 16, Record: 200_000, Pages: 128, Method: method, Checkpoint: 50 * time.Millisecond, Seed: 9,
				Ramp: 50 * time.Millisecond, Length: 300 * time.Millisecond}
			if _, err := tryWAL(t.Context(), w); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if _, err := makeWAL(t.Context(), w); err != nil {
					t.Fatal(err)
				}
				out, err := doWAL(t.Context(), w)
				if err != nil {
					t.Fatal(err)
				}
				v := values(out)
				if v["transactions.rate"] <= 0 || v["transactions.per-sync"] < 1 || v["transactions.per-sync"] > 17 || v["sync.latency.mean"] > v["commit.latency.mean"] {
					t.Errorf("%v", v)
				}
				if rate := v["transactions.per-sync"] * v["write.iops"]; rate < .999*v["transactions.rate"] || rate > 1.001*v["transactions.rate"] {
					t.Errorf("%v", v)
				}
			}
			var used int64
			all, err := os.ReadDir(w.Dir)
			for _, f := range all {
				st, _ := f.Info()
				used += st.Size()
			}
			if err != nil || used != w.Space() {
				t.Errorf("%d bytes, %d announced (%v)", used, w.Space(), err)
			}
		})
	}
}

// verify finds a damaged log and a damaged page.
func TestWALFindsDamage(t *testing.T) {
	w := WAL{Dir: filepath.Join(t.TempDir(), "w"), Committers: 1, Record: 1 << 20, Pages: 128, Method: "fdatasync", Checkpoint: time.Minute, Length: time.Minute}
	if _, err := makeWAL(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	l, err := openWAL(w)
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	body, image := make([]byte, w.Record-headSize), make([]byte, walPage)
	for i := range 100 { // about 101 MiB, up to segment 6
		if err := l.commit(l.insert(i, body, image)); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.checkpoint(0, nil); err != nil {
		t.Fatal(err)
	}
	if err := l.verify(); err != nil || l.number != 6 {
		t.Fatalf("segment %d, %v", l.number, err)
	}
	harm := func(name string, at int64, says string) {
		t.Helper()
		path := filepath.Join(w.Dir, name)
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		b := make([]byte, 1)
		change := func() {
			_, err := f.ReadAt(b, at)
			b[0]++
			if _, e := f.WriteAt(b, at); err != nil || e != nil {
				t.Fatal(err, e)
			}
		}
		change()
		if err := l.verify(); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s at %d: %v", name, at, err)
		}
		b[0]--
		if _, err := f.WriteAt(b, at); err != nil {
			t.Fatal(err)
		}
	}
	harm(segmentName(4), 5_000_000, "is not what was written")
	if err := os.Rename(filepath.Join(w.Dir, segmentName(3)), filepath.Join(w.Dir, "gone")); err != nil {
		t.Fatal(err)
	}
	if err := l.verify(); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Error(err)
	}
	if err := os.Rename(filepath.Join(w.Dir, "gone"), filepath.Join(w.Dir, segmentName(3))); err != nil {
		t.Fatal(err)
	}
	harm("data", 40*walPage+9, "page 40 is not")
}
