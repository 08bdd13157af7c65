package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"iotax"
)

func ids(runs []Summary) string {
	var out []string
	for _, r := range runs {
		out = append(out, r.ID)
	}
	return strings.Join(out, " ")
}

// Find, State and Get use the status that the function passed to Settle sets. The stored status does not change.
func TestSettle(t *testing.T) {
	ctx := context.Background()
	s := fresh(t)
	for i, id := range []string{"lives", "died", "done", "died-too"} {
		r := exampleRun(id)
		r.Status, r.Start = iotax.Running, time.Date(2026, 1, 2, 3, 4+i, 5, 0, time.UTC)
		if id == "done" {
			r.Status = iotax.Done
		}
		if err := s.Create(ctx, r); err != nil {
			t.Fatal(err)
		}
		if err := s.Append(ctx, &iotax.Trial{Run: id, Target: "host disk", Workload: "w"}); err != nil {
			t.Fatal(err)
		}
	}
	s.Settle(func(r *iotax.Run, _ Pulse) {
		if r.Status != iotax.Running {
			t.Errorf("asked about %s, which is %s", r.ID, r.Status)
		}
		if r.ID != "lives" {
			r.Status = iotax.Interrupted
		}
	})
	for _, c := range []struct {
		q    Query
		want string
	}{
		{Query{}, "died-too done died lives"},
		{Query{Status: iotax.Running}, "lives"},
		{Query{Status: iotax.Interrupted}, "died-too died"},
		{Query{Status: iotax.Done}, "done"},
		{Query{Order: ByStatus}, "done died-too died lives"},
		{Query{Order: ByStatus, Reverse: true}, "lives died-too died done"},
		{Query{Order: ByStatus, Limit: 2, Offset: 1}, "died-too died"},
	} {
		got, _, err := s.Find(ctx, c.q)
		if err != nil || ids(got) != c.want {
			t.Errorf("%+v: %q, want %q; %v", c.q, ids(got), c.want, err)
		}
		for _, r := range got {
			if strings.HasPrefix(r.ID, "died") && r.Status != iotax.Interrupted {
				t.Errorf("%+v: %s is %s", c.q, r.ID, r.Status)
			}
		}
	}
	if st, err := s.State(ctx, "died"); err != nil || st.Status != iotax.Interrupted || st.Last != 0 {
		t.Errorf("%+v, %v", st, err)
	}
	if st, err := s.State(ctx, "lives"); err != nil || st.Status != iotax.Running {
		t.Errorf("%+v, %v", st, err)
	}
	if r, err := s.Get(ctx, "died"); err != nil || r.Status != iotax.Interrupted {
		t.Errorf("%+v, %v", r, err)
	}
	s.Settle(nil)
	if r, err := s.Get(ctx, "died"); err != nil || r.Status != iotax.Running {
		t.Errorf("what is stored has changed: %+v, %v", r, err)
	}
}

