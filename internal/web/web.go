// Package web serves the contents of a store to browsers: the history, the report of each run, comparisons, trends, and
// running runs. It does not change the store. Pages are rendered on the server and are readable without scripts.
package web

import (
	"bytes"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"html/template"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"iotax"
	"iotax/internal/plan"
	"iotax/internal/report/block"
	"iotax/internal/report/format"
	"iotax/internal/report/html"
	"iotax/internal/store"
	"iotax/internal/trend"
)

// Options configures a server.
type Options struct {
	Store   *store.Store
	Version string // of iotax

	// Token is the token that visitors must present. If it is "", every visitor is admitted, and Listen accepts only
	// loopback addresses.
	Token string

	// Hosts lists additional host names of the server, for example the name of a proxy. IP addresses and localhost
	// are always accepted.
	Hosts []string

	// Measure returns the measure section of a run's plan. The live view needs it to show progress. It may be nil.
	Measure func(*iotax.Run) (plan.Measure, error)

	// Log logs internal errors of the server. It may be nil.
	Log func(format string, args ...any)
}

// LeastToken is the minimum length of a token in bytes.
const LeastToken = 16

// A Server answers requests about a store.
type Server struct {
	Options
	pages   *template.Template
	statics map[string]static // by path
	css, js string            // paths in statics
	gate    gate
	frame   frame
	feeds   feeds
	reader  trend.Reader
	scraped scraped
	busy    chan struct{} // slots for expensive pages
	now     func() time.Time
}

//go:embed pages
var pageFiles embed.FS

//go:embed static/app.css
var appCSS string

//go:embed static/app.js
var appJS string

//go:embed static/icon.svg
var icon string

// static is a file embedded in the binary. Except for /favicon.ico, its path contains a hash of its contents, so that
// browsers can cache it forever.
type static struct {
	body []byte
	kind string
}

// heavyPages is the maximum number of requests for expensive pages, such as reports, that are handled concurrently. The
// limit protects measurements on this host.
const heavyPages = 2

// New creates a server. Use Listen and Serve to start it.
func New(o Options) (*Server, error) {
	if o.Token != "" && len(o.Token) < LeastToken {
		return nil, &iotax.Error{Op: "serve", On: "token", Err: fmt.Errorf("it has %d characters, and fewer than %d can be guessed", len(o.Token), LeastToken),
			Hint: "make one: head -c 24 /dev/urandom | base64"}
	}
	if o.Log == nil {
		o.Log = func(string, ...any) {}
	}
	s := &Server{Options: o, statics: map[string]static{}, busy: make(chan struct{}, heavyPages), now: time.Now}
	s.css = s.static("css", "text/css; charset=utf-8", html.PageCSS+appCSS)
	s.js = s.static("js", "text/javascript; charset=utf-8", appJS)
	s.static("svg", "image/svg+xml", icon)
	var err error
	if s.pages, err = template.New("").ParseFS(pageFiles, "pages/*.html"); err != nil {
		return nil, err
	}
	if s.gate, err = newGate(o.Token, o.Hosts); err != nil {
		return nil, err
	}
	if s.frame, err = newFrame(s.pages); err != nil {
		return nil, err
	}
	s.feeds.init(s)
	s.reader.Store = o.Store
	return s, nil
}

func (s *Server) static(ending, kind, text string) string {
	sum := sha256.Sum256([]byte(text))
	path := "/static/" + hex.EncodeToString(sum[:6]) + "." + ending
	s.statics[path] = static{[]byte(text), kind}
	if ending == "svg" {
		s.statics["/favicon.ico"] = static{[]byte(text), kind}
	}
	return path
}

