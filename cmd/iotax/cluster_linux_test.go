package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"iotax"
	"iotax/internal/report"
	"iotax/internal/testenv/long"
)

// The whole suite runs on one machine, scaled down. Every workload has values at each of its targets. The values and
// their ratios are consistent with the rate of the lab's links. Nothing is left behind.
func TestClusterSuite(t *testing.T) {
	long.Test(t)
	needsRoot(t)
	s := newStage(t)
	made := func() (all []string) { // namespaces, state files and directories of labs that runs made
		t.Helper()
		for _, pattern := range []string{"/run/netns/iotax-r*", "/run/iotax-lab/r*", "/var/tmp/iotax-lab-r*"} {
			found, err := filepath.Glob(pattern)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, found...)
		}
		return all
	}
	before := made()
	r := s.iotax("run", "cluster", "--scale", "0.1", "--protocol", "fixed:1x1s", "--calibrate", "no", "--details").works(t, exitOK)
	if left := slices.DeleteFunc(made(), func(s string) bool { return slices.Contains(before, s) }); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
	for _, section := range []string{"Network", "Block", "Materialise", "Object store", "Images", "Guest", "Reference: cluster"} {
		if !strings.Contains(r.stdout, "\n"+section) {
			t.Errorf("the report has no section %s", section)
		}
	}
	run, trials := s.trials()
	cells := map[string][]*iotax.Trial{}
	for _, trial := range trials {
		if trial.Err != "" { // for example when fio got no CPU for a second; the cell's other trials must have values
			t.Logf("%s: %s", trial.Cell(), trial.Err)
			continue
		}
		for _, f := range trial.Findings {
			if f.Rule == "left-behind" {
				t.Errorf("%s: %s", trial.Cell(), f.Evidence)
			}
		}
		cells[trial.Cell()] = append(cells[trial.Cell()], trial)
	}
	if t.Failed() {
		t.Fatal(r)
	}
	// Compare the best trials, because other work on this machine slows down some of them.
	all := func(cell, metric string) (xs []float64) {
		t.Helper()
		for _, trial := range cells[cell] {
			if v, ok := trial.Value(metric); ok {
				xs = append(xs, v.Value)
			}
		}
		if len(xs) == 0 {
			t.Fatalf("%s has no %s\n%v", cell, metric, r)
		}
		return xs
	}
	most := func(cell, metric string) float64 { t.Helper(); return slices.Max(all(cell, metric)) }
	within := func(what string, x, lo, hi float64) {
		t.Helper()
		if !(x > lo && x < hi) {
			t.Errorf("%s: %.4g, want more than %.4g and less than %.4g", what, x, lo, hi)
		}
	}

	// Every workload has all its metrics.
	figures := 0
	for _, w := range run.Workloads {
		for _, target := range w.At {
			for _, m := range w.Metrics {
				x := slices.Min(all(target+" / "+w.Name, m))
				if !(x > 0) && m != "retransmits" {
					t.Errorf("%s / %s: %s is %g", target, w.Name, m, x)
				}
				figures++
			}
		}
	}
	if len(run.Workloads) != 22 || figures < 63 { // the plan's entry multipart expands to four workloads
		t.Errorf("%d workloads with %d figures", len(run.Workloads), figures)
	}

	// No transfer over a link is clearly faster than the line. If the run took long, this machine is too busy to fill
	// the line, so some bounds are relaxed.
	const line = 384e6 / 8
	full, copies, once := .5, .1, .7
	if r.took > 2*time.Minute {
		t.Logf("it took %v: the machine is too busy to fill a line", r.took)
		full, copies, once = .02, .01, 10
	}
	for _, tcp := range []string{"tcp node04 to node01", "tcp node03 to node01", "tcp node05 to node01"} {
		within(tcp, most(tcp+" / network", "bandwidth"), full*line, 1.05*line)
	}
	for cell, metrics := range map[string][]string{
		"controller export / sequential write":    {"write.bandwidth"},
		"controller export / sequential read":     {"read.bandwidth"},
		"controller export / depth-32 write":      {"write.bandwidth"},
		"controller export / depth-32 read":       {"read.bandwidth"},
		"controller export / materialize":         {"bandwidth"},
		"node05 controller export / materialize":  {"bandwidth"},
		"controller export / materialize lazily":  {"bandwidth"},
		"s3 / large object 256 MiB":               {"upload.bandwidth", "download.bandwidth"},
		"s3 / 32 objects of 4 MiB":                {"upload.bandwidth", "download.bandwidth"},
		"s3 / 32 objects of 4 MiB, 8 clients":     {"upload.bandwidth", "download.bandwidth"},
		"s3 / multipart part=16MiB concurrency=8": {"upload.bandwidth", "download.bandwidth"},
		"s3 / image": {"import.bandwidth", "first.bandwidth"},
	} {
		for _, m := range metrics {
			within(cell+", "+m+" over the line's", most(cell, m)/line, full, 1.1)
		}
	}
	within("node-local export reads past the line", most("node-local export / sequential read", "read.bandwidth")/line, 1.5, 1e6)
	within("node05 node-local export reads past the line", most("node05 node-local export / sequential read", "read.bandwidth")/line, 1.5, 1e6)

	// With three nodes, an upload crosses the store's line two more times, to the other nodes, and a download one more
	// time.
	const many = " / 32 objects of 4 MiB, 8 clients"
	within("PUT over three nodes", most("s3 on three nodes"+many, "upload.bandwidth")/most("s3"+many, "upload.bandwidth"), copies, once)
	within("GET over three nodes", most("s3 on three nodes"+many, "download.bandwidth")/most("s3"+many, "download.bandwidth"), full, 2*once)

	// The first I/O of a lazy volume is served before a full copy exists.
	within("first I/O of a lazy volume over that of a copy", slices.Min(all("controller export / materialize lazily", "first.io"))/slices.Max(all("controller export / materialize", "first.io")), 0, 1)
	for _, trial := range cells["s3 / image"] {
		first, _ := trial.Value("first.duration")
		second, _ := trial.Value("second.duration")
		slow := slices.ContainsFunc(trial.Findings, func(f iotax.Finding) bool { return f.Rule == "clone-not-fast" })
		if slow != (first.Value < 10*second.Value) {
			t.Errorf("the first volume took %v, the second %v, and that it is slow is said: %v", first, second, slow)
		}
	}
	for _, trial := range cells["new guest / start"] {
		last := 0.0
		for _, phase := range []string{"boot.init", "boot.plugged", "boot.ready", "boot.place", "boot.result"} {
			v, _ := trial.Value(phase)
			if !(v.Value > last) && phase != "boot.plugged" || !(v.Value > 0) { // the disk may be plugged in before the kernel is ready
				t.Errorf("a guest: %s after %g s, and what comes before it after %g s", phase, v.Value, last)
			}
			last = v.Value
		}
	}

	// The report relates the values to the right targets and to the published figures.
	rep := report.New(&run, trials)
	for _, c := range []struct{ target, metric, workload, against string }{
		{"controller export", "read.bandwidth", "sequential read", "tcp node04 to node01"},
		{"s3", "download.bandwidth", "large object 256 MiB", "tcp node04 to node01"},
		{"node05 controller export", "duration", "materialize", "tcp node05 to node01"},
		{"guest root", "read.bandwidth", "guest root read", ""},
	} {
		i := slices.IndexFunc(rep.Sections, func(s report.Section) bool { return s.Workload == c.workload && s.Metric == c.metric })
		if i < 0 {
			t.Errorf("the report has no %s of %s", c.metric, c.workload)
			continue
		}
		j := slices.IndexFunc(rep.Sections[i].Rows, func(r report.Row) bool { return r.Target == c.target })
		if j < 0 || slices.ContainsFunc(rep.Sections[i].Rows[j].Shares, func(s report.Share) bool { return s.Against == c.against }) == (c.against == "") {
			t.Errorf("%s / %s is not held against %q: %+v", c.target, c.workload, c.against, rep.Sections[i].Rows)
		}
	}
	for _, metric := range []string{"write.bandwidth", "read.bandwidth", "read.iops", "boot.plugged", "boot.result"} {
		if rep.Reference == nil || !slices.ContainsFunc(rep.Reference.Rows, func(r report.ReferenceRow) bool {
			return r.Metric == metric && r.Published.Target == "guest"
		}) {
			t.Errorf("the guest's published %s is not beside the run", metric)
		}
	}
	if rep.Reference == nil || !slices.ContainsFunc(rep.Reference.Rows, func(r report.ReferenceRow) bool {
		return r.Metric == "retransmits" && r.Published.Value.Estimate == 193
	}) {
		t.Errorf("the published retransmits are not beside the run: %+v", rep.Reference)
	}
	if t.Failed() {
		t.Log(r)
	}
}
