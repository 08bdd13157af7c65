package command

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"iotax"
	"iotax/internal/machine/host"
	"iotax/internal/plan"
	"iotax/internal/testenv/worktest"
	"iotax/internal/workload/support"
)

func commandOf(run string) *Command {
	s := newCommand().(*Command)
	s.Run = run
	return s
}

// mute is a machine without a shell.
type mute struct{ iotax.Machine }

func (mute) Caps() iotax.MachineCaps {
	return iotax.MachineCaps{RunOnConsole: func(context.Context, []string) (iotax.ConsoleRun, error) { return iotax.ConsoleRun{}, nil }}
}

// The command of a console guest has no working directory.
func TestCommandOnConsole(t *testing.T) {
	s, at := commandOf("true"), worktest.Target(mute{host.Local()}, "/")
	if err := worktest.Made(t, Kind, s).Check(t.Context(), at); err != nil {
		t.Error(err)
	}
	s.Directory = "/srv"
	if err := worktest.Made(t, Kind, s).Check(t.Context(), at); err == nil || !strings.Contains(err.Error(), "directory") {
		t.Errorf("with a directory: %v", err)
	}
}

func TestCommand(t *testing.T) {
	dir := t.TempDir()
	s := commandOf(`sh -c 'sleep 0.2; echo progress 1 tps; echo "found $(ls "$1") at 1,234.5 tps"; echo took 250ms >&2' sh {dir}`)
	s.Setup = "echo setup >{dir}/log"
	s.Prepare = "echo prepare {seed} >>log"
	s.Conclude = "echo conclude $WHO >>log"
	s.Cleanup = "cp log {dir}/log.end"
	s.Env = map[string]string{"WHO": "me"}
	s.Values = map[string]string{"tps": `([0-9.,]+\d) tps`, "took": `took (?<ms>\d+)ms`}
	s.Values["tps"] = `(?<per_s>[0-9.,]+) tps`
	w := worktest.Made(t, Kind, s)
	if m := strings.Join(w.Metrics(), " "); m != "duration took tps" {
		t.Errorf("metrics %s", m)
	}
	out, err := worktest.Attempt(t, w, worktest.Target(host.Local(), dir))
	if err != nil {
		t.Fatal(err)
	}
	worktest.Want(t, out, "duration", 0.2, 60)
	worktest.Want(t, out, "operations", 1, 1)
	worktest.Want(t, out, "tps", 1234.5, 1234.5)
	worktest.Want(t, out, "took", 0.2499, 0.2501)
	if v, _ := out.Value("tps"); v.Unit != iotax.PerSecond || v.Better != iotax.Up {
		t.Errorf("tps is %+v", v)
	}
	if !strings.Contains(string(out.Raw), "found log") || !strings.Contains(out.Facts["command"], dir) {
		t.Errorf("%s printed %s", out.Facts["command"], out.Raw)
	}
	log, err := os.ReadFile(filepath.Join(dir, "log.end"))
	if err != nil || string(log) != "setup\nprepare 7\nconclude me\n" {
		t.Errorf("%s (%v)", log, err)
	}
}

// The placeholders in a command can name labels of its workload. A label of the target has precedence.
func TestWorkloadLabels(t *testing.T) {
	w, err := Kind.New(plan.Workload{Name: "test", Spec: commandOf("echo {threads} {build} {dir}"), Labels: map[string]string{"threads": "4", "build": "w", "dir": "no"}}, support.Env{})
	if err != nil {
		t.Fatal(err)
	}
	at := worktest.Target(host.Local(), t.TempDir())
	at.Labels = map[string]string{"build": "b"}
	out, err := worktest.Attempt(t, w, at)
	if want := "4 b " + at.Place.Path; err != nil || !strings.Contains(string(out.Raw), want) {
		t.Errorf("%q instead of %q, %v", out.Raw, want, err)
	}
}

