package plan

import (
	"fmt"
	"testing"
)

func TestWhere(t *testing.T) {
	const text = `targets:
  a: {dir: /x}
  b:
    disk: {cache: [none, unsafe], of: a}
    on: guest
machines: {guest: {qemu: {memory: 1GiB}}}
workloads:
  w: {fio: {rw: read, bs: [4k, 64k]}}
measure: {trial: 3s, rounds: {min: 2}}
`
	p, err := Parse("p.yaml", []byte(text), testKinds())
	if err != nil {
		t.Fatal(err)
	}
	at := func(m Mark) string { return fmt.Sprintf("%d:%d+%d", m.Line, m.Column, m.Width) }
	for _, c := range []struct{ what, got, want string }{
		{"a scalar spec", at(p.Targets[0].Where("path")), "2:12+2"},
		{"the entry", at(p.Targets[0].Where("")), "2:3+1"},
		{"an axis value", at(p.Targets[1].Where("cache")), "4:20+4"},
		{"its other value", at(p.Targets[2].Where("cache")), "4:26+6"},
		{"a key that is not written", at(p.Targets[2].Where("bus")), "3:3+1"},
		{"an option", at(p.Workloads[0].Where("rw")), "8:17+4"},
		{"an option that is an axis", at(p.Workloads[1].Where("bs")), "8:32+3"},
		{"a machine", at(p.Machines[1].Where("memory")), "6:35+4"},
		{"measure", at(p.Where("trial")), "9:18+2"},
		{"below measure", at(p.Where("rounds.min")), "9:36+1"},
		{"not written below measure", at(p.Where("seed")), "0:0+0"},

		{"a field", p.Targets[2].Value("cache"), "unsafe"},
		{"of a scalar spec", p.Targets[0].Value("path"), "/x"},
		{"an option's value", p.Workloads[1].Value("bs"), "64k"},
		{"a size", p.Machines[1].Value("memory"), "1GiB"},
		{"no such key", p.Targets[0].Value("nothing.at.all"), ""},
	} {
		if c.got != c.want {
			t.Errorf("%s: %q, want %q", c.what, c.got, c.want)
		}
	}
	if m := p.Targets[2].Where("cache"); m.File != "p.yaml" || m.Source != "    disk: {cache: [none, unsafe], of: a}" {
		t.Errorf("%+v", m)
	}
}

func TestWhereInWords(t *testing.T) {
	p, err := FromWords([]string{"dir:/a", "qemu:virtio-blk,cache=unsafe"}, []string{"randread-4k"}, Defaults(), testKinds())
	if err != nil {
		t.Fatal(err)
	}
	if m := p.Targets[1].Where("cache"); m.Word != "target 2" || m.Line != 0 || m.Column != 23 || m.Width != 6 {
		t.Errorf("%+v", m)
	}
	if m := (&Plan{}).Where("trial"); m != (Mark{}) {
		t.Errorf("a plan of no text: %+v", m)
	}
}
