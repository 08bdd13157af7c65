package web

import (
	"context"
	"net/http"
	"net/url"
	"slices"

	"iotax"
	"iotax/internal/report"
	"iotax/internal/report/compare"
	"iotax/internal/report/document"
	"iotax/internal/store"
)

// mostCompared is the maximum number of runs in a comparison.
const mostCompared = 6

// chosen loads the runs of ?run=A&run=B…. The first run of the result is the reference: the run of ?base=, or the
// oldest.
func (s *Server) chosen(ctx context.Context, v url.Values) ([]*iotax.Run, error) {
	refs := v["run"]
	if len(refs) < 2 {
		return nil, wrong("tick two or more runs to compare them")
	}
	if len(refs) > mostCompared {
		return nil, wrong("%d runs are too many to compare at once: %d are the most", len(refs), mostCompared)
	}
	var runs []*iotax.Run
	for _, ref := range refs {
		r, err := s.Store.Get(ctx, ref)
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(runs, func(o *iotax.Run) bool { return o.ID == r.ID }) {
			runs = append(runs, r)
		}
	}
	if len(runs) < 2 {
		return nil, wrong("tick two runs that are not the same")
	}
	slices.SortStableFunc(runs, func(a, b *iotax.Run) int { return a.Start.Compare(b.Start) })
	if base := v.Get("base"); base != "" {
		i := slices.IndexFunc(runs, func(r *iotax.Run) bool { return r.ID == base })
		if i < 0 {
			return nil, wrong("run %q is not among those that are compared", base)
		}
		first := runs[i]
		runs = append([]*iotax.Run{first}, slices.Delete(runs, i, i+1)...)
	}
	return runs, nil
}

// comparisons compares every chosen run except the first with the first one.
func (s *Server) comparisons(ctx context.Context, v url.Values) ([]*compare.Comparison, error) {
	o := compare.Options{Margin: -1, By: compare.By(v.Get("by"))}
	if o.By != "" && o.By != compare.ByValue && o.By != compare.ByLoss {
		return nil, wrong("runs are compared by value or loss, not by %q", o.By)
	}
	runs, err := s.chosen(ctx, v)
	if err != nil {
		return nil, err
	}
	var first *report.Report
	var out []*compare.Comparison
	for i, r := range runs {
		rep, err := s.report(ctx, r, store.Brief)
		if err != nil {
			return nil, err
		}
		if i == 0 {
			first = rep
			continue
		}
		o.Letter = string(rune('A' + i))
		out = append(out, compare.Of(first, rep, o))
	}
	return out, nil
}

// compare serves the page that `iotax compare A B -o x.html` writes, with a navigation bar, for two or more runs.
func (s *Server) compare(w http.ResponseWriter, r *http.Request) error {
	query := r.URL.Query()
	all, err := s.comparisons(r.Context(), query)
	if err != nil {
		return err
	}
	runs := []*iotax.Run{all[0].A.Run}
	for _, c := range all {
		runs = append(runs, c.B.Run)
	}
	byLoss := all[0].By == compare.ByLoss
	address := func(base string, byLoss bool) string {
		q := url.Values{"run": query["run"]}
		if base != "" {
			q.Set("base", base)
		}
		if byLoss {
			q.Set("by", string(compare.ByLoss))
		}
		return "/compare?" + q.Encode()
	}
	bar := barView{}
	if len(all) == 1 {
		bar.JSON = "/api" + address(query.Get("base"), byLoss)
	}
	return s.document(w, bar, document.Comparison(all, document.ComparisonOptions{Other: address(query.Get("base"), !byLoss), Trend: trendsOf(!byLoss, runs...),
		Run: func(r *iotax.Run) (string, string) {
			return "/runs/" + url.PathEscape(r.ID), address(r.ID, byLoss)
		}}))
}
