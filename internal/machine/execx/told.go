package execx

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"

	"iotax/internal/machine/internal/proc"
)

// tell runs its arguments and writes a line with their exit status, behind the word $1, to both outputs. What the
// shell itself would say of a child that a signal ended is nobody's word.
const tell = `iotax_m=$1; shift; exec 3>&2 2>/dev/null; "$@" 2>&3 3>&-; iotax_c=$?; ` +
	`printf '\001%s %d\n' "$iotax_m" "$iotax_c"; printf '\001%s %d\n' "$iotax_m" "$iotax_c" >&3`

// ErrBroke says that what became of a command is not known.
var ErrBroke = errors.New("the connection broke before the command's end was told")

// partTime is how long a channel may take to end once the program has.
const partTime = time.Second

// Told makes an Exec of one whose end may be that of its channel alone: Kubernetes takes a connection that
// broke between its own parts for a program that ended well, and holds on to one whose program has left input
// unread. The program's end is told at the end of both of its outputs; when it is not, that is an error.
func Told(exec Exec) Exec {
	return func(ctx context.Context, args []string, s Streams) (int, error) {
		word := "iotax-" + proc.NewTag()
		out, errs := newTold(word, s.Out), newTold(word, s.Err)
		s.Out, s.Err = out, errs
		args = append([]string{"sh", "-c", tell, "sh", word}, args...)
		hold, part := context.WithCancel(ctx)
		defer part()
		var code int
		var err error
		done := make(chan struct{})
		go func() {
			defer close(done)
			code, err = exec(hold, args, s)
		}()
		for _, w := range []*told{out, errs} {
			select {
			case <-w.seen:
			case <-done:
			}
		}
		select {
		case <-done:
		case <-time.After(partTime):
			part()
			<-done
		}
		said, whole := out.end()
		if _, both := errs.end(); whole && both {
			return said, nil // how the channel ends after that of the program is no news
		}
		if err == nil && code == 0 {
			err = ErrBroke
		}
		return code, err
	}
}

// A told writer takes the line that begins with mark out of what it passes on. The mark begins with a byte that
// outputs seldom end in: what may be its beginning is held back until more comes.
type told struct {
	mark []byte
	next io.Writer
	seen chan struct{} // closed once the line has come

	mu   sync.Mutex
	held []byte // may be the beginning of the line
	code int
}

func newTold(word string, next io.Writer) *told {
	return &told{mark: []byte("\x01" + word + " "), next: next, seen: make(chan struct{})}
}

func (w *told) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case <-w.seen:
		return w.next.Write(p)
	default:
	}
	buf := append(w.held, p...)
	w.held = nil
	if at := bytes.Index(buf, w.mark); at >= 0 {
		line, rest, whole := bytes.Cut(buf[at+len(w.mark):], []byte("\n"))
		if !whole && len(line) < 32 { // else no number
			w.held = bytes.Clone(buf[at:])
			return len(p), w.pass(buf[:at])
		}
		n, err := strconv.Atoi(strings.TrimSpace(string(line)))
		if err != nil {
			return 0, err
		}
		w.code = n
		err = w.pass(append(buf[:at:at], rest...))
		close(w.seen)
		return len(p), err
	}
	keep := min(len(w.mark)-1, len(buf))
	for keep > 0 && !bytes.HasSuffix(buf, w.mark[:keep]) {
		keep--
	}
	w.held = bytes.Clone(buf[len(buf)-keep:])
	return len(p), w.pass(buf[:len(buf)-keep])
}

func (w *told) pass(p []byte) error {
	if len(p) == 0 {
		return nil
	}
	_, err := w.next.Write(p)
	return err
}

// end passes on what was held back for nothing, and returns the status if it was told.
func (w *told) end() (code int, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case <-w.seen:
		return w.code, true
	default:
		_ = w.pass(w.held) // there is an error to tell already
		w.held = nil
		return 0, false
	}
}
