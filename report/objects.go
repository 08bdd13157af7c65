package report

import (
	"slices"
	"strings"

	"iotax/report/format"
)

// The facts of trials with objects that say how their bytes were kept from harm on the way.
const (
	factPayload  = "payload"  // of what was sent: "signed chunk by chunk"
	factVerified = "verified" // what came was compared: by which checksum, or "no"
)

// An objectFact is a value of such a fact, and where it held.
type objectFact struct {
	Fact    string   `json:"fact"`
	Value   string   `json:"value"`
	Targets []string `json:"targets"`
}

// objectFacts are the values in the order of the trials, those of one fact together.
func (r *Report) objectFacts() []objectFact {
	var out []objectFact
	for _, fact := range []string{factPayload, factVerified} {
		begin := len(out)
		for _, t := range r.Trials {
			value := t.Facts[fact]
			if value == "" || t.Err != "" {
				continue
			}
			i := slices.IndexFunc(out[begin:], func(f objectFact) bool { return f.Value == value })
			if i < 0 {
				i = len(out) - begin
				out = append(out, objectFact{Fact: fact, Value: value})
			}
			if f := &out[begin+i]; !slices.Contains(f.Targets, t.Target) {
				f.Targets = append(f.Targets, t.Target)
			}
		}
	}
	return out
}

// objectsLine tells them; where all targets had the same, without the targets. "" without objects.
func (r *Report) objectsLine() string {
	said := map[string][]string{}
	facts := r.objectFacts()
	for _, f := range facts {
		words := format.Clean(f.Value)
		if f.Fact == factVerified {
			words = "compared by " + words
			if f.Value == "no" {
				words = "not compared"
			}
		}
		if slices.ContainsFunc(facts, func(o objectFact) bool { return o.Fact == f.Fact && o.Value != f.Value }) {
			var names []string
			for _, t := range f.Targets {
				names = append(names, format.Clean(t))
			}
			words += " (" + format.Enumerate(names, format.Listed, "target") + ")"
		}
		said[f.Fact] = append(said[f.Fact], words)
	}
	var parts []string
	if s := said[factPayload]; s != nil {
		parts = append(parts, "Payloads of objects: "+strings.Join(s, "; ")+".")
	}
	if s := said[factVerified]; s != nil {
		parts = append(parts, "What was downloaded: "+strings.Join(s, "; ")+".")
	}
	return strings.Join(parts, " ")
}
