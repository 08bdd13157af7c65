package workload

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"iotax"
	"iotax/internal/machine/host"
	"iotax/internal/testenv/worktest"
)

func web(spec func(*HTTP)) *HTTP {
	s := newHTTP().(*HTTP)
	s.Workers = 4
	if spec != nil {
		spec(s)
	} else {
		s.Size = 1 << 20
	}
	return s
}

func windowed(t *testing.T, w iotax.Workload, tgt *iotax.Target, length time.Duration) (*iotax.Trial, error) {
	t.Helper()
	ctx := worktest.CtxFor(t)
	if err := w.Check(ctx, tgt); err != nil {
		return nil, err
	}
	defer func() {
		if err := w.Cleanup(ctx, tgt); err != nil {
			t.Error(err)
		}
	}()
	if err := w.Prepare(ctx, tgt); err != nil {
		return nil, err
	}
	out := &iotax.Trial{Length: length, Ramp: length / 10, Facts: map[string]string{}}
	return out, w.Run(ctx, tgt, out)
}

func foundRules(out *iotax.Trial) (ids []string) {
	for _, f := range out.Findings {
		ids = append(ids, f.Rule)
	}
	return ids
}

// nginx serves the files of the place, and leaves nothing behind.
func TestHTTP(t *testing.T) {
	dir := t.TempDir()
	before, _ := os.ReadDir("/tmp")
	out, err := windowed(t, made(t, "http", web(nil)), worktest.Target(host.Local(), dir), time.Second)
	if err != nil {
		t.Fatal(err)
	}
	d, _ := out.Value("duration")
	n, _ := out.Value("operations")
	worktest.Want(t, out, "duration", 0.9, 60)
	worktest.Want(t, out, "http.requests", n.Value/d.Value*0.999, n.Value/d.Value*1.001)
	worktest.Want(t, out, "http.errors", 0, 0)
	// On few CPUs, the generator may be the bottleneck. A finding then reports it.
	if n.Value < 20 || slices.ContainsFunc(foundRules(out), func(id string) bool { return id != "generator-bound" }) {
		t.Errorf("%v requests, %v", n.Value, out.Findings)
	}
	if cpu, _ := out.Value("cpu.generator"); !(cpu.Value > 0) || cpu.Unit != iotax.RatioUnit {
		t.Errorf("the generator's CPU is %v", cpu)
	}
	// Ten files from 2 KiB to 1 MiB are fetched equally often. Their mean size is 0.2 MiB.
	b, _ := out.Value("http.bandwidth")
	if mean := b.Value * d.Value / n.Value; n.Value > 500 && (mean < 180e3 || mean > 240e3) {
		t.Errorf("%.0f bytes a request", mean)
	}
	var counted uint64
	var sum float64
	for _, bin := range out.Histograms[0].Bins {
		counted += bin.Count
		sum += bin.Value * float64(bin.Count)
	}
	m, _ := out.Value("http.latency.mean")
	if float64(counted) != n.Value || sum/n.Value < m.Value*0.98 || sum/n.Value > m.Value*1.02 {
		t.Errorf("the histogram has %d with a mean of %g, not %v with %g", counted, sum/n.Value, n.Value, m.Value)
	}
	if !strings.HasPrefix(out.Facts["nginx"], "nginx/") {
		t.Errorf("facts %v", out.Facts)
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("%v is left behind", left)
	}
	after, _ := os.ReadDir("/tmp")
	for _, e := range after {
		if strings.HasPrefix(e.Name(), "iotax-nginx-") && !slices.ContainsFunc(before, func(o os.DirEntry) bool { return o.Name() == e.Name() }) {
			t.Errorf("%s is left behind", e.Name())
		}
	}
}

// An open loop sends requests at its rate. A finding reports a server that does not keep up.
func TestHTTPOpenLoop(t *testing.T) {
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { time.Sleep(50 * time.Millisecond) }))
	defer slow.Close()
	for rate, found := range map[float64]int{20: 0, 1000: 1} {
		w := made(t, "http", web(func(s *HTTP) { s.URL, s.Rate = slow.URL, rate }))
		if m := w.Metrics()[0]; m != "http.latency.mean" {
			t.Errorf("metric %s", m)
		}
		out, err := windowed(t, w, worktest.Target(host.Local(), t.TempDir()), 2*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, id := range foundRules(out) {
			if id == "load-not-reached" {
				n++
			}
		}
		worktest.Want(t, out, "http.requests", 0, rate*1.1)
		worktest.Want(t, out, "http.latency.mean", 0.05, 10)
		if n != found {
			t.Errorf("%g/s: %v", rate, out.Findings)
		}
	}
}

// An open loop sends all requests of its rate, whatever the number of workers. The latency of a request begins at the
// time for which it was planned, so it includes the wait for a worker.
func TestHTTPOpenLoopCounts(t *testing.T) {
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		if asked.Add(1) == 1 {
			time.Sleep(500 * time.Millisecond)
		}
	}))
	defer server.Close()
	for workers, least := range map[int]float64{1: 0.1, 20: 0.008} {
		asked.Store(0)
		w := made(t, "http", web(func(s *HTTP) { s.URL, s.Rate, s.Workers = server.URL, 59, workers }))
		out := &iotax.Trial{Length: time.Second}
		if err := w.Run(worktest.CtxFor(t), worktest.Target(host.Local(), t.TempDir()), out); err != nil {
			t.Fatal(err)
		}
		worktest.Want(t, out, "operations", 56, 60)
		worktest.Want(t, out, "duration", 1, 20)
		worktest.Want(t, out, "http.latency.mean", least, 10)
	}
}

