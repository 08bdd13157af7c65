package web

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"iotax"
	"iotax/internal/report/format"
	"iotax/internal/store"
)

// perPage is the number of runs on a page.
const perPage = 50

// maxOffset limits the work that a hostile request can cause.
const maxOffset = 10_000_000

type historyView struct {
	view
	Query    store.Query
	Statuses []choice
	Columns  []columnView
	Runs     []runView
	Total    int
	From, To int
	Prev     string
	Next     string
	Filtered bool
	Running  []runView
}

type choice struct {
	Value, Label string
	Chosen       bool
}

type columnView struct {
	Label, Href, Sorted, Class string
}

type runView struct {
	ID, Name, Href, Status, Class, Started, Iso, Took, Host, Baseline string
	Targets, Workloads                                                []string
	Trials                                                            string
	Failed, Discarded, Emulated                                       int
	Running                                                           bool
}

var statuses = []iotax.Status{iotax.Running, iotax.Done, iotax.Incomplete, iotax.Interrupted, iotax.Failed}

// queryOf parses the query parameters of a list of runs.
func queryOf(v url.Values) (store.Query, error) {
	q := store.Query{Text: v.Get("q"), Name: v.Get("name"), Status: iotax.Status(v.Get("status")), Order: store.Order(v.Get("order")), Reverse: v.Get("reverse") != "", Limit: perPage}
	if len(q.Text) > 500 || len(q.Name) > 500 {
		return q, wrong("a search of more than 500 characters")
	}
	if q.Status != "" && !slices.Contains(statuses, q.Status) {
		return q, wrong("there is no status %q", q.Status)
	}
	switch q.Order {
	case store.ByStart, store.ByName, store.ByStatus, store.ByTook:
	default:
		return q, wrong("runs are not ordered by %q", q.Order)
	}
	if text := v.Get("offset"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 || n > maxOffset {
			return q, wrong("offset %q is not a number of runs", text)
		}
		q.Offset = n
	}
	return q, nil
}

// address returns the address of the history page for q.
func address(q store.Query) string {
	v := url.Values{}
	set := func(key, value string) {
		if value != "" {
			v.Set(key, value)
		}
	}
	set("q", q.Text)
	set("name", q.Name)
	set("status", string(q.Status))
	set("order", string(q.Order))
	if q.Reverse {
		v.Set("reverse", "1")
	}
	if q.Offset > 0 {
		v.Set("offset", strconv.Itoa(q.Offset))
	}
	if len(v) == 0 {
		return "/"
	}
	return "/?" + v.Encode()
}

func (s *Server) history(w http.ResponseWriter, r *http.Request) error {
	q, err := queryOf(r.URL.Query())
	if err != nil {
		return err
	}
	runs, total, err := s.Store.Find(r.Context(), q)
	if err != nil {
		return err
	}
	v := historyView{view: s.view(r, "Runs", "runs"), Query: q, Total: total, From: min(q.Offset+1, total), To: min(q.Offset+len(runs), total)}
	v.Filtered = q.Text != "" || q.Name != "" || q.Status != ""
	v.Statuses = append(v.Statuses, choice{"", "any status", q.Status == ""})
	for _, st := range statuses {
		v.Statuses = append(v.Statuses, choice{string(st), string(st), q.Status == st})
	}
	for _, c := range []struct {
		label string
		order store.Order
		class string
	}{{"run", store.ByName, "s-run"}, {"started", store.ByStart, "s-when"}, {"took", store.ByTook, "s-num"}, {"status", store.ByStatus, ""}} {
		next := q
		next.Offset, next.Order, next.Reverse = 0, c.order, q.Order == c.order && !q.Reverse
		col := columnView{Label: c.label, Href: address(next), Class: c.class}
		if q.Order == c.order {
			// By default, starts and durations sort in descending order, names and statuses in ascending order.
			down := (c.order == store.ByStart || c.order == store.ByTook) != q.Reverse
			col.Sorted = "ascending"
			if down {
				col.Sorted = "descending"
			}
		}
		v.Columns = append(v.Columns, col)
	}
	for i := range runs {
		v.Runs = append(v.Runs, s.runView(&runs[i]))
	}
	if q.Offset > 0 {
		prev := q
		prev.Offset = max(0, q.Offset-perPage)
		v.Prev = address(prev)
	}
	if v.To < total {
		next := q
		next.Offset += perPage
		v.Next = address(next)
	}
	s.write(w, r, http.StatusOK, "history.html", v)
	return nil
}

func (s *Server) runView(r *store.Summary) runView {
	v := runView{ID: r.ID, Name: format.Clean(r.Name), Href: "/runs/" + url.PathEscape(r.ID), Status: string(r.Status), Class: statusClass(r.Status), Host: format.Clean(r.Host),
		Baseline: format.Clean(r.Baseline), Trials: strconv.Itoa(r.Tally.Trials), Failed: r.Tally.Failed, Discarded: r.Tally.Discarded, Emulated: r.Emulated, Running: r.Status == iotax.Running}
	if v.Name == "" {
		v.Name = r.ID
	}
	if !r.Start.IsZero() {
		v.Started, v.Iso = r.Start.UTC().Format("2006-01-02 15:04"), r.Start.UTC().Format(time.RFC3339)
	}
	if d := r.Took(); d > 0 {
		v.Took = took(d)
	}
	if v.Running {
		v.Href += "/live"
	}
	for _, t := range r.Targets {
		if t != r.Baseline {
			v.Targets = append(v.Targets, format.Clean(t))
		}
	}
	for _, name := range r.Workloads {
		v.Workloads = append(v.Workloads, format.Clean(name))
	}
	return v
}

func statusClass(s iotax.Status) string {
	switch s {
	case iotax.Running:
		return "better"
	case iotax.Done:
		return "same"
	case iotax.Incomplete, iotax.Interrupted:
		return "unsure"
	}
	return "discarded"
}

// took formats a duration, for example "1h12m", "14m8s" or "9.4s".
func took(d time.Duration) string {
	switch {
	case d >= time.Hour:
		return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
	case d >= 10*time.Second:
		return d.Round(time.Second).String()
	}
	return d.Round(100 * time.Millisecond).String()
}
