package web

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"iotax"
	"iotax/internal/plan"
	"iotax/internal/report"
	"iotax/internal/report/format"
	"iotax/internal/store"
	"iotax/stat"
)

const (
	// lookEvery is the interval at which a run with live views is polled. All its visitors share one poll.
	lookEvery = time.Second
	// beat is the interval of the messages that keep a connection open.
	beat = 15 * time.Second
	// mostWatchers is the maximum number of open live views.
	mostWatchers = 32
	// lastTrials is the number of recent trials that are listed.
	lastTrials = 12
	// silence is the time without a trial after which the page warns that the runner may have crashed. The length of
	// two trials is added to it.
	silence = 15 * time.Minute
)

// live serves the live view of a running run. It redirects to the report if the run has ended, and to the address with
// the run's id if the path names the run differently.
func (s *Server) live(w http.ResponseWriter, r *http.Request) error {
	run, err := s.Store.Get(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	if run.Status != iotax.Running || run.ID != r.PathValue("id") {
		to := "/runs/" + url.PathEscape(run.ID)
		if run.Status == iotax.Running {
			to += "/live"
		}
		http.Redirect(w, r, to, http.StatusFound)
		return nil
	}
	rep, err := s.report(r.Context(), run, store.Brief)
	if err != nil {
		return err
	}
	name := format.Clean(run.Name)
	if name == "" {
		name = run.ID
	}
	s.write(w, r, http.StatusOK, "live.html", struct {
		view
		Run     liveView
		Events  string
		Partial string
	}{s.view(r, name+", running", "live"), s.liveView(run, rep), "/runs/" + url.PathEscape(run.ID) + "/events", "/runs/" + url.PathEscape(run.ID)})
	return nil
}

// liveView is the data of the live page of a running run.
type liveView struct {
	ID, Name, Status, Started string
	Elapsed                   int // seconds since the start
	Trials                    int
	Left                      string // "about 3m" or "at most 3m"; "" if unknown
	Age                       int    // seconds since the last trial ended, or −1 if there are no trials
	Silent                    bool
	Lanes                     []laneView
	Cells                     []cellView
	Last                      []trialView
	Findings                  []iotax.Finding
}

type laneView struct {
	Workload, Rounds, Interval, Asked string
	Done, Most                        int
	Precise                           bool
}

type cellView struct {
	Workload, Label, Target, Value, Bounds, Ratio, RatioBounds string
	First, Baseline                                            bool
	Trials, Failed                                             int
}

type trialView struct {
	Seq, Round                    int
	Workload, Target, Value, Took string
	Class, Outcome                string
}

// liveView computes the progress of a run. It estimates the remaining time from the mean time per trial so far and the
// maximum number of remaining trials, within the remaining budget.
func (s *Server) liveView(run *iotax.Run, rep *report.Report) liveView {
	now := s.now()
	v := liveView{ID: run.ID, Name: format.Clean(run.Name), Status: string(run.Status), Trials: len(rep.Trials), Age: -1, Findings: run.Findings}
	since, err := time.Parse(time.RFC3339, run.Environment[iotax.FactResumed])
	if err != nil {
		since = run.Start
	}
	if !run.Start.IsZero() {
		v.Started, v.Elapsed = run.Start.UTC().Format("2006-01-02 15:04 UTC"), int(max(0, now.Sub(since)).Seconds())
	}
	var m plan.Measure
	if s.Measure != nil {
		var err error
		if m, err = s.Measure(run); err != nil { // for example the plan of a newer iotax; the page then shows no progress bars
			m = plan.Measure{}
		}
	}
	quiet, most := now.Sub(since), silence+2*time.Duration(m.Settle+m.Ramp+m.Trial)
	var first, last time.Time // of the trials since the run began or was resumed
	n := 0
	for _, t := range slices.SortedFunc(slices.Values(rep.Trials), func(a, b *report.Trial) int { return a.Start.Compare(b.Start) }) {
		if t.Start.Before(since) {
			n = 0
		} else if n++; n == 1 || t.Start.Sub(last) > most {
			first, n = t.Start, 1
		}
		if end := t.Start.Add(t.Took); end.After(last) {
			last = end
		}
	}
	if !last.IsZero() {
		quiet = min(quiet, now.Sub(last))
		v.Age = int(max(0, now.Sub(last)).Seconds())
	}
	v.Silent = run.Status == iotax.Running && quiet > most
	left, targets := 0, map[string]int{}
	for _, w := range run.Workloads {
		if targets[w.Name] = len(w.At); w.At == nil {
			targets[w.Name] = len(run.Targets)
		}
	}
	for _, sec := range rep.Sections {
		if !sec.First {
			continue
		}
		l := laneView{Workload: format.Clean(sec.Workload), Done: wholeRounds(rep, sec.Workload, targets[sec.Workload]), Most: m.Rounds.Max}
		l.Rounds = format.Plural(l.Done, "round")
		if l.Most > 0 {
			l.Rounds = fmt.Sprintf("round %d of %d", l.Done, l.Most)
			if m.Rounds.Min < m.Rounds.Max {
				l.Rounds = fmt.Sprintf("round %d of at most %d", l.Done, l.Most)
			}
		}
		if half := widest(sec); half > 0 && half <= 1 {
			l.Interval = "± " + format.Percent(half)
			l.Precise = half <= run.Precision && l.Done >= m.Rounds.Min
		}
		if run.Precision > 0 && m.Rounds.Min < m.Rounds.Max {
			l.Asked = "± " + format.Percent(run.Precision)
		}
		if !l.Precise {
			left += max(0, l.Most-l.Done) * targets[sec.Workload]
		}
		v.Lanes = append(v.Lanes, l)
	}
	if n > 0 && left > 0 && !v.Silent {
		span := last.Sub(first)
		d := time.Duration(left) * (span / time.Duration(n))
		if b := time.Duration(m.Budget); b > 0 {
			d = min(d, max(0, b-now.Sub(since)))
		}
		v.Left = "about " + took(d.Round(time.Second))
		if m.Rounds.Min < m.Rounds.Max {
			v.Left = "at most " + took(d.Round(time.Second))
		}
	}
	metric := map[string]string{}
	for _, sec := range rep.Sections {
		if sec.First {
			metric[sec.Workload] = sec.Metric
		}
		for i, row := range sec.Rows {
			c := cellView{Workload: format.Clean(sec.Workload), Label: sec.Label, Target: format.Clean(row.Target), First: i == 0, Baseline: row.Baseline, Trials: row.Ran, Failed: row.Failed}
			if row.Value.N > 0 && !short(sec, row.Target) {
				c.Value, c.Bounds = format.Split(format.Value(row.Value, sec.Unit))
			}
			if row.Ratio != nil && !short(sec, row.Target) && !short(sec, row.Against) {
				c.Ratio, c.RatioBounds = format.Split(format.Ratio(row.Ratio.Interval))
			}
			v.Cells = append(v.Cells, c)
		}
	}
	for _, t := range slices.Backward(rep.Trials) {
		if len(v.Last) == lastTrials {
			break
		}
		tv := trialView{Seq: t.Seq + 1, Round: t.Round + 1, Workload: format.Clean(t.Workload), Target: format.Clean(t.Target), Took: took(t.Took)}
		if val, ok := t.Value(metric[t.Workload]); ok {
			tv.Value = format.Number(stat.Interval{Estimate: val.Value, Lo: val.Value * .995, Hi: val.Value * 1.005}, val.Unit)
		}
		line, _, _ := strings.Cut(t.Err, "\n")
		switch {
		case t.Err != "":
			tv.Class, tv.Outcome = "bad", "failed: "+format.Clean(line)
		case t.Discarded != "":
			tv.Class, tv.Outcome = "gone", "discarded: "+format.Clean(t.Discarded)
		default:
			var rules []string
			for _, f := range t.Findings {
				if f.Severity != iotax.Info && !slices.Contains(rules, f.Rule) {
					rules = append(rules, f.Rule)
				}
			}
			tv.Outcome = strings.Join(rules, ", ")
		}
		v.Last = append(v.Last, tv)
	}
	return v
}

// wholeRounds returns the number of rounds of a workload that have a trial on each of its targets and no discarded
// trial.
func wholeRounds(rep *report.Report, workload string, targets int) int {
	trials, discarded := map[int]int{}, map[int]bool{}
	for _, t := range rep.Trials {
		if t.Workload == workload {
			trials[t.Round]++
			discarded[t.Round] = discarded[t.Round] || t.Discarded != ""
		}
	}
	n := 0
	for b, k := range trials {
		if k >= targets && !discarded[b] {
			n++
		}
	}
	return n
}

// widest returns the largest half-width of the ratios in a section, or 0 if the interval of a ratio is still unknown.
func widest(sec report.Section) float64 {
	out := 0.0
	for _, row := range sec.Rows {
		if row.Baseline || row.Err != "" {
			continue
		}
		if row.Ratio == nil || !row.Ratio.Bounded() || short(sec, row.Target) || short(sec, row.Against) {
			return 0
		}
		out = math.Max(out, row.Ratio.HalfWidth())
	}
	return out
}

// short reports whether some trials of a target are too short for the percentile of a section. The other trials had more
// I/Os, so they are not representative.
func short(sec report.Section, target string) bool {
	_, _, quantile := iotax.Quantile(sec.Metric)
	return quantile && slices.ContainsFunc(sec.Rows, func(r report.Row) bool { return r.Target == target && len(r.Values()) < r.Counted })
}

// feeds manages one feed for each run with open live views.
type feeds struct {
	s        *Server
	mu       sync.Mutex
	all      map[string]*feed
	watchers int
	end      context.Context
	close    context.CancelFunc
}

func (f *feeds) init(s *Server) {
	f.s, f.all = s, map[string]*feed{}
	f.end, f.close = context.WithCancel(context.Background())
}

// A feed polls a run and sends each new state of the run's page to the watchers.
type feed struct {
	watchers map[chan message]bool
	last     message
	stop     context.CancelFunc
}

// A message is an event for the browser: new page content, or the end of the run.
type message struct {
	id    int // largest Seq of a trial
	event string
	data  []byte
}

var errCrowd = problem{errors.New("too many live views are open"), http.StatusServiceUnavailable}

// watch subscribes to the feed of a run and starts the feed if necessary. The caller must call leave.
func (f *feeds) watch(id string) (news <-chan message, leave func(), err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.watchers >= mostWatchers {
		return nil, nil, errCrowd
	}
	one := f.all[id]
	if one == nil {
		ctx, stop := context.WithCancel(f.end)
		one = &feed{watchers: map[chan message]bool{}, stop: stop}
		f.all[id] = one
		go f.follow(ctx, id, one)
	}
	c := make(chan message, 1)
	if one.last.event != "" {
		c <- one.last
	}
	one.watchers[c] = true
	f.watchers++
	return c, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(one.watchers, c)
		f.watchers--
		if len(one.watchers) == 0 {
			one.stop()
			if f.all[id] == one {
				delete(f.all, id)
			}
		}
	}, nil
}