// Error responses are counted separately. Without errors, their share is 0.
func TestHTTPErrors(t *testing.T) {
	for _, every := range []int64{0, 4} {
		var n atomic.Int64
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if every > 0 && n.Add(1)%every == 0 {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		}))
		defer s.Close()
		out, err := windowed(t, made(t, "http", web(func(h *HTTP) { h.URL = s.URL })), worktest.Target(host.Local(), t.TempDir()), 500*time.Millisecond)
		if err != nil {
			t.Fatal(err)
		}
		if every == 0 {
			worktest.Want(t, out, "http.errors", 0, 0)
		} else {
			worktest.Want(t, out, "http.errors", 0.15, 0.35)
		}
		if got := slices.Contains(foundRules(out), "http-errors"); got != (every > 0) || got != (out.Facts["errors: status 503"] != "") {
			t.Errorf("every %d: %v, %v", every, out.Findings, out.Facts)
		}
	}
}

// An answer that breaks off counts as failed, even if the size of the file is not known in advance.
func TestHTTPTruncated(t *testing.T) {
	for _, sent := range []int{0, 100} {
		var n atomic.Int64
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			body := make([]byte, 1000)
			w.Header().Set("Content-Length", "1000")
			if n.Add(1)%2 == 0 {
				body = body[:sent]
			}
			_, _ = w.Write(body)
		}))
		defer s.Close()
		out, err := windowed(t, made(t, "http", web(func(h *HTTP) { h.URL = s.URL })), worktest.Target(host.Local(), t.TempDir()), 300*time.Millisecond)
		if err != nil {
			t.Fatal(err)
		}
		worktest.Want(t, out, "http.errors", 0.3, 0.7)
		if out.Facts["errors: incomplete answer"] == "" || !slices.Contains(foundRules(out), "http-errors") {
			t.Errorf("%d bytes of 1000: %v, %v", sent, out.Facts, out.Findings)
		}
	}
}

func TestHTTPThatFails(t *testing.T) {
	gone := httptest.NewServer(http.NotFoundHandler())
	url := gone.URL
	gone.Close()
	w := made(t, "http", web(func(s *HTTP) { s.URL = url }))
	if _, err := windowed(t, w, worktest.Target(host.Local(), t.TempDir()), 300*time.Millisecond); err == nil || !strings.Contains(err.Error(), "no request was answered") {
		t.Errorf("a server that is gone: %v", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	hang := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-time.After(5 * time.Second):
		}
	}))
	defer hang.Close()
	begun := time.Now()
	w = made(t, "http", web(func(s *HTTP) { s.URL = hang.URL }))
	err := w.Run(ctx, worktest.Target(host.Local(), t.TempDir()), &iotax.Trial{Length: time.Minute})
	if !errors.Is(err, context.DeadlineExceeded) || time.Since(begun) > 30*time.Second {
		t.Errorf("a cancelled load: %v after %v", err, time.Since(begun))
	}
	for _, bad := range []func(*HTTP){func(s *HTTP) { s.URL = "ftp://x" }, func(s *HTTP) { s.Workers = 0 }, func(s *HTTP) { s.Rate = -1 }, func(s *HTTP) { s.Files = 0 }, func(s *HTTP) { s.Size = 0 },
		func(s *HTTP) { s.URL, s.Files = "http://h/f", 3 }, func(s *HTTP) { s.URL, s.Size = "http://h/f", 1<<20 }} {
		if web(bad).Validate() == nil {
			t.Errorf("%+v is accepted", web(bad))
		}
	}
	scaled := web(func(s *HTTP) { s.URL = "http://h/f"; s.Scale(0.1) })
	if err := scaled.Validate(); err != nil {
		t.Errorf("a plan that is scaled: %v", err)
	}
}

// isolated is a container on this host with its own network.
type isolated struct{ iotax.Machine }

func (isolated) Caps() iotax.MachineCaps { return iotax.MachineCaps{Outside: host.Local()} }

func TestHTTPWithoutAWay(t *testing.T) {
	var refused *iotax.Error
	_, err := windowed(t, made(t, "http", web(nil)), worktest.Target(isolated{host.Local()}, t.TempDir()), time.Second)
	if !errors.As(err, &refused) || !strings.Contains(refused.Hint, "--network=host") || !strings.Contains(refused.Hint, "url:") {
		t.Errorf("a web server in a container with a network of its own: %v", err)
	}
}

// Validate rejects a URL with a login or a signature, because iotax saves the URL with the plan.
func TestHTTPWithLogin(t *testing.T) {
	for _, url := range []string{"https://token@host/file", "https://host/file?X-Amz-Date=1&X-Amz-Signature=0af1"} {
		h := newHTTP().(*HTTP)
		h.URL = url
		if err := h.Validate(); err == nil || !strings.Contains(err.Error(), "it contains a login") {
			t.Error(url, err)
		}
	}
}
