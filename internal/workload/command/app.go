package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"iotax"
	"iotax/internal/metric"
	"iotax/internal/plan"
	"iotax/internal/workload/support"
	"iotax/internal/workload/task"
)

// App is the spec of `app: {run: …}`. The workload starts a program and measures the time until it is ready: until it
// answers an HTTP request, or prints text that matches `ready`.
type App struct {
	Run       string            `yaml:"run" doc:"command that starts it; {dir} is the target's place, {address} and {port} are where it must listen"`
	Shell     bool              `yaml:"shell" doc:"run it with the machine's shell"`
	Ready     string            `yaml:"ready" doc:"regular expression for what it prints when it is ready; empty sends requests to its port"`
	Path      string            `yaml:"path" doc:"path of the HTTP request"`
	Setup     string            `yaml:"setup" doc:"shell command to run once on each target, before the first trial"`
	Prepare   string            `yaml:"prepare" doc:"shell command to run before each trial; not timed"`
	Cleanup   string            `yaml:"cleanup" doc:"shell command to run once on each target, after the last trial"`
	Directory string            `yaml:"directory" doc:"absolute path of another working directory for these commands; see command"`
	Env       map[string]string `yaml:"env" doc:"environment of the program; $NAME takes a secret from the environment of iotax, as in PGPASSWORD: $PGPASSWORD"`
	Timeout   plan.Duration     `yaml:"timeout" doc:"time limit until it is ready"`
	Space     plan.Size         `yaml:"space" doc:"how many bytes it puts at the place"`
}

func NewApp() plan.Spec { return &App{Path: "/", Timeout: plan.Duration(5 * time.Minute)} }

// SetScalar sets only the command.
func (s *App) SetScalar(text string) error {
	s.Run = text
	return nil
}

// command returns a Command with the settings that App and Command have in common.
func (s *App) command() *Command {
	return &Command{Run: s.Run, Shell: s.Shell, Setup: s.Setup, Prepare: s.Prepare, Cleanup: s.Cleanup, Directory: s.Directory, Env: s.Env, Timeout: s.Timeout, Space: s.Space}
}

func (s *App) Traits() plan.Traits {
	return plan.Traits{Metrics: func() []metric.Metric {
		return metric.Of(iotax.Seconds, iotax.Down, iotax.ValueDuration, "time until the program is ready")
	}}
}

// Validate returns an error for invalid fields.
func (s *App) Validate() error {
	err := s.command().Validate()
	if s.Ready != "" {
		if _, perr := regexp.Compile(s.Ready); perr != nil {
			err = errors.Join(err, &plan.FieldError{Field: "ready", Msg: perr.Error(), Hint: "the syntax is that of RE2"})
		}
	} else if !strings.Contains(s.Run, "{port}") && s.Run != "" {
		err = errors.Join(err, &plan.FieldError{Field: "run", Msg: "it is not known when the program is ready", Hint: "write {port} in its arguments where the port belongs, or give ready: the text that it prints"})
	}
	if s.Ready != "" && s.Path != NewApp().(*App).Path {
		err = errors.Join(err, &plan.FieldError{Field: "path", Msg: "iotax sends no request to a program with ready:", Hint: "leave path or ready out"})
	}
	if !strings.HasPrefix(s.Path, "/") {
		err = errors.Join(err, &plan.FieldError{Field: "path", Msg: fmt.Sprintf("%q does not begin with /", s.Path)})
	}
	return err
}

// An app is a command that does not end by itself.
type app struct {
	command
	app   *App
	ready *regexp.Regexp
}

// AppKind is the workload kind app.
var AppKind = support.KindOf(plan.Kind{Name: "app", Doc: "the start of a program: the time until it answers its first request or prints that it is ready", New: NewApp, Assumed: 3 * time.Second}, openApp)

func openApp(w plan.Workload, s *App, e support.Env) (iotax.Workload, error) {
	if err := s.Validate(); err != nil {
		return nil, &iotax.Error{Op: "make workload", On: w.Name, Err: err}
	}
	a := &app{command: command{name: w.Name, spec: s.command(), env: e, scratches: map[*iotax.Target]*support.Scratch{}}, app: s}
	if s.Ready != "" {
		a.ready = regexp.MustCompile("(?m)" + s.Ready)
	}
	return a, nil
}

func (a *app) Metrics() []string { return []string{iotax.ValueDuration} }

