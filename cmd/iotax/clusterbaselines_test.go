package main

import (
	"slices"
	"testing"

	"iotax"
	"iotax/internal/plan"
)

// In the plan of the suite "cluster", each target lists the targets to compare it with, in the expected order.
func TestClusterBaselines(t *testing.T) {
	p, err := (&planFlags{scale: 1}).load([]string{"cluster"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if p.Baseline != "local disk" {
		t.Errorf("the baseline is %q", p.Baseline)
	}
	const disk, tcp4, tcp5 = "local disk", "tcp node04 to node01", "tcp node05 to node01"
	want := map[string][]string{ // the verdict refers to the first target of each list; for the others, the report only shows a ratio
		disk:                       nil,
		tcp4:                       nil,
		"tcp node03 to node01":     nil,
		tcp5:                       nil,
		"controller export":        {disk, tcp4},
		"node-local export":        {disk},
		"node05 controller export": {"controller export", tcp5},
		"node05 node-local export": {"node-local export", disk},
		"guest export":             nil,
		"guest root export":        nil,
		"new guest export":         nil,
		"guest":                    {"node-local export", disk},
		"guest root":               {"node-local export", disk},
		"new guest":                nil,
		"s3":                       {tcp4},
		"s3 on three nodes":        {"s3", tcp4},
	}
	for _, target := range p.Targets {
		w, known := want[target.Name]
		if !known || !slices.Equal(target.Against, w) {
			t.Errorf("%s is compared with %q, want %q (known: %v)", target.Name, target.Against, w, known)
		}
		delete(want, target.Name)
	}
	if len(want) > 0 {
		t.Errorf("the suite has no %v", want)
	}
	// In each workload, a target is compared with the first target of Against that also runs the workload or, if
	// Against is empty, with the workload's baseline.
	run := iotax.Run{Baseline: p.Baseline}
	infos := map[string]iotax.TargetInfo{}
	for _, target := range p.Targets {
		infos[target.Name] = iotax.TargetInfo{Name: target.Name, Against: target.Against}
	}
	for _, w := range p.Workloads {
		run.Workloads = append(run.Workloads, iotax.WorkloadInfo{Name: w.Name, At: w.At})
	}
	for _, c := range [][3]string{
		{"network", tcp4, ""}, {"network", "tcp node03 to node01", tcp4}, {"network", tcp5, tcp4},
		{"sequential read", "controller export", disk}, {"sequential read", "node-local export", disk}, {"sequential read", "node05 node-local export", "node-local export"},
		{"sequential write", "controller export", disk}, {"4k random read", "node-local export", disk}, {"4k random read qd32", "controller export", disk},
		{"depth-32 write", "controller export", disk}, {"depth-32 read", "node-local export", disk},
		{"materialize", "controller export", ""}, {"materialize", "node05 controller export", "controller export"},
		{"32 objects of 4 MiB, 8 clients", "s3", ""}, {"32 objects of 4 MiB, 8 clients", "s3 on three nodes", "s3"}, {"guest sequential read", "guest", ""}, {"guest root read", "guest root", ""}, {"start", "new guest", ""}, {"image", "s3", ""},
	} {
		i := slices.IndexFunc(p.Workloads, func(w plan.Workload) bool { return w.Name == c[0] })
		if i < 0 {
			t.Errorf("the suite has no %s", c[0])
			continue
		}
		w := p.Workloads[i]
		if got := infos[c[1]].Reference(run.BaselineOf(w.Name), func(target string) bool { return slices.Contains(w.At, target) }); got != c[2] {
			t.Errorf("%s: %s is compared with %q, want %q", c[0], c[1], got, c[2])
		}
	}
}
