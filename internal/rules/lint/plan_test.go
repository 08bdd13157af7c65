package lint

import (
	"errors"
	"os"
	"strings"
	"testing"

	"iotax"
	"iotax/internal/machine"
	"iotax/internal/plan"
	"iotax/internal/volume"
	"iotax/internal/workload"
)

func kinds() plan.Kinds {
	return plan.Kinds{Machines: machine.PlanKinds(), Volumes: volume.PlanKinds(), Workloads: workload.PlanKinds()}
}

func lintPlan(t *testing.T, text string, facts Facts) []Finding {
	t.Helper()
	p, err := plan.Parse("x.yaml", []byte(text), kinds())
	var wrong plan.Errors
	if errors.As(err, &wrong) {
		return BadPlan(wrong)
	}
	if err != nil {
		t.Fatal(err)
	}
	return Plan(p, facts)
}

func planWith(job string) string {
	return "targets:\n  a: {dir: /var/tmp}\n  b: {dir: /srv}\nworkloads:\n  w: {fio: {" + job + "}}\nmeasure: {trial: 10s}\n"
}

func TestPlanEdges(t *testing.T) {
	guest := func(disk, job string) string {
		return "machines: {guest: {qemu: {}}}\ntargets:\n  a: {dir: /var/tmp}\n  b: {on: guest, disk: {" + disk + "}}\nworkloads:\n  w: {fio: {" + job + "}}\n"
	}
	for _, c := range []struct {
		rule, text   string
		want         iotax.Severity
		line, column int
	}{
		{"libaio-buffered", planWith("rw: randread, ioengine: libaio, iodepth: 8, direct: 0"), "warning", 5, 65},
		{"libaio-buffered", planWith("rw: randread, ioengine: libaio, iodepth: 8"), "", 0, 0},
		{"depth-of-sync-engine", planWith("rw: randread, ioengine: psync, iodepth: 8"), "warning", 5, 53},
		{"depth-of-sync-engine", planWith("rw: randread, iodepth: 8"), "", 0, 0}, // iotax chooses the engine
		{"file-fits-memory", planWith("rw: randread, direct: 0, size: 1GiB"), "warning", 5, 44},
		{"file-fits-memory", planWith("rw: randread, direct: 0, size: 64GiB"), "", 0, 0},
		{"file-fits-memory", planWith("rw: randread, direct: 0, size: 1GiB, by_size: true"), "info", 5, 44}, // one pass
		{"buffered-write-unsynced", planWith("rw: write, direct: 0, end_fsync: 0"), "warning", 5, 17},
		{"buffered-write-unsynced", planWith("rw: write, direct: 0"), "", 0, 0}, // iotax adds a flush at the end
		{"gtod-reduce", planWith("rw: read, gtod_reduce: 1"), "warning", 5, 36},
		{"zero-buffers", planWith("rw: write, zero_buffers: 1"), "warning", 5, 38},
		{"randrepeat", planWith("rw: randread"), "", 0, 0},
		{"ends-by-size", planWith("rw: read, bs: 1M, size: 64MiB"), "", 0, 0},
		{"short-run", planWith("rw: read") + "# ", "", 0, 0},
		{"short-run", "targets: {a: {dir: /a}}\nworkloads: {w: {fio: {rw: read}}}\nmeasure: {trial: 3s, ramp: 1s}", "warning", 3, 18},
		{"short-run", "targets: {a: {dir: /a}}\nworkloads: {w: {fio: {rw: read, times: 4}}}\nmeasure: {trial: 3s, ramp: 1s}", "", 0, 0},
		{"short-run", "targets: {a: {dir: /a}}\nworkloads: {w: {fio: {rw: read, times: 0.2}}}\nmeasure: {trial: 10s, ramp: 1s}", "warning", 2, 40},
		{"short-run", "targets: {a: {dir: /a}}\nworkloads: {w: {fio: {rw: read, by_size: true}}}\nmeasure: {trial: 3s, ramp: 1s}", "", 0, 0},
		{"short-run", "targets: {a: {dir: /a}}\nworkloads: {v: {fio: {rw: read}}, w: {fio: {rw: write}}}\nmeasure: {trial: 3s, ramp: 1s}", "warning", 3, 18},
		{"guest-disk-cache", guest("cache: unsafe", "rw: randread, direct: 1"), "warning", 4, 32},
		{"guest-disk-cache", guest("cache: writeback", "rw: randread"), "warning", 4, 32},
		{"guest-disk-cache", guest("cache: writeback", "rw: randread, direct: 0"), "", 0, 0},
		{"guest-disk-cache", guest("cache: unsafe", "rw: write, direct: 0"), "warning", 4, 32},
		{"guest-disk-cache", guest("cache: directsync", "rw: randread"), "", 0, 0},
		{"memory-target", "targets: {a: {dir: /srv}, b: {dir: /dev/shm}}\nworkloads: {w: {fio: {rw: read}}}", "warning", 1, 36},
		{"memory-target", "targets: {a: {dir: /srv}, b: {dir: /dev/shmoo}}\nworkloads: {w: {fio: {rw: read}}}", "", 0, 0},
	} {
		found := about(lintPlan(t, c.text, here), c.rule)
		switch {
		case c.want == "" && len(found) == 0:
		case len(found) != 1 || found[0].Severity != c.want || found[0].Line != c.line || found[0].Column != c.column || found[0].File != "x.yaml":
			t.Errorf("%s: %+v, want %q at %d:%d for\n%s", c.rule, found, c.want, c.line, c.column, c.text)
		}
	}
}

