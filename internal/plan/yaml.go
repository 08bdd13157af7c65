package plan

import (
	"reflect"

	"iotax/internal/plan/bind"
	"iotax/internal/plan/syntax"
)

// YAML writes the plan with all defaults filled in and all axes expanded. Parse reads it back as the same plan, except
// for File and the positions.
func (p *Plan) YAML() ([]byte, error) {
	var e bind.Encoder
	machines, targets, works := &syntax.Node{Kind: syntax.MappingNode}, &syntax.Node{Kind: syntax.MappingNode}, &syntax.Node{Kind: syntax.MappingNode}
	for _, m := range p.Machines {
		n := &syntax.Node{Kind: syntax.MappingNode}
		n.Put("on", syntax.WordNode(m.On))
		machines.Put(m.Name, e.Entry(m.Kind, m.Spec, m.fresh, m.Labels, n))
	}
	for _, t := range p.Targets {
		n := &syntax.Node{Kind: syntax.MappingNode}
		n.Put("on", syntax.WordNode(append([]string{t.On}, t.In...)[len(t.In)]))
		n.Put("against", syntax.WordsNode(t.Against))
		targets.Put(t.Name, e.Entry(t.Kind, t.Spec, t.fresh, t.Labels, n))
	}
	for _, w := range p.Workloads {
		n := &syntax.Node{Kind: syntax.MappingNode}
		n.Put("at", syntax.WordsNode(w.At))
		n.Put("metrics", syntax.WordsNode(w.Metrics))
		n.Put("section", syntax.WordNode(w.Section))
		works.Put(w.Name, e.Entry(w.Kind, w.Spec, w.fresh, w.Labels, n))
	}
	top := &syntax.Node{Kind: syntax.MappingNode}
	top.Put("name", syntax.WordNode(p.Name))
	top.Put("baseline", syntax.WordNode(p.Baseline))
	expected := &syntax.Node{Kind: syntax.ListNode}
	for _, x := range p.Expectations {
		expected.Items = append(expected.Items, syntax.WordNode(x.String()))
	}
	top.Put("expect", expected)
	p.present(top)
	if len(p.Machines) > 0 {
		top.Put("machines", machines)
	}
	top.Put("targets", targets)
	top.Put("workloads", works)
	e.Docs = true
	top.Put("measure", e.Fields(reflect.ValueOf(p.Measure), reflect.ValueOf(Defaults())))
	return []byte(top.YAML(0)), e.Err
}

// Job returns the keys and values of the workload's spec that differ from the defaults, and its kind under the key
// "kind". Nested keys are joined with dots.
func (l Workload) Job() (map[string]string, error) {
	var e bind.Encoder
	out := e.Spec(l.Kind, l.Spec, l.fresh).Leaves("", map[string]string{})
	if l.fresh != nil {
		for k, v := range e.Spec(l.Kind, l.fresh, l.fresh).Leaves("", map[string]string{}) {
			if out[k] == v {
				delete(out, k)
			}
		}
	}
	out["kind"] = l.Kind
	return out, e.Err
}
