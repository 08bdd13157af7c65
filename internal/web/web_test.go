package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	gohtml "html"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"iotax"
	"iotax/internal/plan"
	"iotax/internal/report"
	"iotax/internal/report/output"
	"iotax/internal/store"
	"iotax/internal/testenv/long"
)

const token = "a token that nobody guesses"

type reply struct {
	status int
	header http.Header
	body   string
}

func get(t testing.TB, url string, header ...string) reply {
	t.Helper()
	return ask(t, http.DefaultClient, "GET", url, "", header...)
}

func ask(t testing.TB, client *http.Client, method, url, body string, header ...string) reply {
	t.Helper()
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Host" {
			req.Host = header[i+1]
		}
		req.Header.Set(header[i], header[i+1])
	}
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return reply{res.StatusCode, res.Header, string(b)}
}

// A run whose runner was killed is not shown as running in the history, in the live view or by the API.
func TestKilledRun(t *testing.T) {
	db, _ := open(t)
	run := nightly(1).run(0)
	run.Status, run.End = iotax.Running, time.Time{}
	if err := db.Create(t.Context(), run); err != nil {
		t.Fatal(err)
	}
	for _, x := range nightly(1).trials(run, 0)[:7] {
		if err := db.Append(t.Context(), x); err != nil {
			t.Fatal(err)
		}
	}
	db.Settle(func(r *iotax.Run, _ store.Pulse) {
		r.Status = iotax.Interrupted
		r.Findings = append(r.Findings, iotax.Finding{Rule: "runner-died", Severity: iotax.Warning, Evidence: "process 4711 was killed"})
	})
	base := serve(t, newServer(t, Options{Store: db}))
	for path, want := range map[string]string{
		"/?status=interrupted":           run.ID,
		"/?status=running":               "No run matches",
		"/runs/" + run.ID + "/live":      "process 4711 was killed", // redirected to the report
		"/api/runs/" + run.ID + "/state": `"status": "interrupted"`,
	} {
		if r := get(t, base+path); r.status != 200 || !strings.Contains(r.body, want) {
			t.Errorf("%s: %d, and it does not say %q:\n%s", path, r.status, want, r.body)
		}
	}
}

