package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"iotax/plan"
	"iotax/volume"
)

// A small suite is over soon, a large one has its time, and a run without a budget gets none.
func TestScaleOfBudget(t *testing.T) {
	for _, c := range []struct {
		scale        float64
		budget, want time.Duration
	}{
		{.1, 14 * time.Minute, 2 * time.Minute}, {.5, 14 * time.Minute, 7 * time.Minute}, {1, 14 * time.Minute, 14 * time.Minute},
		{2, 14 * time.Minute, 28 * time.Minute}, {.1, time.Minute, time.Minute}, {.1, 0, 0},
	} {
		pf, p := planFlags{scale: c.scale}, &plan.Plan{Measure: plan.Defaults()}
		p.Measure.Budget = plan.Duration(c.budget)
		if err := pf.shrink(p); err != nil || time.Duration(p.Measure.Budget) != c.want {
			t.Errorf("%v × %v: %v, %v, want %v", c.scale, c.budget, p.Measure.Budget, err, c.want)
		}
	}
}

// -w parts words at commas, and yet finds names that hold some.
func TestChoose(t *testing.T) {
	names := []string{"network", "4 MiB", "4 MiB, 8 clients", "a,b"}
	for said, want := range map[string]string{
		"network":                  "network",
		"4 MiB":                    "4 MiB",
		"4 MiB, 8 clients":         "4 MiB, 8 clients",
		"4 MiB, 8 clients,network": "4 MiB, 8 clients|network",
		"network, 4 MiB,a,b":       "network|4 MiB|a,b",
		"4 MiB,4 MiB, 8 clients":   "4 MiB|4 MiB, 8 clients",
	} {
		var w workloadWords
		if err := w.Set(said); err != nil {
			t.Fatal(err)
		}
		if got, err := choose(names, w); err != nil || strings.Join(got, "|") != want {
			t.Errorf("%q: %q, %v, want %q", said, got, err, want)
		}
	}
	for _, said := range []string{"", "b", "a", "8 clients", "network,nothing"} {
		got, err := choose(names, strings.Split(said, ","))
		if err == nil || !strings.Contains(err.Error(), "no workload of this name") || !strings.Contains(err.Error(), `"4 MiB, 8 clients"`) {
			t.Errorf("%q: %q, %v", said, got, err)
		}
	}
	if got, err := choose(names, nil); err != nil || !slices.Equal(got, nil) {
		t.Errorf("%q, %v", got, err)
	}
}

// A saved plan is read again elsewhere.
func TestAbsolute(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	p := &plan.Plan{Targets: []plan.Target{
		{Name: "here", On: plan.Host, Spec: &volume.DirSpec{Path: "a/b"}}, {Name: "full", On: plan.Host, Spec: &volume.DirSpec{Path: "/x"}},
		{Name: "there", On: "guest", Spec: &volume.DirSpec{Path: "c"}},
	}}
	if err := absolute(p); err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{filepath.Join(dir, "a/b"), "/x", "c"} {
		if got := p.Targets[i].Spec.(*volume.DirSpec).Path; got != want {
			t.Errorf("%s: %s, want %s", p.Targets[i].Name, got, want)
		}
	}
}
