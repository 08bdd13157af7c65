package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"iotax"
	"iotax/report/chart"
	"iotax/report/format"
	"iotax/stat"
)

// A Scaling is what becomes of a workload as more clients do it at the same moment.
type Scaling struct {
	Target                string // without its number of clients
	Workload, Label, Unit string
	Better                iotax.Better
	Points                []ScalingPoint // by clients; two at least
}

// A ScalingPoint is one number of clients.
type ScalingPoint struct {
	Target  string
	Clients int
	Value   stat.Interval // of all together
	Ratio   stat.Interval // to the first point, paired by block; the first point's is NaN
	MinMax  stat.Interval // the slowest client's rate over the fastest one's; NaN for one client
	Jain    stat.Interval // (Σx)² ÷ (n·Σx²) of their rates; NaN for one client
}

// The label and fact of a target that stands for several clients.
const factClients = "clients"

// scalings gathers the targets that differ in their number of clients alone.
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
			info := b.info(r.Target)
			n, err := strconv.Atoi(info.Facts[factClients])
			if err != nil || info.Labels[factClients] == "" || len(r.values()) == 0 || b.condemned(r) {
				continue
			}
			name := strings.Replace(r.Target, " "+factClients+"="+info.Labels[factClients], "", 1)
			if by[name] == nil {
				order = append(order, name)
			}
			rows[r.Target] = r
			by[name] = append(by[name], ScalingPoint{Target: r.Target, Clients: n, Value: r.Value,
				MinMax: b.figure(s.Workload, r, "fairness.min-max"), Jain: b.figure(s.Workload, r, "fairness.jain")})
		}
		for _, name := range order {
			points := by[name]
			if len(points) < 2 {
				continue
			}
			slices.SortStableFunc(points, func(x, y ScalingPoint) int { return cmp.Compare(x.Clients, y.Clients) })
			points[0].Ratio = format.Lone(math.NaN())
			for k := 1; k < len(points); k++ {
				bs, xs := pairDots(rows[points[0].Target].Dots, rows[points[k].Target].Dots, false)
				var err error
				if points[k].Ratio, err = stat.Ratio(bs, xs, s.Better, b.Alpha); err != nil {
					points[k].Ratio = format.Lone(math.NaN())
				}
			}
			b.Scalings = append(b.Scalings, Scaling{Target: name, Workload: s.Workload, Label: s.Label, Unit: s.Unit, Better: s.Better, Points: points})
		}
	}
}

func (c Scaling) title() string {
	return fmt.Sprintf("Clients · %s · %s", format.Clean(c.Target), format.Clean(format.Subject(c.Workload, c.Label)))
}

func (c Scaling) head() []string {
	return []string{"clients", "together", fmt.Sprintf("to %s", format.Plural(c.Points[0].Clients, "client")), "each", "slowest to fastest", "Jain's index"}
}

// rows are the cells of the table under head. Each is what a client has of what one has alone.
func (c Scaling) rows() [][]string {
	share := func(i stat.Interval) string {
		if math.IsNaN(i.Estimate) {
			return format.Dash
		}
		return format.Share(i)
	}
	var out [][]string
	for i, p := range c.Points {
		ratio, each := "1", "100 %"
		if i > 0 {
			ratio, each = format.Ratio(p.Ratio), share(c.each(p))
		}
		out = append(out, []string{strconv.Itoa(p.Clients), format.Value(p.Value, c.Unit), ratio, each, share(p.MinMax), share(p.Jain)})
	}
	return out
}

func (c Scaling) words() wordTable {
	return wordTable{head: c.head(), rows: c.rows(), right: []int{0, 1, 2, 3, 4, 5}, least: 3}
}

// each is what a client keeps, on the average, of what it has at the first point.
func (c Scaling) each(p ScalingPoint) stat.Interval {
	f := float64(c.Points[0].Clients) / float64(p.Clients)
	if c.Better == iotax.Down { // a time is each client's own
		f = 1
	}
	return stat.Interval{Estimate: f * p.Ratio.Estimate, Lo: f * p.Ratio.Lo, Hi: f * p.Ratio.Hi, N: p.Ratio.N}
}