func TestPages(t *testing.T) {
	db, _ := open(t)
	nightly(30).fill(t, db)
	history{name: "<b>&\"other", runs: 1, rounds: 2, seed: 9}.fillAs(t, db, "other")
	url := serve(t, newServer(t, Options{Store: db}))
	for _, c := range []struct {
		path   string
		status int
		want   []string
		not    []string
	}{
		{"/", 200, []string{"1–31 of 31", "nightly-029", "&lt;b&gt;&amp;", `name="run" value="other"`}, []string{"<b>&\"other", "No run matches"}},
		{"/?q=nightly-01", 200, []string{"1–10 of 10", "nightly-019"}, []string{"nightly-029"}},
		{"/?q=%22%3E%3Cscript%3E", 200, []string{"No run matches", `value="&#34;&gt;&lt;script&gt;"`}, nil},
		{"/?order=took&reverse=1", 200, []string{`aria-sort="ascending"`}, nil},
		{"/?status=running", 200, []string{"No run matches"}, nil},
		{"/?status=odd", 400, []string{"there is no status"}, nil},
		{"/?order=seed", 400, []string{"not ordered by"}, nil},
		{"/?offset=-1", 400, []string{"is not a number of runs"}, nil},
		{"/?offset=400", 200, []string{"There are no more runs"}, nil},
		{"/runs/nightly-003", 200, []string{"Ratio of each target to the baseline", `class="serve"`, "/compare?run=nightly-002&amp;run=nightly-003", "/trends?name=nightly"}, []string{"Live view"}},
		{"/runs/nope", 404, []string{"not found"}, nil},
		{"/runs/nightly-003/live", 200, []string{"Ratio of each target"}, nil}, // redirected to the report: the run has ended
		{"/compare?run=nightly-020&run=nightly-003", 200, []string{"kernel", "6.8.0-2-amd64", "× slower", "compare the other with this one"}, nil},
		{"/compare?run=nightly-020&run=nightly-003&by=loss", 200, []string{"Judge by value"}, nil},
		{"/compare?run=nightly-020&run=nightly-003&run=nightly-001", 200, []string{"C, guest virtio-fs: 4k random read is ", "the largest loss of 2 runs against A", "nightly-001 · nightly · 2026-03-02", "C/A", "compare the others with this one", "Differences of C and A"}, nil},
		{"/compare?run=nightly-020&run=nightly-003&base=nightly-020", 200, []string{"base=nightly-003"}, nil},
		{"/compare?run=nightly-020", 400, []string{"two or more"}, nil},
		{"/compare?run=nightly-020&run=nightly-020", 400, []string{"not the same"}, nil},
		{"/compare?run=nightly-020&run=nope", 404, nil, nil},
		{"/compare?run=a&run=b&run=c&run=d&run=e&run=f&run=g", 400, []string{"too many"}, nil},
		{"/compare?run=nightly-020&run=nightly-003&base=x", 400, []string{"not among those"}, nil},
		{"/compare?run=nightly-020&run=nightly-003&by=x", 400, nil, nil},
		{"/trends", 200, []string{share, "/trend?target=guest&#43;virtio-fs"}, nil},
		{"/trends?q=virtio-blk", 200, []string{blk}, []string{share}},
		{"/trends?name=nightly", 200, []string{"Cells of the runs named", "name=nightly&amp;"}, nil},
		{"/trend?workload=" + query(random) + "&target=" + query(share), 200, []string{"got worse: 1", "19 March 2026", "6.1.0-40-amd64 → 6.8.0-2-amd64", `<figure id="trend" data-save="trend"><div class="wide"><svg`}, nil},
		{"/trend?workload=" + query(random) + "&target=" + query(blk), 200, []string{"no change in 31 runs"}, nil},
		{"/trend?workload=" + query(random) + "&target=" + query(share) + "&by=value&metric=read.latency.mean", 200, []string{"less is better", "got worse"}, nil},
		{"/trend?workload=" + query(random) + "&target=" + query(hostDisk) + "&runs=5", 200, []string{"5 runs, too few"}, nil},
		{"/trend?workload=" + query(random) + "&target=" + query(share) + "&by=value&name=nightly", 200, []string{"A dot is a run, with its 95\u00a0% interval, on"}, nil},
		{"/trend?workload=" + query(random) + "&target=" + query(share) + "&by=value&name=" + query("<b>&\"other"), 200, []string{"A dot is a run, on a logarithmic axis"}, []string{"95\u00a0% interval"}}, // two rounds are too few for an interval
		{"/trend?workload=x&target=y", 404, []string{"no run that has ended"}, nil},
		{"/trend?workload=x&target=y&runs=0", 400, nil, nil},
		{"/trend?workload=x&target=y&by=z", 400, nil, nil},
		{"/nope", 404, nil, nil},
	} {
		got := get(t, url+c.path)
		if got.status != c.status {
			t.Errorf("%s: status %d: %.300s", c.path, got.status, got.body)
		}
		for _, w := range c.want {
			if !strings.Contains(got.body, w) {
				t.Errorf("%s: no %q", c.path, w)
			}
		}
		for _, w := range c.not {
			if strings.Contains(got.body, w) {
				t.Errorf("%s: has %q", c.path, w)
			}
		}
		if strings.Contains(got.body, "ZgotmplZ") {
			t.Errorf("%s: a template refused a value", c.path)
		}
	}
}

func query(s string) string { return url.QueryEscape(s) }

// Each number in a comparison or a report links to its trend: the same metric, judged in the same way, over all runs
// with the same name, or over all runs if the compared runs have different names. The report of an unfinished run has no
// such links.
func TestTrendOfEachCell(t *testing.T) {
	db, _ := open(t)
	nightly(24).fill(t, db)
	history{name: "weekly", runs: 1, rounds: 6, seed: 9}.fill(t, db)
	going := nightly(25)
	run := going.run(24)
	run.Status, run.End = iotax.Running, time.Time{}
	if err := db.Create(t.Context(), run); err != nil {
		t.Fatal(err)
	}
	for _, x := range going.trials(run, 24) {
		if err := db.Append(t.Context(), x); err != nil {
			t.Fatal(err)
		}
	}
	at := serve(t, newServer(t, Options{Store: db}))
	link := regexp.MustCompile(`<a href="(/trend\?[^"]*)" aria-label="trend of`)
	for _, c := range []struct {
		path     string
		name, by string
		said     string // the trend's outcome for virtio-fs
		cells    int
	}{
		{"/compare?run=nightly-020&run=nightly-003", "nightly", "value", "got worse: 1", 6},
		{"/compare?run=nightly-020&run=nightly-003&run=nightly-001&by=loss", "nightly", "", "got worse: 1", 6},
		{"/compare?run=nightly-020&run=weekly-000", "", "value", "got worse: 1", 6},
		{"/runs/nightly-020", "nightly", "", "got worse: 1", 6},
		{"/runs/weekly-000", "weekly", "", "1 runs, too few", 6},
		{"/runs/nightly-024", "", "", "", 0}, // trends do not include an unfinished run
	} {
		found := link.FindAllStringSubmatch(get(t, at+c.path).body, -1)
		if len(found) != c.cells {
			t.Errorf("%s: %d of %d cells lead to their trend", c.path, len(found), c.cells)
		}
		seen := map[string]bool{}
		for _, m := range found {
			to := gohtml.UnescapeString(m[1])
			u, err := url.Parse(to)
			if err != nil {
				t.Fatal(err)
			}
			q := u.Query()
			metric := map[string]string{random: "read.iops", seqRead: "read.bandwidth"}[q.Get("workload")]
			if q.Get("name") != c.name || q.Get("by") != c.by || q.Get("metric") != metric || metric == "" || seen[to] {
				t.Errorf("%s: %s", c.path, to)
			}
			seen[to] = true
			page := get(t, at+to)
			if page.status != 200 || q.Get("target") == share && q.Get("workload") == random && !strings.Contains(page.body, c.said) {
				t.Errorf("%s leads to %s: %d, without %q", c.path, to, page.status, c.said)
			}
		}
	}
}

