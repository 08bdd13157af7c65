package generate

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

func TestBuild(t *testing.T) {
	b := Build{Dir: filepath.Join(t.TempDir(), "w"), Sources: 45, Headers: 7, Includes: 5, Jobs: 2, Compile: time.Millisecond, Seed: 4}
	made := func() {
		t.Helper()
		if _, err := makeSources(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	made()
	out, err := doBuild(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	v := values(out)
	if v["compile.latency.mean"] < .001 || v["duration"] < .045/2 || v["nothing.duration"] > v["duration"] || v["compute.share"] <= 0 || v["compute.share"] > 1 {
		t.Errorf("%v", v)
	}
	var used int64
	err = filepath.Walk(b.Dir, func(_ string, st os.FileInfo, err error) error {
		if err == nil {
			used += st.Size()
		}
		return err
	})
	if err != nil || used > b.Space() {
		t.Errorf("%d bytes, %d announced (%v)", used, b.Space(), err)
	}
	archived := filepath.Join(b.Dir, archive)
	content := newFiller(b.Seed, objectSize)
	for says, harm := range map[string]func() error{
		"object 44": func() error { return os.Truncate(archived, 44*objectSize) },
		"object 0":  func() error { return os.WriteFile(archived, make([]byte, 45*objectSize), 0o600) },
	} {
		if err := harm(); err != nil {
			t.Fatal(err)
		}
		if err := b.verify(content); err == nil || !strings.Contains(err.Error(), says) && says == "object 0" {
			t.Errorf("%s: %v", says, err)
		}
	}
	for says, harm := range map[string]func() error{
		"no such file":           func() error { return os.Remove(b.source(40)) },
		"does not hold what was": func() error { return os.WriteFile(b.header(0, 0), make([]byte, headerSize), 0o600) },
		"was never created":      func() error { return os.WriteFile(b.header(0, 5), nil, 0o600) },
		"make the archive":       func() error { return os.WriteFile(archived, nil, 0o600) },
		"compile":                func() error { return os.WriteFile(b.object(3), nil, 0o600) },
	} {
		made()
		if err := harm(); err != nil {
			t.Fatal(err)
		}
		if _, err := doBuild(t.Context(), b); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
	}
}

// With more jobs than CPUs, the CPUs may compile all the time, but compute.share does not exceed 1.
func TestBuildShareOfFewCPUs(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	b := Build{Dir: filepath.Join(t.TempDir(), "w"), Sources: 40, Headers: 1, Jobs: 40, Compile: 10 * time.Millisecond}
	if _, err := makeSources(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	out, err := doBuild(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	if share := values(out)["compute.share"]; share < .05 || share > 1.01 {
		t.Errorf("%.3g of the time", share)
	}
}