// Sizes in a plan use standard units, not fio's.
func TestPlanUnits(t *testing.T) {
	for size, want := range map[string]string{"4MiB": "4 MiB", "4m": "4 MiB", "4MB": "3.8 MiB", "4GiB, scale: 0.25": "1 GiB"} {
		fs := about(lintPlan(t, planWith("rw: randread, direct: 0, size: "+size), here), "file-fits-memory")
		if len(fs) != 1 || !strings.Contains(fs[0].Evidence, "the same "+want+" again (") {
			t.Errorf("%s: %+v, want %s", size, fs, want)
		}
	}
}

// If a plan comes from command-line words, its findings point to the word.
func TestPlanWords(t *testing.T) {
	p, err := plan.FromWords([]string{"dir:/srv", "qemu:virtio-blk,cache=unsafe"}, []string{"randwrite-4k"}, plan.Defaults(), kinds())
	if err != nil {
		t.Fatal(err)
	}
	fs := Plan(p, here)
	if len(fs) != 1 || fs[0].Rule != "guest-disk-cache" || fs[0].File != "target 2" || fs[0].Line != 0 || fs[0].Column != 23 || fs[0].Source != "qemu:virtio-blk,cache=unsafe" {
		t.Errorf("%+v", fs)
	}
}

// A workload from a job file or command line is linted at its position in the plan.
func TestPlanJobFile(t *testing.T) {
	dir := t.TempDir()
	job := "[global]\nrw=randread\nsize=64g\n[good]\ndirect=1\nioengine=libaio\niodepth=4\n[bad]\nioengine=libaio\niodepth=4\n"
	if err := os.WriteFile(dir+"/a.fio", []byte(job), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, work := range map[string]string{
		"file":    "fio: {file: a.fio}",
		"command": "fio: {command: fio --rw=randread --size=64g --ioengine=libaio --iodepth=4 --name=bad}",
		"jointly": "fio: {jointly: true, file: a.fio}",
	} {
		p, err := plan.Parse(dir+"/x.yaml", []byte("targets: {a: {dir: /srv}}\nworkloads:\n  w: {"+work+"}\n"), kinds())
		if err != nil {
			t.Fatal(err)
		}
		fs := Plan(p, here)
		key := name
		if name == "jointly" {
			key = "file"
		}
		col := strings.Index("  w: {"+work, key+": ") + len(key) + 3
		if len(fs) != 1 || fs[0].Rule != "libaio-buffered" || fs[0].Line != 3 || fs[0].Column != col {
			t.Errorf("%s: %+v, want column %d", name, fs, col)
		}
	}
}
