package bisect

import (
	"testing"

	"iotax/internal/kinds"
	"iotax/internal/plan"
)

// Each side of a comparison uses its own build, even in the targets and machines that the measured target is based on.
func TestTwin(t *testing.T) {
	const head, tail = "targets:\n  a: {dir: ", "}\n  b: {disk: {of: a}, on: vm}\nworkloads: {w: {fio: {rw: read, size: 1MiB}}}\n"
	for name, text := range map[string]string{
		"a lower target": "machines: {vm: {qemu: {}}}\n" + head + "'/x/{build}'" + tail,
		"a machine":      "machines: {vm: {qemu: {kernel: '{build}/bzImage'}}}\n" + head + "/x" + tail,
	} {
		p, err := plan.Parse("p.yaml", []byte(text), kinds.All())
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		twin, err := Twin(p, kinds.All(), "1", "/good", "2", "/bad")
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var machines []string
		for _, m := range twin.Machines {
			machines = append(machines, m.Name)
		}
		for i, want := range []struct{ name, on, of string }{{"1", "vm", "a"}, {"2", "vm of 2", "a of 2"}, {"a", "host", ""}, {"a of 2", "host", ""}} {
			x, of := twin.Targets[i], ""
			if p := x.Traits().Of; p != nil {
				of = *p
			}
			if x.Name != want.name || x.On != want.on || of != want.of {
				t.Errorf("%s: target %d is %q on %q of %q; want %q", name, i, x.Name, x.On, of, want)
			}
		}
		if _, err := twin.YAML(); err != nil || len(twin.Machines) != 3 {
			t.Errorf("%s: %v, %v", name, machines, err)
		}
	}
}