func (h history) fillAs(t testing.TB, s *store.Store, id string) {
	t.Helper()
	run := h.run(0)
	run.ID = id
	if err := s.Create(t.Context(), run); err != nil {
		t.Fatal(err)
	}
	for _, x := range h.trials(run, 0) {
		if err := s.Append(t.Context(), x); err != nil {
			t.Fatal(err)
		}
	}
}

// The run page equals the HTML file of the report, plus a bar and links to trends.
func TestRunPageIsTheReport(t *testing.T) {
	db, _ := open(t)
	nightly(1).fill(t, db)
	run, err := db.Get(t.Context(), "latest")
	if err != nil {
		t.Fatal(err)
	}
	trials, err := db.Trials(t.Context(), run.ID)
	if err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	if err := output.HTML(&want, report.New(run, trials)); err != nil {
		t.Fatal(err)
	}
	got := get(t, serve(t, newServer(t, Options{Store: db}))+"/runs/"+run.ID)
	without := regexp.MustCompile(`(?s)<style>\s*\.serve.*?</style>\s*|<nav class="serve".*?</nav>\s*| <span class="refs"><a href="/trend\?[^>]*>trend</a></span>`).ReplaceAllString(got.body, "")
	squeeze := func(s string) string { return strings.Join(strings.Fields(s), " ") }
	if squeeze(without) != squeeze(want.String()) {
		t.Errorf("the page is not the report: %d and %d bytes", len(without), want.Len())
	}
	if csp := got.header.Get("Content-Security-Policy"); strings.Contains(csp, "unsafe-inline") || !strings.Contains(csp, "'sha256-") {
		t.Errorf("policy %q", csp)
	}
}

// A scrape returns the newest finished run of each name. The next scrape after a new run returns the new run.
func TestMetrics(t *testing.T) {
	db, _ := open(t)
	nightly(3).fill(t, db)
	url := serve(t, newServer(t, Options{Store: db}))
	scrape := func() string {
		t.Helper()
		got := get(t, url+"/metrics")
		if got.status != 200 || !strings.HasPrefix(got.header.Get("Content-Type"), "application/openmetrics-text; version=1.0.0") || !strings.HasSuffix(got.body, "\n# EOF\n") {
			t.Fatalf("%d %s: %.200s", got.status, got.header.Get("Content-Type"), got.body)
		}
		return got.body
	}
	for _, body := range []string{scrape(), scrape()} {
		if strings.Count(body, "iotax_run_info{") != 1 || !strings.Contains(body, `run="nightly-002"`) {
			t.Errorf("runs in %.300s", body)
		}
	}
	run, err := db.Get(t.Context(), "nightly-002")
	if err != nil {
		t.Fatal(err)
	}
	later := *run
	later.ID, later.Start, later.Status = "nightly-003", run.Start.Add(time.Hour), iotax.Done
	if err := db.Create(t.Context(), &later); err != nil {
		t.Fatal(err)
	}
	if body := scrape(); strings.Count(body, "iotax_run_info{") != 1 || !strings.Contains(body, `run="nightly-003"`) {
		t.Errorf("runs in %.300s", body)
	}
}

