// Package machinetest contains the test suite for all kinds of machines, including the fake machine.
//
// On the machine, the suite needs only programs that the busybox of the built-in guest contains: sh, cat, chmod, dd,
// env, kill, mkdir, mv, printf, pwd, rm, sleep, wc, and setsid if available.
package machinetest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"math/rand/v2"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"iotax"
)

// Options contains the settings of Run for one kind of machine.
type Options struct {
	// Kill kills the machine from outside, like a crash. If it is nil, Run skips the test of a machine that dies while
	// it runs a command. Kill is called from a goroutine other than that of Machine.Run.
	Kill func(m iotax.Machine) error

	// Lasts means that Kill only breaks the connection, and that the next command reconnects to the machine.
	Lasts bool

	// Patience limits how long prompt actions may take, such as ending a cancelled command, or reporting that the
	// machine died. 0 means 15 s. A guest under emulation may need more.
	Patience time.Duration

	// Brief selects a few tests. It is for a machine whose transport is tested in full with another machine.
	Brief bool
}

// brief lists the tests of a brief suite.
var brief = []string{"capabilities", "exit codes", "missing program", "large input", "files both ways", "arguments", "environment", "directory", "cancel with children", "deadline"}

// A suite is the machine under test and the suite's own directory on it.
type suite struct {
	iotax.Machine
	dir      string
	patience time.Duration
}

// Run runs the suite as subtests of t. It calls `open` once for most tests, and once more for the test that kills its
// machine. It closes these machines.
func Run(t *testing.T, open func(t *testing.T) iotax.Machine, options ...Options) {
	var o Options
	for _, x := range options {
		o = x
	}
	if o.Patience == 0 {
		o.Patience = 15 * time.Second
	}
	start := func(t *testing.T) *suite {
		m := open(t)
		s := &suite{Machine: m, patience: o.Patience, dir: fmt.Sprintf("/tmp/iotax-suite-%08x", rand.Uint32())}
		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			if err := m.Close(ctx); err != nil {
				t.Errorf("Close: %v", err)
			}
		})
		return s
	}
	s := start(t)
	if err := s.run(t, "mkdir", s.dir); err != nil {
		t.Fatalf("no directory to test in: %v", err)
	}
	t.Cleanup(func() { // runs before the machine is closed
		if err := s.Run(context.Background(), iotax.Command("rm", "-rf", s.dir)); err != nil {
			t.Error(err)
		}
	})
	for _, c := range []struct {
		name string
		test func(*suite, *testing.T)
	}{
		{"name", (*suite).named},
		{"capabilities", (*suite).capabilities},
		{"exit codes", (*suite).exitCodes},
		{"death by signal", (*suite).signals},
		{"missing program", (*suite).missing},
		{"bad commands", (*suite).bad},
		{"standard error", (*suite).stderr},
		{"small input", (*suite).smallInput},
		{"large input", (*suite).largeInput},
		{"input that is not read", (*suite).unreadInput},
		{"input that fails", (*suite).failingInput},
		{"output that is refused", (*suite).failingOutput},
		{"large output", (*suite).largeOutput},
		{"no output wanted", (*suite).noOutput},
		{"one writer for both outputs", (*suite).oneWriter},
		{"files both ways", (*suite).files},
		{"arguments", (*suite).arguments},
		{"environment", (*suite).environment},
		{"directory", (*suite).directory},
		{"unicode", (*suite).unicode},
		{"parallel commands", (*suite).parallel},
		{"cancelled before", (*suite).cancelledBefore},
		{"cancel", (*suite).cancel},
		{"cancel with children", (*suite).cancelChildren},
		{"cancel of what left the group", (*suite).cancelEscaped},
		{"cancel against resistance", (*suite).cancelStubborn},
		{"cancel while input blocks", (*suite).cancelInput},
		{"cancel many", (*suite).cancelMany},
		{"deadline", (*suite).deadline},
	} {
		if !o.Brief || slices.Contains(brief, c.name) {
			t.Run(c.name, func(t *testing.T) { c.test(s, t) })
		}
	}
	if o.Kill != nil {
		t.Run("death under a command", func(t *testing.T) { start(t).death(t, o.Kill, o.Lasts) })
	}
}

