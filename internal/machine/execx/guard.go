package execx

import (
	"context"
	"io"
	"strings"
	"time"

	"iotax/internal/machine/internal/far"
)

// A guard is a process on the other side that waits for the end of its input. When that comes without a
// word, this end was killed, or its connection lost, and nobody else will ever end the machine's commands.
type guard struct {
	feed *io.PipeWriter
	done chan struct{}
	drop context.CancelFunc
}

// dismissTime is how long a guard may take to go.
const dismissTime = 5 * time.Second

// watch starts a guard. That it may fail to start is no news: commands then fail as well.
func (m *Machine) watch() *guard {
	ctx, cancel := context.WithCancel(context.Background())
	in, feed := io.Pipe()
	g := &guard{feed: feed, done: make(chan struct{}), drop: cancel}
	// No process group has the number -1: the tag alone decides, and it has the beginning of all of them.
	script := `trap "" HUP PIPE; read -r iotax_w && exit 0; ` + strings.Replace(far.EndScript(0, m.tag), "g=0;", "g=-1;", 1)
	go func() {
		defer close(g.done)
		defer cancel()
		_, _ = m.exec(ctx, []string{"sh", "-c", script}, Streams{In: in, Out: io.Discard, Err: io.Discard})
		in.CloseWithError(io.ErrClosedPipe)
	}()
	return g
}

func (g *guard) ended() bool {
	select {
	case <-g.done:
		return true
	default:
		return false
	}
}

// dismiss sends the guard home.
func (g *guard) dismiss(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), dismissTime)
	defer cancel()
	go func() { // the write waits for a reader, and ends with the pipe
		_, _ = io.WriteString(g.feed, "home\n")
		g.feed.Close()
	}()
	select {
	case <-g.done:
	case <-ctx.Done():
		g.drop()
		<-g.done
	}
}