func TestAPI(t *testing.T) {
	db, _ := open(t)
	nightly(25).fill(t, db)
	url := serve(t, newServer(t, Options{Store: db}))
	read := func(path string, status int) (v map[string]any) {
		t.Helper()
		got := get(t, url+path)
		if got.status != status || got.header.Get("Content-Type") != "application/json" {
			t.Fatalf("%s: %d %s: %.200s", path, got.status, got.header.Get("Content-Type"), got.body)
		}
		if err := json.Unmarshal([]byte(got.body), &v); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		return v
	}
	list := read("/api/runs?limit=3&q=nightly&offset=1", 200)
	if list["total"] != 25.0 || len(list["runs"].([]any)) != 3 {
		t.Error(list)
	}
	first := list["runs"].([]any)[0].(map[string]any)
	if first["id"] != "nightly-023" || first["tally"].(map[string]any)["trials"] != 36.0 {
		t.Error(first)
	}
	if v := read("/api/runs?status=failed", 200); v["total"] != 0.0 || v["runs"] == nil {
		t.Error(v)
	}
	if v := read("/api/runs/nightly-001", 200); v["version"] != 1.0 || len(v["cells"].([]any)) != 6 {
		t.Error(v)
	}
	if v := read("/api/runs/nightly-001/state", 200); v["status"] != "done" || v["last_trial"] != 35.0 {
		t.Error(v)
	}
	if v := read("/api/compare?run=nightly-020&run=nightly-003", 200); v["a"].(map[string]any)["id"] != "nightly-003" {
		t.Error(v["a"])
	}
	trend := read("/api/trend?workload="+query(random)+"&target="+query(share), 200)
	changes := trend["changes"].([]any)
	if len(trend["points"].([]any)) != 25 || len(changes) != 1 || changes[0].(map[string]any)["verdict"] != "worse" {
		t.Error(trend)
	}
	for path, status := range map[string]int{"/api/runs/nope": 404, "/api/runs?limit=0": 400, "/api/runs?limit=1001": 400, "/api/compare?run=latest": 400, "/api/trend": 404} {
		if v := read(path, status); v["error"] == "" {
			t.Error(path, v)
		}
	}
}

func TestOnlyReads(t *testing.T) {
	db, _ := open(t)
	nightly(2).fill(t, db)
	url := serve(t, newServer(t, Options{Store: db}))
	for _, method := range []string{"POST", "PUT", "DELETE", "PATCH"} {
		for _, path := range []string{"/", "/runs/nightly-000", "/api/runs/nightly-000", "/api/runs"} {
			if got := ask(t, http.DefaultClient, method, url+path, ""); got.status != http.StatusMethodNotAllowed {
				t.Errorf("%s %s: %d", method, path, got.status)
			}
		}
	}
	if runs, err := db.Runs(t.Context()); err != nil || len(runs) != 2 {
		t.Error(len(runs), err)
	}
}

