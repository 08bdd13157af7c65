package report

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"iotax"
	"iotax/internal/report/format"
)

// A Curve shows latency against offered load, for open-loop workloads that differ only in their load.
type Curve struct {
	Job    string       // the common job, as fio options
	Points []CurvePoint // ordered by offered load
}

// A CurvePoint is one offered load, which is the same on every target.
type CurvePoint struct {
	Workload string
	Load     string  // share of the slowest target's capacity, for example "60 %"; "" for an absolute rate
	Offered  float64 // in I/Os per second
	Cells    []CurveCell
}

// A CurveCell is the result of one target at one load. Unknown numbers are NaN.
type CurveCell struct {
	Target          string
	Done            float64 // in I/Os per second
	Latency         float64 // mean, in seconds
	P50, P99, P99d9 float64 // in seconds
	Late            float64 // share of the arrivals that had to wait because their source was busy
	Invalid         string  // "cached" or "invalid"; "" for a valid result
}

// curves collects the curves of open-loop workloads, and sets Open of their sections.
func (b *builder) curves() {
	for i := range b.Sections {
		s := &b.Sections[i]
		l := b.load(s.Workload)
		job, load, offered := l.job, l.load, l.offered
		if job == "" {
			continue
		}
		s.Open = "open loop"
		if load != "" {
			s.Open += " at " + load
		}
		if offered > 0 {
			s.Open += ", " + format.Number(format.Lone(offered), iotax.PerSecond) + " IOPS offered"
		}
		if !s.First {
			continue
		}
		direction, _, _ := strings.Cut(s.Metric, ".")
		p := CurvePoint{Workload: s.Workload, Load: load, Offered: offered}
		for j := range s.Rows {
			c := CurveCell{Target: s.Rows[j].Target}
			if b.Invalid(&s.Rows[j]) {
				c.Invalid = b.Word(&s.Rows[j], true)
			}
			for name, to := range map[string]*float64{direction + ".iops": &c.Done, direction + ".latency.mean": &c.Latency, direction + ".latency.p50": &c.P50,
				direction + ".latency.p99": &c.P99, direction + ".latency.p99.9": &c.P99d9, iotax.ValueLoadLate: &c.Late} {
				*to = b.Figure(s.Workload, &s.Rows[j], name).Estimate
			}
			p.Cells = append(p.Cells, c)
		}
		k := slices.IndexFunc(b.Curves, func(c Curve) bool { return c.Job == job })
		if k < 0 {
			b.Curves = append(b.Curves, Curve{Job: job})
			k = len(b.Curves) - 1
		}
		b.Curves[k].Points = append(b.Curves[k].Points, p)
	}
	for i := range b.Curves {
		slices.SortStableFunc(b.Curves[i].Points, func(x, y CurvePoint) int { return cmp.Compare(x.Offered, y.Offered) })
	}
}

// An openLoad describes how the trials of a workload submit I/Os: in an open loop or in a closed loop.
type openLoad struct {
	job, load string  // the job and the load of an open loop; job is "" for a closed loop
	offered   float64 // in I/Os per second
	depth     int     // queue depth of a closed loop; 0 if unknown
}

// load returns the openLoad of a workload. It caches the result.
func (b *builder) load(workload string) openLoad {
	if l, ok := b.loads[workload]; ok {
		return l
	}
	var l openLoad
	for _, t := range b.byWorkload[workload] {
		if t.Facts[iotax.FactLoadJob] != "" {
			v, _ := t.Value(iotax.ValueLoadOffered)
			l = openLoad{job: t.Facts[iotax.FactLoadJob], load: t.Facts[iotax.FactLoad], offered: v.Value}
			break
		}
		if l.depth > 0 {
			continue
		}
		if depth, err := strconv.Atoi(t.Facts[iotax.FactIODepth]); err == nil {
			if n, err := strconv.Atoi(t.Facts[iotax.FactNumJobs]); err == nil {
				depth *= n
			}
			l.depth = depth
		}
	}
	if b.loads == nil {
		b.loads = map[string]openLoad{}
	}
	b.loads[workload] = l
	return l
}

// latencyLabel returns the label of a metric. In a closed loop of known depth, latencies other than those of flushes
// are labelled "service latency" with the queue depth.
func (b *builder) latencyLabel(workload, metric string) string {
	label := format.Label(metric)
	if !strings.Contains(metric, ".latency") || strings.HasPrefix(metric, "sync.") {
		return label
	}
	l := b.load(workload)
	if l.job != "" || l.depth == 0 {
		return label
	}
	return strings.Replace(label, "latency", "service latency", 1) + fmt.Sprintf(" at QD %d", l.depth)
}
