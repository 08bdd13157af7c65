package workload

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"iotax"
	"iotax/internal/agent"
	"iotax/internal/leftover"
	"iotax/internal/metric"
	"iotax/internal/plan"
	"iotax/internal/secret"
	"iotax/internal/workload/command"
	"iotax/internal/workload/support"
	"iotax/internal/workload/task"
)

// HTTP is the spec of `http: {}`. nginx on the target's machine serves static files of the place, and this host fetches
// them. If `url` is set or the place is a URL, this host fetches that URL instead.
type HTTP struct {
	URL     string    `yaml:"url" doc:"URL to fetch, instead of files that nginx serves from the target's place"`
	Workers int       `yaml:"workers" doc:"maximum number of requests in flight"`
	Rate    float64   `yaml:"rate" doc:"open loop: requests per second, regardless of the answers; latencies count from the planned times; 0 means a closed loop at the maximum rate"`
	Files   int       `yaml:"files" doc:"number of files; each is half as large as the next"`
	Size    plan.Size `yaml:"size" doc:"size of the largest file"`

	Times float64 `yaml:"times" doc:"length of its trials, as a multiple of the plan's; 0 means 1"`
}

func newHTTP() plan.Spec { return &HTTP{Workers: 20, Files: 10, Size: 16 << 20} }

// SetScalar accepts a URL.
func (s *HTTP) SetScalar(text string) error {
	s.URL = text
	return nil
}

// Validate returns an error for fields that are out of range.
func (s *HTTP) Validate() error {
	var errs []error
	bad := func(field, hint, format string, args ...any) {
		errs = append(errs, &plan.FieldError{Field: field, Msg: fmt.Sprintf(format, args...), Hint: hint})
	}
	if s.URL != "" && !strings.HasPrefix(s.URL, "http://") && !strings.HasPrefix(s.URL, "https://") {
		bad("url", "as in http://host:8080/file", "%q is not the URL of a web server", s.URL)
	} else if u, err := url.Parse(s.URL); err == nil && (u.User != nil || secret.Signed(s.URL)) {
		bad("url", "name a URL that needs no login", "it contains a login, a signature or a token, and plans are saved")
	}
	if s.Workers < 1 || s.Workers > 10000 {
		bad("workers", "", "%d is not a number from 1 to 10000", s.Workers)
	}
	if s.Rate < 0 || s.Rate > 1e6 {
		bad("rate", "", "%g is not a rate from 0 to 1000000", s.Rate)
	}
	if s.Files < 1 || s.Files > 1000 {
		bad("files", "", "%d is not a number from 1 to 1000", s.Files)
	}
	if s.Size < 1 || s.Size > 1<<34 {
		bad("size", "", "%v is not a size from 1B to 16GiB", s.Size)
	}
	if own := newHTTP().(*HTTP); s.URL != "" && (s.Files != own.Files || s.Size != own.Size) {
		bad("url", "leave files and size out, or leave url out", "iotax makes no files for a URL that exists")
	}
	return errors.Join(append(errs, plan.CheckTimes(s.Times))...)
}

func (s *HTTP) Traits() plan.Traits {
	return plan.Traits{Lasts: s.Times, Scale: s.Scale, Metrics: s.metrics}
}

func (s *HTTP) metrics() []metric.Metric {
	return slices.Concat(metric.Of(iotax.PerSecond, iotax.Up, iotax.ValueHTTPRequests, "requests per second"),
		metric.Of(iotax.BytesPerSecond, iotax.Up, "http.bandwidth", "bytes per second"),
		metric.Latency("http.latency", "time of a request"),
		metric.Of(iotax.RatioUnit, iotax.Down, "http.errors", "share of the requests that failed"))
}

// Scale multiplies the size of the files by a factor. It does not apply to a URL.
func (s *HTTP) Scale(by float64) {
	if s.URL == "" {
		s.Size = max(1, plan.Size(float64(s.Size)*by))
	}
}