func TestCommandJSONAndShell(t *testing.T) {
	s := commandOf(`cd {dir} && printf 'note: hello\n{"jobs": [{"iops": 12.5, "lat": "3"}], "many": [1, 2]}' | cat`)
	s.Shell = true
	s.Values = map[string]string{"iops": "$.jobs[0].iops 1/s", "lat": "$.jobs[0].lat us"}
	dir := filepath.Join(t.TempDir(), "it's a place")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	out, err := worktest.Attempt(t, worktest.Made(t, Kind, s), worktest.Target(host.Local(), dir))
	if err != nil {
		t.Fatal(err)
	}
	worktest.Want(t, out, "iops", 12.5, 12.5)
	worktest.Want(t, out, "lat", 2.99e-6, 3.01e-6)
	for path, why := range map[string]string{"$.none s": "nothing is at", "$.many[*] s": "2 values", "$.many s": "not a number"} {
		s.Values = map[string]string{"x": path}
		if _, err := worktest.Attempt(t, worktest.Made(t, Kind, s), worktest.Target(host.Local(), dir)); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// Warm-up runs include prepare and conclude, and are not reported. An exit status that the plan allows is not a
// failure.
func TestCommandWarmupAndStatus(t *testing.T) {
	dir := t.TempDir()
	s := commandOf(`sh -c 'echo run >>log; exit 3'`)
	s.Setup, s.Prepare, s.Conclude, s.Cleanup = "echo setup >>log", "echo prepare >>log", "echo conclude >>log", "mv log end"
	s.Warmup, s.Status = 2, []int{1, 3}
	out, err := worktest.Attempt(t, worktest.Made(t, Kind, s), worktest.Target(host.Local(), dir))
	if err != nil {
		t.Fatal(err)
	}
	if n := len(out.Values); n < 2 || out.Facts["status"] != "3" {
		t.Errorf("values %v, facts %v", out.Values, out.Facts)
	}
	worktest.Want(t, out, "operations", 1, 1)
	log, err := os.ReadFile(filepath.Join(dir, "end"))
	if want := "setup\n" + strings.Repeat("prepare\nrun\nconclude\n", 3); err != nil || string(log) != want {
		t.Errorf("%q, %v", log, err)
	}
	s.Status = []int{1}
	if _, err := worktest.Attempt(t, worktest.Made(t, Kind, s), worktest.Target(host.Local(), dir)); err == nil || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("a status that is not allowed: %v", err)
	}
}

// Each warm-up run has the time limit of a trial, and the limit of the preparation includes all of these limits. The
// conclude command also runs after a failed warm-up run.
func TestCommandWarmupTime(t *testing.T) {
	dir := t.TempDir()
	s := commandOf(`sh -c 'echo run >>log; sleep 1'`)
	s.Warmup, s.Timeout = 3, plan.Duration(2*time.Second)
	w := worktest.Made(t, Kind, s)
	if got, want := w.Caps().Preparation, 4*2*time.Second+6*iotax.StageTime; got != want {
		t.Errorf("preparing may take %v, want %v", got, want)
	}
	s.Warmup = 1 << 60
	if got := w.Caps().Preparation; got < time.Hour {
		t.Errorf("preparing may take %v", got)
	}
	s.Warmup, s.Timeout, s.Conclude = 1, plan.Duration(100*time.Millisecond), "echo conclude >>concluded"
	if err := w.Prepare(worktest.CtxFor(t), worktest.Target(host.Local(), dir)); err == nil || !strings.Contains(err.Error(), "no end within 100ms") {
		t.Errorf("a warm-up that hangs: %v", err)
	}
	s.Prepare = "exit 3"
	if err := w.Prepare(worktest.CtxFor(t), worktest.Target(host.Local(), dir)); err == nil || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("a warm-up that cannot be prepared: %v", err)
	}
	if b, err := os.ReadFile(dir + "/concluded"); err != nil || string(b) != "conclude\nconclude\n" {
		t.Errorf("concluded %q, %v", b, err)
	}
}

