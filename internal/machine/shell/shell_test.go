package shell

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"iotax"
)

// script runs a script in a directory, with no program but the shell's own.
func script(t *testing.T, ctx context.Context, dir, text string, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	c := &iotax.Cmd{Args: append([]string{"sh", "-c", text, "sh"}, args...), Dir: dir, Stdout: &out, Stdin: strings.NewReader("a line\n")}
	err := Run(ctx, c, func(_ context.Context, c *iotax.Cmd) error {
		return &iotax.ExitError{Args: c.Args, Code: 127}
	})
	return out.String(), err
}

func TestTools(t *testing.T) {
	dir := filepath.ToSlash(t.TempDir())
	for _, c := range []struct{ text, want string }{
		{`mkdir -p -- a/b && cd -- a && pwd && cd b && pwd -P`, dir + "/a\n" + dir + "/a/b\n"},
		{`printf '%s\n' one >f; cat -- f; cat`, "one\na line\n"},
		{`stat -c '%s %n' -- f; mv -f -- f g; [ -f g ] && [ ! -e f ] && echo moved`, "4 f\nmoved\n"},
		{`rm -f -- g nothing && rmdir -- a/b && rm -rf -- a && echo gone`, "gone\n"},
		{`df -Pk . | while read -r _ size _ free _; do case $size$free in *[!0-9]*) ;; *) echo "$((size >= free))";; esac; done`, "1\n"},
		{`d=$(mktemp -d "$PWD/x-XXXXXX") && [ -d "$d" ] && d2=$(mktemp -u "$PWD/y-XXXXXX") && [ ! -e "$d2" ] && echo "${#d} ${#d2}"`, ""},
		{`trap 'exit 143' HUP INT TERM; umask 077; trap 'echo bye' EXIT; echo hello`, "hello\nbye\n"},
		{`x=$(for f; do echo "<$f>"; done); echo "$x"; nproc >/dev/null && uname -sm >/dev/null && id -u >/dev/null && getconf PAGESIZE >/dev/null && echo known`, "<one two>\n<*>\nknown\n"},
		{`export A="$1" B=b$(echo c) C=; echo "$A|$B|$C|"; D=1; export D; readonly E="$1"; echo "$D$E"; if :; then f() { export F=f; }; fi; f; export "$1=" 2>/dev/null || echo "$F"`, "one two|bc||\n1one two\nf\n"},
		{`basename /a/b.c; dirname /a/b.c; readlink -f -- .`, "b.c\n/a\n" + dir + "\n"},
	} {
		got, err := script(t, t.Context(), dir, c.text, "one two", "*")
		if err != nil || c.want != "" && got != c.want {
			t.Errorf("%s\ngot %q, %v\nwant %q", c.text, got, err, c.want)
		}
	}
}

func TestExit(t *testing.T) {
	for text, want := range map[string]int{`exit 42`: 42, `no-such-program`: 127, `rmdir /nonexistent/x`: 1, `mkdir -q x`: 1, `echo "`: 2} {
		_, err := script(t, t.Context(), t.TempDir(), text)
		var exit *iotax.ExitError
		if !errors.As(err, &exit) || exit.Code != want {
			t.Errorf("%s: %v, want exit status %d", text, err, want)
		}
	}
}

// A script that is ended leaves by its trap, wherever it waits.
func TestEnded(t *testing.T) {
	for name, text := range map[string]string{"asleep": `sleep 600`, "in a loop": `while :; do sleep 0.01; done`} {
		dir := t.TempDir()
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			for range 1000 {
				if _, err := os.Stat(filepath.Join(dir, "begun")); err == nil {
					break
				}
				time.Sleep(5 * time.Millisecond)
			}
			cancel()
		}()
		_, err := script(t, ctx, dir, `trap 'rm -f -- begun' EXIT; printf x >begun; `+text)
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Stat(filepath.Join(dir, "begun")); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: its trap was not run: %v", name, err)
		}
	}
}

func TestKnows(t *testing.T) {
	for _, args := range [][]string{{"sh", "-c", "x"}, {"rm", "-f", "x"}, {"true"}} {
		if !Knows(args) {
			t.Errorf("%v is not known", args)
		}
	}
	for _, args := range [][]string{{"fio"}, {"sh", "x"}, {}} {
		if Knows(args) {
			t.Errorf("%v is known", args)
		}
	}
}
