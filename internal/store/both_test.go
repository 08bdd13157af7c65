package store

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"iotax"
)

// both lists the tests that run on every kind of store.
var both = map[string]func(t *testing.T, url string){
	"RoundTrip":        testRoundTrip,
	"EveryFieldIsKept": testEveryFieldIsKept,
	"EachPages":        testEachPages,
	"Lookup":           testLookup,
	"Concurrent":       testConcurrent,
	"CancelKeepsTrial": testCancelKeepsTrial,
	"Find":             testFind,
	"Cells":            testCells,
	"State":            testState,
	"NamesAndHistory":  testNamesAndHistory,
	"Shards":           testShards, "Parts": testParts,
	"Beat": testBeat, "Claim": testClaim,
}

func TestSQLite(t *testing.T) {
	for name, test := range both {
		t.Run(name, func(t *testing.T) {
			test(t, "sqlite://"+filepath.Join(t.TempDir(), "with % and ? and #.db"))
		})
	}
}

// Parts yields only the trials of its run, in the order of Seq, even if they were saved in another order.
func testParts(t *testing.T, url string) {
	ctx := t.Context()
	s := open(t, url)
	for _, id := range []string{"a", "b"} {
		if err := s.Create(ctx, exampleRun(id)); err != nil {
			t.Fatal(err)
		}
	}
	const n = 40
	for i := range n {
		for _, id := range []string{"a", "b"} {
			x := exampleTrial(id, (i*7)%n)
			x.Facts["command"] = fmt.Sprintf(`fio "--seed=%d" \ `, i)
			if x.Seq == 5 {
				x.Values, x.Histograms, x.Series, x.Intervals, x.Err = nil, nil, nil, nil, "no luck"
			}
			if err := s.Append(ctx, x); err != nil {
				t.Fatal(err)
			}
		}
	}
	profiled := exampleTrial("a", n)
	profiled.Profile = []byte("a profile")
	if err := s.Append(ctx, profiled); err != nil {
		t.Fatal(err)
	}
	s.Close()
	s = open(t, url)
	p := s.Parts(ctx, "a", "", Full)
	for x, err := range p.Profiles([]int{0, n}) {
		if err != nil || string(x.Profile) != map[int]string{n: "a profile"}[x.Seq] || x.Series != nil {
			t.Errorf("%+v, %v", x, err)
		}
	}
	var want []*iotax.Trial
	for i := range n + 1 {
		x := exampleTrial("a", i)
		if i == 5 {
			x.Values, x.Histograms, x.Series, x.Intervals, x.Err = nil, nil, nil, nil, "no luck"
		}
		want = append(want, x)
	}
	i := 0
	for x, err := range p.Trials() {
		if err != nil {
			t.Fatal(err)
		}
		w := *want[i]
		w.Values, w.Histograms, w.Series, w.Intervals, w.Labels = nil, nil, nil, nil, nil
		if d := cmp.Diff(&w, x, equal); d != "" {
			t.Errorf("trial %d (-want +got):\n%s", i, d)
		}
		i++
	}
	k := 0
	for x, err := range p.Measured() {
		if err != nil {
			t.Fatal(err)
		}
		w := &iotax.Trial{Run: "a", Seq: k, Values: want[k].Values, Histograms: want[k].Histograms}
		if d := cmp.Diff(w, x, equal); d != "" {
			t.Errorf("measured %d (-want +got):\n%s", k, d)
		}
		k++
	}
	if i != n+1 || k != n+1 {
		t.Errorf("%d trials, %d measured, want %d", i, k, n+1)
	}
	for name, read := range map[string]func([]int) iter.Seq2[*iotax.Trial, error]{"series": p.Series, "intervals": p.Intervals} {
		var seqs []int
		for x, err := range read([]int{9, 5, 3, 1000}) {
			if err != nil {
				t.Fatal(err)
			}
			w := &iotax.Trial{Run: "a", Seq: x.Seq, Series: want[x.Seq].Series}
			if name == "intervals" {
				w.Series, w.Intervals = nil, want[x.Seq].Intervals
			}
			if d := cmp.Diff(w, x, equal); d != "" {
				t.Errorf("%s of %d (-want +got):\n%s", name, x.Seq, d)
			}
			seqs = append(seqs, x.Seq)
		}
		if !slices.Equal(seqs, []int{3, 5, 9}) {
			t.Errorf("%s of %v", name, seqs)
		}
	}
	var seqs []int
	for x, err := range p.Histograms([]int{9, 5, 3, 1000}) {
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(&iotax.Trial{Run: "a", Seq: x.Seq, Histograms: want[x.Seq].Histograms}, x, equal); d != "" {
			t.Errorf("histograms of %d (-want +got):\n%s", x.Seq, d)
		}
		seqs = append(seqs, x.Seq)
	}
	if !slices.Equal(seqs, []int{3, 5, 9}) {
		t.Errorf("histograms of %v", seqs)
	}
	for x, err := range s.Parts(ctx, "a", "", Brief).Measured() {
		if err != nil || len(x.Histograms) > 0 || len(x.Values) == 0 && x.Seq != 5 {
			t.Errorf("brief: %v, %v", x, err)
		}
	}
	for range s.Parts(ctx, "a", "none", Full).Trials() {
		t.Error("a workload that is not there has a trial")
	}
	for range p.Measured() {
		break // must not leave a transaction open: the next write has to succeed
	}
	if err := s.Append(ctx, &iotax.Trial{Run: "a", Seq: 5000}); err != nil {
		t.Fatal(err)
	}
}

