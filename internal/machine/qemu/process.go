package qemu

import (
	"bytes"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"time"

	"iotax/internal/secret"
)

// A process is a child process. On Linux, the kernel kills it when iotax ends.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended and all its output is read
	err  error         // error of Wait; valid once done is closed
}

// spawn starts cmd. On Unix, cmd has its own process group, so that Ctrl-C in the terminal does not reach it.
func spawn(cmd *exec.Cmd) (*process, error) {
	setAttr(cmd)
	cmd.Env = secret.Environ()
	p := &process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		// The kernel sends the parent-death signal when the thread that forked ends, so that thread must live as long
		// as the child. Without the unlock, the thread would end with this goroutine, and the kernel would also kill
		// the thread's other children.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		p.err = cmd.Wait()
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// `end` sends SIGTERM to the process group, and kills the group after the process has ended or patience is over. On
// Windows, it kills only the process, at once.
func (p *process) end(patience time.Duration) {
	terminate(p.cmd)
	select {
	case <-p.done:
	case <-time.After(patience):
	}
	kill(p.cmd)
	select {
	case <-p.done:
	case <-time.After(patience + 5*time.Second): // stuck in the kernel
	}
}

// A Log keeps the last lines that were written to it, and passes each line and its time to a function. Its methods may
// be called from several goroutines.
type Log struct {
	mu    sync.Mutex
	lines []string
	part  []byte
	line  func(at time.Time, line string)
}

// keepLines is the number of lines that a Log keeps.
const keepLines = 200

func (l *Log) Write(b []byte) (int, error) {
	now := time.Now()
	l.mu.Lock()
	var whole []string
	l.part = append(l.part, b...)
	for {
		line, rest, ok := bytes.Cut(l.part, []byte("\n"))
		if !ok {
			if len(l.part) < 64<<10 {
				break
			}
			line, rest = l.part, nil // an overlong line is split, so that the buffer does not grow without limit
		}
		l.part = rest
		s := strings.TrimRight(string(line), "\r")
		whole = append(whole, s)
		l.lines = append(l.lines, s)
	}
	if len(l.lines) > keepLines {
		l.lines = append([]string(nil), l.lines[len(l.lines)-keepLines:]...)
	}
	l.mu.Unlock()
	if l.line != nil {
		for _, s := range whole {
			l.line(now, s)
		}
	}
	return len(b), nil
}

// Tail returns the last n non-empty lines, separated by newlines.
func (l *Log) Tail(n int) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := append(append([]string(nil), l.lines...), string(l.part))
	var kept []string
	for _, s := range all {
		if s = strings.TrimRight(clean(s), " \t\r"); s != "" {
			kept = append(kept, s)
		}
	}
	return strings.Join(kept[max(0, len(kept)-n):], "\n")
}

// clean removes terminal sequences, because errors quote console lines.
func clean(s string) string {
	var b strings.Builder
	esc := false
	for _, r := range s {
		switch {
		case esc:
			esc = !(r >= '@' && r <= '~') || r == '['
		case r == '\x1b':
			esc = true
		case r == '\t' || r >= ' ' && r != 0x7f:
			b.WriteRune(r)
		}
	}
	return b.String()
}
