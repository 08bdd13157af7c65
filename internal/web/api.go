package web

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"iotax"
	"iotax/internal/report/export"
	"iotax/internal/store"
	"iotax/internal/trend"
)

// apiVersion is the version of the server's own JSON responses. Within a version, only new fields may be added.
const apiVersion = 1

// mostListed is the maximum number of runs in a response.
const mostListed = 1000

// api adapts a handler and writes its error as JSON.
func (s *Server) api(h func(http.ResponseWriter, *http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := h(w, r); err != nil {
			s.apiError(w, s.statusOf(r, err), err.Error())
		}
	}
}

func (s *Server) apiError(w http.ResponseWriter, status int, text string) {
	what, hint, _ := strings.Cut(text, "\n  hint: ")
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(struct { // the client may have disconnected
		Error string `json:"error"`
		Hint  string `json:"hint,omitempty"`
	}{what, hint})
}

// answer sends the output of `write`, or returns the error of `write` and sends nothing.
func answer(w http.ResponseWriter, write func(*bytes.Buffer) error) error {
	var b bytes.Buffer
	if err := write(&b); err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(b.Bytes())
	return nil
}

func encode(w http.ResponseWriter, v any) error {
	return answer(w, func(b *bytes.Buffer) error {
		e := json.NewEncoder(b)
		e.SetIndent("", "  ")
		return e.Encode(v)
	})
}

func (s *Server) apiRuns(w http.ResponseWriter, r *http.Request) error {
	v := r.URL.Query()
	q, err := queryOf(v)
	if err != nil {
		return err
	}
	if text := v.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > mostListed {
			return wrong("limit is 1 to %d, not %q", mostListed, text)
		}
		q.Limit = n
	}
	runs, total, err := s.Store.Find(r.Context(), q)
	if err != nil {
		return err
	}
	if runs == nil {
		runs = []store.Summary{}
	}
	return encode(w, struct {
		Version int             `json:"version"`
		Total   int             `json:"total"`
		Offset  int             `json:"offset"`
		Runs    []store.Summary `json:"runs"`
	}{apiVersion, total, q.Offset, runs})
}

// apiRun serves the report of a run in the format of `iotax report --json`.
func (s *Server) apiRun(w http.ResponseWriter, r *http.Request) error {
	run, err := s.Store.Get(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	rep, err := s.report(r.Context(), run, store.Full)
	if err != nil {
		return err
	}
	return answer(w, func(b *bytes.Buffer) error { return export.JSON(b, rep) })
}

func (s *Server) apiState(w http.ResponseWriter, r *http.Request) error {
	run, err := s.Store.Get(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	st, err := s.Store.State(r.Context(), run.ID)
	if err != nil {
		return err
	}
	return encode(w, struct {
		Version int          `json:"version"`
		ID      string       `json:"id"`
		Status  iotax.Status `json:"status"`
		Last    *int         `json:"last_trial"`
		Ended   *time.Time   `json:"ended"`
	}{apiVersion, run.ID, st.Status, some(st.Last, st.Last >= 0), some(st.Ended, !st.Ended.IsZero())})
}

func some[T any](v T, ok bool) *T {
	if !ok {
		return nil
	}
	return &v
}

// apiCompare serves the comparison of two runs in the format of `iotax compare A B --json`. The older run is A unless
// base is given.
func (s *Server) apiCompare(w http.ResponseWriter, r *http.Request) error {
	v := r.URL.Query()
	if len(v["run"]) != 2 {
		return wrong("name two runs: /api/compare?run=A&run=B")
	}
	all, err := s.comparisons(r.Context(), v)
	if err != nil {
		return err
	}
	return answer(w, func(b *bytes.Buffer) error { return export.JSONComparison(b, all[0]) })
}

func (s *Server) apiTrend(w http.ResponseWriter, r *http.Request) error {
	t, err := s.trendOf(r.Context(), r.URL.Query())
	if err != nil {
		return err
	}
	return encode(w, struct {
		Version int `json:"version"`
		trend.Export
	}{apiVersion, t.Export()})
}