// Packed numbers are restored exactly.
func TestPackedExactly(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	onGrid, odd := iotax.Histogram{Name: "b", Unit: "s"}, iotax.Histogram{}
	for i, v := range grid().value {
		if i%3 == 0 {
			onGrid.Bins = append(onGrid.Bins, iotax.Bin{Value: v, Count: r.Uint64N(1 << 40)})
		}
		odd.Bins = append(odd.Bins, iotax.Bin{Value: math.Float64frombits(r.Uint64()), Count: r.Uint64()})
	}
	odd.Bins = append(odd.Bins, iotax.Bin{Value: math.NaN()}, iotax.Bin{Value: math.Inf(-1)}, iotax.Bin{Value: math.Copysign(0, -1)})
	unsorted := iotax.Histogram{Name: "d", Bins: []iotax.Bin{onGrid.Bins[5], onGrid.Bins[4]}}
	want := []iotax.Histogram{onGrid, odd, unsorted, {Name: "empty"}}
	b := packHistograms(want)
	got, err := unpackHistograms(b, nil)
	if err != nil {
		t.Fatal(err)
	}
	exact := func(h iotax.Histogram) string {
		s := h.Name + "|" + h.Unit
		for _, b := range h.Bins {
			s += fmt.Sprintf("|%x:%d", math.Float64bits(b.Value), b.Count)
		}
		return s
	}
	if len(got) != len(want) {
		t.Fatalf("%d histograms", len(got))
	}
	for i := range want {
		if exact(want[i]) != exact(got[i]) {
			t.Errorf("histogram %d differs", i)
		}
	}
	if size := len(packHistograms(want[:1])); size > len(onGrid.Bins)*8 {
		t.Errorf("%d bins on fio's grid take %d bytes", len(onGrid.Bins), size)
	}
	for i := range b { // decoding damaged data may return an error or wrong values, but must not panic
		_, _ = unpackHistograms(b[:i], nil)
		damaged := slices.Clone(b)
		damaged[i] ^= byte(1 + r.IntN(255))
		_, _ = unpackHistograms(damaged, nil)
		if _, err := unpackHistograms(b[:i], nil); err == nil && i > 0 && i < 100 {
			if i != 1 {
				t.Errorf("%d bytes of %d were taken for all", i, len(b))
			}
		}
	}
	series := []iotax.Series{{Name: "x", Unit: "1/s", T: []float64{1, 2, math.NaN()}, V: []float64{math.MaxFloat64, 5e-324, -0.1}}, {}}
	packed, err := packJSON(series)
	if err != nil {
		t.Fatal(err)
	}
	var back []iotax.Series
	err = unpackJSON(packed, &back)
	if d := cmp.Diff(series, back, equal); err != nil || d != "" {
		t.Errorf("%v (-want +got):\n%s", err, d)
	}
}

