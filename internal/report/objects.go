package report

import (
	"slices"

	"iotax"
)

// An ObjectFact is a fact about the protection of objects in transit, with its targets.
type ObjectFact struct {
	Fact    string   `json:"fact"`
	Value   string   `json:"value"`
	Targets []string `json:"targets"`
}

// ObjectFacts returns the facts in the order of the trials, grouped by fact.
func (r *Report) ObjectFacts() []ObjectFact {
	var out []ObjectFact
	for _, fact := range []string{iotax.FactPayload, iotax.FactVerified} {
		begin := len(out)
		for _, t := range r.Trials {
			value := t.Facts[fact]
			if value == "" || t.Err != "" {
				continue
			}
			i := slices.IndexFunc(out[begin:], func(f ObjectFact) bool { return f.Value == value })
			if i < 0 {
				i = len(out) - begin
				out = append(out, ObjectFact{Fact: fact, Value: value})
			}
			if f := &out[begin+i]; !slices.Contains(f.Targets, t.Target) {
				f.Targets = append(f.Targets, t.Target)
			}
		}
	}
	return out
}