// sizes returns the size of each file in bytes, by name.
func (s *HTTP) sizes() map[string]int64 {
	out := map[string]int64{}
	size := int64(s.Size)
	for i := s.Files - 1; i >= 0; i-- {
		out[fmt.Sprintf("iotax-http-%d-%d", i, size)] = size
		size = max(1, size/2)
	}
	return out
}

type httpLoad struct {
	name    string
	env     support.Env
	spec    *HTTP
	servers map[*iotax.Target]*server
}

func openHTTP(w plan.Workload, s *HTTP, e support.Env) (iotax.Workload, error) {
	return &httpLoad{name: w.Name, env: e, spec: s, servers: map[*iotax.Target]*server{}}, s.Validate()
}

// Metrics returns the mean latency for an open loop, whose rate the plan sets. Otherwise it returns the rate and the
// bandwidth.
func (h *httpLoad) Metrics() []string {
	if h.spec.Rate > 0 {
		return []string{"http.latency.mean"}
	}
	return []string{iotax.ValueHTTPRequests, "http.bandwidth"}
}

func (h *httpLoad) Caps() iotax.WorkloadCaps { return iotax.WorkloadCaps{Space: h.Space} }

func (h *httpLoad) Space() int64 {
	if h.spec.URL != "" {
		return 0
	}
	var sum int64
	for _, n := range h.spec.sizes() {
		sum += n + 4096
	}
	return sum
}

// served reports whether nginx serves t's place.
func (h *httpLoad) served(t *iotax.Target) bool {
	return h.spec.URL == "" && t.Place.Kind == iotax.PlaceDir
}

func (h *httpLoad) Check(ctx context.Context, t *iotax.Target) error {
	on := func(err error, hint string) error {
		return &iotax.Error{Op: "check " + h.name + " on", On: t.Name, Err: err, Hint: hint}
	}
	if !h.served(t) {
		if h.spec.URL == "" && t.Place.Kind != iotax.PlaceURL {
			return on(fmt.Errorf("a web server needs a directory, and the place is a %s", t.Place.Kind), "a target with a directory, or url:")
		}
		return nil
	}
	if caps := t.Machine.Caps(); caps.Forward == nil && !caps.Local {
		hint, err := support.NoWay(t.Machine, "start the web server there yourself, and give url:")
		return on(err, hint)
	}
	if _, err := findNginx(ctx, t.Machine, h.env); err != nil {
		return on(err, "apt install nginx-light, here or there")
	}
	return nil
}

// Prepare writes the files and starts the server. Cleanup ends the server.
func (h *httpLoad) Prepare(ctx context.Context, t *iotax.Target) error {
	if !h.served(t) {
		return nil
	}
	want := h.spec.sizes()
	names := slices.Sorted(maps.Keys(want))
	h.env.Shared.Held.Hold(t, names)
	have, err := support.FileSizes(ctx, t, names)
	for _, n := range names {
		if err == nil && have[n] != want[n] {
			_, err = task.Random.On(ctx, t.Machine, task.RandomFile{Path: path.Join(t.Place.Path, n), Data: want[n]})
		}
	}
	if err == nil { // without the sync, the files would be written to the disk during the first trial
		_, err = task.Sync.On(ctx, t.Machine, struct{}{})
	}
	if err == nil {
		have, err = support.FileSizes(ctx, t, names)
	}
	if err == nil && !maps.Equal(have, want) {
		err = fmt.Errorf("they are of other sizes than they were written in: %v", have)
	}
	if err != nil {
		return support.Failed("write the files of "+h.name+" on", t.Name, err, "")
	}
	h.servers[t], err = startNginx(ctx, t, h.env)
	if err != nil {
		return support.Failed("start the web server of "+h.name+" on", t.Name, err, "")
	}
	return nil
}

