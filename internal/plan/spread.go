package plan

import (
	"slices"

	"iotax/internal/plan/syntax"
)

// Spread returns a plan in which the last target is replaced with one target for each combination of its
// Traits.Choices. For each choice, the current value of the target comes first.
func (p *Plan) Spread(k Kinds) (*Plan, error) {
	t := p.Targets[len(p.Targets)-1]
	fail := func(what, hint string) (*Plan, error) {
		return nil, &Error{Msg: "tune " + t.Name + ": " + what, Hint: hint}
	}
	choices := t.Traits().Choices
	if len(choices) == 0 {
		return fail("there is no built-in list of options for "+t.Kind, "write a plan, with several values for an option: cache: [writeback, none]")
	}
	text, err := p.YAML()
	if err != nil {
		return nil, err
	}
	c := &syntax.Collector{}
	root := syntax.Read(p.File, text, c)
	if root == nil {
		return nil, c.Err()
	}
	targets, _ := root.Get("targets")
	entry, _ := targets.Val.Get(t.Name)
	x, _ := entry.Val.Get(t.Kind)
	spec, labels := x.Val, &syntax.Node{}
	if l, ok := entry.Val.Get("labels"); ok { // p.YAML writes one word for each label, so no label is an axis
		labels = l.Val
	}
	for _, choice := range choices {
		labels.Entries = slices.DeleteFunc(labels.Entries, func(e syntax.Pair) bool { return e.Key.Text == choice.Key })
		now := t.Value(choice.Key)
		values := append([]string{now}, slices.DeleteFunc(slices.Clone(choice.Values), func(v string) bool { return v == now })...)
		spec.Entries = slices.DeleteFunc(spec.Entries, func(e syntax.Pair) bool { return e.Key.Text == choice.Key })
		spec.Put(choice.Key, syntax.WordsNode(values))
	}
	return Parse(p.File, []byte(root.YAML(0)), k)
}
