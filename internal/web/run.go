package web

import (
	"bytes"
	"context"
	"html/template"
	"net/http"
	"net/url"

	"iotax"
	"iotax/internal/report"
	"iotax/internal/report/block"
	"iotax/internal/report/compare"
	"iotax/internal/report/document"
	"iotax/internal/report/format"
	"iotax/internal/report/html"
	"iotax/internal/store"
)

type barView struct {
	ID, Name string
	Running  bool
	Trends   string
	Earlier  string // address of the comparison with the previous run of the same name
	JSON     string
}

// run serves the page that `iotax report -o x.html` writes, with a navigation bar.
func (s *Server) run(w http.ResponseWriter, r *http.Request) error {
	run, err := s.Store.Get(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	if run.ID != r.PathValue("id") { // the reference is "latest", a name, or a prefix of an id
		http.Redirect(w, r, "/runs/"+url.PathEscape(run.ID), http.StatusFound)
		return nil
	}
	rep, err := s.report(r.Context(), run, store.Full)
	if err != nil {
		return err
	}
	bar := barView{ID: run.ID, Name: format.Clean(run.Name), Running: run.Status == iotax.Running, JSON: "/api/runs/" + url.PathEscape(run.ID)}
	if run.Name != "" {
		bar.Trends = "/trends?" + url.Values{"name": {run.Name}}.Encode()
		before, _, err := s.Store.Find(r.Context(), store.Query{Name: run.Name, Before: run.Start, Limit: 1})
		if err != nil {
			return err
		}
		if len(before) > 0 {
			bar.Earlier = "/compare?" + url.Values{"run": {before[0].ID, run.ID}}.Encode()
		}
	}
	var trend func(compare.CellMetric) string
	if !bar.Running { // trends do not include an unfinished run
		trend = trendsOf(false, run)
	}
	d, err := document.Page(rep, trend)
	if err != nil {
		return err
	}
	return s.document(w, bar, d)
}

// document sends d as a page below the bar, with the matching content security policy.
func (s *Server) document(w http.ResponseWriter, bar barView, d block.Document) error {
	var top, page bytes.Buffer
	if err := s.pages.ExecuteTemplate(&top, "bar", bar); err != nil {
		return err
	}
	if err := html.Write(&page, d, html.Frame{Head: s.frame.head, Top: template.HTML(top.String())}); err != nil { // the template has escaped it
		return err
	}
	h := w.Header()
	h.Set("Content-Security-Policy", s.frame.policy)
	h.Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write(page.Bytes()) // the client may have disconnected
	return nil
}

func (s *Server) report(ctx context.Context, run *iotax.Run, depth store.Depth) (*report.Report, error) {
	return report.From(run, s.Store.Parts(ctx, run.ID, "", depth))
}