// Run fetches the files for the length of the trial.
func (h *httpLoad) Run(ctx context.Context, t *iotax.Target, out *iotax.Trial) error {
	var urls []page
	switch s := h.servers[t]; {
	case s != nil:
		for name, size := range h.spec.sizes() {
			urls = append(urls, page{"http://" + s.addr + "/" + name, size})
		}
		slices.SortFunc(urls, func(a, b page) int { return strings.Compare(a.url, b.url) })
	case h.spec.URL != "":
		urls = []page{{h.spec.URL, -1}}
	default:
		urls = []page{{t.Place.Path, -1}}
	}
	if out.Facts == nil {
		out.Facts = map[string]string{}
	}
	out.Facts["workers"] = strconv.Itoa(h.spec.Workers)
	if s := h.servers[t]; s != nil {
		out.Facts["nginx"] = s.version
	}
	if out.Ramp > 0 {
		// Cancel requests that are in flight at the end of the ramp, because a slow server could take longer to answer
		// them than a trial lasts.
		ramp, cancel := context.WithTimeout(ctx, out.Ramp)
		_, err := fetch(ramp, urls, h.spec.Workers, h.spec.Rate, out.Ramp)
		cancel()
		if err != nil && (ctx.Err() != nil || ramp.Err() == nil) {
			return support.Failed("fetch from", t.Name, err, h.hint(t))
		}
	}
	r, err := fetch(ctx, urls, h.spec.Workers, h.spec.Rate, out.Length)
	if err != nil {
		return support.Failed("fetch from", t.Name, err, h.hint(t))
	}
	r.report(out, h.spec.Rate)
	return nil
}

func (h *httpLoad) hint(t *iotax.Target) string {
	if s := h.servers[t]; s != nil {
		return strings.TrimSpace("see whether the web server there still runs: " + s.ended())
	}
	return "see whether a browser reaches it from here"
}

func (h *httpLoad) Cleanup(ctx context.Context, t *iotax.Target) error {
	if !h.served(t) {
		return nil
	}
	var err error
	if s := h.servers[t]; s != nil {
		err = s.stop(ctx)
		delete(h.servers, t)
	}
	files := h.env.Shared.Held.Release(t, slices.Sorted(maps.Keys(h.spec.sizes())))
	if err = errors.Join(err, support.RemoveFiles(ctx, t, files)); err != nil {
		return support.Failed("remove what "+h.name+" made on", t.Name, err, "")
	}
	return nil
}

// A server is an nginx process on a machine.
type server struct {
	addr    string // address at which this host reaches the server
	version string
	m       iotax.Machine
	dir     string // its own directory on the machine
	cancel  context.CancelFunc
	done    chan struct{}
	stderr  *task.Head
	err     error // valid once done is closed
}

func (s *server) ended() string {
	select {
	case <-s.done:
		return fmt.Sprintf("it has ended: %v", s.err)
	default:
		return ""
	}
}

