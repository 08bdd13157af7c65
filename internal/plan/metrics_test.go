package plan_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"iotax/internal/plan"
)

func withMetrics(line string) string {
	return "targets: {a: {dir: /a}, b: {dir: /b}}\nworkloads:\n  w:\n    fio: {rw: randrw, fdatasync: 1}\n    " + line + "\n"
}

func TestMetrics(t *testing.T) {
	for line, want := range map[string][]string{
		"metric: sync.latency.p99": {"sync.latency.p99"}, "metric: iops": {"mixed.iops"},
		"metrics: [read.iops, read.latency.p99.9, cpu.per-io]": {"read.iops", "read.latency.p99.9", "cpu.per-io"}, "section: x": nil,
	} {
		p, err := plan.Parse("p.yaml", []byte(withMetrics(line)), realKinds())
		if err != nil {
			t.Errorf("%s: %v", line, err)
			continue
		}
		if got := p.Workloads[0].Metrics; !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", line, got, want)
		}
		text, err := p.YAML()
		if err != nil {
			t.Fatal(err)
		}
		if again, err := plan.Parse("p.yaml", text, realKinds()); err != nil || !slices.Equal(again.Workloads[0].Metrics, want) {
			t.Errorf("written and read again: %v\n%s", err, text)
		}
	}
}

// A metric that the workload lacks is an error at the place where the plan names it. Repeated metrics and an empty list
// are errors, too.
func TestMetricsRefused(t *testing.T) {
	for line, want := range map[string][]string{
		"metric: read.latency.p98":          {"plan.yaml:5:13", `no metric "read.latency.p98"`, "read.latency.{mean, max, p50, p90, p95, p99, p99.9, p99.99", "sync.latency.{"},
		"metric: trim.iops":                 {`no metric "trim.iops"`, "did you mean"},
		"metrics: [iops, mixed.iops]":       {`by "mixed.iops" twice`},
		"metrics: []":                       {"compared by nothing"},
		"metric: {x: y}":                    {"takes names of metrics"},
		"metric: iops\n    metrics: [iops]": {"metric and metrics are one key"},
	} {
		_, err := plan.Parse("plan.yaml", []byte(withMetrics(line)), realKinds())
		var all plan.Errors
		if !errors.As(err, &all) {
			t.Errorf("%s: %v", line, err)
			continue
		}
		for _, w := range want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s: no %q in\n%v", line, w, err)
			}
		}
	}
	without := "targets: {a: {dir: /a}, b: {dir: /b}}\nworkloads: {w: {fio: {rw: randread}, metric: sync.latency.p99}}\n"
	if _, err := plan.Parse("p.yaml", []byte(without), realKinds()); err == nil || !strings.Contains(err.Error(), `no metric "sync.latency.p99"`) {
		t.Errorf("the flushes of a job that does not flush: %v", err)
	}
}

func TestChoose(t *testing.T) {
	p, err := plan.FromWords([]string{"/a", "/b"}, []string{"randread-4k", "randwrite-4k"}, plan.Defaults(), realKinds())
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Choose([]string{"latency.p99", "cpu.per-io"}); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(p.Workloads[0].Metrics, p.Workloads[1].Metrics); got != "[read.latency.p99 cpu.per-io] [write.latency.p99 cpu.per-io]" {
		t.Error(got)
	}
	if err := p.Choose([]string{"read.latency.p99"}); err == nil || !strings.Contains(err.Error(), `"randwrite-4k" has no metric "read.latency.p99"`) || !strings.Contains(err.Error(), "hint: ") {
		t.Error(err)
	}
}

// An expectation from the plan has a position. An expectation from the command line has none.
func TestExpectationsHavePlaces(t *testing.T) {
	p, err := plan.Parse("bench/p.yaml", []byte(withMetrics("expect:\n    - read.iops > 5k\n    - write.iops > 5k")+"expect: cpu.per-io < 1ms\n"), realKinds())
	if err == nil {
		err = p.Expect([]string{"read.iops > 7k", "read.iops > 5k"}) // the second is a duplicate
	}
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, x := range p.Expectations {
		got[x.Condition()] = fmt.Sprintf("%s:%d", x.Pos.File, x.Pos.Line)
	}
	want := map[string]string{"read.iops > 5k": "bench/p.yaml:6", "write.iops > 5k": "bench/p.yaml:7", "cpu.per-io < 1ms": "bench/p.yaml:8", "read.iops > 7k": ":0"}
	if !maps.Equal(got, want) || len(p.Expectations) != len(want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