func testFind(t *testing.T, url string) {
	ctx := context.Background()
	s := open(t, url)
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for i, c := range []struct {
		id, name, target, workload string
		status                     iotax.Status
		took                       time.Duration
		trials                     int
	}{
		{"r1", "shares", "guest virtio-blk", "4k random read", iotax.Done, time.Minute, 3},
		{"r2", "Größe 100%", "nfs", "1M read", iotax.Incomplete, 3 * time.Minute, 0},
		{"r3", "shares", "nfs_v4", "4k random read", iotax.Failed, 2 * time.Minute, 1},
		{"r4", "live", "virtiofs", "4k random read", iotax.Running, 0, 2},
	} {
		r := exampleRun(c.id)
		r.Name, r.Status, r.Start, r.End = c.name, c.status, start.Add(time.Duration(i)*time.Hour), time.Time{}
		if c.took > 0 {
			r.End = r.Start.Add(c.took)
		}
		r.Environment["hostname"] = "Box" + c.id[1:]
		r.Targets = append(r.Targets, iotax.TargetInfo{Name: c.target, Machine: "ssh://db1"})
		r.Workloads[0].Name = c.workload
		if err := s.Create(ctx, r); err != nil {
			t.Fatal(err)
		}
		for k := range c.trials {
			x := &iotax.Trial{Run: c.id, Seq: k, Target: c.target, Workload: c.workload}
			if k == 1 {
				x.Err = "broke"
			}
			if k == 2 {
				x.Discarded = "slow clock"
			}
			if err := s.Append(ctx, x); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, c := range []struct {
		q    Query
		want string
		all  int
	}{
		{Query{}, "r4 r3 r2 r1", 4},
		{Query{Reverse: true}, "r1 r2 r3 r4", 4},
		{Query{Limit: 2}, "r4 r3", 4},
		{Query{Limit: 2, Offset: 3}, "r1", 4},
		{Query{Limit: 2, Offset: 9}, "", 4},
		{Query{Text: "NFS"}, "r3 r2", 2},
		{Query{Text: "nfs_v"}, "r3", 1},
		{Query{Text: "100%"}, "r2", 1},
		{Query{Text: "grösse"}, "", 0},
		{Query{Text: "GRÖßE"}, "r2", 1},
		{Query{Text: "random shares"}, "r3 r1", 2},
		{Query{Text: "random BOX3"}, "r3", 1},
		{Query{Text: "ssh://db1 ' OR 1=1 --"}, "", 0},
		{Query{Name: "shares"}, "r3 r1", 2},
		{Query{Status: iotax.Running}, "r4", 1},
		{Query{Since: start.Add(time.Hour), Before: start.Add(3 * time.Hour)}, "r3 r2", 2},
		{Query{Order: ByName}, "r2 r4 r3 r1", 4},
		{Query{Order: ByName, Reverse: true}, "r3 r1 r4 r2", 4},
		{Query{Order: ByStatus}, "r1 r3 r2 r4", 4},
		{Query{Order: ByTook}, "r4 r2 r3 r1", 4},
		{Query{Order: ByTook, Reverse: true, Limit: 1}, "r1", 4},
	} {
		got, all, err := s.Find(ctx, c.q)
		if err != nil || ids(got) != c.want || all != c.all {
			t.Errorf("%+v: %q of %d, want %q of %d; %v", c.q, ids(got), all, c.want, c.all, err)
		}
	}
	if _, _, err := s.Find(ctx, Query{Order: "seed"}); err == nil {
		t.Error("an order that is none was taken")
	}
	got, _, err := s.Find(ctx, Query{Text: "r1"})
	if err != nil || len(got) != 1 {
		t.Fatal(got, err)
	}
	if r := got[0]; r.Tally != (Tally{3, 1, 1}) || r.Took() != time.Minute || r.Host != "Box1" || !slices.Equal(r.Targets, []string{"host disk", "guest virtio-blk"}) || !slices.Equal(r.Workloads, []string{"4k random read"}) {
		t.Errorf("%+v", r)
	}

	// After a run changes, searches match its new text only.
	r, err := s.Get(ctx, "r2")
	if err != nil {
		t.Fatal(err)
	}
	r.Targets[1].Name = "ceph"
	if err := s.Update(ctx, r); err != nil {
		t.Fatal(err)
	}
	if got, _, err := s.Find(ctx, Query{Text: "nfs"}); err != nil || ids(got) != "r3" {
		t.Errorf("%q, %v", ids(got), err)
	}
}

func TestFindFoldsCase(t *testing.T) {
	ctx := context.Background()
	s := fresh(t)
	r := exampleRun("Old-1")
	r.Targets = append(r.Targets, iotax.TargetInfo{Name: "Größe", Machine: "Guest"})
	for _, r := range []*iotax.Run{r, {ID: "empty"}} {
		if err := s.Create(ctx, r); err != nil {
			t.Fatal(err)
		}
	}
	for _, text := range []string{"guest", "Größe", "GRÖßE", "größe", "OLD-1"} {
		if got, _, err := s.Find(ctx, Query{Text: text}); err != nil || ids(got) != "Old-1" {
			t.Errorf("%s: %q, %v", text, ids(got), err)
		}
	}
}

func testCells(t *testing.T, url string) {
	ctx := context.Background()
	s := open(t, url)
	if cells, err := s.Cells(ctx); err != nil || len(cells) != 0 {
		t.Errorf("an empty store has %v, %v", cells, err)
	}
	for i := range 4 {
		r := exampleRun(fmt.Sprint("r", i))
		r.Name = []string{"even", "odd"}[i%2]
		r.Start = r.Start.Add(time.Duration(i) * time.Hour)
		if err := s.Create(ctx, r); err != nil {
			t.Fatal(err)
		}
		seq := 0
		for _, w := range []string{"write", "read"} {
			for _, target := range []string{"disk", "share"} {
				if w == "write" && target == "share" && i > 1 {
					continue
				}
				if err := s.Append(ctx, &iotax.Trial{Run: r.ID, Seq: seq, Workload: w, Target: target, Values: []iotax.Value{{Name: w, Value: float64(i)}},
					Series: []iotax.Series{{Name: w, T: []float64{1}, V: []float64{2}}}}); err != nil {
					t.Fatal(err)
				}
				seq++
			}
		}
	}
	cells, err := s.Cells(ctx)
	if want := []Cell{{"read", "disk"}, {"read", "share"}, {"write", "disk"}, {"write", "share"}}; err != nil || !slices.Equal(cells, want) {
		t.Errorf("%v, %v", cells, err)
	}
	for _, c := range []struct {
		cell Cell
		name string
		n    int
		want string
	}{
		{Cell{"read", "disk"}, "", 9, "r3 r2 r1 r0"},
		{Cell{"read", "disk"}, "", 3, "r3 r2 r1"},
		{Cell{"write", "share"}, "", 9, "r1 r0"},
		{Cell{"write", "share"}, "odd", 9, "r1"},
		{Cell{"write", "tape"}, "", 9, ""},
	} {
		runs, err := s.With(ctx, c.cell, c.name, c.n)
		var got []string
		for _, r := range runs {
			got = append(got, r.ID)
		}
		if err != nil || strings.Join(got, " ") != c.want {
			t.Errorf("%+v: %v, %v", c, got, err)
		}
	}

	// Read part of a run: one workload, or the trials after a given Seq.
	var seqs []int
	for x, err := range s.Parts(ctx, "r0", "read", Full).Measured() {
		if err != nil || len(x.Values) != 1 || x.Values[0].Name != "read" {
			t.Fatal(x, err)
		}
		seqs = append(seqs, x.Seq)
	}
	for x, err := range s.After(ctx, "r0", 1, Brief) {
		if err != nil || len(x.Values) != 1 || len(x.Series) != 0 {
			t.Fatal(x, err)
		}
		seqs = append(seqs, x.Seq)
	}
	if !slices.Equal(seqs, []int{2, 3, 2, 3}) {
		t.Error(seqs)
	}
}

func testState(t *testing.T, url string) {
	ctx := context.Background()
	s := open(t, url)
	r := exampleRun("r")
	if err := s.Create(ctx, r); err != nil {
		t.Fatal(err)
	}
	if st, err := s.State(ctx, "r"); err != nil || st != (State{Status: iotax.Running, Last: -1}) {
		t.Errorf("%+v, %v", st, err)
	}
	if err := s.Append(ctx, &iotax.Trial{Run: "r", Seq: 7}); err != nil {
		t.Fatal(err)
	}
	r.Status, r.End = iotax.Done, r.Start.Add(time.Minute)
	if err := s.Update(ctx, r); err != nil {
		t.Fatal(err)
	}
	if st, err := s.State(ctx, "r"); err != nil || st.Status != iotax.Done || st.Last != 7 || !st.Ended.Equal(r.End) {
		t.Errorf("%+v, %v", st, err)
	}
	if _, err := s.State(ctx, "s"); err == nil || !strings.Contains(err.Error(), "not found") {
		t.Error(err)
	}
}

// In a shared store, every reader of a running run gets the time since the last beat of each of its processes.
func testBeat(t *testing.T, url string) {
	ctx := t.Context()
	s := open(t, url)
	shared := s.Shared()
	if known, err := s.Beat(ctx, "not-yet", "1.2.3@a"); err != nil || known == shared {
		t.Errorf("of a run that was not saved yet: known %t, %v", known, err)
	}
	for _, id := range []string{"one", "two", "done"} {
		r := exampleRun(id)
		r.Status = iotax.Running
		if id == "done" {
			r.Status = iotax.Done
		}
		if err := s.Create(ctx, r); err != nil {
			t.Fatal(err)
		}
	}
	for _, b := range [][2]string{{"one", "1.2.3@a"}, {"one", "9.9.9@b=c"}, {"one", "1.2.3@a"}, {"two", "1.2.3@a"}, {"done", "1.2.3@a"}} {
		if known, err := s.Beat(ctx, b[0], b[1]); err != nil || !known {
			t.Fatal(known, err)
		}
	}
	if shared {
		if _, err := s.db.Exec(`UPDATE runners SET seen = seen - 3600000`); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Beat(ctx, "one", "1.2.3@a"); err != nil { // a new beat after an hour
			t.Fatal(err)
		}
	}
	// Beat does not wait for writers of results, and stops when its context is done.
	s.writing.Lock()
	beaten := make(chan error, 1)
	go func() { _, err := s.Beat(ctx, "two", "1.2.3@a"); beaten <- err }()
	select {
	case err := <-beaten:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Error("a beat waits for a writer")
	}
	s.writing.Unlock()
	late, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := s.Beat(late, "two", "1.2.3@a"); shared && !errors.Is(err, context.Canceled) {
		t.Errorf("a beat that was cancelled: %v", err)
	}
	heard := map[string]Silence{}
	s.Settle(func(r *iotax.Run, p Pulse) { heard[r.ID] = p.Silent })
	if _, err := s.Runs(ctx); err != nil {
		t.Fatal(err)
	}
	if _, asked := heard["done"]; asked || len(heard) != 2 {
		t.Errorf("asked of %v", heard)
	}
	if !shared {
		if len(heard["one"])+len(heard["two"]) > 0 {
			t.Errorf("a store of one host tells %v", heard)
		}
		return
	}
	first, second := heard["one"]["1.2.3@a"], heard["one"]["9.9.9@b=c"]
	if len(heard["one"]) != 2 || len(heard["two"]) != 1 || first < 0 || first > 30*time.Minute || second < time.Hour || second > 90*time.Minute {
		t.Errorf("silent for %v", heard)
	}
	for _, read := range []func() error{ // the other methods that read a run
		func() error { _, err := s.Get(ctx, "one"); return err },
		func() error { _, err := s.State(ctx, "one"); return err },
		func() error { _, _, err := s.Find(ctx, Query{}); return err },
		func() error { p, err := s.Pulse(ctx, "one"); heard["one"] = p.Silent; return err },
	} {
		clear(heard)
		if err := read(); err != nil || heard["one"]["9.9.9@b=c"] < time.Hour {
			t.Errorf("silent for %v, %v", heard, err)
		}
	}
	if p, err := s.Pulse(ctx, "done"); err != nil || len(p.Silent) > 0 {
		t.Errorf("of a run that is done: %v, %v", p, err)
	}
	if err := s.Remove(ctx, "one", nil); err != nil {
		t.Error(err)
	}
}
