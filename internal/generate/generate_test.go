package generate

import (
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"iotax"
)

// The middle of a bin differs from the observed value by at most 1/128 of that value. The mean is exact.
func TestRecorder(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var rec recorder
	var sum time.Duration
	for range 100_000 {
		ns := r.Uint64() >> (1 + r.UintN(63))
		if got := middle(binOf(ns)); got < float64(ns)*(1-1./128) || got > float64(ns)*(1+1./128) {
			t.Fatalf("%d ns counts as %g", ns, got)
		}
		d := time.Duration(ns % 1e9)
		rec.add(d)
		sum += d
	}
	rec.add(-1)
	var out Result
	rec.into(&out, "x")
	var n uint64
	last := -1.
	for _, b := range out.Histograms[0].Bins {
		if n += b.Count; b.Value <= last || b.Count == 0 {
			t.Fatalf("bin %+v after %g", b, last)
		}
		last = b.Value
	}
	if n != 100_001 || out.Values[0].Name != "x.latency.mean" || out.Values[0].Value != sum.Seconds()/100_001 {
		t.Errorf("%d of 100001, %+v", n, out.Values)
	}
}

func values(r *Result) map[string]float64 {
	all := map[string]float64{}
	for _, v := range r.Values {
		all[v.Name] = v.Value
	}
	return all
}

// metadata applies each operation to all files or directories of a tree, for trees of several shapes.
func TestMetadata(t *testing.T) {
	for name, tree := range map[string]Tree{
		"flat":        {Files: 100, Directories: 7, Depth: 1, Workers: 1, Size: 4096, Symlinks: true},
		"deep":        {Files: 50, Directories: 9, Depth: 4, Workers: 4, Size: 100, Symlinks: true},
		"no links":    {Files: 20, Directories: 3, Depth: 2, Workers: 2, Size: 16},
		"few":         {Files: 1, Directories: 1, Depth: 3, Workers: 8, Size: 1 << 20, Symlinks: true},
		"empty ones":  {Files: 3, Directories: 10, Depth: 1, Workers: 3, Size: 16, Symlinks: true},
		"cold, if so": {Files: 10, Directories: 2, Depth: 1, Workers: 1, Size: 16, Cold: true},
	} {
		t.Run(name, func(t *testing.T) {
			tree.Dir, tree.Seed = filepath.Join(t.TempDir(), "w"), 5
			for range 2 { // the second pass replaces the tree of the first
				if _, err := makeTree(t.Context(), tree); err != nil {
					t.Fatal(err)
				}
				out, err := metadata(t.Context(), tree)
				if err != nil {
					t.Fatal(err)
				}
				links := 0
				if tree.Symlinks {
					links = tree.Files
				}
				want := 7*tree.Files + 2*links + 3*tree.Directories
				if v := values(out); int(v["operations"]) != want || v["duration"] <= 0 || v["create.rate"] <= 0 || v["rename.latency.mean"] <= 0 {
					t.Errorf("%d operations expected: %v", want, v)
				}
				if out.Calls["renameat"] != tree.Files || out.Calls["symlinkat"] != links || out.Calls["openat"] != 2*tree.Files+tree.Directories || out.Calls["close"] != out.Calls["openat"] {
					t.Errorf("calls: %v", out.Calls)
				}
				if _, there := out.Facts[FactNames]; there != tree.Cold {
					t.Errorf("facts: %v", out.Facts)
				}
			}
		})
	}
}

// The error for a lost, changed or added file describes the damage.
func TestMetadataFindsDamage(t *testing.T) {
	for name, c := range map[string]struct {
		harm func(file string) error
		says string
	}{
		"lost":     {os.Remove, "no such file"},
		"changed":  {func(f string) error { return os.WriteFile(f, make([]byte, 64), 0o600) }, "does not hold what was written"},
		"longer":   {func(f string) error { return os.Truncate(f, 65) }, "does not hold what was written"},
		"one more": {func(f string) error { return os.WriteFile(f+"x", nil, 0o600) }, "lists 6 names in place of 5"},
		"invented": {func(f string) error { return os.Mkdir(f+".none", 0o700) }, "was never created"},
	} {
		t.Run(name, func(t *testing.T) {
			tree := Tree{Dir: filepath.Join(t.TempDir(), "w"), Files: 10, Directories: 2, Depth: 1, Workers: 1, Size: 64}
			if _, err := makeTree(t.Context(), tree); err != nil {
				t.Fatal(err)
			}
			files, _ := tree.paths("old")
			if err := c.harm(files[4]); err != nil {
				t.Fatal(err)
			}
			if _, err := metadata(t.Context(), tree); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v", err)
			}
		})
	}
}

// The log fills one segment after the other and keeps the last five. verify finds a changed byte and a truncated
// segment.
func TestJournal(t *testing.T) {
	dir := t.TempDir()
	j := &journal{dir: dir, size: 4096}
	j.allocate()
	if err := j.cut(); err != nil {
		t.Fatal(err)
	}
	entry := make([]byte, 1000)
	const n = 100 // four in each segment
	for i := range uint64(n) {
		entry[20] = byte(i)
		seal(entry, i+1)
		if _, err := j.append(entry); err != nil {
			t.Fatal(err)
		}
	}
	j.close()
	if all, _ := filepath.Glob(filepath.Join(dir, "*.wal")); len(all) != segments || j.number != n/4-1 {
		t.Errorf("segment %d, %v", j.number, all)
	}
	if err := j.verify(entry); err != nil {
		t.Error(err)
	}
	last := j.name(j.number)
	b, err := os.ReadFile(last)
	if err != nil || len(b) != 4096 {
		t.Fatal(len(b), err)
	}
	b[3500]++
	if err := os.WriteFile(last, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := j.verify(entry); err == nil || !strings.Contains(err.Error(), "entry 100 is not what was written") {
		t.Error(err)
	}
	if err := os.Truncate(last, 100); err != nil {
		t.Fatal(err)
	}
	if err := j.verify(entry); err == nil {
		t.Error("a lost segment is not found")
	}
}

func TestEtcd(t *testing.T) {
	dir := t.TempDir()
	e := Etcd{Dir: filepath.Join(dir, "w"), Entry: 2300, Keys: 100, Seed: 3, Ramp: 100 * time.Millisecond, Length: 500 * time.Millisecond}
	out, err := doEtcd(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	v := values(out)
	if v["write.iops"] <= 0 || v["sync.latency.mean"] >= v["request.latency.mean"] || v["commit.latency.mean"] <= 0 {
		t.Errorf("%v", v)
	}
	var flushes, requests uint64
	for _, h := range out.Histograms {
		for _, b := range h.Bins {
			switch h.Name {
			case "sync.latency":
				flushes += b.Count
			case "request.latency":
				requests += b.Count
			}
		}
	}
	if flushes != requests || float64(requests*2300) != v["write.bytes"] {
		t.Errorf("%d flushes, %d requests, %v", flushes, requests, v)
	}
	var used int64
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			st, _ := d.Info()
			used += st.Size()
		}
		return err
	})
	if err != nil || used > e.Space() {
		t.Errorf("%d bytes, %d announced (%v)", used, e.Space(), err)
	}
	// A second call replaces the files of the first. A directory that cannot be created is an error.
	if _, err := doEtcd(t.Context(), e); err != nil {
		t.Error(err)
	}
	e.Dir = filepath.Join(dir, "no", "such")
	var said *iotax.Error
	if _, err := doEtcd(t.Context(), e); !errors.As(err, &said) || said.Op != "make directory" {
		t.Error(err)
	}
}