// view is the curve as a drawing, with the intervals as upright lines and what clients that left each other
// everything would do together, and as a table.
func (c Scaling) view(hues map[string]int) curveView {
	v := curveView{Title: c.title(), Head: c.head(), Rows: c.rows()}
	p := chart.Plot{Title: c.title(), Height: 220, Desc: "The table holds the same numbers."}
	hue := hues[c.Points[0].Target]
	all := chart.Line{Name: "together", Hue: hue, Marks: true, Solid: true}
	ideal := chart.Line{Name: "as if alone", Hue: hue, Second: true}
	var spans []chart.Line
	most, top := 0, 0.0
	for _, pt := range c.Points {
		x := float64(pt.Clients)
		most = max(most, pt.Clients)
		top = math.Max(top, pt.Value.Estimate)
		all.Points = append(all.Points, chart.Point{X: x, Y: pt.Value.Estimate, Title: fmt.Sprintf("%s: %s", format.Plural(pt.Clients, "client"), format.Value(pt.Value, c.Unit))})
		if format.Finite(pt.Value) {
			top = math.Max(top, pt.Value.Hi)
			spans = append(spans, chart.Line{Hue: hue, Solid: true, Points: []chart.Point{{X: x, Y: pt.Value.Lo}, {X: x, Y: pt.Value.Hi}}})
		}
	}
	if c.Better == iotax.Up {
		first := c.Points[0]
		for _, pt := range c.Points {
			if y := first.Value.Estimate * float64(pt.Clients) / float64(first.Clients); y <= 2*top { // beyond, the rest would lie flat
				ideal.Points = append(ideal.Points, chart.Point{X: float64(pt.Clients), Y: y})
				top = math.Max(top, y)
			}
		}
	}
	p.X = linearAxis("clients at the same moment", float64(most), iotax.Count)
	p.X.Ticks = nil
	for _, pt := range c.Points {
		p.X.Ticks = append(p.X.Ticks, chart.Tick{At: float64(pt.Clients), Label: strconv.Itoa(pt.Clients)})
	}
	p.Y = linearAxis(format.Clean(c.Label), top, c.Unit)
	p.Lines = append(spans, all)
	if len(ideal.Points) > 1 {
		p.Lines = append(p.Lines, ideal)
	}
	v.Chart = chartView{Name: "clients", SVG: p.SVG(), Caption: "Upright lines are 95 % intervals."}
	return v
}

type jsonScaling struct {
	Target   string             `json:"target"`
	Workload string             `json:"workload"`
	Label    string             `json:"label"`
	Unit     string             `json:"unit"`
	Points   []jsonScalingPoint `json:"points"`
}

type jsonScalingPoint struct {
	Target  string      `json:"target"`
	Clients int         `json:"clients"`
	Value   jsonValue   `json:"value"`
	Ratio   *jsonBounds `json:"ratio,omitempty"` // to the first point
	MinMax  *jsonBounds `json:"min_max,omitempty"`
	Jain    *jsonBounds `json:"jain,omitempty"`
}

func (r *Report) jsonScalings() []jsonScaling {
	known := func(i stat.Interval) *jsonBounds {
		if math.IsNaN(i.Estimate) {
			return nil
		}
		return toBounds(i)
	}
	var out []jsonScaling
	for _, c := range r.Scalings {
		j := jsonScaling{Target: c.Target, Workload: c.Workload, Label: c.Label, Unit: c.Unit}
		for _, p := range c.Points {
			j.Points = append(j.Points, jsonScalingPoint{p.Target, p.Clients, toJSON(p.Value), known(p.Ratio), known(p.MinMax), known(p.Jain)})
		}
		out = append(out, j)
	}
	return out
}