// run runs args with the suite's time limit.
func (s *suite) run(t *testing.T, args ...string) error {
	_, err := s.output(t, iotax.Command(args...))
	return err
}

func (s *suite) output(t *testing.T, c *iotax.Cmd) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), 2*time.Minute, errors.New("the suite's own deadline"))
	defer cancel()
	var out bytes.Buffer
	if c.Stdout == nil {
		c.Stdout = &out
	}
	err := s.Machine.Run(ctx, c)
	return out.String(), err
}

// must returns the output of a command that has to succeed.
func (s *suite) must(t *testing.T, c *iotax.Cmd) string {
	t.Helper()
	out, err := s.output(t, c)
	if err != nil {
		t.Fatalf("%s: %v", c, err)
	}
	return out
}

func sh(script string, args ...string) *iotax.Cmd {
	return iotax.Command(append([]string{"sh", "-c", script, "sh"}, args...)...)
}

func (s *suite) named(t *testing.T) {
	if s.String() == "" {
		t.Error("the machine has no name")
	}
}

func (s *suite) capabilities(t *testing.T) {
	c := s.Caps()
	if !c.Local && c.Agent == nil {
		t.Error("each call would start an agent there")
	}
	if (len(c.Boot) > 0) == c.Started.IsZero() {
		t.Errorf("booted by %v, from %v", c.Boot, c.Started)
	}
	if (c.Restart == nil) != (c.BootFiles == nil) || c.Restart != nil && len(c.Boot) == 0 {
		t.Error("only some of Restart, BootFiles and Boot are set")
	}
	Keeps(t, s, s.Machine)
}

// exit checks that err is an *ExitError with this code and signal.
func exit(t *testing.T, err error, code int, signal string) *iotax.ExitError {
	t.Helper()
	var e *iotax.ExitError
	if !errors.As(err, &e) {
		t.Fatalf("got %v (%T), want an *ExitError", err, err)
	}
	if e.Code != code || e.Signal != signal {
		t.Errorf("got code %d and signal %q, want %d and %q (stderr %q)", e.Code, e.Signal, code, signal, e.Stderr)
	}
	return e
}

func (s *suite) exitCodes(t *testing.T) {
	if err := s.run(t, "sh", "-c", "exit 0"); err != nil {
		t.Errorf("exit 0: %v", err)
	}
	for _, code := range []int{1, 2, 100, 125, 126, 127, 255} {
		e := exit(t, s.run(t, "sh", "-c", fmt.Sprintf("exit %d", code)), code, "")
		if len(e.Args) == 0 || e.Args[0] != "sh" {
			t.Errorf("the error does not know its command: %q", e.Args)
		}
	}
}

func (s *suite) signals(t *testing.T) {
	for name, n := range map[string]int{"KILL": 9, "TERM": 15, "INT": 2} {
		exit(t, s.run(t, "sh", "-c", "kill -s "+name+" $$; sleep 10"), 128+n, name)
	}
}

func (s *suite) missing(t *testing.T) {
	for _, c := range []*iotax.Cmd{
		iotax.Command("no-such-program-of-iotax"),
		iotax.Command("/no/such/program"),
		{Args: []string{"no-such-program-of-iotax"}, Env: []string{"A=b"}},
	} {
		_, err := s.output(t, c)
		exit(t, err, 127, "")
	}
	_, err := s.output(t, iotax.Command(s.dir))
	exit(t, err, 126, "")
}

func (s *suite) bad(t *testing.T) {
	for name, c := range map[string]*iotax.Cmd{
		"no arguments":      {},
		"no program":        iotax.Command("", "x"),
		"NUL in argument":   iotax.Command("printf", "a\x00b"),
		"NUL in directory":  {Args: []string{"pwd"}, Dir: "/a\x00b"},
		"no = in variable":  {Args: []string{"env"}, Env: []string{"A"}},
		"unnamed variable":  {Args: []string{"env"}, Env: []string{"=secret"}},
		"NUL in a variable": {Args: []string{"env"}, Env: []string{"A=secret\x00"}},
	} {
		_, err := s.output(t, c)
		var e *iotax.Error
		if !errors.As(err, &e) {
			t.Errorf("%s: got %v (%T), want an *iotax.Error", name, err, err)
		} else if strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: the error tells a variable's value: %v", name, err)
		}
	}
}