func TestHeaders(t *testing.T) {
	url := serve(t, newServer(t, Options{}))
	for _, path := range []string{"/", "/nope", "/api/runs", "/login"} {
		h := get(t, url+path).header
		csp := h.Get("Content-Security-Policy")
		if !strings.Contains(csp, "default-src 'none'") || strings.Contains(csp, "unsafe") || h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Access-Control-Allow-Origin") != "" ||
			h.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %v", path, h)
		}
	}
	for _, c := range []struct {
		name   string
		header []string
		status int
	}{
		{"rebinding", []string{"Host", "evil.example"}, 421},
		{"rebinding to a name like ours", []string{"Host", "localhost.evil.example:8080"}, 421},
		{"no name", []string{"Host", "evil"}, 421},
		{"localhost", []string{"Host", "localhost:1234"}, 200},
		{"address", []string{"Host", "192.0.2.7"}, 200},
		{"IPv6", []string{"Host", "[::1]:80"}, 200},
		{"image on another site", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors"}, 403},
		{"link on another site", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate"}, 200},
		{"own script", []string{"Sec-Fetch-Site", "same-origin", "Sec-Fetch-Mode", "cors"}, 200},
	} {
		if got := get(t, url+"/", c.header...); got.status != c.status {
			t.Errorf("%s: %d %.80s", c.name, got.status, got.body)
		}
	}
	named := serve(t, newServer(t, Options{Hosts: []string{"Bench.example.org"}}))
	if got := get(t, named+"/", "Host", "bench.example.org"); got.status != 200 {
		t.Errorf("a name that was given: %d", got.status)
	}
	for _, bad := range []string{"", "http://x", "x:80", "*"} {
		if _, err := New(Options{Hosts: []string{bad}}); err == nil {
			t.Errorf("host %q was taken", bad)
		}
	}
}

func TestToken(t *testing.T) {
	db, _ := open(t)
	nightly(1).fill(t, db)
	s := newServer(t, Options{Store: db, Token: token})
	now := time.Now()
	s.now = func() time.Time { return now }
	base := serve(t, s)

	if _, err := New(Options{Token: "short"}); err == nil {
		t.Error("a short token was taken")
	}
	secret := "nightly"
	for _, path := range []string{"/", "/runs/nightly-000", "/runs/nightly-000/events", "/compare?run=a&run=b", "/trends", "/api/runs", "/nope"} {
		got := get(t, base+path, "Accept", "text/html")
		if got.status != 401 || strings.Contains(strings.ReplaceAll(got.body, path, ""), secret) && path != "/runs/nightly-000/events" && path != "/runs/nightly-000" {
			t.Errorf("%s without a token: %d %.200s", path, got.status, got.body)
		}
	}
	if got := get(t, base+"/api/runs"); got.status != 401 || got.header.Get("WWW-Authenticate") == "" {
		t.Errorf("API: %d %v", got.status, got.header)
	}
	for header, status := range map[string]int{"Bearer " + token: 200, "bearer  " + token: 200, "Bearer " + token + "x": 401, "Bearer ": 401, "Basic " + token: 401, token: 401} {
		if got := get(t, base+"/api/runs", "Authorization", header); got.status != status {
			t.Errorf("%q: %d", header, got.status)
		}
	}

	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	login := func(token, to string, header ...string) reply {
		return ask(t, client, "POST", base+"/login", url.Values{"token": {token}, "to": {to}}.Encode(), append([]string{"Content-Type", "application/x-www-form-urlencoded"}, header...)...)
	}
	begun := time.Now()
	if got := login("wrong", "/"); got.status != 401 || !strings.Contains(got.body, "not the token") || time.Since(begun) < penalty {
		t.Errorf("wrong token: %d after %s", got.status, time.Since(begun))
	}
	if got := login(token, "/", "Origin", "https://evil.example"); got.status != 403 {
		t.Errorf("login from another site: %d", got.status)
	}
	if got := login(strings.Repeat("x", 8<<10), "/"); got.status != 400 {
		t.Errorf("a huge form: %d", got.status)
	}
	for to, want := range map[string]string{"/runs/nightly-000": "/runs/nightly-000", "//evil.example": "/", "https://evil.example": "/", "/\\evil.example": "/", "": "/"} {
		if got := login(token, to); got.status != 303 || got.header.Get("Location") != want {
			t.Errorf("to %q: %d %s", to, got.status, got.header.Get("Location"))
		}
	}
	got := login(token, "/", "X-Forwarded-Proto", "https")
	cookie := got.header.Get("Set-Cookie")
	for _, want := range []string{"HttpOnly", "SameSite=Strict", "Secure", "Path=/"} {
		if !strings.Contains(cookie, want) {
			t.Errorf("cookie %q lacks %s", cookie, want)
		}
	}
	if strings.Contains(cookie, token) {
		t.Error("the cookie holds the token")
	}
	login(token, "/")
	if got := ask(t, client, "GET", base+"/runs/nightly-000", ""); got.status != 200 {
		t.Errorf("logged in: %d", got.status)
	}
	// Reject a cookie that is invented, changed, or expired.
	value, _, _ := strings.Cut(strings.TrimPrefix(cookie, s.gate.cookie+"="), ";")
	for _, c := range []string{"", "x", value[:len(value)-1], "B" + value[1:]} {
		if got := get(t, base+"/api/runs", "Cookie", s.gate.cookie+"="+c); got.status != 401 {
			t.Errorf("cookie %q: %d", c, got.status)
		}
	}
	now = now.Add(session + time.Second)
	if got := ask(t, client, "GET", base+"/api/runs", ""); got.status != 401 {
		t.Errorf("an old session: %d", got.status)
	}
	now = now.Add(-session)
	if got := ask(t, client, "POST", base+"/logout", ""); got.status != 303 {
		t.Errorf("logout: %d", got.status)
	}
	if got := ask(t, client, "GET", base+"/api/runs", ""); got.status != 401 {
		t.Errorf("after logout: %d", got.status)
	}
}

// The server closes connections that are too slow or send too much data.
func TestLimits(t *testing.T) {
	long.Test(t)
	t.Parallel()
	s := newServer(t, Options{Token: token})
	l, err := Listen(t.Context(), "127.0.0.1:0", token)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, l) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	const head = "POST /login HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/x-www-form-urlencoded\r\n"
	t.Run("each", func(t *testing.T) { // the server must stop only after these subtests
		for name, c := range map[string]struct {
			first, drop string // the client sends `first` once, then `drop` ten times a second
			answer      string // start of the response; "" if the client gets none
		}{
			"slow header":       {"GET / HTTP/1.1\r\nX: ", "x", ""},
			"no header at all":  {"", "", ""},
			"slow body":         {head + "Content-Length: 4000\r\n\r\ntoken=", "x", "HTTP/1.1 400"},
			"large header":      {"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + strings.Repeat("x", 32<<10), "x", "HTTP/1.1 431"},
			"large body":        {head + "Content-Length: 1000000000\r\n\r\ntoken=" + strings.Repeat("x", 8<<10), strings.Repeat("x", 1<<10), "HTTP/1.1 400"},
			"body without ends": {head + "Transfer-Encoding: chunked\r\n\r\n", "3e8\r\n" + strings.Repeat("x", 1000) + "\r\n", "HTTP/1.1 400"},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				conn, err := net.Dial("tcp", l.Addr().String())
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				go func() {
					for text := c.first; ; text = c.drop {
						if _, err := io.WriteString(conn, text); err != nil {
							return
						}
						time.Sleep(100 * time.Millisecond)
					}
				}()
				if err := conn.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
					t.Fatal(err)
				}
				answer, err := io.ReadAll(conn)
				if errors.Is(err, os.ErrDeadlineExceeded) {
					t.Fatalf("it is still connected after a minute, and was answered %.200q", answer)
				}
				if !strings.HasPrefix(string(answer), c.answer) && err == nil { // a connection reset, whose error differs between systems, may arrive before the response
					t.Errorf("it was answered %.200q, want %s", answer, c.answer)
				}
			})
		}
	})
}

