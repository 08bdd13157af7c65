package report

import (
	"slices"

	"iotax"
)

// An ObjectFact is a value of a fact that reports how the bytes of objects were protected on the way, and where it held.
type ObjectFact struct {
	Fact    string   `json:"fact"`
	Value   string   `json:"value"`
	Targets []string `json:"targets"`
}

// ObjectFacts are the values in the order of the trials, those of one fact together.
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
