package report

import (
	"slices"

	"iotax"
)

// An ObjectFact is a fact about how object data was protected or verified, with the targets for which it is true.
type ObjectFact struct {
	Fact    string   `json:"fact"`
	Value   string   `json:"value"`
	Targets []string `json:"targets"`
}

// ObjectFacts returns the facts about object data, grouped by Fact. Within a group, they are in the order of the
// trials.
func (r *Report) ObjectFacts() []ObjectFact {
	var out []ObjectFact
	for _, fact := range []string{iotax.FactPayload, iotax.FactVerified} {
		for _, t := range r.Trials {
			value := t.Facts[fact]
			if value == "" || t.Err != "" {
				continue
			}
			i := slices.IndexFunc(out, func(f ObjectFact) bool { return f.Fact == fact && f.Value == value })
			if i < 0 {
				i = len(out)
				out = append(out, ObjectFact{Fact: fact, Value: value})
			}
			if f := &out[i]; !slices.Contains(f.Targets, t.Target) {
				f.Targets = append(f.Targets, t.Target)
			}
		}
	}
	return out
}