func TestListen(t *testing.T) {
	for address, ok := range map[string]bool{"127.0.0.1:0": true, "localhost:0": true, "[::1]:0": true, "0.0.0.0:0": false, ":0": false, "192.0.2.1:0": false, "nonsense": false, "127.0.0.1:99999": false} {
		l, err := Listen(t.Context(), address, "")
		if err == nil {
			l.Close()
		} else if e := (*iotax.Error)(nil); !errors.As(err, &e) || e.Hint == "" {
			t.Errorf("%s: %v", address, err)
		}
		if (err == nil) != ok && !(address == "[::1]:0" && err != nil && !strings.Contains(err.Error(), "others")) { // the host may lack IPv6
			t.Errorf("%s: %v", address, err)
		}
	}
	l, err := Listen(t.Context(), "0.0.0.0:0", token)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := Listen(t.Context(), l.Addr().String(), token); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("a port that is taken: %v", err)
	}
}

// A live view shows what another writer adds to the store. Stopping the server ends all live views.
func TestLiveAndStop(t *testing.T) {
	ctx := t.Context()
	db, path := open(t)
	h := history{name: "going", rounds: 3, seed: 4}
	run := h.run(0)
	trials := h.trials(run, 0)
	run.Status, run.End = iotax.Running, time.Time{}
	other, err := store.Open(ctx, path)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if err := other.Create(ctx, run); err != nil {
		t.Fatal(err)
	}
	s := newServer(t, Options{Store: db})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	stopping, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(stopping, l) }()
	base := "http://" + l.Addr().String()

	if got := get(t, base+"/runs/going-000/live"); got.status != 200 || !strings.Contains(got.body, "no trial has ended yet") {
		t.Errorf("%d %.200s", got.status, got.body)
	}
	res, err := http.Get(base + "/runs/going-000/events")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	events := make(chan string)
	go func() {
		defer close(events)
		var b []byte
		part := make([]byte, 4096)
		for {
			n, err := res.Body.Read(part)
			b = append(b, part[:n]...)
			for {
				one, rest, ok := strings.Cut(string(b), "\n\n")
				if !ok {
					break
				}
				b = []byte(rest)
				if strings.Contains(one, "event: ") {
					events <- one
				}
			}
			if err != nil {
				return
			}
		}
	}()
	next := func(want string) string {
		t.Helper()
		limit := time.After(20 * time.Second)
		var last string
		for {
			select {
			case e, ok := <-events:
				if !ok {
					t.Fatalf("the stream ended before %q; last %.300s", want, last)
				}
				if last = e; strings.Contains(e, want) {
					return e
				}
			case <-limit:
				t.Fatalf("no event with %q; last %.300s", want, last)
			}
		}
	}
	next("no trial has ended yet")
	for _, x := range trials[:7] {
		if err := other.Append(ctx, x); err != nil {
			t.Fatal(err)
		}
	}
	e := next("7 trials")
	newest := `<td class="s-num">7</td><td>` + random + `</td><td class="s-num">2</td><th` // counted from 1
	if !strings.Contains(e, share) || !strings.Contains(e, "round 1 of at most 30") || !strings.Contains(e, newest) {
		t.Errorf("%s", e)
	}
	// A second visitor gets events, too.
	again := make(chan string, 1)
	go func() {
		res, err := http.Get(base + "/runs/going-000/events")
		if err != nil {
			again <- err.Error()
			return
		}
		defer res.Body.Close()
		b, err := io.ReadAll(res.Body)
		again <- fmt.Sprint(string(b), err)
	}()
	for _, x := range trials[7:] {
		if err := other.Append(ctx, x); err != nil {
			t.Fatal(err)
		}
	}
	next("18 trials")
	stop()
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("stopped with %v", err)
		}
	case <-time.After(patience + 10*time.Second):
		t.Fatal("the server does not end")
	}
	if _, open := <-events; open {
		t.Error("the stream goes on after the end")
	}
	if text := <-again; !strings.Contains(text, "event: run") || !strings.HasSuffix(text, "<nil>") {
		t.Errorf("the second view: %.200s", text)
	}
}

