package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"iotax"
)

func open(t testing.TB, path string) *Store {
	t.Helper()
	s, err := Open(context.Background(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func fresh(t testing.TB) *Store { return open(t, filepath.Join(t.TempDir(), "iotax.db")) }

func exampleRun(id string) *iotax.Run {
	return &iotax.Run{
		ID: id, Name: "shares in a guest", Version: "0.1", Plan: []byte("name: shares\n"), Seed: math.MaxUint64,
		Start: time.Date(2025, 11, 21, 1, 46, 33, 123456789, time.UTC), Status: iotax.Running,
		Baseline: "host disk", Precision: 0.05, Margin: 0.05,
		Environment:  map[string]string{"kernel": "6.1.0", "cpu.model": "Größe \"x\""},
		Targets:      []iotax.TargetInfo{{Name: "host disk", Machine: "host", Place: "/var/tmp", Durability: iotax.Durable, Facts: map[string]string{"filesystem": "ext4"}, Against: []string{"line"}}},
		Presentation: &iotax.Presentation{Layers: [][]string{{"host disk", "guest"}}, Layout: "tart", Reference: &iotax.Reference{Published: "tart", Targets: map[string]string{"host disk": "local"}}},
		Workloads:    []iotax.WorkloadInfo{{Name: "4k", Kind: "fio", Metrics: []string{"read.iops"}, Cold: true}},
		Findings:     []iotax.Finding{{Rule: "noisy", Severity: iotax.Warning, Evidence: "load 3"}},
		Calibration: &iotax.Calibration{Ratio: 1.002, Lo: 0.99, Hi: 1.014, Rounds: 20, CV: 0.03, Lag1: -0.1, NullIOPS: 1.2e6, Trial: 8 * time.Second,
			At: time.Date(2025, 11, 21, 1, 40, 0, 0, time.UTC), Workload: "randread-4k", Length: 5 * time.Second},
	}
}

// exampleTrial returns a trial as large as a ten-second trial of fio: 16 values, 6 series, 2 histograms, 4 intervals,
// raw output.
func exampleTrial(run string, seq int) *iotax.Trial {
	r := rand.New(rand.NewPCG(uint64(seq), 1))
	t := &iotax.Trial{
		Run: run, Target: []string{"host disk", "virtio-blk", "virtiofs", "9p"}[seq%4], Workload: "4k random read",
		Round: seq / 4, Seq: seq, StartIndex: 1 + seq%3, Seed: r.Uint64(), Ramp: 2 * time.Second, Length: 10 * time.Second, Cold: true,
		Labels: map[string]string{"cache": "none"},
		Start:  time.Date(2025, 11, 21, 2, 0, 0, 1, time.UTC).Add(time.Duration(seq) * 12 * time.Second), Took: 12345678901,
		Facts: map[string]string{"fio": "3.33", "engine": "io_uring", "depth": "32", "file": "/var/tmp/iotax/x"},
	}
	for i := range 16 {
		t.Values = append(t.Values, iotax.Value{Name: fmt.Sprintf("read.v%d", i), Value: r.ExpFloat64() * 1e5, Unit: iotax.PerSecond, Better: iotax.Up})
	}
	for i := range 6 {
		s := iotax.Series{Name: fmt.Sprintf("read.s%d", i), Unit: iotax.BytesPerSecond}
		for k := range 10 {
			s.T, s.V = append(s.T, float64(k+1)), append(s.V, r.ExpFloat64()*1e5)
		}
		t.Series = append(t.Series, s)
	}
	for i := range 2 {
		h := iotax.Histogram{Name: fmt.Sprintf("read.h%d", i), Unit: iotax.Seconds}
		for k := range 200 {
			h.Bins = append(h.Bins, iotax.Bin{Value: float64(k) * 1e-6, Count: r.Uint64N(1e6)})
		}
		t.Histograms = append(t.Histograms, h)
		t.Intervals = append(t.Intervals, iotax.Interval{From: 0.1, To: 1.1, Histogram: h}, iotax.Interval{From: 1.1, To: 2 + r.Float64(), Histogram: h})
	}
	t.Raw = bytes.Repeat([]byte(fmt.Sprintf(`{"fio version":"fio-3.33","jobs":[%d]}`, seq)), 200)
	return t
}

var equal = cmp.Options{cmpopts.EquateNaNs(), cmpopts.EquateEmpty(), cmpopts.IgnoreFields(iotax.Trial{}, "Raw", "Profile")}

func testRoundTrip(t *testing.T, url string) {
	ctx := context.Background()
	s := open(t, url)
	want := exampleRun("251121-014633-7k3")
	if err := s.Create(ctx, want); err != nil {
		t.Fatal(err)
	}
	want.Status, want.End = iotax.Done, want.Start.Add(time.Hour)
	if err := s.Update(ctx, want); err != nil {
		t.Fatal(err)
	}
	trials := []*iotax.Trial{exampleTrial(want.ID, 0), exampleTrial(want.ID, 1), exampleTrial(want.ID, 2)}
	trials[1] = &iotax.Trial{Run: want.ID, Target: "9p", Workload: "w", Seq: 1, Err: "fio: exit status 1", Discarded: "fio failed"}
	odd := trials[2]
	odd.Values = append(odd.Values, iotax.Value{Name: "nan", Value: math.NaN()}, iotax.Value{Name: "inf", Value: math.Inf(1)},
		iotax.Value{Name: "tiny", Value: 5e-324}, iotax.Value{Name: "big", Value: math.MaxFloat64},
		iotax.Value{Name: "inf", Value: 1, Unit: "s", Better: iotax.Down})
	odd.Series[0].V[3] = math.NaN()
	odd.Facts = map[string]string{"odd": "a\x00b\n\"'; DROP TABLE trials; --", "ünï": "日本"}
	odd.Findings = []iotax.Finding{{Rule: "cache-served", Severity: iotax.Invalid, Evidence: "0.1", Hint: "m", File: "f", Line: 1, Column: 2}}
	odd.Raw = make([]byte, 3<<20)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range odd.Raw {
		odd.Raw[i] = byte(r.Uint32())
	}
	for _, x := range trials {
		if err := s.Append(ctx, x); err != nil {
			t.Fatal(err)
		}
	}
	odd.Values[len(odd.Values)-4].Value = math.NaN() // a store reads infinity back as NaN
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}

	s = open(t, url)
	got, err := s.Get(ctx, want.ID)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got, equal); d != "" {
		t.Errorf("run (-want +got):\n%s", d)
	}
	runs, err := s.Runs(ctx)
	if err != nil || len(runs) != 1 {
		t.Fatalf("Runs: %d, %v", len(runs), err)
	}
	if d := cmp.Diff(*want, runs[0], equal); d != "" {
		t.Errorf("runs (-want +got):\n%s", d)
	}
	back, err := s.Trials(ctx, "latest")
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(trials, back, equal); d != "" {
		t.Errorf("trials (-want +got):\n%s", d)
	}
	for i, x := range trials {
		raw, err := s.Raw(ctx, want.ID, i)
		if err != nil || !bytes.Equal(raw, x.Raw) {
			t.Errorf("raw of trial %d: %d bytes, want %d; %v", i, len(raw), len(x.Raw), err)
		}
	}
	tallies, err := s.Tallies(ctx)
	if want := map[string]Tally{want.ID: {Trials: 3, Failed: 1}}; err != nil || !reflect.DeepEqual(tallies, want) {
		t.Errorf("Tallies = %v, %v; want %v", tallies, err, want)
	}
	path, ok := strings.CutPrefix(url, "sqlite://")
	if !ok {
		return
	}
	if fi, err := os.Stat(path); err != nil || fi.Mode().Perm() != 0o600 {
		t.Errorf("%s: mode %v; %v", path, fi.Mode(), err)
	}
}

// fill sets every field under v to a non-zero value, so that testEveryFieldIsKept finds unsaved fields.
func fill(t *testing.T, v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, v.Elem())
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.Date(2025, 1, 2, 3, 4, 5, 6, time.UTC)))
			return
		}
		for i := range v.NumField() {
			fill(t, v.Field(i))
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range 2 {
			fill(t, v.Index(i))
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(t, key)
		fill(t, value)
		v.SetMapIndex(key, value)
	case reflect.String:
		v.SetString("filled")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(7)
	case reflect.Uint8, reflect.Uint64:
		v.SetUint(8)
	case reflect.Float64:
		v.SetFloat(9)
	default:
		t.Fatalf("a field of type %s", v.Type())
	}
}

