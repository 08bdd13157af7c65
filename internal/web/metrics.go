package web

import (
	"bytes"
	"net/http"
	"slices"
	"sync"

	"iotax"
	"iotax/internal/report"
	"iotax/internal/report/export"
	"iotax/internal/store"
)

// scraped caches the response to the last scrape, with the ids and end times of its runs.
type scraped struct {
	sync.Mutex
	runs []string
	text []byte
}

// metrics serves, as OpenMetrics, the newest done or incomplete run of each name, among the newest mostListed runs.
func (s *Server) metrics(w http.ResponseWriter, r *http.Request) error {
	all, _, err := s.Store.Find(r.Context(), store.Query{Limit: mostListed})
	if err != nil {
		return err
	}
	seen := map[string]bool{}
	var ids, versions []string
	for _, run := range all {
		if (run.Status == iotax.Done || run.Status == iotax.Incomplete) && !seen[run.Name] {
			seen[run.Name] = true
			ids, versions = append(ids, run.ID), append(versions, run.ID+" "+run.End.String()) // a resumed run gets a new End
		}
	}
	s.scraped.Lock()
	defer s.scraped.Unlock()
	if s.scraped.text == nil || !slices.Equal(versions, s.scraped.runs) {
		var reports []*report.Report
		for _, id := range ids {
			run, err := s.Store.Get(r.Context(), id)
			if err != nil {
				return err
			}
			rep, err := s.report(r.Context(), run, store.Full)
			if err != nil {
				return err
			}
			reports = append(reports, rep)
		}
		var b bytes.Buffer
		if err := export.OpenMetrics(&b, reports, false); err != nil {
			return err
		}
		s.scraped.runs, s.scraped.text = versions, b.Bytes()
	}
	w.Header().Set("Content-Type", "application/openmetrics-text; version=1.0.0; charset=utf-8")
	_, _ = w.Write(s.scraped.text)
	return nil
}