// If a workload runs on only some targets, its rounds are complete without trials on the other targets.
func TestLiveRounds(t *testing.T) {
	h := history{name: "going", rounds: 3, seed: 4}
	run := h.run(0)
	trials := h.trials(run, 0)
	run.Workloads[1].At = []string{hostDisk}
	trials = slices.DeleteFunc(trials, func(x *iotax.Trial) bool { return x.Workload == seqRead && x.Target != hostDisk })
	s := newServer(t, Options{})
	for _, l := range s.liveView(run, report.New(run, trials)).Lanes {
		if l.Done != 3 {
			t.Errorf("%s: %d rounds, want 3", l.Workload, l.Done)
		}
	}
}

// The time before a run was resumed does not count for the estimate of the time left, nor for the budget.
func TestLiveResumed(t *testing.T) {
	h := history{name: "going", rounds: 3, seed: 4}
	run := h.run(0)
	run.Status, run.End = iotax.Running, time.Time{}
	trials := h.trials(run, 0) // 18, one each 13 s
	for _, x := range trials[6:] {
		x.Start = x.Start.Add(12 * time.Minute)
	}
	resumed := trials[6].Start.Add(-20 * time.Second)
	run.Environment = map[string]string{iotax.FactResumed: resumed.Format(time.RFC3339)}
	s := newServer(t, Options{Measure: func(*iotax.Run) (plan.Measure, error) {
		m := plan.Defaults()
		m.Rounds, m.Budget = plan.Rounds{Min: 4, Max: 4}, plan.Duration(10*time.Minute)
		return m, nil
	}})
	s.now = func() time.Time { return trials[17].Start.Add(13 * time.Second) }
	if v := s.liveView(run, report.New(run, trials)); v.Left != "about 1m18s" || v.Elapsed != 20+12*13 || v.Silent {
		t.Errorf("left: %q, running for %d s, silent: %v", v.Left, v.Elapsed, v.Silent)
	}
	run.Environment[iotax.FactResumed] = s.now().Add(20 * time.Minute).Format(time.RFC3339) // a second time
	s.now = func() time.Time { return trials[17].Start.Add(21 * time.Minute) }
	if v := s.liveView(run, report.New(run, trials)); v.Left != "" || v.Silent {
		t.Errorf("before the first trial: left: %q, silent: %v", v.Left, v.Silent)
	}
}

// A percentile is not shown if only some trials have enough I/Os for it, because these are the fast ones.
func TestLivePercentile(t *testing.T) {
	h := history{name: "going", rounds: 8, seed: 4}
	run := h.run(0)
	trials := h.trials(run, 0)
	for i := range run.Workloads {
		run.Workloads[i].Metrics = []string{"read.latency.p99"}
	}
	for _, x := range trials {
		if x.Target != blk || x.Round < 7 {
			x.Values = append(x.Values, iotax.Value{Name: "read.latency.p99", Value: .001 * float64(x.Round+1), Unit: iotax.Seconds, Better: iotax.Down})
		}
	}
	v := newServer(t, Options{}).liveView(run, report.New(run, trials))
	for _, c := range v.Cells {
		if got, want := c.Value != "", c.Target != blk; got != want {
			t.Errorf("%s, %s: the percentile is shown: %v, want %v", c.Workload, c.Target, got, want)
		}
		if got, want := c.Ratio != "", c.Target == share; got != want {
			t.Errorf("%s, %s: the ratio is shown: %v, want %v", c.Workload, c.Target, got, want)
		}
	}
	for _, l := range v.Lanes {
		if l.Interval != "" {
			t.Errorf("%s: the interval is %s, want none", l.Workload, l.Interval)
		}
	}
}

