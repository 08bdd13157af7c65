package store

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"iotax"
)

// readEverything reads the run r through most of the reading methods and returns their errors.
func readEverything(t *testing.T, s *Store) (errs []error) {
	ctx := t.Context()
	add := func(err error) { errs = append(errs, err) }
	_, err := s.Runs(ctx)
	add(err)
	_, _, err = s.Find(ctx, Query{Order: ByTook})
	add(err)
	_, err = s.State(ctx, "r")
	add(err)
	_, err = s.RunParts(ctx, "r")
	add(err)
	_, err = s.Raw(ctx, "r", 0)
	add(err)
	for _, err := range s.Each(ctx, "r", Full) {
		add(err)
	}
	p := s.Parts(ctx, "r", "", Full)
	for _, err := range p.Trials() {
		add(err)
	}
	for _, err := range p.Measured() {
		add(err)
	}
	for _, err := range p.Series([]int{0}) {
		add(err)
	}
	r, err := s.Get(ctx, "r")
	add(err)
	if err == nil {
		add(WriteJSON(io.Discard, r, s.Each(ctx, "r", Full)))
	}
	return errs
}

// The error for a damaged value names its location. Random damage causes no panic.
func TestDamagedValues(t *testing.T) {
	ctx := t.Context()
	s := fresh(t)
	r := exampleRun("r")
	r.Status, r.End = iotax.Done, r.Start
	if err := s.Create(ctx, r); err != nil {
		t.Fatal(err)
	}
	x := exampleTrial("r", 0)
	x.Raw = []byte("what fio printed")
	if err := s.Append(ctx, x); err != nil {
		t.Fatal(err)
	}
	if err := s.SavePart(ctx, exampleRun("parts"), Part{0, 2}, func(all []*iotax.Run) *iotax.Run { return all[0] }); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ table, row, columns string }{
		{"runs", "id = 'r'", "seed started ended environment targets workloads findings calibration presentation"},
		{"trials", "run = 'r'", "round seed started took_ns cold labels facts findings"},
		{"measured", "true", "metrics vals histograms"},
		{"blobs", "kind = 'series'", "data"},
		{"blobs", "kind = 'raw'", "data"},
	} {
		for _, column := range strings.Fields(c.columns) {
			var was []byte
			if err := s.db.QueryRow(`SELECT ` + column + ` FROM ` + c.table + ` WHERE ` + c.row).Scan(&was); err != nil {
				t.Fatal(err)
			}
			set := func(v any) {
				if _, err := s.db.Exec(`UPDATE `+c.table+` SET `+column+` = $1 WHERE `+c.row, v); err != nil {
					t.Fatal(err)
				}
			}
			set("xyz") // not valid in any column
			named := 0
			for _, err := range readEverything(t, s) {
				if e := (*iotax.Error)(nil); errors.Is(err, ErrDamaged) && errors.As(err, &e) && strings.Contains(e.On, "run r") && e.Hint != "" && (c.table == "runs" || strings.Contains(e.On, "trial 1")) {
					named++
				} else if err != nil {
					t.Errorf("%s.%s: %v", c.table, column, err)
				}
			}
			if named == 0 {
				t.Errorf("%s.%s: nothing was said", c.table, column)
			}
			random := rand.New(rand.NewPCG(1, 2))
			for i := range 12 {
				b := append([]byte{}, was...)
				for range 1 + random.IntN(3) {
					switch k := random.IntN(len(b) + 1); {
					case i == 0:
						b = []byte{}
					case i%3 == 0:
						b = b[:k]
					case k < len(b):
						b[k] = byte(random.Uint32())
					}
					if len(b) == 0 {
						break
					}
				}
				set(b)
				for _, err := range readEverything(t, s) {
					if err != nil && !errors.Is(err, ErrDamaged) {
						t.Errorf("%s.%s = %q: %v", c.table, column, fmt.Sprintf("%.60s", b), err)
					}
				}
			}
			set(was)
			if c.table == "runs" || c.table == "trials" { // these columns contain text, not blobs
				set(string(was))
			}
			for _, err := range readEverything(t, s) {
				if err != nil {
					t.Fatalf("%s.%s was not put back: %v", c.table, column, err)
				}
			}
		}
	}
	if _, err := s.db.Exec(`UPDATE runs SET environment = 'x' WHERE id = 'r'`); err != nil {
		t.Fatal(err)
	}
	if r, err := s.Get(ctx, "r"); !errors.Is(err, ErrDamaged) || r == nil || r.ID != "r" || r.Status != iotax.Done {
		t.Errorf("%+v, %v", r, err)
	}
	if err := s.Remove(ctx, "r", nil); err != nil {
		t.Errorf("a damaged run cannot be removed: %v", err)
	}
}