// Listen opens a listener on address. If token is "", the address must be a loopback address.
func Listen(ctx context.Context, address, token string) (net.Listener, error) {
	fail := func(err error, hint string) (net.Listener, error) {
		return nil, &iotax.Error{Op: "serve", On: address, Err: err, Hint: hint}
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return fail(errors.New("this is not HOST:PORT"), "--listen 127.0.0.1:8080")
	}
	if token == "" {
		ips, err := net.DefaultResolver.LookupIPAddr(ctx, host)
		if host == "" || err != nil {
			ips = []net.IPAddr{{IP: net.IPv4zero}}
		}
		for _, ip := range ips {
			if !ip.IP.IsLoopback() {
				return fail(errors.New("others could reach it, and no token is set"),
					"listen on 127.0.0.1 (and come through ssh -L), or put a token into a file and name it: --token-file FILE")
			}
		}
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", address)
	if err != nil {
		var op *net.OpError
		if errors.As(err, &op) {
			err = op.Err
		}
		return fail(err, "name another address: --listen 127.0.0.1:0 takes a free port")
	}
	return l, nil
}

// patience is the time that open requests get to finish when the server stops.
const patience = 5 * time.Second

// Serve answers requests on l until ctx is done. It then waits up to 5 s (`patience`) for open requests, and closes the
// remaining connections. It returns an error if it can no longer accept connections, or cannot close them.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	if a, ok := l.Addr().(*net.TCPAddr); ok {
		s.gate.cookie = fmt.Sprintf("iotax-%d", a.Port) // browsers send cookies to all ports of a host
	}
	requests, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	srv := &http.Server{
		Handler:           s.Handler(),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      60 * time.Second, // live views extend it
		IdleTimeout:       60 * time.Second,
		MaxHeaderBytes:    16 << 10,
		BaseContext:       func(net.Listener) context.Context { return requests },
	}
	failed := make(chan error, 1)
	go func() { failed <- srv.Serve(l) }()
	select {
	case err := <-failed:
		return &iotax.Error{Op: "serve", On: l.Addr().String(), Err: err}
	case <-ctx.Done():
	}
	s.feeds.close() // open live views would delay the shutdown
	stop, cancel := context.WithTimeout(requests, patience)
	defer cancel()
	if err := srv.Shutdown(stop); err != nil {
		end()
		return errors.Join(srv.Close())
	}
	return nil
}

// Handler returns the handler for all requests, including the access checks.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", s.page(s.history))
	mux.HandleFunc("GET /runs/{id}", s.page(s.work(s.run)))
	mux.HandleFunc("GET /runs/{id}/live", s.page(s.work(s.live)))
	mux.HandleFunc("GET /runs/{id}/events", s.page(s.events))
	mux.HandleFunc("GET /compare", s.page(s.work(s.compare)))
	mux.HandleFunc("GET /trends", s.page(s.trends))
	mux.HandleFunc("GET /trend", s.page(s.work(s.trend)))
	mux.HandleFunc("GET /api/runs", s.api(s.apiRuns))
	mux.HandleFunc("GET /api/runs/{id}", s.api(s.work(s.apiRun)))
	mux.HandleFunc("GET /api/runs/{id}/state", s.api(s.apiState))
	mux.HandleFunc("GET /api/compare", s.api(s.work(s.apiCompare)))
	mux.HandleFunc("GET /api/trend", s.api(s.work(s.apiTrend)))
	mux.HandleFunc("GET /metrics", s.api(s.work(s.metrics)))
	mux.HandleFunc("GET /login", s.loginForm)
	mux.HandleFunc("POST /login", s.login)
	mux.HandleFunc("POST /logout", s.logout)
	for path := range s.statics {
		mux.HandleFunc("GET "+path, s.file)
	}
	return s.guard(mux)
}

