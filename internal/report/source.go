package report

import (
	"iter"
	"maps"
	"slices"

	"iotax"
	"iotax/internal/expect"
	"iotax/internal/metric"
	"iotax/stat"
)

// A Source yields the trials of a run in parts, because a large run does not fit into memory. Each part may be read
// several times.
type Source interface {
	// Trials yields every trial. Values, Histograms and Series may be missing.
	Trials() iter.Seq2[*iotax.Trial, error]
	// Measured yields every trial with Seq, Values and Histograms, in any order. The values and histograms are valid
	// only until the next step of the iteration.
	Measured() iter.Seq2[*iotax.Trial, error]
	// Histograms yields the trials whose Seq is in seqs, with at least Seq and Histograms. The histograms are valid only
	// until the next step of the iteration.
	Histograms(seqs []int) iter.Seq2[*iotax.Trial, error]
	// Series yields the trials whose Seq is in seqs, with at least Seq and Series.
	Series(seqs []int) iter.Seq2[*iotax.Trial, error]
	// Intervals yields the trials whose Seq is in seqs, with at least Seq and Intervals.
	Intervals(seqs []int) iter.Seq2[*iotax.Trial, error]
	// Profiles yields the trials whose Seq is in seqs, with at least Seq and Profile.
	Profiles(seqs []int) iter.Seq2[*iotax.Trial, error]
}

// Held is a Source of trials in memory.
type Held []*iotax.Trial

func (h Held) Trials() iter.Seq2[*iotax.Trial, error] {
	return func(yield func(*iotax.Trial, error) bool) {
		for _, t := range h {
			if t != nil && !yield(t, nil) {
				return
			}
		}
	}
}

func (h Held) Measured() iter.Seq2[*iotax.Trial, error] { return h.Trials() }

func (h Held) Histograms(seqs []int) iter.Seq2[*iotax.Trial, error] { return h.Series(seqs) }

func (h Held) Series(seqs []int) iter.Seq2[*iotax.Trial, error] {
	wanted := make(map[int]bool, len(seqs))
	for _, seq := range seqs {
		wanted[seq] = true
	}
	return func(yield func(*iotax.Trial, error) bool) {
		for t, err := range h.Trials() {
			if (err != nil || wanted[t.Seq]) && !yield(t, err) {
				return
			}
		}
	}
}

func (h Held) Intervals(seqs []int) iter.Seq2[*iotax.Trial, error] { return h.Series(seqs) }

func (h Held) Profiles(seqs []int) iter.Seq2[*iotax.Trial, error] { return h.Series(seqs) }

// A Trial is a trial in a report. Its values are in a compact form, and it keeps only the tails of its histograms. The
// fields Values, Histograms and Series may be empty, so use Value and All for the values.
type Trial struct {
	*iotax.Trial
	shape *outline
	xs    []float64
	tails []tail
}

// A tail is the tail of a trial's histogram, for a quantile that is a headline metric or has an expectation.
type tail struct {
	*quantile
	stat.Tail
}

// A quantile is a metric that is a quantile of a histogram.
type quantile struct {
	metric, of, unit string // `of` is the name of the histogram
	q                float64
}

// An outline contains the fields that the values of many trials share: everything except the numbers.
type outline struct {
	values []iotax.Value
	at     map[string]int // index of the first value with a name
}

// Value returns the value with the given name, and whether the trial has it.
func (t *Trial) Value(name string) (iotax.Value, bool) {
	if t.shape != nil {
		if i, ok := t.shape.at[name]; ok {
			return t.value(i), true
		}
	}
	return iotax.Value{}, false
}

func (t *Trial) value(i int) iotax.Value {
	v := t.shape.values[i]
	v.Value = t.xs[i]
	return v
}

// All yields the values of the trial in their original order.
func (t *Trial) All() iter.Seq[iotax.Value] {
	return func(yield func(iotax.Value) bool) {
		for i := range t.xs {
			if !yield(t.value(i)) {
				return
			}
		}
	}
}

// A reader stores the values of trials in a compact form.
type reader struct {
	shapes map[string][]*outline // by the name of the first value
	last   *outline
	room   []float64 // memory for values, so that many trials share one allocation
}

// read reads the trials of a source, determines which are valid, and then reads their values. It needs two passes,
// because the last trial of a round may discard the round, and histograms must not include discarded rounds.
func (b *builder) read(src Source) error {
	var trials []*iotax.Trial
	for t, err := range src.Trials() {
		if err != nil {
			return err
		}
		trials = append(trials, t)
	}
	slices.SortStableFunc(trials, func(x, y *iotax.Trial) int { return x.Seq - y.Seq })
	trials = stat.SetAside(trials)
	kept := make([]Trial, len(trials))
	b.Trials = make([]*Trial, 0, len(trials))
	r := reader{shapes: map[string][]*outline{}}
	bySeq, twice := make(map[int]*Trial, len(trials)), map[int][]*Trial{} // imported results may share a Seq
	for i, t := range trials {
		kept[i].Trial = t
		if bySeq[t.Seq] != nil {
			twice[t.Seq] = append(twice[t.Seq], &kept[i])
		} else {
			bySeq[t.Seq] = &kept[i]
		}
		switch {
		case t.Explains() != "":
			b.explained[t.Explains()] = append(b.explained[t.Explains()], &kept[i])
		case t.Profiles() != "":
			b.profiled[t.Profiles()] = append(b.profiled[t.Profiles()], &kept[i])
		default:
			b.Trials = append(b.Trials, &kept[i])
		}
	}
	for _, t := range b.Trials {
		c := Cell{t.Target, t.Workload}
		b.byCell[c] = append(b.byCell[c], t)
		b.byWorkload[t.Workload] = append(b.byWorkload[t.Workload], t)
		if t.Discarded != "" {
			if b.discarded[t.Workload] == nil {
				b.discarded[t.Workload] = map[int]bool{}
			}
			b.discarded[t.Workload][t.Round] = true
		}
	}
	headlines := map[[2]string][]*quantile{} // keys are the workload and the name of the histogram
	for m, err := range src.Measured() {
		if err != nil {
			return err
		}
		t := bySeq[m.Seq]
		if t == nil {
			continue // the trial was saved after src.Trials listed the trials
		}
		if t.shape != nil && len(twice[m.Seq]) > 0 {
			t, twice[m.Seq] = twice[m.Seq][0], twice[m.Seq][1:]
		}
		r.take(t, m.Values)
		if t.Separate() {
			continue
		}
		for _, h := range m.Histograms {
			key := [2]string{t.Workload, h.Name}
			quantiles, known := headlines[key]
			if !known {
				quantiles = b.quantiles(t.Workload, h)
				headlines[key] = quantiles
			}
			for _, q := range quantiles {
				x := tail{q, stat.TailOf(h.Bins, q.q)}
				x.Bins = nil // pool reads the bins again if it needs them
				t.tails = append(t.tails, x)
			}
		}
		if b.Counts(t) {
			c := Cell{t.Target, t.Workload}
			for _, h := range m.Histograms {
				b.merge(c, h)
			}
		}
	}
	return nil
}