func (a *app) Check(ctx context.Context, t *iotax.Target) error {
	if caps := t.Machine.Caps(); caps.Forward == nil && a.ready == nil && !caps.Local {
		hint, err := support.NoWay(t.Machine, "give ready: what it prints")
		return &iotax.Error{Op: "check " + a.name + " on", On: t.Name, Err: err, Hint: hint}
	}
	return a.command.Check(ctx, t)
}

// Run starts the program, waits until it is ready, and ends it.
func (a *app) Run(ctx context.Context, t *iotax.Target, out *iotax.Trial) error {
	dir, err := a.enter(ctx, t)
	if err != nil {
		return err
	}
	port, err := support.FreePort(t.Machine)
	if err != nil {
		return err
	}
	listen, address := "127.0.0.1", ""
	if a.ready == nil {
		if listen, address, err = support.Reach(ctx, t.Machine, port); err != nil {
			return err
		}
	}
	args, err := a.words(ctx, t, out.Seed, strings.NewReplacer("{port}", strconv.Itoa(port), "{address}", listen))
	if err != nil {
		return err
	}
	if out.Facts == nil {
		out.Facts = map[string]string{}
	}
	out.Facts[iotax.FactCommand] = iotax.QuoteAll(args)
	output := &saying{pattern: a.ready, found: make(chan struct{})}
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan struct{})
	var runErr error
	begun := false
	_, err = support.Timed(ctx, t.Machine, out, func() (int, error) {
		begun = true
		go func() {
			defer close(ended)
			runErr = t.Machine.Run(inner, &iotax.Cmd{Args: args, Env: a.environ(), Dir: dir, Stdout: output, Stderr: output})
		}()
		return 1, a.await(ctx, output, address, ended)
	})
	cancel()
	if begun {
		<-ended // Machine.Run ends the command on the machine before it returns
	}
	out.Raw = output.text()
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if errors.Is(err, errEnded) {
		err = fmt.Errorf("%w: %w; its last line: %s", errEnded, orNil(runErr), LastLine(output.text()))
	}
	return support.Failed("start "+a.name+" on", t.Name, err, "try it there by hand: "+out.Facts[iotax.FactCommand])
}

var errEnded = errors.New("it ended before it was ready")

func orNil(err error) error {
	if err == nil {
		return errors.New("exit status 0")
	}
	return err
}

func LastLine(text []byte) string {
	lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	return string(lines[len(lines)-1])
}

// askEvery is the pause between two requests.
const askEvery = 5 * time.Millisecond

// await returns once the program is ready. It returns errEnded if the program ends first.
func (a *app) await(ctx context.Context, output *saying, address string, ended <-chan struct{}) error {
	if a.ready != nil {
		select {
		case <-output.found:
			return nil
		case <-ended:
			select {
			case <-output.found: // printed just before it ended
				return nil
			default:
				return errEnded
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	client := &http.Client{Timeout: time.Duration(a.app.Timeout), Transport: &http.Transport{DisableKeepAlives: true}}
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+a.app.Path, nil)
		if err != nil {
			return err
		}
		if r, err := client.Do(req); err == nil {
			_, err = io.Copy(io.Discard, r.Body)
			_ = r.Body.Close()
			if err == nil && r.StatusCode < 500 { // a 5xx status, such as 503, means that the program is still starting
				return nil
			}
		}
		select {
		case <-ended:
			return errEnded
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(askEvery):
		}
	}
}

// saying keeps the first support.RawLimit bytes of a program's output, and searches all of it for a pattern. A match may
// have at most longestMatch bytes.
type saying struct {
	pattern *regexp.Regexp
	found   chan struct{}
	mu      sync.Mutex
	kept    task.Head
	tail    []byte // the last lines
	seen    bool
}

const longestMatch = 4 << 10

func (s *saying) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kept.Limit = support.RawLimit
	_, _ = s.kept.Write(p)
	if s.pattern == nil || s.seen {
		return len(p), nil
	}
	s.tail = append(s.tail, p...)
	if s.seen = s.pattern.Match(s.tail); s.seen {
		close(s.found)
	}
	if n := len(s.tail) - longestMatch; n > 0 { // cut after a line break if there is one, so that ^ does not match at the cut
		s.tail = slices.Clone(s.tail[n+bytes.IndexByte(s.tail[n:], '\n')+1:])
	}
	return len(p), nil
}

func (s *saying) text() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.kept.Bytes())
}