// tell sends m to every watcher. It replaces a message that a watcher has not received yet.
func (f *feeds) tell(one *feed, m message) {
	f.mu.Lock()
	defer f.mu.Unlock()
	one.last = m
	for c := range one.watchers {
		select {
		case <-c:
		default:
		}
		c <- m
	}
}

// follow polls the state of the run until the run ends or is removed, or until ctx is done.
func (f *feeds) follow(ctx context.Context, id string, one *feed) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	var trials []*iotax.Trial
	seen := store.State{Last: math.MinInt}
	for {
		st, err := f.s.Store.State(ctx, id)
		switch {
		case errors.Is(err, store.ErrNotFound):
			f.tell(one, message{event: "end", data: []byte("removed")})
			return
		case err != nil && ctx.Err() == nil:
			f.s.Log("live view of %s: %v", id, err) // retry: the store may be locked
		case err == nil && st != seen:
			if trials, err = f.news(ctx, one, id, st, trials); err != nil {
				if ctx.Err() == nil {
					f.s.Log("live view of %s: %v", id, err)
				}
				break
			}
			seen = st
			if st.Status != iotax.Running {
				f.tell(one, message{id: st.Last, event: "end", data: []byte(st.Status)})
				return
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// news reads the new trials and sends the new page content to the watchers. It returns all trials so far.
func (f *feeds) news(ctx context.Context, one *feed, id string, st store.State, trials []*iotax.Trial) ([]*iotax.Trial, error) {
	after := math.MinInt
	run, err := f.s.Store.Get(ctx, id)
	if err != nil {
		return trials, err
	}
	if run.Environment["shards"] != "" { // with several processes, new trials may have a lower Seq
		trials = nil
	}
	if len(trials) > 0 {
		after = trials[len(trials)-1].Seq
	}
	for t, err := range f.s.Store.After(ctx, id, after, store.Brief) {
		if err != nil {
			return trials, err
		}
		trials = append(trials, t)
	}
	rep, err := report.From(run, report.Held(slices.Clone(trials)))
	if err != nil {
		return trials, err
	}
	var b bytes.Buffer
	if err := f.s.pages.ExecuteTemplate(&b, "live-run", f.s.liveView(run, rep)); err != nil {
		return trials, err
	}
	f.tell(one, message{id: st.Last, event: "run", data: b.Bytes()})
	return trials, nil
}

// events streams the updates of a live view as server-sent events.
func (s *Server) events(w http.ResponseWriter, r *http.Request) error {
	run, err := s.Store.Get(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	news, leave, err := s.feeds.watch(run.ID)
	if err != nil {
		w.Header().Set("Retry-After", "30")
		return err
	}
	defer leave()
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // keeps nginx from buffering the events
	out := http.NewResponseController(w)
	send := func(text string) bool {
		// Without a deadline, a client that does not read would hold the connection forever.
		if out.SetWriteDeadline(time.Now().Add(2*beat)) != nil {
			return false
		}
		_, err := w.Write([]byte(text))
		return err == nil && out.Flush() == nil
	}
	if !send("retry: 2000\n\n") {
		return nil
	}
	pulse := time.NewTicker(beat)
	defer pulse.Stop()
	for {
		select {
		case <-r.Context().Done():
			return nil
		case <-s.feeds.end.Done():
			return nil
		case <-pulse.C:
			if !send(": still here\n\n") {
				return nil
			}
		case m := <-news:
			data := strings.ReplaceAll(strings.ReplaceAll(string(m.data), "\r", ""), "\n", "\ndata: ")
			if !send(fmt.Sprintf("event: %s\nid: %d\ndata: %s\n\n", m.event, m.id, data)) || m.event == "end" {
				return nil
			}
		}
	}
}
