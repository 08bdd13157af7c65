package web

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"iotax"
	"iotax/internal/report/compare"
	"iotax/internal/report/format"
	"iotax/internal/store"
	"iotax/internal/trend"
)

// trendOf computes the trend that the query parameters select.
func (s *Server) trendOf(ctx context.Context, q url.Values) (*trend.Trend, error) {
	o := trend.Options{Cell: store.Cell{Workload: q.Get("workload"), Target: q.Get("target")}, Name: q.Get("name"), Metric: q.Get("metric"), By: q.Get("by")}
	if text := q.Get("runs"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > trend.MostRuns {
			return nil, wrong("a trend shows 1 to %d runs, not %q", trend.MostRuns, text)
		}
		o.Runs = n
	}
	return s.reader.Of(ctx, o)
}

type trendsView struct {
	view
	Name, Text string
	Groups     []cellsView
	Cells      int
}

type cellsView struct {
	Workload string
	Targets  []linkView
}

type linkView struct{ Label, Href string }

// trends serves the list of cells, with links to their trends.
func (s *Server) trends(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	v := trendsView{view: s.view(r, "Trends", "trends"), Name: q.Get("name"), Text: q.Get("q")}
	cells, err := s.Store.Cells(r.Context())
	if err != nil {
		return err
	}
	if v.Name != "" {
		own, err := s.cellsOf(r.Context(), v.Name)
		if err != nil {
			return err
		}
		with := map[store.Cell]bool{}
		for _, c := range cells {
			with[c] = true
		}
		cells = slices.DeleteFunc(own, func(c store.Cell) bool { return !with[c] }) // omit pairs without trials
	}
	words := strings.Fields(strings.ToLower(v.Text))
	for _, c := range cells {
		text := strings.ToLower(c.Workload + "\n" + c.Target)
		if slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(text, w) }) {
			continue
		}
		if n := len(v.Groups); n == 0 || v.Groups[n-1].Workload != format.Clean(c.Workload) {
			v.Groups = append(v.Groups, cellsView{Workload: format.Clean(c.Workload)})
		}
		g := &v.Groups[len(v.Groups)-1]
		g.Targets = append(g.Targets, linkView{format.Clean(c.Target), trend.Address(trend.Options{Cell: c, Name: v.Name})})
		v.Cells++
	}
	s.write(w, r, http.StatusOK, "trends.html", v)
	return nil
}

// cellsOf returns all pairs of a workload and a target of the newest run with that name, in the order of the run.
func (s *Server) cellsOf(ctx context.Context, name string) ([]store.Cell, error) {
	found, _, err := s.Store.Find(ctx, store.Query{Name: name, Limit: 1})
	if err != nil || len(found) == 0 {
		return nil, err
	}
	var cells []store.Cell
	for _, w := range found[0].Workloads {
		for _, t := range found[0].Targets {
			cells = append(cells, store.Cell{Workload: w, Target: t})
		}
	}
	return cells, nil
}

// trendsOf returns a function that returns the address of a cell's trend. If all runs have the same name, the trend
// includes only runs with that name. byValue selects the value instead of the ratio to the baseline.
func trendsOf(byValue bool, runs ...*iotax.Run) func(compare.CellMetric) string {
	var o trend.Options
	if !slices.ContainsFunc(runs, func(r *iotax.Run) bool { return r.Name != runs[0].Name }) {
		o.Name = runs[0].Name
	}
	if byValue {
		o.By = trend.ByValue
	}
	return func(c compare.CellMetric) string {
		o := o
		o.Cell, o.Metric = store.Cell{Workload: c.Workload, Target: c.Target}, c.Metric
		return trend.Address(o)
	}
}

func (s *Server) trend(w http.ResponseWriter, r *http.Request) error {
	t, err := s.trendOf(r.Context(), r.URL.Query())
	if err != nil {
		return err
	}
	return s.document(w, barView{Trends: "/trends", JSON: "/api/trend?" + r.URL.RawQuery}, t.Document(true))
}
