package store

import (
	"bytes"
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"iotax"
)

func testNamesAndHistory(t *testing.T, url string) {
	ctx := context.Background()
	s := open(t, url)
	if _, err := s.Get(ctx, "latest~1"); !errors.Is(err, ErrNotFound) {
		t.Errorf("latest~1 of an empty store: %v", err)
	}
	for i, x := range []struct {
		id, name string
		trial    bool
	}{{"0f", "a~b", true}, {"1a", "quick", true}, {"2b", "shares", true}, {"3c", "quick", true}, {"4d", "shares", false}, {"5e", "2", true}} {
		r := exampleRun(x.id)
		r.Name, r.Start = x.name, r.Start.Add(time.Duration(i)*time.Minute)
		if err := s.Create(ctx, r); err != nil {
			t.Fatal(err)
		}
		if x.trial {
			if err := s.Append(ctx, exampleTrial(x.id, 0)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for ref, want := range map[string]string{
		"latest~0": "5e", "latest~1": "3c", "latest~3": "1a", // 4d has no trials
		"quick": "3c", "quick~1": "1a", "quick~0": "3c", "shares": "2b", "a~b~0": "0f",
		"2": "2b", // an id prefix takes precedence over a name
	} {
		if r, err := s.Get(ctx, ref); err != nil || r.ID != want {
			t.Errorf("Get(%q) = %v, %v; want %s", ref, r, err, want)
		}
	}
	for ref, why := range map[string]string{"latest~5": "not so many", "quick~2": "not so many", "none": "", "none~1": "", "latest~": "", "latest~-1": "", "latest~+1": "", "~1": "", "latest~x": "",
		"latest~99999999999999999999": ""} {
		if _, err := s.Get(ctx, ref); !errors.Is(err, ErrNotFound) || !strings.Contains(err.Error(), why) {
			t.Errorf("Get(%q): %v", ref, err)
		}
	}
}

func TestReadJSON(t *testing.T) {
	run := exampleRun("r")
	odd := exampleTrial("r", 1)
	odd.Values[0].Value, odd.Series[0].V[0] = math.NaN(), math.NaN()
	trials := []*iotax.Trial{exampleTrial("r", 0), odd, {Run: "r", Target: "t", Seq: 2, Err: "x", Discarded: "y"}}
	var b bytes.Buffer
	if err := WriteJSON(&b, run, each(trials...)); err != nil {
		t.Fatal(err)
	}
	gotRun, got, err := ReadJSON(bytes.NewReader(b.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(run, gotRun, equal); d != "" {
		t.Errorf("run (-want +got):\n%s", d)
	}
	if d := cmp.Diff(trials, got, equal); d != "" {
		t.Errorf("trials (-want +got):\n%s", d)
	}
	for in, want := range map[string]string{
		"":                               "empty",
		b.String()[:b.Len()/2]:           "ends in the middle",
		"run,name\n":                     "byte 1",
		"{}":                             "not an export",
		"[]":                             "cannot unmarshal",
		`{"version":1}`:                  "not an export",
		`{"version":1,"run":null}`:       "not an export",
		`{"version":1,"run":{}}`:         "",
		`{"version":2,"run":{"id":"r"}}`: "version 2",
		`{"version":1,"run":{"id":"r"},"trials":[null]}`:            "trial 1",
		`{"version":1,"run":{"id":"r"},"trials":[{"run":"other"}]}`: "trial 1",
		b.String() + "{}": "something follows",
	} {
		_, _, err := ReadJSON(strings.NewReader(in))
		if want == "" {
			continue // it may be accepted or rejected, but must not panic
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v, want %q", in, err, want)
		}
	}
}

func FuzzReadJSON(f *testing.F) {
	var b bytes.Buffer
	if err := WriteJSON(&b, exampleRun("r"), each(&iotax.Trial{Run: "r", Values: []iotax.Value{{Name: "a", Value: 1}}})); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Add([]byte(`{"version":1,"run":{"plan":1},"trials":[{"values":[{"value":null}],"series":[{"t":[1,]}]}]}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		run, trials, err := ReadJSON(bytes.NewReader(in))
		if err == nil && (run == nil || len(trials) > 0 && trials[0] == nil) {
			t.Error("neither a run nor an error")
		}
	})
}