// The error of a command contains the cause, such as its exit status and its standard error.
func TestCommandThatFails(t *testing.T) {
	here := worktest.Target(host.Local(), t.TempDir())
	for _, tt := range []struct {
		spec func(*Command)
		want []string
	}{
		{func(s *Command) { s.Run = "sh -c 'echo no space >&2; exit 7'" }, []string{"exit status 7", "no space", "here"}},
		{func(s *Command) { s.Run = "iotax-no-such-program {dir}" }, []string{"is not there", "hint: install"}},
		{func(s *Command) { s.Run = "cat {device}" }, []string{"the place is a dir", "{dir}"}},
		{func(s *Command) { s.Prepare = "exit 3" }, []string{"prepare test", "exit status 3"}},
		{func(s *Command) { s.Setup = "echo broken >&2; exit 3" }, []string{"set up test", "broken"}},
		{func(s *Command) { s.Values = map[string]string{"tps": `(?<per_s>\d+) tps`} }, []string{"the pattern is not found", "tps"}},
		{func(s *Command) {
			s.Run, s.Values = "echo 1.2.3", map[string]string{"tps": `^(?<per_s>[\d.]+)`}
		}, []string{"is not a number"}},
	} {
		s := commandOf("true")
		tt.spec(s)
		_, err := worktest.Attempt(t, worktest.Made(t, Kind, s), here)
		for _, w := range tt.want {
			if err == nil || !strings.Contains(err.Error(), w) {
				t.Errorf("%q: %v", w, err)
			}
		}
	}
}