func TestLiveEnds(t *testing.T) {
	ctx := t.Context()
	db, _ := open(t)
	h := history{name: "going", rounds: 2, seed: 4}
	run := h.run(0)
	run.Status = iotax.Running
	if err := db.Create(ctx, run); err != nil {
		t.Fatal(err)
	}
	s := newServer(t, Options{Store: db})
	base := serve(t, s)
	if got := get(t, base+"/runs/going-000"); !strings.Contains(got.body, "Live view") {
		t.Error("the report of a run that goes on has no link to the live view")
	}
	done := make(chan reply, 1)
	go func() { done <- get(t, base+"/runs/going-000/events") }()
	run.Status = iotax.Done
	if err := db.Update(ctx, run); err != nil {
		t.Fatal(err)
	}
	select {
	case got := <-done:
		if !strings.Contains(got.body, "event: end\nid: -1\ndata: done") || got.header.Get("Content-Type") != "text/event-stream" {
			t.Error(got)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("the stream of a run that is done does not end")
	}
	s.feeds.mu.Lock()
	defer s.feeds.mu.Unlock()
	if len(s.feeds.all) != 0 || s.feeds.watchers != 0 {
		t.Errorf("%d feeds and %d watchers are left", len(s.feeds.all), s.feeds.watchers)
	}
}

func TestWatchersAreCounted(t *testing.T) {
	db, _ := open(t)
	h := history{name: "going", rounds: 1}
	run := h.run(0)
	run.Status = iotax.Running
	if err := db.Create(t.Context(), run); err != nil {
		t.Fatal(err)
	}
	s := newServer(t, Options{Store: db})
	var leaves []func()
	for range mostWatchers {
		_, leave, err := s.feeds.watch(run.ID)
		if err != nil {
			t.Fatal(err)
		}
		leaves = append(leaves, leave)
	}
	if got := get(t, serve(t, s)+"/runs/going-000/events"); got.status != 503 || got.header.Get("Retry-After") == "" {
		t.Errorf("one more: %d", got.status)
	}
	for _, leave := range leaves {
		leave()
	}
	if _, leave, err := s.feeds.watch(run.ID); err != nil {
		t.Error(err)
	} else {
		leave()
	}
}

// Each page of a store with 10,000 runs must load within 200 ms. The best of several attempts counts, because the
// machine may be busy.
func TestTenThousandRuns(t *testing.T) {
	db, path := open(t)
	h := history{name: "seed", runs: 1, rounds: 2, seed: 1}
	h.fill(t, db)
	const n = 10_000
	multiply(t, path, n)
	base := serve(t, newServer(t, Options{Store: db}))
	for _, c := range []struct{ path, want string }{
		{"/", "1–50 of 10000"},
		{"/?q=virtio&name=plan+42", "of 103"},
		{"/?order=name", "1–50 of 10000"},
		{"/?order=took", "1–50 of 10000"},
		{"/?offset=9950", "9951–10000 of 10000"},
		{"/trends", random},
		{"/trend?workload=" + query(random) + "&target=" + query(share), "no change in 100 runs"},
	} {
		var all []time.Duration
		for range 5 {
			begun := time.Now()
			got := get(t, base+c.path)
			all = append(all, time.Since(begun))
			if !strings.Contains(got.body, c.want) {
				t.Fatalf("%s: %d, no %q", c.path, got.status, c.want)
			}
		}
		t.Logf("%s: first %s, best %s", c.path, all[0].Round(time.Millisecond), slices.Min(all).Round(time.Millisecond))
		if best := slices.Min(all); best > 200*time.Millisecond {
			t.Errorf("%s took %s at best", c.path, best)
		}
	}
}

func BenchmarkFirstPage(b *testing.B) {
	db, path := open(b)
	history{name: "seed", runs: 1, rounds: 2, seed: 1}.fill(b, db)
	multiply(b, path, 10_000)
	base := serve(b, newServer(b, Options{Store: db}))
	if st, err := os.Stat(path); err == nil {
		b.ReportMetric(float64(st.Size())/(1<<20), "MiB")
	}
	for b.Loop() {
		get(b, base+"/")
	}
}

// The list of runs marks runs with emulated guests.
func TestEmulatedInHistory(t *testing.T) {
	db, _ := open(t)
	history{name: "tcg", runs: 1, rounds: 2, seed: 9, change: func(_ int, run *iotax.Run, _ string) float64 {
		run.Targets[1].Facts = map[string]string{"accel": "tcg"}
		return 1
	}}.fill(t, db)
	if got := get(t, serve(t, newServer(t, Options{Store: db}))+"/"); got.status != 200 || !strings.Contains(got.body, "1 EMULATED") {
		t.Errorf("%d: %s", got.status, got.body)
	}
}