// pool reads the bins for quantiles that need more I/Os than a single trial has.
func (b *builder) pool(workload string) error {
	type key struct {
		*quantile
		target string
	}
	short, least := map[*quantile]bool{}, map[key]float64{}
	bySeq := map[int]*Trial{}
	for _, t := range b.byWorkload[workload] {
		for _, x := range t.tails {
			k := key{x.quantile, t.Target}
			short[x.quantile] = short[x.quantile] || t.Err == "" && !x.Alone(x.q)
			if low, ok := least[k]; !ok || x.Log < low {
				least[k] = x.Log
			}
			bySeq[t.Seq] = t
		}
	}
	maps.DeleteFunc(short, func(_ *quantile, is bool) bool { return !is })
	if len(short) == 0 || b.Run.Imported() { // imported trials are not pooled
		return nil
	}
	for m, err := range b.source.Histograms(slices.Collect(maps.Keys(bySeq))) {
		if err != nil {
			return err
		}
		t := bySeq[m.Seq]
		for i := range t.tails {
			x := &t.tails[i]
			h := slices.IndexFunc(m.Histograms, func(h iotax.Histogram) bool { return h.Name == x.of })
			if h >= 0 && short[x.quantile] {
				x.Pool(m.Histograms[h].Bins, least[key{x.quantile, t.Target}])
			}
		}
	}
	return nil
}

// quantiles returns the quantiles of the histogram h that are headline metrics of a workload or have an expectation.
func (b *builder) quantiles(workload string, h iotax.Histogram) (all []*quantile) {
	metrics := b.metrics
	for _, w := range b.Run.Workloads {
		if w.Name == workload && metrics == nil {
			metrics = w.Metrics
		}
	}
	if b.Run.Presentation != nil {
		for _, planned := range b.Run.Presentation.Expect {
			if e, err := expect.Parse(planned.Text); err == nil && e.Workload == workload { // `expected` reports errors
				metrics = append(slices.Clip(metrics), e.Metric)
			}
		}
	}
	for _, name := range metrics {
		m, _ := metric.Find(metric.Latency(h.Name, ""), name)
		known := slices.ContainsFunc(all, func(x *quantile) bool { return x.metric == m.Name })
		if _, q, ok := iotax.Quantile(m.Name); ok && !known {
			all = append(all, &quantile{m.Name, h.Name, h.Unit, q})
		}
	}
	return all
}

func (r *reader) take(t *Trial, values []iotax.Value) {
	t.shape = r.shape(values)
	if len(r.room) < len(values) {
		r.room = make([]float64, max(1<<14, len(values)))
	}
	t.xs, r.room = r.room[:len(values):len(values)], r.room[len(values):]
	for i, v := range values {
		t.xs[i] = v.Value
	}
}

func (s *outline) fits(values []iotax.Value) bool {
	return s != nil && slices.EqualFunc(s.values, values, func(v, w iotax.Value) bool {
		return v.Name == w.Name && v.Unit == w.Unit && v.Better == w.Better
	})
}

func (r *reader) shape(values []iotax.Value) *outline {
	if r.last.fits(values) {
		return r.last
	}
	first := ""
	if len(values) > 0 {
		first = values[0].Name
	}
	for _, s := range r.shapes[first] {
		if s.fits(values) {
			r.last = s
			return s
		}
	}
	s := &outline{values: slices.Clone(values), at: make(map[string]int, len(values))}
	for i, v := range slices.Backward(values) {
		s.at[v.Name] = i
	}
	r.shapes[first], r.last = append(r.shapes[first], s), s
	return s
}

// A merged histogram is the sum of the histograms with one name over a cell's valid trials.
type merged struct {
	iotax.Histogram
	trials int
}

func (b *builder) merge(c Cell, h iotax.Histogram) {
	of := b.histograms[c]
	i := slices.IndexFunc(of, func(m *merged) bool { return m.Name == h.Name })
	if i < 0 {
		i = len(of)
		of = append(of, &merged{Histogram: iotax.Histogram{Name: h.Name, Unit: h.Unit}})
		b.histograms[c] = of
	}
	of[i].trials++
	of[i].Histogram = stat.Add(of[i].Histogram, h)
}
