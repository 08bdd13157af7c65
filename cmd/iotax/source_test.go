package main

import (
	"slices"
	"strings"
	"testing"
)

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