func (s *Server) file(w http.ResponseWriter, r *http.Request) {
	f := s.statics[r.URL.Path]
	w.Header().Set("Content-Type", f.kind)
	if r.URL.Path != "/favicon.ico" {
		w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	_, _ = w.Write(f.body) // the client may have disconnected
}

// A problem is an error with an HTTP status.
type problem struct {
	error
	status int
}

func (p problem) Unwrap() error { return p.error }

func wrong(format string, args ...any) error {
	return problem{fmt.Errorf(format, args...), http.StatusBadRequest}
}

func (s *Server) statusOf(r *http.Request, err error) int {
	var p problem
	switch {
	case errors.As(err, &p):
		return p.status
	case errors.Is(err, store.ErrNotFound):
		return http.StatusNotFound
	case errors.Is(err, iotax.ErrUsage):
		return http.StatusBadRequest
	}
	if r.Context().Err() == nil {
		s.Log("%s %s: %v", r.Method, r.URL.Path, err)
	}
	return http.StatusInternalServerError
}

// page adapts a handler and shows its error as a page. A handler that fails must not have written anything.
func (s *Server) page(h func(http.ResponseWriter, *http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		err := h(w, r)
		if err == nil {
			return
		}
		status := s.statusOf(r, err)
		what, hint, _ := strings.Cut(err.Error(), "\n  hint: ")
		s.write(w, r, status, "error.html", errorView{view: s.view(r, http.StatusText(status), ""), Status: status, What: format.Clean(what), Hint: format.Clean(hint)})
	}
}

type errorView struct {
	view
	Status     int
	What, Hint string
}

// view contains the fields that every page needs.
type view struct {
	CSS, JS, Title, Here, Version string
	Locked                        bool // there is a token, so the page offers to log out
}

func (s *Server) view(_ *http.Request, title, here string) view {
	return view{CSS: s.css, JS: s.js, Title: title, Here: here, Version: s.Version, Locked: s.Token != ""}
}

var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// write sends a complete page, or an internal error if the template fails.
func (s *Server) write(w http.ResponseWriter, r *http.Request, status int, name string, data any) {
	b := buffers.Get().(*bytes.Buffer)
	defer buffers.Put(b)
	b.Reset()
	if err := s.pages.ExecuteTemplate(b, name, data); err != nil {
		s.Log("%s: %v", r.URL.Path, err)
		http.Error(w, "the page could not be made", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes())
}

// work adapts a handler. At most heavyPages of the adapted handlers run concurrently, and the others wait.
func (s *Server) work(f func(http.ResponseWriter, *http.Request) error) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		select {
		case s.busy <- struct{}{}:
			defer func() { <-s.busy }()
			return f(w, r)
		case <-r.Context().Done():
			return context.Cause(r.Context())
		}
	}
}

// A frame contains the style of the bar above a report, and a content security policy that allows only the styles and
// scripts of iotax's own report.
type frame struct {
	head   template.HTML
	policy string
}

// newFrame derives the policy from the styles and scripts of an empty report, so that the contents of a run cannot
// extend the policy.
func newFrame(pages *template.Template) (frame, error) {
	var b bytes.Buffer
	if err := pages.ExecuteTemplate(&b, "bar-style", nil); err != nil {
		return frame{}, err
	}
	f := frame{head: template.HTML(b.String())} // the template is embedded in the binary
	b.Reset()
	if err := html.Write(&b, block.Document{}, html.Frame{Head: f.head}); err != nil {
		return frame{}, err
	}
	page := b.String()
	f.policy = "default-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; img-src 'self' data: blob:" +
		"; style-src" + hashes(page, "style") + "; script-src" + hashes(page, "script")
	return f, nil
}

// hashes returns CSP sources for the inline elements with the given name, or 'none' if there are no such elements.
func hashes(page, element string) string {
	var out strings.Builder
	for {
		_, rest, found := strings.Cut(page, "<"+element)
		if !found {
			break
		}
		_, rest, _ = strings.Cut(rest, ">")
		body, after, _ := strings.Cut(rest, "</"+element+">")
		sum := sha256.Sum256([]byte(body))
		fmt.Fprintf(&out, " 'sha256-%s'", base64.StdEncoding.EncodeToString(sum[:]))
		page = after
	}
	if out.Len() == 0 {
		return " 'none'"
	}
	return out.String()
}