func testEveryFieldIsKept(t *testing.T, url string) {
	ctx := context.Background()
	s := open(t, url)
	var run iotax.Run
	var trial iotax.Trial
	fill(t, reflect.ValueOf(&run).Elem())
	fill(t, reflect.ValueOf(&trial).Elem())
	trial.Run = run.ID
	if err := s.Create(ctx, &iotax.Run{ID: run.ID}); err != nil {
		t.Fatal(err)
	}
	if err := s.Update(ctx, &run); err != nil {
		t.Fatal(err)
	}
	if err := s.Append(ctx, &trial); err != nil {
		t.Fatal(err)
	}
	back, err := s.Get(ctx, run.ID)
	if d := cmp.Diff(&run, back); err != nil || d != "" {
		t.Errorf("run: %v (-want +got):\n%s", err, d)
	}
	trials, err := s.Trials(ctx, run.ID)
	if err != nil || len(trials) != 1 {
		t.Fatal(len(trials), err)
	}
	if trials[0].Raw, err = s.Raw(ctx, run.ID, trial.Seq); err != nil {
		t.Error(err)
	}
	if trials[0].Profile, err = s.Profile(ctx, run.ID, trial.Seq); err != nil {
		t.Error(err)
	}
	if d := cmp.Diff(&trial, trials[0]); d != "" {
		t.Errorf("trial (-want +got):\n%s", d)
	}
}