// The commands at a device run in an empty directory, where a relative path does not exist.
func TestRelativeProgramAtDevice(t *testing.T) {
	here := t.TempDir()
	if err := os.WriteFile(here+"/bench.sh", []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Chdir(here)
	for _, c := range []struct {
		change func(*Command)
		fits   bool
	}{
		{func(s *Command) {}, false},
		{func(s *Command) { s.Setup = "cp /srv/bench.sh ." }, true},
		{func(s *Command) { s.Directory = here }, true},
		{func(s *Command) { s.Run = here + "/bench.sh {device}" }, true},
		{func(s *Command) { s.Run = "cat {device}" }, true},
	} {
		s := commandOf("./bench.sh {device}")
		c.change(s)
		err := worktest.Made(t, Kind, s).Check(t.Context(), &iotax.Target{Name: "disk", Machine: host.Local(), Place: iotax.Place{Kind: iotax.PlaceDevice, Path: "/dev/iotax-none"}})
		if c.fits && err != nil || !c.fits && (err == nil || !strings.Contains(err.Error(), "./bench.sh is a relative path, and the command runs in an empty directory")) {
			t.Errorf("%s in %q: %v", s.Run, s.Directory, err)
		}
	}
}

// A command does not get a read-only device, and does not run if the place's guard returns an error.
func TestCommandsAtDevices(t *testing.T) {
	texts := map[string]func(*Command){
		"run":     func(s *Command) { s.Run = "true {device}" },
		"setup":   func(s *Command) { s.Setup = "true {device}" },
		"prepare": func(s *Command) { s.Prepare = "true {device}" },
		"cleanup": func(s *Command) { s.Cleanup = "true {device}" },
	}
	for name, change := range texts {
		s := commandOf("true")
		change(s)
		device := &iotax.Target{Name: "disk", Machine: host.Local(), Place: iotax.Place{Kind: iotax.PlaceDevice, Path: "/dev/iotax-none", ReadOnly: true}}
		if err := worktest.Made(t, Kind, s).Check(t.Context(), device); err == nil || !strings.Contains(err.Error(), "may only be read") || !strings.Contains(err.Error(), "--destroy /dev/iotax-none") {
			t.Errorf("%s at a device that was not named: %v", name, err)
		}
		device.Place.ReadOnly = false
		device.Place.Guard = func(context.Context) error { return errors.New("it is mounted now") }
		if name == "cleanup" {
			if err := worktest.Made(t, Kind, s).Cleanup(t.Context(), device); err == nil || !strings.Contains(err.Error(), "it is mounted now") {
				t.Errorf("a clean-up at a device that is in use: %v", err)
			}
			continue
		}
		if _, err := worktest.Attempt(t, worktest.Made(t, Kind, s), device); err == nil || !strings.Contains(err.Error(), "it is mounted now") {
			t.Errorf("%s at a device that is in use: %v", name, err)
		}
		asked := 0
		device.Place.Guard = func(context.Context) error { asked++; return nil }
		if _, err := worktest.Attempt(t, worktest.Made(t, Kind, s), device); err != nil || asked == 0 {
			t.Errorf("%s at a device that was named: %v, asked %d times", name, err, asked)
		}
	}
	device := &iotax.Target{Name: "disk", Machine: host.Local(), Place: iotax.Place{Kind: iotax.PlaceDevice, Path: "/dev/iotax-none", ReadOnly: true}}
	if _, err := worktest.Attempt(t, worktest.Made(t, Kind, commandOf("true")), device); err != nil {
		t.Errorf("a command that does not name it: %v", err)
	}
	s := NewApp().(*App)
	s.Run, s.Ready = "sh -c 'echo ready; exec sleep 60' {device}", "ready"
	device.Place.ReadOnly = false
	device.Place.Guard = func(context.Context) error { return errors.New("it is mounted now") }
	if _, err := worktest.Attempt(t, worktest.Made(t, AppKind, s), device); err == nil || !strings.Contains(err.Error(), "it is mounted now") {
		t.Errorf("an application at a device that is in use: %v", err)
	}
}

// A command gets a secret from iotax's environment. Check returns an error if the variable is not set or belongs to
// iotax itself.
func TestCommandTakesSecretFromEnvironment(t *testing.T) {
	t.Setenv("APP_TOKEN", "tok-12345678")
	s := commandOf("sh -c 'echo $APP_TOKEN$OTHER'")
	s.Env = map[string]string{"APP_TOKEN": "$APP_TOKEN", "OTHER": "$OTHER"}
	out, err := worktest.Attempt(t, worktest.Made(t, Kind, s), worktest.Target(host.Local(), t.TempDir()))
	if err != nil || string(out.Raw) != "tok-12345678$OTHER\n" {
		t.Errorf("%s, %v", out.Raw, err)
	}
	for _, name := range []string{"NO_SUCH_TOKEN", "IOTAX_TOKEN"} {
		t.Setenv("IOTAX_TOKEN", "of iotax alone")
		s.Env = map[string]string{name: "$" + name}
		if _, err := worktest.Attempt(t, worktest.Made(t, Kind, s), worktest.Target(host.Local(), t.TempDir())); err == nil || !strings.Contains(err.Error(), name+" is not set") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A plan may set variables whose names only resemble those of secrets, or whose values are paths, commands, or too
// short to be hidden. It must not set other variables that are named like secrets.
func TestCommandKeepsSettings(t *testing.T) {
	s := commandOf("true")
	s.Env = map[string]string{"TOKENIZERS_PARALLELISM": "false", "MAX_TOKENS": "100000000", "NUM_PASSES": "100000000", "SORT_KEY": "customer_id", "YCSB_KEYS": "100000000",
		"MYSQL_ALLOW_EMPTY_PASSWORD": "yes", "RESTIC_PASSWORD_FILE": "restic.password", "BORG_PASSCOMMAND": "cat /root/pass", "TLS_PRIVATE_KEY": "/etc/ssl/key.pem"}
	if err := s.Validate(); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"PGPASSWORD", "IOTAX_STORE", "AWS_ACCESS_KEY_ID", "DB_PASSWD", "restic_password", "TOKEN", "HF_TOKEN", "AWS_SECRET_ACCESS_KEY", "API_KEY", "KEY_PASSPHRASE", "RCLONE_CONFIG_PASS"} {
		s.Env = map[string]string{name: "swordfish"}
		if err := s.Validate(); err == nil || !strings.Contains(err.Error(), "named like a secret") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Commands of a plan do not run in the directory in which iotax was started, and do not run if the place's guard
// returns an error.
func TestWhereCommandsRun(t *testing.T) {
	elsewhere := t.TempDir()
	t.Chdir(elsewhere)
	if err := os.Mkdir("out", 0o755); err != nil {
		t.Fatal(err)
	}
	for _, place := range []iotax.Place{
		{Kind: iotax.PlaceDir, Path: t.TempDir()},
		{Kind: iotax.PlaceDevice, Path: "/dev/iotax-none"},
		{Kind: iotax.PlaceURL, Path: "http://127.0.0.1:1/"},
	} {
		t.Run(string(place.Kind), func(t *testing.T) {
			asked, refuse := 0, error(nil)
			place.Guard = func(context.Context) error { asked++; return refuse }
			tgt := &iotax.Target{Name: "t", Machine: host.Local(), Place: place}
			s := commandOf("sh -c 'rm -rf out; pwd; echo run >>log; cat log'")
			s.Setup, s.Prepare, s.Conclude, s.Cleanup = "rm -rf out; mkdir made", "rm -rf out; echo prepare >>log", "rm -rf out; test -d made", "rm -rf out; test -d made"
			s.Warmup = 1
			out, err := worktest.Attempt(t, worktest.Made(t, Kind, s), tgt)
			if err != nil {
				t.Fatal(err)
			}
			if asked != 8 { // 1 setup; prepare, run and conclude for the warm-up and for the trial; 1 cleanup
				t.Errorf("the guard was asked %d times for 8 commands", asked)
			}
			at, log, _ := strings.Cut(string(out.Raw), "\n")
			if log != "prepare\nrun\nprepare\nrun\n" {
				t.Errorf("the commands ran in directories of their own: %s", out.Raw)
			}
			if _, err := os.Stat(at); (err == nil) != (place.Kind == iotax.PlaceDir) {
				t.Errorf("after the clean-up, %s: %v", at, err)
			}
			apps := NewApp().(*App)
			apps.Run, apps.Shell, apps.Ready = "rm -rf out; pwd; echo ready; exec sleep 60", true, "ready"
			if out, err := worktest.Attempt(t, worktest.Made(t, AppKind, apps), tgt); err != nil || strings.HasPrefix(string(out.Raw), elsewhere) {
				t.Errorf("an application: %s, %v", out.Raw, err)
			}
			if _, err := os.Stat(elsewhere + "/out"); err != nil {
				t.Errorf("a directory beside the target: %v", err)
			}
			other := t.TempDir()
			s = commandOf("pwd")
			s.Directory = other
			if out, err := worktest.Attempt(t, worktest.Made(t, Kind, s), tgt); err != nil || string(out.Raw) != other+"\n" {
				t.Errorf("with directory: %s, %v", out.Raw, err)
			}
			refuse = errors.New("it is another one now")
			for name, s := range map[string]*Command{"run": {Run: "true"}, "setup": {Setup: "true"}, "prepare": {Prepare: "true"}, "directory": {Directory: other}} {
				s.Run, s.Timeout = "true", plan.Duration(time.Minute)
				if _, err := worktest.Attempt(t, worktest.Made(t, Kind, s), tgt); !errors.Is(err, refuse) {
					t.Errorf("%s of a place that changed: %v", name, err)
				}
			}
		})
	}
}

func TestCommandEndsWithItsContext(t *testing.T) {
	s := commandOf("sleep 60")
	w := worktest.Made(t, Kind, s)
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	begun := time.Now()
	err := w.Run(ctx, worktest.Target(host.Local(), t.TempDir()), &iotax.Trial{})
	if !errors.Is(err, context.DeadlineExceeded) || time.Since(begun) > 30*time.Second {
		t.Errorf("%v after %v", err, time.Since(begun))
	}
}

func TestCommandSpec(t *testing.T) {
	for _, tt := range []struct {
		spec  func(*Command)
		field string
		msg   string
	}{
		{func(s *Command) { s.Run = " " }, "run", "no command"},
		{func(s *Command) { s.Run = "echo 'a" }, "run", "split"},
		{func(s *Command) { s.Timeout = 0 }, "timeout", "more than nothing"},
		{func(s *Command) { s.Warmup = -1 }, "warmup", "negative"},
		{func(s *Command) { s.Env = map[string]string{"DB_PASSWORD": "swordfish"} }, "env", "named like a secret"},
		{func(s *Command) { s.Directory = "src" }, "directory", "not an absolute path"},
		{func(s *Command) { s.Status = []int{256} }, "status", "256"},
		{func(s *Command) { s.Values = map[string]string{"a": `\d+`} }, "values", "no named group"},
		{func(s *Command) { s.Values = map[string]string{"a": `(?<furlong>\d+)`} }, "values", "furlong"},
		{func(s *Command) { s.Values = map[string]string{"a": `(?<s>\d+) (?<ms>\d+)`} }, "values", "two named"},
		{func(s *Command) { s.Values = map[string]string{"a": `(?<s>\d+`} }, "values", "missing closing"},
		{func(s *Command) { s.Values = map[string]string{"a": `$.tps`} }, "values", "needs a unit"},
		{func(s *Command) { s.Values = map[string]string{"a": `$.tps 1/furlong`} }, "values", "not a unit"},
		{func(s *Command) { s.Values = map[string]string{"a": `$.[ s`} }, "values", "not a JSON path"},
		{func(s *Command) { s.Values = map[string]string{"duration": `(?<s>\d+)`} }, "values", "iotax measures"},
		{func(s *Command) { s.Values = map[string]string{"Tps!": `(?<s>\d+)`} }, "values", "not a name"},
	} {
		s := commandOf("true")
		tt.spec(s)
		err := s.Validate()
		var fe *plan.FieldError
		if !errors.As(err, &fe) || fe.Field != tt.field || !strings.Contains(fe.Msg, tt.msg) {
			t.Errorf("%s: %v", tt.msg, err)
		}
	}
}

// SplitWords does not expand words, and refuses commands that need a shell.
func TestCommandWords(t *testing.T) {
	args, err := SplitWords(`echo '$HOME' '*' * "a  b" c\ d {dir} ""`)
	if err != nil || strings.Join(args, "|") != "echo|$HOME|*|*|a  b|c d|{dir}|" {
		t.Errorf("%q, %v", args, err)
	}
	for _, text := range []string{"echo $HOME", "echo $(ls)", "a | b", "a && b", "a; b", "a >b", "A=b c", "a &", "(a)", "! a", "echo \"`ls`\"", "if a; then b; fi"} {
		if args, err := SplitWords(text); err == nil {
			t.Errorf("%s became %q", text, args)
		}
	}
}

// far runs commands on this host, each after a delay, like a distant machine.
type far struct {
	iotax.Machine
	delay time.Duration
}

func (f far) Caps() iotax.MachineCaps { return iotax.MachineCaps{} }

func (f far) Run(ctx context.Context, c *iotax.Cmd) error {
	time.Sleep(f.delay)
	return f.Machine.Run(ctx, c)
}

// The delay of a distant machine dominates the time of a short command, but not that of a long one.
func TestStartDominates(t *testing.T) {
	m := far{host.Local(), 50 * time.Millisecond}
	for run, found := range map[string]int{"true": 1, "sleep 3": 0} {
		out, err := worktest.Attempt(t, worktest.Made(t, Kind, commandOf(run)), worktest.Target(m, t.TempDir()))
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, f := range out.Findings {
			if f.Rule == "start-dominates" {
				n++
			}
		}
		start, _ := out.Value("start")
		if n != found || start.Value < 0.05 {
			t.Errorf("%s: %v, start %v", run, out.Findings, start)
		}
	}
}

func FuzzExtract(f *testing.F) {
	for _, s := range []string{`(?<s>\d+)`, "$.a[0] 1/s", "$..* s", "", "$ s"} {
		f.Add(s, "1.5 {\"a\": [1]}")
	}
	f.Fuzz(func(t *testing.T, text, output string) {
		x, err := parseExtract("x", text)
		if err != nil {
			var ve *plan.ValueError
			if !errors.As(err, &ve) || ve.Msg == "" {
				t.Errorf("%v", err)
			}
			return
		}
		if v, err := x.take([]byte(output), nil); err == nil && (v.Value != v.Value || v.Unit == "") {
			t.Errorf("%+v", v)
		}
	})
}
