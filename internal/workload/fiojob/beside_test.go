package fiojob

import (
	"testing"

	"iotax"
	"iotax/fio"
)

// The fact `direct` is derived from fio's options direct and buffered.
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
		if got := r.facts("psync")[iotax.FactDirect]; got != c.want {
			t.Errorf("%v: %q, want %q", c.jobs, got, c.want)
		}
	}
}

// The fact `ioengine` names the engine of each job if the jobs use different engines.
func TestFactIOEngine(t *testing.T) {
	job := func(engine string) *resolved { return &resolved{engine: engine} }
	for _, c := range []struct {
		first  *resolved
		beside []*resolved
		settle string
		want   string
	}{
		{job(""), nil, "io_uring", "io_uring"},
		{job("cpuio"), []*resolved{job("")}, "io_uring", "cpuio + io_uring"},
		{job("psync"), []*resolved{job("psync")}, "psync", "psync"},
		{job("psync"), []*resolved{job("libaio")}, "nbd", "nbd"},
	} {
		c.first.beside = c.beside
		if got := c.first.facts(c.settle)[iotax.FactIOEngine]; got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