func testEachPages(t *testing.T, url string) {
	ctx := context.Background()
	s := open(t, url)
	for _, id := range []string{"a", "b"} {
		if err := s.Create(ctx, exampleRun(id)); err != nil {
			t.Fatal(err)
		}
	}
	const n = 600 // more than one page with Brief, and many pages with Full
	for i := range n {
		// Append the trials out of order, with gaps, and mixed with another run.
		seq := (i*7)%n*2 - 100
		for _, id := range []string{"a", "b"} {
			x := &iotax.Trial{Run: id, Seq: seq, Values: []iotax.Value{{Name: id, Value: float64(seq)}}}
			if err := s.Append(ctx, x); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, depth := range []Depth{Full, Brief} {
		i := 0
		for x, err := range s.Each(ctx, "a", depth) {
			if err != nil {
				t.Fatal(err)
			}
			v, ok := x.Value("a")
			if want := 2*i - 100; x.Seq != want || !ok || v.Value != float64(want) || len(x.Values) != 1 || x.Run != "a" {
				t.Fatalf("trial %d: seq %d with %v, want %d", i, x.Seq, x.Values, want)
			}
			i++
		}
		if i != n {
			t.Errorf("depth %v: %d trials, want %d", depth, i, n)
		}
	}
	for range s.Each(ctx, "a", Full) {
		break // must not leave a transaction open: the next write has to succeed
	}
	if err := s.Append(ctx, &iotax.Trial{Run: "a", Seq: 5000}); err != nil {
		t.Fatal(err)
	}
	stopped, cancel := context.WithCancel(ctx)
	defer cancel()
	seen := 0
	var last error
	for x, err := range s.Each(stopped, "a", Full) {
		if last = err; x != nil {
			seen++
		}
		cancel()
	}
	if !errors.Is(last, context.Canceled) || seen == 0 {
		t.Errorf("after a cancel: %d trials, then %v", seen, last)
	}
}

func testLookup(t *testing.T, url string) {
	ctx := context.Background()
	s := open(t, url)
	if _, err := s.Get(ctx, "latest"); !errors.Is(err, ErrNotFound) {
		t.Errorf("latest of an empty store: %v", err)
	}
	ids := []string{"251121-014633-7k3", "251121-014633-7k4", "251121-02", "251121-0", "240101-000000-000"}
	for i, id := range ids {
		r := exampleRun(id)
		r.Start = r.Start.Add(time.Duration(i%3) * time.Minute)
		if err := s.Create(ctx, r); err != nil {
			t.Fatal(err)
		}
	}
	for _, x := range []struct{ ref, want string }{
		{"251121-014633-7k3", ids[0]}, {"251121-014633-7k4", ids[1]}, {"24", ids[4]}, {"251121-0", ids[3]},
		{"latest", "251121-02"}, {"newest", "251121-02"},
	} {
		if r, err := s.Get(ctx, x.ref); err != nil || r.ID != x.want {
			t.Errorf("Get(%q) = %v, %v; want %s", x.ref, r, err, x.want)
		}
	}
	// "latest" skips a run without trials if another run has some.
	if err := s.Append(ctx, exampleTrial(ids[1], 0)); err != nil {
		t.Fatal(err)
	}
	for ref, want := range map[string]string{"latest": ids[1], "newest": "251121-02"} {
		if r, err := s.Get(ctx, ref); err != nil || r.ID != want {
			t.Errorf("Get(%q) beside runs without a trial = %v, %v; want %s", ref, r, err, want)
		}
	}
	if r, err := s.Get(ctx, ""); err == nil || !strings.Contains(err.Error(), "empty") {
		t.Errorf("an empty name: %v, %v", r, err)
	}
	for _, ref := range []string{"9", "%", "_", "251121-014633-7k33", "' OR 1=1 --"} {
		_, err := s.Get(ctx, ref)
		if e := (*iotax.Error)(nil); !errors.Is(err, ErrNotFound) || !errors.As(err, &e) || e.Hint == "" {
			t.Errorf("Get(%q): %v", ref, err)
		}
	}
	_, err := s.Get(ctx, "251121-01")
	if err == nil || !strings.Contains(err.Error(), ids[0]+" shares in a guest\n") || !strings.Contains(err.Error(), ids[1]) || strings.Contains(err.Error(), ids[2]) {
		t.Errorf("ambiguous: %v", err)
	}
	if _, err := s.Raw(ctx, "24", 7); !errors.Is(err, ErrNotFound) {
		t.Errorf("raw of a trial that is not there: %v", err)
	}
	if err := s.Update(ctx, exampleRun("nope")); !errors.Is(err, ErrNotFound) {
		t.Errorf("update of a run that is not there: %v", err)
	}
	if err := s.Append(ctx, &iotax.Trial{Run: "nope"}); !errors.Is(err, ErrNotFound) {
		t.Errorf("append to a run that is not there: %v", err)
	}
	if err := s.Append(ctx, &iotax.Trial{Run: ids[0]}); err != nil {
		t.Fatal(err)
	}
	if err := s.Append(ctx, &iotax.Trial{Run: ids[0]}); err == nil || !strings.Contains(err.Error(), "exists already") {
		t.Errorf("the same trial twice: %v", err)
	}
	if err := s.Create(ctx, exampleRun(ids[0])); err == nil || !strings.Contains(err.Error(), "exists already") {
		t.Errorf("the same run twice: %v", err)
	}
	for _, id := range []string{"", "latest", "newest", "-x", "a/b", "a b", "a\nb", strings.Repeat("x", 65)} {
		if err := s.Create(ctx, exampleRun(id)); err == nil {
			t.Errorf("id %q was taken", id)
		}
	}
}

func TestNewID(t *testing.T) {
	at := time.Date(2025, 11, 21, 1, 46, 33, 0, time.FixedZone("", 3600))
	seen := map[string]bool{}
	last := ""
	for i := range 300 {
		id := NewID(at.Add(time.Duration(i) * time.Second))
		if err := checkID(id); err != nil {
			t.Fatal(err)
		}
		if i == 0 && !strings.HasPrefix(id, "251121-004633-") {
			t.Errorf("NewID = %s", id)
		}
		if id <= last || seen[id[13:]] && i < 3 {
			t.Errorf("%s after %s", id, last)
		}
		last, seen[id[13:]] = id, true
	}
	if len(seen) < 250 {
		t.Errorf("only %d of 300 random ends differ", len(seen))
	}
}

func TestRemove(t *testing.T) {
	ctx := context.Background()
	s := fresh(t)
	for _, id := range []string{"a1", "b1"} {
		if err := s.Create(ctx, exampleRun(id)); err != nil {
			t.Fatal(err)
		}
		for i := range 100 {
			if err := s.Append(ctx, exampleTrial(id, i)); err != nil {
				t.Fatal(err)
			}
		}
	}
	size := func() int64 {
		if _, err := s.db.Exec("PRAGMA wal_checkpoint(TRUNCATE)"); err != nil {
			t.Fatal(err)
		}
		fi, err := os.Stat(s.on)
		if err != nil {
			t.Fatal(err)
		}
		return fi.Size()
	}
	before := size()
	if err := s.Remove(ctx, "a1", nil); err != nil {
		t.Fatal(err)
	}
	if after := size(); after > before*2/3 {
		t.Errorf("the file has %d bytes, had %d with twice the trials", after, before)
	}
	if err := s.Remove(ctx, "a1", nil); !errors.Is(err, ErrNotFound) {
		t.Errorf("second Remove: %v", err)
	}
	for _, q := range []string{`SELECT count(*) FROM trials`, `SELECT count(DISTINCT trial) FROM measured`, `SELECT count(DISTINCT trial) FROM blobs`} {
		var n int
		if err := s.db.QueryRow(q).Scan(&n); err != nil || n != 100 {
			t.Errorf("%s: %d, %v", q, n, err)
		}
	}
	if got, err := s.Trials(ctx, "b"); err != nil || len(got) != 100 || len(got[99].Series) != 6 {
		t.Errorf("the other run: %d trials, %v", len(got), err)
	}
}

func TestSQLPrompt(t *testing.T) {
	ctx := context.Background()
	s := fresh(t)
	if err := s.Create(ctx, exampleRun("r")); err != nil {
		t.Fatal(err)
	}
	x := exampleTrial("r", 1)
	x.Findings = []iotax.Finding{{Rule: "steal", Severity: iotax.Warning, Evidence: "3 %"}}
	if err := s.Append(ctx, x); err != nil {
		t.Fatal(err)
	}
	for _, q := range []struct{ query, want string }{
		{`SELECT target || ' ' || unit FROM measurements WHERE metric = 'read.v3'`, "virtio-blk 1/s"},
		{`SELECT printf('%.6g', value) FROM measurements WHERE metric = 'read.v3'`, fmt.Sprintf("%.6g", x.Values[3].Value)},
		{`SELECT evidence FROM findings WHERE seq IS NULL`, "load 3"},
		{`SELECT evidence FROM findings WHERE rule = 'steal' AND seq = 1`, "3 %"},
		{`SELECT value FROM facts WHERE name = 'engine'`, "io_uring"},
		{`SELECT value FROM facts WHERE name = 'kernel'`, "6.1.0"},
		{`SELECT datetime(started) FROM runs`, "2025-11-21 01:46:33"},
		{`PRAGMA journal_mode`, "wal"},
		{`PRAGMA integrity_check`, "ok"},
		{`PRAGMA foreign_keys`, "1"},
		{`PRAGMA synchronous`, "2"},
	} {
		var got string
		if err := s.db.QueryRow(q.query).Scan(&got); err != nil || got != q.want {
			t.Errorf("%s: %q, %v; want %q", q.query, got, err, q.want)
		}
	}
}

// Several goroutines append and read at the same time, through several Stores, as in several processes.
func testConcurrent(t *testing.T, url string) {
	ctx := context.Background()
	var stores [4]*Store
	var wg sync.WaitGroup
	for i := range stores { // open a new store concurrently
		wg.Go(func() {
			s, err := Open(ctx, url)
			if err != nil {
				t.Error(err)
				return
			}
			stores[i] = s
			if err := s.Create(ctx, exampleRun(fmt.Sprint("r", i))); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
	const each, writers = 10, 3
	for i, s := range stores {
		for w := range writers {
			wg.Go(func() {
				for k := range each {
					if err := s.Append(ctx, exampleTrial(fmt.Sprint("r", i), w*each+k)); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Go(func() {
			for range 5 {
				trials, err := s.Trials(ctx, "r0")
				if err != nil {
					t.Error(err)
				}
				for _, x := range trials {
					if len(x.Values) != 16 || len(x.Series) != 6 {
						t.Errorf("half a trial was seen: %d values, %d series", len(x.Values), len(x.Series))
					}
				}
			}
		})
	}
	wg.Wait()
	for i, s := range stores {
		trials, err := s.Trials(ctx, fmt.Sprint("r", i))
		if err != nil || len(trials) != each*writers {
			t.Errorf("store %d: %d trials, %v", i, len(trials), err)
		}
		s.Close()
	}
	kind := "sqlite"
	if strings.HasPrefix(url, "postgres") {
		kind = "postgres"
	}
	newest, err := newestMigration(kind)
	if err != nil {
		t.Fatal(err)
	}
	db := open(t, url).db
	var versions int
	if err := db.QueryRow(`SELECT count(*) FROM goose_db_version WHERE version_id > 0`).Scan(&versions); err != nil || versions != newest {
		t.Errorf("%d migrations ran, want each once; %v", versions, err)
	}
}

func testCancelKeepsTrial(t *testing.T, url string) {
	ctx, cancel := context.WithCancel(context.Background())
	s := open(t, url)
	if err := s.Create(ctx, exampleRun("r")); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := s.Append(ctx, exampleTrial("r", 0)); err != nil {
		t.Error(err)
	}
	if _, err := s.Trials(ctx, "r"); !errors.Is(err, context.Canceled) {
		t.Errorf("reading after a cancel: %v", err)
	}
	if got, err := s.Trials(context.Background(), "r"); err != nil || len(got) != 1 {
		t.Errorf("%d trials, %v", len(got), err)
	}
}

func TestLocate(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", "/state")
	wd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct{ url, want string }{
		{"", "/state/iotax/iotax.db"}, {"/a/b.db", "/a/b.db"}, {"sqlite:///a/b.db", "/a/b.db"},
		{"x.db", filepath.Join(wd, "x.db")}, {"sqlite://x.db", filepath.Join(wd, "x.db")},
	} {
		if got, err := locate(x.url); err != nil || got != x.want {
			t.Errorf("locate(%q) = %q, %v; want %q", x.url, got, err, x.want)
		}
	}
	for _, url := range []string{"mysql://u:secret@db/x", "sqlite://"} {
		_, err := locate(url)
		if e := (*iotax.Error)(nil); !errors.As(err, &e) || e.Hint == "" || strings.Contains(err.Error(), "secret") {
			t.Errorf("locate(%q): %v", url, err)
		}
	}
	t.Setenv("XDG_STATE_HOME", "relative")
	t.Setenv("HOME", "/home/x")
	if got, err := locate(""); err != nil || got != "/home/x/.local/state/iotax/iotax.db" {
		t.Errorf("default: %q, %v", got, err)
	}
}

// A mistyped name creates neither a store nor a directory.
func TestMistypedStore(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		open func(context.Context, string) (*Store, error)
		url  string
		says string
	}{
		{OpenExisting, filepath.Join(dir, "x.db"), "open store " + filepath.Join(dir, "x.db") + ": the file does not exist"},
		{OpenExisting, "sqlite://" + filepath.Join(dir, "x.db"), "the file does not exist"},
		{OpenExisting, filepath.Join(dir, "sub", "x.db"), "the directory " + filepath.Join(dir, "sub") + " does not exist"},
		{Open, filepath.Join(dir, "sub", "x.db"), "the directory " + filepath.Join(dir, "sub") + " does not exist"},
	} {
		_, err := c.open(t.Context(), c.url)
		if e := (*iotax.Error)(nil); !errors.As(err, &e) || e.Hint == "" || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", c.url, err, c.says)
		}
	}
	if made, err := os.ReadDir(dir); err != nil || len(made) > 0 {
		t.Errorf("%v was made, %v", made, err)
	}
	t.Setenv("XDG_STATE_HOME", filepath.Join(dir, "state"))
	// OpenExisting creates the default store, whose url is "". Otherwise the store must exist.
	for _, url := range []string{"", filepath.Join(dir, "state", "iotax", "iotax.db")} {
		s, err := OpenExisting(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		s.Close()
	}
	if fi, err := os.Stat(filepath.Join(dir, "state", "iotax")); err != nil || fi.Mode().Perm() != 0o700 {
		t.Errorf("its directory: mode %v; %v", fi.Mode(), err)
	}
}

func BenchmarkOpenFresh(b *testing.B) {
	dir := b.TempDir()
	for i := range b.N {
		s, err := Open(context.Background(), filepath.Join(dir, fmt.Sprint(i)))
		if err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		s.Close()
		b.StartTimer()
	}
}

func BenchmarkOpen(b *testing.B) {
	path := filepath.Join(b.TempDir(), "x.db")
	open(b, path).Close()
	for b.Loop() {
		s, err := Open(context.Background(), path)
		if err != nil {
			b.Fatal(err)
		}
		s.Close()
	}
}

func BenchmarkAppend(b *testing.B) {
	s := fresh(b)
	if err := s.Create(context.Background(), exampleRun("r")); err != nil {
		b.Fatal(err)
	}
	x := exampleTrial("r", 0)
	for i := 0; b.Loop(); i++ {
		x.Seq = i
		if err := s.Append(context.Background(), x); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkRead100k reads 100,000 trials of 16 values, and 2,000 with series and histograms.
func BenchmarkRead100k(b *testing.B) {
	s := fresh(b)
	s.db.SetMaxOpenConns(1)
	if _, err := s.db.Exec("PRAGMA synchronous = OFF"); err != nil { // only for the setup
		b.Fatal(err)
	}
	const brief, full = 100_000, 2_000
	for id, n := range map[string]int{"brief": brief, "full": full} {
		if err := s.Create(context.Background(), exampleRun(id)); err != nil {
			b.Fatal(err)
		}
		for i := range n {
			x := exampleTrial(id, i)
			x.Raw = nil
			if id == "brief" {
				x.Series, x.Histograms, x.Intervals = nil, nil, nil
			}
			if err := s.Append(context.Background(), x); err != nil {
				b.Fatal(err)
			}
		}
	}
	for _, x := range []struct {
		id    string
		n     int
		depth Depth
	}{{"brief", brief, Brief}, {"full", full, Full}} {
		b.Run(x.id, func(b *testing.B) {
			for b.Loop() {
				n := 0
				for _, err := range s.Each(context.Background(), x.id, x.depth) {
					if err != nil {
						b.Fatal(err)
					}
					n++
				}
				if n != x.n {
					b.Fatal(n)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*x.n), "ns/trial")
		})
	}
}
