package run

import (
	"maps"
	"reflect"
	"slices"

	"iotax"
)

// A ledger keeps the parts of the saved trials that the final review needs. It stores equal parts of a cell's trials
// once, so that memory grows slowly in a long run.
type ledger struct {
	reviewValues []string // names of the values kept in addition to the metrics
	reviewFacts  func(t *iotax.Trial) map[string]string
	entries      []entry
	numbers      []float64                    // values of all entries
	alike        map[[2]string][]*iotax.Trial // by cell: the parts that trials share, with all values set to 0
	facts        []map[string]string          // without duplicates: most cells have the same facts
}

type entry struct {
	alike             *iotax.Trial
	round, start, seq int
	numbers           int // index of its first value in ledger.numbers
}

// add stores the parts of t that the final review needs. It drops the text of findings, and the reason why the trial
// failed or was discarded.
func (l *ledger) add(t *iotax.Trial, metrics []string) {
	shared := iotax.Trial{Run: t.Run, Target: t.Target, Workload: t.Workload, Ramp: t.Ramp, Length: t.Length, Cold: t.Cold, Labels: t.Labels}
	if t.Err != "" {
		shared.Err = "failed"
	}
	if t.Discarded != "" {
		shared.Discarded = "discarded"
	}
	begin := len(l.numbers)
	for _, v := range t.Values {
		if slices.Contains(metrics, v.Name) || slices.Contains(l.reviewValues, v.Name) {
			l.numbers = append(l.numbers, v.Value)
			v.Value = 0
			shared.Values = append(shared.Values, v)
		}
	}
	for _, f := range t.Findings {
		f.Evidence, f.Hint, f.File, f.Line, f.Column = "", "", "", 0, 0
		shared.Findings = append(shared.Findings, f)
	}
	shared.Facts = map[string]string{}
	if l.reviewFacts != nil {
		shared.Facts = l.reviewFacts(t)
	}
	if l.alike == nil {
		l.alike = map[[2]string][]*iotax.Trial{}
	}
	cell := [2]string{t.Target, t.Workload}
	known := l.alike[cell]
	i := slices.IndexFunc(known, func(k *iotax.Trial) bool { return reflect.DeepEqual(*k, shared) })
	if i < 0 {
		i = len(known)
		l.alike[cell] = append(known, l.share(shared))
	}
	l.entries = append(l.entries, entry{l.alike[cell][i], t.Round, t.StartIndex, t.Seq, begin})
}

func (l *ledger) share(t iotax.Trial) *iotax.Trial {
	i := slices.IndexFunc(l.facts, func(f map[string]string) bool { return maps.Equal(f, t.Facts) })
	if i < 0 {
		i = len(l.facts)
		l.facts = append(l.facts, t.Facts)
	}
	t.Facts = l.facts[i]
	return &t
}

// trials returns the stored parts of the trials in the order in which they were added.
func (l *ledger) trials() []*iotax.Trial {
	out := make([]*iotax.Trial, len(l.entries))
	for i, e := range l.entries {
		t := *e.alike
		t.Round, t.StartIndex, t.Seq, t.Values = e.round, e.start, e.seq, slices.Clone(t.Values)
		for j := range t.Values {
			t.Values[j].Value = l.numbers[e.numbers+j]
		}
		out[i] = &t
	}
	return out
}
