package fiojob

import (
	"testing"

	"iotax"
	"iotax/fio"
)

// The fact direct is derived from both of fio's options for it.
func TestFactDirect(t *testing.T) {
	size := fio.Setting{Key: "size", Value: "1m"}
	for _, c := range []struct {
		want string
		jobs [][]fio.Setting
	}{
		{"", [][]fio.Setting{{size}}},
		{"1", [][]fio.Setting{{size, {Key: "direct", Value: "1"}}}},
		{"1", [][]fio.Setting{{size, {Key: "buffered", Value: "0"}}}},
		{"0", [][]fio.Setting{{size, {Key: "buffered", Value: "1"}}}},
		{"0 + 1", [][]fio.Setting{{size, {Key: "direct", Value: "0"}}, {size, {Key: "buffered", Value: "0"}}}},
		{"1 + default", [][]fio.Setting{{size, {Key: "buffered", Value: "0"}}, {size}}},
	} {
		j := &fioJob{spec: &Fio{}, settings: c.jobs[0]}
		for i, settings := range c.jobs[1:] {
			j.beside = append(j.beside, part{index: i + 1, settings: settings})
		}
		r, err := j.resolve(nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := r.facts()[iotax.FactDirect]; got != c.want {
			t.Errorf("%v: %q, want %q", c.jobs, got, c.want)
		}
	}
}