func (s *server) stop(ctx context.Context) error {
	s.cancel()
	select {
	case <-s.done:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	_, err := task.Remove.On(ctx, s.m, task.Files{Dir: path.Dir(s.dir), Names: []string{path.Base(s.dir)}})
	return err
}

// findNginx finds nginx on m, or copies this host's nginx there.
func findNginx(ctx context.Context, m iotax.Machine, env support.Env) (support.Tool, error) {
	path, err := task.Find.On(ctx, m, "nginx")
	if err != nil {
		return support.Tool{}, err
	}
	if path != "" {
		var printed iotax.Capture // nginx prints to standard error
		err := m.Run(ctx, &iotax.Cmd{Args: []string{path, "-v"}, Stdout: &printed, Stderr: &printed})
		if err == nil {
			return support.Tool{Argv: []string{path}, Version: strings.TrimPrefix(command.LastLine(printed.Bytes()), "nginx version: ")}, nil
		}
	}
	if ctx.Err() != nil || iotax.IsLocal(m) {
		return support.Tool{}, errors.Join(ctx.Err(), errors.New("nginx is not installed"))
	}
	s, err := support.Survey(ctx, m)
	if err != nil {
		return support.Tool{}, err
	}
	b, err := support.NginxBundle()
	if err != nil {
		return support.Tool{}, err
	}
	return support.PushBundle(ctx, m, s, env, b, "-v")
}

// nginxConfig serves a directory and writes only to nginx's own directory. Its format arguments are nginx's own
// directory, the listen address, the served directory, and further directives.
const nginxConfig = `daemon off; worker_processes auto; pid %[1]s/pid; error_log stderr;%[4]s
events { worker_connections 4096; }
http {
	access_log off; sendfile on; tcp_nopush on; keepalive_requests 100000000; default_type application/octet-stream;
	client_body_temp_path %[1]s/t1; proxy_temp_path %[1]s/t2; fastcgi_temp_path %[1]s/t3; uwsgi_temp_path %[1]s/t4; scgi_temp_path %[1]s/t5;
	server { listen %[2]s; root "%[3]s"; }
}
`

func startNginx(ctx context.Context, t *iotax.Target, env support.Env) (_ *server, err error) {
	tool, err := findNginx(ctx, t.Machine, env)
	if err != nil {
		return nil, err
	}
	dir, err := task.TempDir.On(ctx, t.Machine, task.Temp{Prefix: "iotax-nginx-", Label: leftover.Current().String()})
	if err != nil {
		return nil, err
	}
	inner, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s := &server{version: tool.Version, m: t.Machine, dir: dir, cancel: cancel, done: make(chan struct{}), stderr: &task.Head{Limit: 4096}}
	begun := false
	defer func() {
		if err != nil {
			if !begun {
				close(s.done)
			}
			c, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
			defer cancel()
			err = errors.Join(err, s.stop(c))
		}
	}()
	port, err := support.FreePort(t.Machine)
	if err != nil {
		return nil, err
	}
	var listen string
	if listen, s.addr, err = support.Reach(ctx, t.Machine, port); err != nil {
		return nil, err
	}
	listen = net.JoinHostPort(listen, strconv.Itoa(port))
	if strings.Contains(t.Place.Path, "$") {
		return nil, &iotax.Error{Op: "serve by nginx", On: t.Place.Path, Err: errors.New("nginx expands the $ in this path"), Hint: "use another directory"}
	}
	// If nginx's master process runs as root, its workers by default switch to a user that may be unable to read the
	// place, or may not exist.
	as, err := task.Accounts.On(ctx, t.Machine, struct{}{})
	if err != nil {
		return nil, err
	}
	user := ""
	switch {
	case as.UID == 0 && as.RootUser && as.RootGroup:
		user = " user root root;"
	case as.UID == 0:
		user = " master_process off;"
	}
	conf := fmt.Sprintf(nginxConfig, s.dir, listen, strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(t.Place.Path), user)
	if err := agent.Put(ctx, t.Machine, strings.NewReader(conf), s.dir+"/conf", 0o600); err != nil {
		return nil, err
	}
	begun = true
	go func() {
		defer close(s.done)
		args := append(slices.Clone(tool.Argv), "-p", s.dir, "-e", "stderr", "-c", s.dir+"/conf")
		if s.err = t.Machine.Run(inner, &iotax.Cmd{Args: args, Stderr: s.stderr}); s.err == nil {
			s.err = errors.New("exit status 0")
		}
	}()
	return s, s.await(ctx)
}

// await returns once the server answers. It returns an error if nginx ends, or after 30 s.
func (s *server) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, 30*time.Second, errors.New("it does not answer within 30s"))
	defer cancel()
	client := &http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodHead, "http://"+s.addr+"/", nil)
		if err != nil {
			return err
		}
		if r, err := client.Do(req); err == nil {
			_, _ = io.Copy(io.Discard, r.Body)
			_ = r.Body.Close()
			return nil
		}
		select {
		case <-s.done:
			return fmt.Errorf("nginx ended: %w", s.err)
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(50 * time.Millisecond):
		}
	}
}