func (s *suite) stderr(t *testing.T) {
	var all bytes.Buffer
	c := sh(`i=0; while [ $i -lt 2000 ]; do echo "line $i" >&2; i=$((i+1)); done; echo "the end" >&2; exit 3`)
	c.Stderr = &all
	_, err := s.output(t, c)
	e := exit(t, err, 3, "")
	if !strings.HasSuffix(e.Stderr, "line 1999\nthe end\n") || len(e.Stderr) > 4<<10 || len(e.Stderr) < 4<<10-4 {
		t.Errorf("kept %d bytes of stderr, ending in %q", len(e.Stderr), tail(e.Stderr))
	}
	if !strings.HasPrefix(all.String(), "line 0\nline 1\n") || strings.Count(all.String(), "\n") != 2001 {
		t.Errorf("stderr was not passed on whole: %d lines, starting with %.30q", strings.Count(all.String(), "\n"), all.String())
	}

	// Standard error must contain only the command's own output.
	all.Reset()
	c = sh("printf x >&2; exit 1")
	c.Stderr = &all
	_, err = s.output(t, c)
	if e := exit(t, err, 1, ""); e.Stderr != "x" || all.String() != "x" {
		t.Errorf("stderr is %q and %q, want x", e.Stderr, all.String())
	}
}

func tail(s string) string { return s[max(0, len(s)-40):] }

func (s *suite) smallInput(t *testing.T) {
	for _, in := range []string{"", "x", "a line\n", "no newline\nat the end", "\x00\x01\xff\xfe\r\n"} {
		c := iotax.Command("cat")
		c.Stdin = strings.NewReader(in)
		if got := s.must(t, c); got != in {
			t.Errorf("cat of %q is %q", in, got)
		}
	}
	if got := s.must(t, iotax.Command("wc", "-c")); strings.TrimSpace(got) != "0" {
		t.Errorf("no Stdin gives %s bytes", got)
	}
}

const large = 16<<20 + 12345

// noise returns a reader of n bytes that look random and are always the same.
func noise(n int64) io.Reader {
	return io.LimitReader(rand.NewChaCha8([32]byte{'i', 'o', 't', 'a', 'x'}), n)
}

// largeInput sends and receives data at the same time. A machine that reads all input before it returns output would
// deadlock.
func (s *suite) largeInput(t *testing.T) {
	c := iotax.Command("cat")
	c.Stdin = noise(large)
	got := &digest{Hash: sha256.New()}
	c.Stdout = got
	s.must(t, c)
	got.check(t)
	c = iotax.Command("wc", "-c")
	c.Stdin = noise(large)
	if n := strings.TrimSpace(s.must(t, c)); n != strconv.Itoa(large) {
		t.Errorf("wc counts %s bytes, want %d", n, large)
	}
}

// unreadInput gives input to a program that does not read it. This is not an error, whether the input ends or not.
func (s *suite) unreadInput(t *testing.T) {
	endless, w := io.Pipe()
	defer w.Close()
	inputs := map[string]io.Reader{"large": noise(large), "one that blocks": endless}
	for name, in := range inputs {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			c := iotax.Command("printf", "done")
			c.Stdin = in
			if got := s.must(t, c); got != "done" {
				t.Errorf("got %q", got)
			}
			s.prompt(t, start)
			c = sh("exit 5")
			c.Stdin = in
			_, err := s.output(t, c)
			exit(t, err, 5, "")
		})
	}
}

func (s *suite) prompt(t *testing.T, start time.Time) {
	t.Helper()
	if d := time.Since(start); d > s.patience {
		t.Errorf("took %v, want at most %v", d, s.patience)
	}
}

var errStream = errors.New("the caller's stream failed")

// failingInput checks that a failing reader does not count as the end of the input: the file that put was writing must
// not appear.
func (s *suite) failingInput(t *testing.T) {
	file := s.dir + "/broken"
	in := io.MultiReader(strings.NewReader("half a file"), errReader{})
	err := put(t.Context(), s, in, file, "644")
	var e *iotax.ExitError
	if !errors.Is(err, errStream) || errors.As(err, &e) {
		t.Errorf("got %v, want the reader's error", err)
	}
	if err := s.run(t, "sh", "-c", `[ ! -e "$1" ]`, "sh", file); err != nil {
		t.Error("a half file is there under the real name")
	}
}

