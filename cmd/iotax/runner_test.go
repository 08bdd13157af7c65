package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"iotax"
	"iotax/internal/leftover"
	"iotax/internal/report"
	"iotax/internal/run"
	"iotax/internal/store"
)

// Who is at the shards that have not ended is known from the store; a shard that was started again is not the process that died.
func TestSettleShards(t *testing.T) {
	name := func(pid int) string {
		return leftover.Runner{PID: pid, Start: 1, Boot: "b", Host: "elsewhere.invalid"}.String()
	}
	for _, c := range []struct {
		what string
		open map[int]int  // processes by shard; those below 100 are silent for an hour
		want iotax.Status //
		says []string     // shards of which a finding tells
	}{
		{"all at work", map[int]int{3: 103, 4: 104, 17: 117}, iotax.Running, nil},
		{"one has died", map[int]int{3: 103, 5: 5, 17: 117}, iotax.Running, []string{"5/20"}},
		{"all but one that has not said who it is", map[int]int{3: 3, 4: 4, 17: 0}, iotax.Running, []string{"3/20", "4/20"}},
		{"all have died", map[int]int{4: 4, 3: 3}, iotax.Interrupted, []string{"3/20", "4/20"}},
		{"one was started again", map[int]int{3: 203, 4: 4}, iotax.Running, []string{"4/20"}},
		{"those that began have ended", nil, iotax.Running, nil},
	} {
		heard := store.Pulse{Silent: store.Silence{}, Open: map[int]string{}}
		for i, pid := range c.open {
			heard.Silent[name(i)] = time.Hour // the first process of each shard died
			if heard.Open[i] = ""; pid > 0 {
				heard.Open[i] = name(pid)
			}
			if pid >= 100 {
				heard.Silent[name(pid)] = 10 * time.Second
			}
		}
		r := &iotax.Run{ID: "many", Status: iotax.Running, Environment: map[string]string{run.ShardsKey: "20"}}
		settle(r, heard)
		if r.Status != c.want || len(r.Findings) != len(c.says) {
			t.Errorf("%s: it is %s, and %+v", c.what, r.Status, r.Findings)
			continue
		}
		for i, shard := range c.says {
			if f := r.Findings[i]; f.Rule != "runner-died" || !strings.Contains(f.Evidence, "shard "+shard) || !strings.Contains(f.Hint, "--shard "+shard+" --id many") {
				t.Errorf("%s: %+v", c.what, f)
			}
		}
	}
}

// What runs here, or was heard of a moment ago elsewhere, is not taken over.
func TestStillRuns(t *testing.T) {
	self, far := leftover.Self(), leftover.Runner{PID: 7, Start: 1, Boot: "b", Host: "elsewhere.invalid"}
	for _, c := range []struct {
		what   string
		who    leftover.Runner
		silent store.Silence
		want   string
	}{
		{"heard of", far, store.Silence{far.String(): 20 * time.Second}, "process 7 on elsewhere.invalid, which last reported 20s ago"},
		{"silent", far, store.Silence{far.String(): silentTime + time.Second}, ""},
		{"never heard of", far, store.Silence{self.String(): 0}, ""},
		{"this one", self, nil, map[leftover.State]string{leftover.Alive: fmt.Sprint("process ", self.PID), leftover.Unknown: ""}[self.State()]},
	} {
		what, hint := stillRuns(c.who, store.Pulse{Silent: c.silent})
		if c.want == "" && what != "" || !strings.Contains(what, c.want) || (what == "") != (hint == "") {
			t.Errorf("%s: %q (%q), want %q", c.what, what, hint, c.want)
		}
	}
}

// A run without a trial does not claim that trials failed.
func TestNoComparison(t *testing.T) {
	r := &report.Report{Run: &iotax.Run{ID: "r"}, Sections: []report.Section{{Rows: []report.Row{{Target: "a", Err: "it is gone"}, {Target: "b", Against: "a"}}}}}
	for _, c := range []struct {
		ran, failed int
		want        string
	}{{0, 0, "no trial was measured"}, {2, 2, "every trial failed"}, {2, 1, "no trial succeeded on both sides of a comparison"}} {
		r.Sections[0].Rows[1].Ran, r.Sections[0].Rows[1].Failed = c.ran, c.failed
		if err := noComparison(r); err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "see the notes of the report") {
			t.Errorf("%d of %d trials failed: %v, want %q", c.failed, c.ran, err, c.want)
		}
	}
}

// The shard that ends last prints that the whole run compares nothing. Its own exit status is that of its part, as of the shards before it.
func TestLastShardHasItsOwnStatus(t *testing.T) {
	_, db := storeOf(t, nil, leftover.Self())
	var part iotax.Run
	for i := range 2 {
		part = iotax.Run{ID: "r", Name: "r", Status: iotax.Incomplete, Start: time.Now(), End: time.Now(), Baseline: "a", Environment: map[string]string{},
			Plan:    []byte("targets: {a: {dir: /var/tmp}, b: {dir: /var/tmp}}\nworkloads: {w: {fio: {rw: randread, bs: 4k}}}\n"),
			Targets: []iotax.TargetInfo{{Name: "a"}, {Name: "b", Err: "it is gone"}}, Workloads: []iotax.WorkloadInfo{{Name: "w", Metrics: []string{"read.iops"}}}}
		if err := db.SavePart(t.Context(), &part, store.Part{Index: i, Count: 2}, func(parts []*iotax.Run) *iotax.Run { return run.Merge(parts, 2) }); err != nil {
			t.Fatal(err)
		}
	}
	var out, errs bytes.Buffer
	a := &app{out: &out, err: &errs}
	if err := a.finishPart(t.Context(), db, &part, &outlet{format: "txt"}, run.Shard{Index: 1, Count: 2}, nil); err != nil || !strings.Contains(errs.String(), "no trial was measured") {
		t.Errorf("%v: %s%s", err, errs.String(), out.String())
	}
	if !strings.Contains(out.String(), "iotax report r") || strings.Contains(out.String(), "--resume") { // which a divided run refuses
		t.Errorf("the report ends with:\n%s", out.String())
	}
}
