package report

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	"iotax"
	"iotax/internal/report/format"
	"iotax/stat"
)

// A Scaling shows how a workload scales with the number of concurrent clients.
type Scaling struct {
	Target   string         `json:"target"` // name without the number of clients
	Workload string         `json:"workload"`
	Label    string         `json:"label"`
	Unit     string         `json:"unit"`
	Better   iotax.Better   `json:"-"`
	Points   []ScalingPoint `json:"points"` // ordered by clients; at least two
}

// A ScalingPoint is the result for one number of clients.
type ScalingPoint struct {
	Target  string        `json:"target"`
	Clients int           `json:"clients"`
	Value   stat.Interval `json:"value"`   // of all clients together
	Ratio   stat.Interval `json:"ratio"`   // to the first point, paired by round; NaN for the first point
	MinMax  stat.Interval `json:"min_max"` // ratio of the slowest client's rate to the fastest client's; NaN for one client
	Jain    stat.Interval `json:"jain"`    // Jain's index, (Σx)² ÷ (n·Σx²) of the clients' rates; NaN for one client
}

// scalings collects the targets that differ only in their number of clients.
func (b *builder) scalings() {
	for i := range b.Sections {
		s := &b.Sections[i]
		if !s.First {
			continue
		}
		var order []string
		by := map[string][]ScalingPoint{}
		rows := map[string]*Row{}
		for j := range s.Rows {
			r := &s.Rows[j]
			info := b.Target(r.Target)
			n, err := strconv.Atoi(info.Facts[iotax.FactClients])
			if err != nil || info.Labels[iotax.FactClients] == "" || len(r.Values()) == 0 || b.Invalid(r) {
				continue
			}
			name := strings.Replace(r.Target, " "+iotax.FactClients+"="+info.Labels[iotax.FactClients], "", 1)
			if by[name] == nil {
				order = append(order, name)
			}
			rows[r.Target] = r
			by[name] = append(by[name], ScalingPoint{Target: r.Target, Clients: n, Value: r.Value,
				MinMax: b.Figure(s.Workload, r, "fairness.min-max"), Jain: b.Figure(s.Workload, r, iotax.ValueFairnessJain)})
		}
		for _, name := range order {
			points := by[name]
			if len(points) < 2 {
				continue
			}
			slices.SortStableFunc(points, func(x, y ScalingPoint) int { return cmp.Compare(x.Clients, y.Clients) })
			points[0].Ratio = format.Lone(math.NaN())
			for k := 1; k < len(points); k++ {
				var err error
				if points[k].Ratio, err = s.RatioOf(rows[points[0].Target].Dots, rows[points[k].Target].Dots, b.Options()); err != nil {
					points[k].Ratio = format.Lone(math.NaN())
				}
			}
			b.Scalings = append(b.Scalings, Scaling{Target: name, Workload: s.Workload, Label: s.Label, Unit: s.Unit, Better: s.Better, Points: points})
		}
	}
}
