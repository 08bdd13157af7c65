package main

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"iotax"
	"iotax/internal/leftover"
	"iotax/internal/report"
	"iotax/internal/rules"
	"iotax/internal/run"
	"iotax/internal/store"
)

// The error of a run without a valid comparison contains the reason.
func TestNoComparison(t *testing.T) {
	r := &report.Report{Run: &iotax.Run{ID: "r"}, Sections: []report.Section{{Rows: []report.Row{{Target: "a", Err: "it is gone"}, {Target: "b", Against: "a"}}}}}
	for _, c := range []struct {
		ran, failed, counted int
		want                 string
	}{{0, 0, 0, "no trial was measured"}, {2, 2, 0, "every trial failed\n"}, {2, 1, 0, "every trial failed or was discarded"}, {2, 1, 1, "no valid trial on both sides of a comparison"}} {
		row := &r.Sections[0].Rows[1]
		row.Ran, row.Failed, row.Counted = c.ran, c.failed, c.counted
		if err := noComparison(r); err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "see the notes of the report") {
			t.Errorf("%d of %d trials failed, %d count: %v, want %q", c.failed, c.ran, c.counted, err, c.want)
		}
	}
}

// For an interrupted run without trials, finish returns an errInterrupted. printError prints it as text or as JSON.
func TestInterruptedRun(t *testing.T) {
	_, db := storeOf(t, map[string]iotax.Status{"a1": iotax.Interrupted}, leftover.Self())
	r, err := db.Get(t.Context(), "a1")
	if err != nil {
		t.Fatal(err)
	}
	a := &app{out: io.Discard, err: io.Discard}
	err = a.finish(t.Context(), db, r, &outlet{format: "txt"}, nil)
	if !errors.As(err, new(errInterrupted)) {
		t.Fatalf("%v", err)
	}
	var text, js bytes.Buffer
	printError(&text, err.Error(), err, exitInterrupted, false)
	printError(&js, err.Error(), err, exitInterrupted, true)
	if text.String() != "iotax: interrupted before the first trial ended; start again with: iotax run --resume=a1\n" ||
		!strings.Contains(js.String(), `"status": 130`) || !strings.Contains(js.String(), `"error": "interrupted before the first trial ended`) {
		t.Errorf("%s%s", &text, &js)
	}
}

// An interrupted command prints no report of a run without trials, but it prints the resources that the run left behind.
func TestInterruptedRunLeaves(t *testing.T) {
	_, db := storeOf(t, map[string]iotax.Status{"a1": iotax.Interrupted}, leftover.Self())
	r, err := db.Get(t.Context(), "a1")
	if err != nil {
		t.Fatal(err)
	}
	r.Findings = []iotax.Finding{rules.LeftBehind.Found(iotax.AboutRun(), "clean up /mnt: busy"), rules.RunFailed.Found(iotax.AboutRun(), "other")}
	var errs bytes.Buffer
	a := &app{out: io.Discard, err: &errs}
	if err = a.finish(t.Context(), db, r, &outlet{format: "txt"}, nil); !errors.As(err, new(errInterrupted)) {
		t.Fatalf("%v", err)
	}
	if want := "iotax: clean up /mnt: busy\n  hint: " + rules.LeftBehind.Hint + "\n"; errs.String() != want {
		t.Errorf("printed %q, want %q", &errs, want)
	}
}

// The shard that ends last prints that the run compares nothing, but its exit status depends only on its own part.
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
	if !strings.Contains(out.String(), "iotax report r") || strings.Contains(out.String(), "--resume") { // --resume does not work for a divided run
		t.Errorf("the report ends with:\n%s", out.String())
	}
}
