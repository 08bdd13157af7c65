// Package agent runs commands on a machine that has no POSIX shell, by an iotax over there: both ends of what they say
// to each other over the standard streams of one SSH session for each command. The login shell over there sees two plain
// words, which cmd.exe, PowerShell and sh read alike.
//
// Both ways go frames: a byte that says what it is, the length of the rest in four bytes, the rest.
package agent

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"iotax"
)

// What a frame is.
const (
	frameCommand = 'C' // to the agent, first: a command
	frameInput   = 'I' // to the agent: standard input; an empty one is its end
	frameEnd     = 'E' // to the agent: end the command
	frameReady   = 'R' // from the agent, first: who it is
	frameTaken   = 'T' // from the agent: so many bytes of input were taken
	frameOutput  = 'O' // from the agent: standard output
	frameError   = 'X' // from the agent: standard error
	frameResult  = 'Z' // from the agent, last: what came of it
)

const (
	maxFrame  = 1 << 20
	chunkSize = 32 << 10
	window    = 256 << 10 // bytes of input that may be under way; the agent keeps them, so that an end is always heard
)

// A hello is what an agent says first.
type hello struct {
	Version int    `json:"version"`
	OS      string `json:"os"`
	Arch    string `json:"arch"`
}

// version changes when the two ends no longer understand each other.
const version = 1

// An order is a command as it goes over: its words are bytes, not text.
type order struct {
	Args [][]byte `json:"args"`
	Env  [][]byte `json:"env,omitempty"`
	Dir  []byte   `json:"dir,omitempty"`
}

func bytesOf(words []string) (out [][]byte) {
	for _, w := range words {
		out = append(out, []byte(w))
	}
	return out
}

func wordsOf(b [][]byte) (out []string) {
	for _, w := range b {
		out = append(out, string(w))
	}
	return out
}

// A result is what came of a command. Without exit and error it ended well.
type result struct {
	Exit  *iotax.ExitError `json:"exit,omitempty"`
	Ended bool             `json:"ended,omitempty"` // because that was asked for
	Op    string           `json:"op,omitempty"`    // of an error of the machine
	On    string           `json:"on,omitempty"`
	Error string           `json:"error,omitempty"`
	Mend  string           `json:"mend,omitempty"`
}

// A sender writes frames, from several goroutines.
type sender struct {
	mu sync.Mutex
	w  io.Writer
}

func (s *sender) send(kind byte, rest []byte) error {
	head := make([]byte, 5, 5+len(rest))
	head[0] = kind
	binary.BigEndian.PutUint32(head[1:], uint32(len(rest)))
	s.mu.Lock()
	defer s.mu.Unlock()
	_, err := s.w.Write(append(head, rest...))
	return err
}

func (s *sender) say(kind byte, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return s.send(kind, b)
}

// A stream makes frames of one kind of what is written to it.
type stream struct {
	to   *sender
	kind byte
}

func (s stream) Write(p []byte) (int, error) {
	for done := 0; done < len(p); {
		n := min(len(p)-done, chunkSize)
		if err := s.to.send(s.kind, p[done:done+n]); err != nil {
			return done, err
		}
		done += n
	}
	return len(p), nil
}

// errNoFrame says that what came is not from the other end: a shell that talks.
var errNoFrame = errors.New("this is no answer of iotax")

// receive reads one frame. io.EOF is the end between two of them.
func receive(r io.Reader) (kind byte, rest []byte, err error) {
	var head [5]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, head[:0], err
	}
	n := binary.BigEndian.Uint32(head[1:])
	switch head[0] {
	case frameCommand, frameInput, frameEnd, frameReady, frameTaken, frameOutput, frameError, frameResult:
	default:
		return 0, head[:], errNoFrame
	}
	if n > maxFrame {
		return 0, head[:], fmt.Errorf("a frame of %d bytes", n)
	}
	rest = make([]byte, n)
	_, err = io.ReadFull(r, rest)
	return head[0], rest, err
}