func TestWithout(t *testing.T) {
	for object, want := range map[string]string{
		`{}`:                                    `{}`,
		`{"a":"1"}`:                             `{"a":"1"}`,
		`{"command":"x"}`:                       `{}`,
		`{"a":"1","command":"x \"y\\","z":"2"}`: `{"a":"1","z":"2"}`,
		`{"a":"\"command\":\"x\"","b":"2"}`:     `{"a":"\"command\":\"x\"","b":"2"}`,
		`null`:                                  `null`,
		`{"command":"x`:                         `{"command":"x`,
	} {
		in := []byte(object)
		if got := string(without(in, "command")); got != want {
			t.Errorf("%s: %s, want %s", object, got, want)
		}
		if string(in) != object {
			t.Errorf("%s was changed to %s", object, in)
		}
	}
}

// Two stores save the shards of a run, in any order. A shard with another plan or another number of shards gets an
// error.
func testShards(t *testing.T, url string) {
	ctx := t.Context()
	s, other := open(t, url), open(t, url)
	count := func(parts []*iotax.Run) *iotax.Run {
		out := *parts[0]
		out.Name = fmt.Sprintf("%d parts from %s", len(parts), parts[0].Baseline)
		return &out
	}
	save := func(s *Store, id string, index, of int, change func(*iotax.Run)) error {
		r := exampleRun(id)
		r.Baseline = fmt.Sprint("b", index)
		if change != nil {
			change(r)
		}
		return s.SavePart(ctx, r, Part{index, of}, count)
	}
	name := func(want string) {
		t.Helper()
		r, err := s.Get(ctx, "r")
		if err != nil || r.Name != want || string(r.Plan) != string(exampleRun("r").Plan) {
			t.Errorf("%+v, %v; want %s", r, err, want)
		}
	}
	if p, err := s.Part(ctx, "r", Part{1, 2}); p != nil || err != nil {
		t.Errorf("before the first: %v, %v", p, err)
	}
	var wg sync.WaitGroup
	for i, st := range []*Store{s, other} {
		wg.Go(func() {
			for range 5 {
				if err := save(st, "r", i, 2, nil); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	name("2 parts from b0")
	if err := save(other, "r", 1, 2, func(r *iotax.Run) { r.Status = iotax.Done }); err != nil {
		t.Error(err)
	}
	if p, err := s.Part(ctx, "r", Part{1, 2}); err != nil || p == nil || p.Status != iotax.Done || p.Baseline != "b1" || string(p.Plan) != string(exampleRun("r").Plan) {
		t.Errorf("%+v, %v", p, err)
	}
	open := func(want map[int]string) {
		t.Helper()
		p, err := s.Pulse(ctx, "r")
		if err != nil || !maps.Equal(p.Open, want) {
			t.Errorf("shards %v are open, %v; want %v", p.Open, err, want)
		}
	}
	by := func(runner string) func(*iotax.Run) {
		return func(r *iotax.Run) {
			r.Environment = map[string]string{"runner": runner, "kernel": "a\x00b"} // PostgreSQL's jsonb rejects \u0000
		}
	}
	open(map[int]string{0: ""})
	for _, runner := range []string{"71.1.boot@h", "72.1.boot@h"} { // the shard is started, and later restarted
		if err := save(other, "r", 1, 2, by(runner)); err != nil {
			t.Error(err)
		}
		open(map[int]string{0: "", 1: runner})
	}
	// A run with many shards is not merged on every save, but readers always see the runner of each shard.
	for i := range 2 * fewParts {
		if err := save(s, "many", i, 2*fewParts, by(fmt.Sprint(i, ".1.boot@h"))); err != nil {
			t.Error(err)
		}
	}
	if err := save(s, "many", 3, 2*fewParts, by("99.1.boot@h")); err != nil {
		t.Error(err)
	}
	if p, err := s.Pulse(ctx, "many"); err != nil || len(p.Open) != 2*fewParts || p.Open[3] != "99.1.boot@h" || p.Open[2*fewParts-1] != fmt.Sprint(2*fewParts-1, ".1.boot@h") {
		t.Errorf("%v, %v", p, err)
	}
	for what, err := range map[string]error{
		"another plan":         save(s, "r", 0, 2, func(r *iotax.Run) { r.Plan = []byte("name: other") }),
		"another number":       save(s, "r", 0, 3, nil),
		"another number, read": func() error { _, err := s.Part(ctx, "r", Part{0, 3}); return err }(),
		"no id":                save(s, "", 0, 2, nil),
	} {
		if e := (*iotax.Error)(nil); !errors.As(err, &e) || e.Hint == "" && what != "no id" {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := s.Create(ctx, exampleRun("alone")); err != nil {
		t.Fatal(err)
	}
	if err := s.Append(ctx, exampleTrial("alone", 0)); err != nil {
		t.Fatal(err)
	}
	if err := save(s, "alone", 0, 2, nil); err == nil || !strings.Contains(err.Error(), "one process") {
		t.Errorf("a run of one process was joined: %v", err)
	}
	if err := s.Remove(ctx, "r", nil); err != nil {
		t.Fatal(err)
	}
	if p, err := s.Part(ctx, "r", Part{1, 2}); p != nil || err != nil {
		t.Errorf("a removed run: %v, %v", p, err)
	}
}

// When several processes claim a run at the same time, each sees the changes of earlier claims.
func testClaim(t *testing.T, url string) {
	ctx := t.Context()
	s, other := open(t, url), open(t, url)
	r := exampleRun("r")
	r.Status = iotax.Interrupted
	if err := s.Create(ctx, r); err != nil {
		t.Fatal(err)
	}
	taken := errors.New("another process has it")
	var wg sync.WaitGroup
	won := make(chan string, 8)
	for i := range 8 {
		wg.Go(func() {
			me := fmt.Sprint("runner-", i)
			db := []*Store{s, other}[i%2]
			got, err := db.Claim(ctx, "r", me, func(r *iotax.Run, heard Pulse) error {
				if r.Status == iotax.Running {
					if _, ok := heard.Silent[r.Environment[runnerKey]]; db.Shared() && !ok {
						t.Errorf("the runner that has it was not heard of: %v", heard.Silent)
					}
					return taken
				}
				r.Status, r.Environment = iotax.Running, map[string]string{runnerKey: me}
				return nil
			})
			switch {
			case err == nil && got.Environment[runnerKey] == me:
				won <- me
			case !errors.Is(err, taken):
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
	wg.Wait()
	if len(won) != 1 {
		t.Errorf("%d of 8 got it", len(won))
	}
	if got, err := s.Get(ctx, "r"); err != nil || got.Status != iotax.Running || got.Environment[runnerKey] != <-won {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := s.Claim(ctx, "none", "me", nil); !errors.Is(err, ErrNotFound) {
		t.Errorf("a run that is not there: %v", err)
	}
	if err := s.Remove(ctx, "r", func(*iotax.Run, Pulse) error { return taken }); !errors.Is(err, taken) {
		t.Errorf("a removal that is refused: %v", err)
	}
	if err := s.Remove(ctx, "r", nil); err != nil {
		t.Error(err)
	}
}
