package qemu

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"
)

// A Monitor is a connection to a running QEMU through QMP (docs/interop/qmp-spec in QEMU's sources). Its methods may be
// called from several goroutines.
type Monitor struct {
	Version string // QEMU's version from the greeting, as in "7.2.22"

	conn   net.Conn
	mu     sync.Mutex
	next   int
	wait   map[int]chan reply
	closed chan struct{}
	err    error
	event  func(Event)
}

// An Event is a QMP event.
type Event struct {
	Name string          `json:"event"`
	Data json.RawMessage `json:"data"`
}

type reply struct {
	ID     *int            `json:"id"`
	Return json.RawMessage `json:"return"`
	Error  *struct{ Class, Desc string }
	Event
	QMP *struct {
		Version struct {
			QEMU struct{ Major, Minor, Micro int } `json:"qemu"`
		} `json:"version"`
	} `json:"QMP"`
}

// Dial connects to the control socket. It retries until QEMU has created the socket or ctx is done. If event is not
// nil, one goroutine calls it for every event.
func Dial(ctx context.Context, socket string, event func(Event)) (*Monitor, error) {
	var conn net.Conn
	for {
		var d net.Dialer
		var err error
		if conn, err = d.DialContext(ctx, "unix", socket); err == nil {
			break
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), err)
		case <-time.After(2 * time.Millisecond):
		}
	}
	m := &Monitor{conn: conn, wait: map[int]chan reply{}, closed: make(chan struct{}), event: event}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	r := bufio.NewReader(conn)
	line, err := r.ReadBytes('\n')
	var hello reply
	if err == nil {
		err = json.Unmarshal(line, &hello)
	}
	if err == nil && hello.QMP == nil {
		err = fmt.Errorf("not a QMP greeting: %.100s", line)
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	v := hello.QMP.Version.QEMU
	m.Version = fmt.Sprintf("%d.%d.%d", v.Major, v.Minor, v.Micro)
	go m.read(r)
	if err := m.Do(ctx, "qmp_capabilities", nil, nil); err != nil {
		conn.Close()
		return nil, err
	}
	return m, nil
}

func (m *Monitor) read(r *bufio.Reader) {
	var err error
	for {
		var line []byte
		if line, err = r.ReadBytes('\n'); err != nil {
			break
		}
		var v reply
		if err = json.Unmarshal(line, &v); err != nil {
			break
		}
		if v.Name != "" {
			if m.event != nil {
				m.event(v.Event)
			}
			continue
		}
		if v.ID == nil {
			continue
		}
		m.mu.Lock()
		c := m.wait[*v.ID]
		delete(m.wait, *v.ID)
		m.mu.Unlock()
		if c != nil {
			c <- v
		}
	}
	m.mu.Lock()
	m.err = err
	m.mu.Unlock()
	close(m.closed)
	m.conn.Close()
}

// Do runs one command with args as its arguments, and unmarshals its return value into result. args and result may
// be nil.
func (m *Monitor) Do(ctx context.Context, command string, args, result any) error {
	c := make(chan reply, 1)
	m.mu.Lock()
	m.next++
	id := m.next
	m.wait[id] = c
	b, err := json.Marshal(struct {
		Execute   string `json:"execute"`
		Arguments any    `json:"arguments,omitempty"`
		ID        int    `json:"id"`
	}{command, args, id})
	if err == nil {
		_, err = m.conn.Write(append(b, '\n'))
	}
	if err != nil {
		delete(m.wait, id)
	}
	m.mu.Unlock()
	if err != nil {
		return fmt.Errorf("qmp %s: %w", command, err)
	}
	select {
	case v := <-c:
		if v.Error != nil {
			return fmt.Errorf("qmp %s: %s", command, strings.TrimSpace(v.Error.Desc))
		}
		if result == nil {
			return nil
		}
		return json.Unmarshal(v.Return, result)
	case <-m.closed:
		return fmt.Errorf("qmp %s: the connection ended: %w", command, m.err)
	case <-ctx.Done():
		m.mu.Lock()
		delete(m.wait, id)
		m.mu.Unlock()
		return ctx.Err()
	}
}

// Human runs a command of the human monitor and returns its output. It is for functions that QMP lacks.
func (m *Monitor) Human(ctx context.Context, line string) (string, error) {
	var out string
	err := m.Do(ctx, "human-monitor-command", map[string]string{"command-line": line}, &out)
	return out, err
}

// Close closes the connection. QEMU continues.
func (m *Monitor) Close() error { return m.conn.Close() }