type errReader struct{}

func (errReader) Read([]byte) (int, error) { return 0, errStream }

// failingOutput checks that a command ends when its output cannot be written.
func (s *suite) failingOutput(t *testing.T) {
	start := time.Now()
	c := sh("while :; do echo x; done")
	c.Stdout = errWriter{}
	_, err := s.output(t, c)
	var e *iotax.ExitError
	if !errors.Is(err, errStream) || errors.As(err, &e) {
		t.Errorf("got %v, want the writer's error", err)
	}
	s.prompt(t, start)
}

type errWriter struct{}

func (errWriter) Write([]byte) (int, error) { return 0, errStream }

func (s *suite) largeOutput(t *testing.T) {
	file := s.dir + "/large"
	if err := put(t.Context(), s, noise(large), file, "600"); err != nil {
		t.Fatal(err)
	}
	got := &digest{Hash: sha256.New()}
	c := iotax.Command("cat", file)
	c.Stdout = got
	s.must(t, c)
	got.check(t)
	// Some machines handle an *os.File as Stdout differently from other writers.
	f, err := os.Create(path.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	c = iotax.Command("cat", file)
	c.Stdout = f
	s.must(t, c)
	got = &digest{Hash: sha256.New()}
	f.Seek(0, io.SeekStart)
	if _, err := io.Copy(got, f); err != nil {
		t.Error(err)
	}
	got.check(t)
}

// A digest hashes and counts the data that it receives, and compares them with the large noise.
type digest struct {
	hash.Hash
	n int64
}

func (d *digest) Write(p []byte) (int, error) {
	d.n += int64(len(p))
	return d.Hash.Write(p)
}

func (d *digest) check(t *testing.T) {
	t.Helper()
	want := sha256.New()
	io.Copy(want, noise(large))
	if d.n != large || !bytes.Equal(d.Sum(nil), want.Sum(nil)) {
		t.Errorf("%d bytes came, want the %d that were sent", d.n, large)
	}
}

func (s *suite) noOutput(t *testing.T) {
	c := sh("echo out; echo err >&2; dd if=/dev/zero bs=65536 count=16 2>/dev/null")
	if err := s.Machine.Run(t.Context(), c); err != nil {
		t.Error(err)
	}
}

func (s *suite) oneWriter(t *testing.T) {
	var both bytes.Buffer // not safe for concurrent use, so that the race detector finds concurrent writes
	c := sh("i=0; while [ $i -lt 200 ]; do echo out; echo err >&2; i=$((i+1)); done")
	c.Stdout, c.Stderr = &both, &both
	s.must(t, c)
	if o, e := strings.Count(both.String(), "out\n"), strings.Count(both.String(), "err\n"); o != 200 || e != 200 {
		t.Errorf("%d and %d lines came, want 200 of each", o, e)
	}
}

func (s *suite) files(t *testing.T) {
	every := make([]byte, 0, 256*17)
	for i := range 256 * 17 {
		every = append(every, byte(i), byte(i*7), byte(i*i))
	}
	for _, f := range []struct {
		name, mode string
		data       []byte
	}{
		{"empty", "600", nil},
		{"every byte", "644", every},
		{"it's a \"file\"; $HOME `x` ü\n.bin", "755", every},
	} {
		file := s.dir + "/" + f.name
		if err := put(t.Context(), s, bytes.NewReader(f.data), file, f.mode); err != nil {
			t.Errorf("Put %q: %v", f.name, err)
			continue
		}
		var got bytes.Buffer
		if err := get(t.Context(), s, file, &got); err != nil {
			t.Errorf("Get %q: %v", f.name, err)
		} else if !bytes.Equal(got.Bytes(), f.data) {
			t.Errorf("%q came back as %d other bytes, want %d", f.name, got.Len(), len(f.data))
		}
		// The owner's execute bit distinguishes 755 from the other modes without stat(1).
		err := s.run(t, "sh", "-c", `[ -x "$1" ]`, "sh", file)
		if (err == nil) != (f.mode == "755") {
			t.Errorf("mode of %q is not %s", f.name, f.mode)
		}
	}
	script := s.dir + "/script"
	if err := put(t.Context(), s, strings.NewReader("#!/bin/sh\necho \"ran $1\"\n"), script, "755"); err != nil {
		t.Fatal(err)
	}
	if got := s.must(t, iotax.Command(script, "well")); got != "ran well\n" {
		t.Errorf("a program that was put there says %q", got)
	}
	err := get(t.Context(), s, s.dir+"/missing", io.Discard)
	if e := exit(t, err, 1, ""); !strings.Contains(e.Stderr, "missing") {
		t.Errorf("the error of a missing file does not name it: %v", err)
	}
	if err := put(t.Context(), s, strings.NewReader("x"), s.dir+"/no/such/dir/file", "644"); err == nil {
		t.Error("Put into a missing directory succeeded")
	}
}

// odd returns strings that a shell or a protocol might misinterpret.
func odd() []string {
	every := make([]byte, 0, 255)
	for b := 1; b < 256; b++ {
		every = append(every, byte(b))
	}
	return []string{
		"", " ", "  two  spaces  ", "\t", "\n", "\n\n", "a\nb\n", "\r\n", "'", "''", `"`, `\`, `\\`, `\n`, `\'`, `'\''`, "`id`", "$HOME", "${HOME}", "$(id)", "$$",
		"*", "?", "[a-z]", "~", "#", "!", "!!", "&", "&&", "|", ";", "<", ">", "(", ")", "{a,b}", "%s", "%n", "%%", "-", "--", "-n", "-e", "--help", "=", "a=b", "\x01", "\x7f", "\x1b[31m",
		"\xff\xfe", "ü", "日本語", "🦀", "e\u0301", "\u202e", string(every), strings.Repeat("long ", 20000),
	}
}

func (s *suite) arguments(t *testing.T) {
	args := odd()
	// Each argument is returned with a marker at its end, so that no argument can absorb another.
	want := strings.Join(args, "\x00<end>") + "\x00<end>"
	got := s.must(t, sh(`for a; do printf "%s\000<end>" "$a"; done`, args...))
	if got != want {
		g, w := strings.Split(got, "\x00<end>"), strings.Split(want, "\x00<end>")
		for i := range w {
			if i >= len(g) || g[i] != w[i] {
				t.Errorf("argument %d: sent %.100q, came as %.100q", i, w[i], g[min(i, len(g)-1)])
			}
		}
		if len(g) != len(w) {
			t.Errorf("%d arguments came, want %d", len(g)-1, len(w)-1)
		}
	}
	// These words are not programs. A shell must not interpret them.
	for _, word := range []string{"exit 3", "true; false", "$(echo true)", "cd"} {
		if _, err := s.output(t, iotax.Command(word)); err != nil {
			if word != "cd" { // POSIX requires a program of this name, and some systems have one
				exit(t, err, 127, "")
			}
		} else if word != "cd" {
			t.Errorf("%q ran as a program", word)
		}
	}
}

func (s *suite) environment(t *testing.T) {
	// One command for all values, because each command is slow under emulation.
	values := odd()
	var env []string
	var script, want strings.Builder
	for i, v := range values {
		env = append(env, fmt.Sprintf("IOTAX_SUITE_%d=%s", i, v))
		fmt.Fprintf(&script, "printf \"%%s\\000\" \"$IOTAX_SUITE_%d\"\n", i)
		want.WriteString(v + "\x00")
	}
	c := sh(script.String())
	c.Env = env
	if got := s.must(t, c); got != want.String() {
		back := strings.Split(got, "\x00")
		for i, v := range values {
			if i >= len(back) || back[i] != v {
				t.Errorf("value %d: sent %.100q, came as %.100q", i, v, back[min(i, len(back)-1)])
			}
		}
	}
	c = iotax.Command("env")
	c.Env = []string{"ONE=1", "TWO=first", "TWO=second", "a.dotted-name=3", "EMPTY="}
	lines := strings.Split(s.must(t, c), "\n")
	for _, want := range []string{"ONE=1", "TWO=second", "a.dotted-name=3", "EMPTY="} {
		if !slices.Contains(lines, want) {
			t.Errorf("env lacks %s", want)
		}
	}
	if slices.Contains(lines, "TWO=first") {
		t.Error("of a variable given twice the first is there")
	}
	if !slices.ContainsFunc(lines, func(l string) bool { return strings.HasPrefix(l, "PATH=") }) {
		t.Error("the machine's own environment is gone: no PATH")
	}

	// The program is looked up in the PATH that the command sets.
	name := "iotax-suite-program"
	if err := put(t.Context(), s, strings.NewReader("#!/bin/sh\necho found\n"), s.dir+"/"+name, "755"); err != nil {
		t.Fatal(err)
	}
	c = iotax.Command(name)
	c.Env = []string{"PATH=" + s.dir + ":/usr/bin:/bin"}
	if got := s.must(t, c); got != "found\n" {
		t.Errorf("a program in the given PATH says %q", got)
	}
}

func (s *suite) directory(t *testing.T) {
	for _, name := range []string{"plain", "with space", "-", "-P", "it's $HOME", "ü日本", "new\nline"} {
		dir := s.dir + "/" + name
		if err := s.run(t, "mkdir", dir); err != nil {
			t.Fatal(err)
		}
		c := iotax.Command("pwd")
		c.Dir = dir
		if got := s.must(t, c); got != dir+"\n" {
			t.Errorf("pwd in %q is %q", dir, got)
		}
	}
	c := sh("echo hello >file; cat plain/../file")
	c.Dir = s.dir
	if got := s.must(t, c); got != "hello\n" {
		t.Errorf("relative paths lead elsewhere: %q", got)
	}
	for _, dir := range []string{s.dir + "/missing", s.dir + "/file"} {
		c := sh("echo ran; exit 1")
		c.Dir = dir
		out, err := s.output(t, c)
		var e *iotax.Error
		var x *iotax.ExitError
		switch {
		case !errors.As(err, &e) || errors.As(err, &x):
			t.Errorf("directory %s: got %v (%T), want an *iotax.Error and no *ExitError", dir, err, err)
		case !strings.Contains(err.Error(), dir):
			t.Errorf("the error does not name %s: %v", dir, err)
		case out != "":
			t.Errorf("the command ran all the same in %s", dir)
		}
	}
}

func (s *suite) unicode(t *testing.T) {
	dir := s.dir + "/größe 日本語"
	file := dir + "/🦀 données.txt"
	if err := s.run(t, "mkdir", dir); err != nil {
		t.Fatal(err)
	}
	if err := put(t.Context(), s, strings.NewReader("naïve"), file, "644"); err != nil {
		t.Fatal(err)
	}
	c := iotax.Command("cat", "🦀 données.txt")
	c.Dir = dir
	if got := s.must(t, c); got != "naïve" {
		t.Errorf("got %q", got)
	}
	err := s.run(t, "sh", "-c", `echo "größe: ungültig" >&2; exit 1`)
	if e := exit(t, err, 1, ""); e.Stderr != "größe: ungültig\n" {
		t.Errorf("stderr is %q", e.Stderr)
	}
}

func (s *suite) parallel(t *testing.T) {
	// OpenSSH allows fewer sessions than this on one connection.
	const n = 24
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			line := fmt.Sprintf("command %d", i)
			c := sh(`i=0; while [ $i -lt 100 ]; do echo "$1"; i=$((i+1)); done; cat; exit "$2"`, line, strconv.Itoa(i))
			c.Stdin = strings.NewReader(line)
			want := strings.Repeat(line+"\n", 100) + line
			out, err := s.output(t, c)
			if out != want {
				t.Errorf("%s: its output is not its own: %.60q", line, out)
			}
			var e *iotax.ExitError
			if i == 0 && err != nil || i > 0 && (!errors.As(err, &e) || e.Code != i) {
				t.Errorf("%s: ended with %v", line, err)
			}
		})
	}
	wg.Wait()

	// Eight commands run at the same time: each waits for all the others.
	const m = 8
	dir := s.dir + "/meet"
	if err := s.run(t, "mkdir", dir); err != nil {
		t.Fatal(err)
	}
	for i := range m {
		wg.Go(func() {
			c := sh(`: >"$1/$2"; n=0; while set -- "$1" "$2" "$1"/*; [ $# -lt 10 ]; do sleep 1; n=$((n+1)); [ $n -lt 60 ] || exit 1; done`, dir, strconv.Itoa(i))
			if _, err := s.output(t, c); err != nil {
				t.Errorf("command %d of %d did not meet the others: %v", i, m, err)
			}
		})
	}
	wg.Wait()
}

func (s *suite) cancelledBefore(t *testing.T) {
	want := errors.New("no longer wanted")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(want)
	file := s.dir + "/never"
	if err := s.Machine.Run(ctx, sh(`: >"$1"`, file)); !errors.Is(err, want) {
		t.Errorf("got %v, want the cause of the cancel", err)
	}
	if err := s.run(t, "sh", "-c", `[ ! -e "$1" ]`, "sh", file); err != nil {
		t.Error("the command ran all the same")
	}
}

// pids is a writer that receives process ids, one per line. It closes the channel `all` when it has received `want`
// ids.
type pids struct {
	mu   sync.Mutex
	buf  bytes.Buffer
	want int
	all  chan struct{}
}

func listen(n int) *pids { return &pids{want: n, all: make(chan struct{})} }

func (p *pids) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before := bytes.Count(p.buf.Bytes(), []byte("\n"))
	p.buf.Write(b)
	if now := bytes.Count(p.buf.Bytes(), []byte("\n")); before < p.want && now >= p.want {
		close(p.all)
	}
	return len(b), nil
}

func (p *pids) list() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Fields(p.buf.String())
}

// start runs c, which must print n process ids, then calls `stop`. It returns the ids and the error of Machine.Run. It
// fails the test if Run does not return promptly after `stop`.
func (s *suite) start(t *testing.T, ctx context.Context, c *iotax.Cmd, n int, stop func()) (ids []string, err error) {
	t.Helper()
	p := listen(n)
	c.Stdout = p
	done := make(chan error, 1)
	go func() { done <- s.Machine.Run(ctx, c) }()
	select {
	case <-p.all:
	case err := <-done:
		t.Fatalf("%s ended before it was stopped: %v", c, err)
	case <-time.After(time.Minute):
		t.Fatalf("%s did not start", c)
	}
	begin := time.Now()
	stop()
	select {
	case err := <-done:
		s.prompt(t, begin)
		return p.list(), err
	case <-time.After(s.patience + 30*time.Second):
		t.Fatalf("Run did not return after %s was stopped", c)
		return nil, nil
	}
}

// gone checks that none of the processes is left. A zombie counts as gone, because it does no I/O.
func (s *suite) gone(t *testing.T, ids []string) {
	t.Helper()
	for _, id := range ids {
		out := s.must(t, sh(`kill -0 "$1" 2>/dev/null || { echo gone; exit; }
			if [ -r "/proc/$1/stat" ]; then read -r l <"/proc/$1/stat"; set -- ${l##*) }; case $1 in Z | X) echo gone; exit ;; esac; fi
			echo alive`, id))
		if out != "gone\n" {
			t.Errorf("process %s is alive after Run returned", id)
		}
	}
}

func (s *suite) stopped(t *testing.T, c *iotax.Cmd, n int) {
	t.Helper()
	want := errors.New("no longer wanted")
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	ids, err := s.start(t, ctx, c, n, func() { cancel(want) })
	if !errors.Is(err, want) {
		t.Errorf("got %v, want the cause of the cancel", err)
	}
	s.gone(t, ids)
}

func (s *suite) cancel(t *testing.T) {
	s.stopped(t, sh("echo $$; exec sleep 1000"), 1)
}

func (s *suite) cancelChildren(t *testing.T) {
	s.stopped(t, sh(`echo $$; sleep 1001 & echo $!; sh -c 'echo $$; sleep 1002 & echo $!; wait' & wait`), 4)
	// The parent of the second process has ended, and the process holds no output open.
	s.stopped(t, sh(`echo $$; (sh -c 'echo $$; exec sleep 1003 >/dev/null 2>&1' &) ; exec sleep 1004`), 2)
}

// cancelEscaped cancels a command whose child has its own session, and therefore its own process group, as fio's jobs
// do.
func (s *suite) cancelEscaped(t *testing.T) {
	if err := s.run(t, "sh", "-c", "command -v setsid"); err != nil {
		t.Skip("needs setsid on the machine")
	}
	s.stopped(t, sh(`echo $$; setsid sh -c 'trap "" TERM; echo $$; while :; do sleep 1; done' & exec sleep 1005`), 2)
}

func (s *suite) cancelStubborn(t *testing.T) {
	s.stopped(t, sh(`trap "" TERM INT HUP; echo $$; while :; do sleep 1; done`), 1)
}

// cancelInput cancels while the caller's reader blocks and the command waits for input.
func (s *suite) cancelInput(t *testing.T) {
	r, w := io.Pipe()
	defer w.Close()
	c := sh("echo $$; cat >/dev/null")
	c.Stdin = r
	s.stopped(t, c, 1)
}

// cancelMany cancels several commands at the same time.
func (s *suite) cancelMany(t *testing.T) {
	const n = 9
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	p := listen(n)
	errs := make(chan error, n)
	for range n {
		go func() {
			c := sh("echo $$; exec sleep 1006")
			c.Stdout = p
			errs <- s.Machine.Run(ctx, c)
		}()
	}
	select {
	case <-p.all:
	case <-time.After(time.Minute):
		t.Errorf("only %d of %d commands started", len(p.list()), n)
	}
	begin := time.Now()
	cancel()
	for range n {
		if err := <-errs; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want %v", err, context.Canceled)
		}
	}
	if d := time.Since(begin); d > time.Minute { // one command may have to wait for the others
		t.Errorf("took %v, want at most 1 minute", d)
	}
	s.gone(t, p.list())
}

func (s *suite) deadline(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	begin := time.Now()
	err := s.Machine.Run(ctx, iotax.Command("sleep", "1007"))
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want %v", err, context.DeadlineExceeded)
	}
	s.prompt(t, begin)
}

// death kills the machine while it runs a command. The error must not be an exit status, and must come promptly. The
// next command must succeed if `lasts` is true, and otherwise fail in the same way.
func (s *suite) death(t *testing.T, kill func(iotax.Machine) error, lasts bool) {
	_, err := s.start(t, t.Context(), sh("echo $$; exec sleep 1008"), 1, func() {
		if err := kill(s.Machine); err != nil {
			t.Fatal(err)
		}
	})
	check := func(err error) {
		t.Helper()
		var x *iotax.ExitError
		var e *iotax.Error
		switch {
		case errors.As(err, &x), !errors.As(err, &e):
			t.Errorf("got %v (%T), want an *iotax.Error and no *ExitError", err, err)
		case !strings.Contains(err.Error(), s.String()):
			t.Errorf("the error does not name the machine %s: %v", s, err)
		}
	}
	check(err)
	begin := time.Now()
	if err := s.Machine.Run(t.Context(), iotax.Command("sh", "-c", ":")); !lasts {
		check(err)
	} else if err != nil {
		t.Errorf("it is not found again: %v", err)
	}
	s.prompt(t, begin)
}

// WantHint fails t unless err is an *iotax.Error that contains the cause and the hint.
func WantHint(t *testing.T, err error, cause, hint string) {
	t.Helper()
	var e *iotax.Error
	if !errors.As(err, &e) || !strings.Contains(err.Error(), cause) || !strings.Contains(err.Error(), hint) {
		t.Errorf("got %v\nwant %s and the hint %s", err, cause, hint)
	}
}

// put writes r to a file of m, completely or not at all.
func put(ctx context.Context, m iotax.Machine, r io.Reader, path, mode string) error {
	q := iotax.Quote(path)
	script := "umask 077; t=" + q + ".part$$; trap 'rm -f \"$t\"' EXIT; cat >\"$t\" && chmod " + iotax.Quote(mode) + " \"$t\" && mv -f \"$t\" " + q
	return m.Run(ctx, &iotax.Cmd{Args: []string{"sh", "-c", script}, Stdin: r})
}

// get copies a file of m to w.
func get(ctx context.Context, m iotax.Machine, path string, w io.Writer) error {
	return m.Run(ctx, &iotax.Cmd{Args: []string{"cat", "--", path}, Stdout: w})
}
