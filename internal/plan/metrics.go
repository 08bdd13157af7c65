package plan

import (
	"fmt"
	"slices"

	"iotax/internal/metric"
	"iotax/internal/plan/syntax"
)

// Possible returns the metrics that a trial of the workload can measure.
func (w Workload) Possible() []metric.Metric { return possible(w.Spec) }

func possible(s Spec) (all []metric.Metric) {
	if of := s.Traits().Metrics; of != nil {
		all = of()
	}
	return append(all, metric.Observed...)
}

// Choose sets the headline metrics of all measured workloads. It returns an error if one of them lacks a metric. It
// ignores workloads that only run as noise.
func (p *Plan) Choose(names []string) error {
	for i := range p.Workloads {
		w := &p.Workloads[i]
		if w.Aside {
			continue
		}
		w.Metrics = nil
		for _, name := range names {
			m, hint, err := find(w.Name, possible(w.Spec), name)
			if err != nil {
				return fmt.Errorf("%w\n  hint: %s", err, hint)
			}
			if !slices.Contains(w.Metrics, m.Name) {
				w.Metrics = append(w.Metrics, m.Name)
			}
		}
	}
	return nil
}

// find returns the metric with this name, or else a hint and an error that names the workload.
func find(workload string, all []metric.Metric, name string) (m metric.Metric, hint string, err error) {
	m, ok := metric.Find(all, name)
	if ok {
		return m, "", nil
	}
	var names []string
	for _, m := range all {
		names = append(names, m.Name)
	}
	hint = "it has " + metric.List(all)
	if near := syntax.Nearest(name, names); near != "" {
		hint = fmt.Sprintf("did you mean %q? %s", near, hint)
	}
	return m, hint, fmt.Errorf("the workload %s has no metric %s", syntax.Quote(workload), syntax.Quote(name))
}

// metrics resolves the headline metrics of workloads.
func (b *builder) metrics() {
	for _, w := range b.works {
		if w.asked == nil {
			continue
		}
		items := w.asked.Listed()
		if len(items) == 0 {
			b.Fail(w.asked, "name a metric, or leave it out for the kind's own", "%s is compared by nothing", syntax.Quote(w.name))
		}
		for _, n := range items {
			m, hint, err := find(w.name, possible(w.Spec), n.Text)
			switch {
			case err != nil:
				b.Fail(n, hint, "%s", err)
			case slices.Contains(w.metrics, m.Name):
				b.Fail(n, "name it once", "%s is compared by %s twice", syntax.Quote(w.name), syntax.Quote(m.Name))
			default:
				w.metrics = append(w.metrics, m.Name)
			}
		}
	}
}
