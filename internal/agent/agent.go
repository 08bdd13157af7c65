// Package agent calls Go functions on machines. A package declares a function with New. On this host the call usually
// runs in this process. On another machine an iotax process there, the agent, runs the same function.
//
// A machine usually has one session with its agent (see Link). A session is a yamux connection, usually over the
// standard input and output of the agent. Except for heartbeats and pings, the agent uses no CPU between calls. The
// agent ends when the machine is closed.
package agent

import (
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"reflect"
	"time"

	"iotax"
)

// A Func is a function that can run on a machine. For another machine, In and Out are encoded with gob: only exported
// fields are sent, and a pointer to a zero number, bool or string arrives as nil.
type Func[In, Out any] struct {
	name string
	do   func(context.Context, In) (Out, error)
}

// A receiver decodes the input of a function and returns a call that runs it.
type receiver func(in *source) (call func(context.Context) (out any, err error), err error)

// functions maps names to the functions that New and NewTaker declared. It is complete before main runs.
var functions = map[string]receiver{}

// New declares the function `do`. Call New to initialize a package variable. It panics if another function has the same
// name. `do` may be called concurrently, and should return soon after its context is done.
func New[In, Out any](name string, do func(context.Context, In) (Out, error)) Func[In, Out] {
	declare(name, func(ctx context.Context, in In, from *source) (Out, error) {
		from.finish()
		return do(ctx, in)
	})
	return Func[In, Out]{name, do}
}

func declare[In, Out any](name string, do func(context.Context, In, *source) (Out, error)) {
	if _, ok := functions[name]; ok {
		panic("agent: two functions are named " + name)
	}
	functions[name] = func(from *source) (func(context.Context) (any, error), error) {
		var in box[In]
		err := decode(from.Decoder, &in)
		return func(ctx context.Context) (any, error) {
			out, err := do(ctx, in.V, from)
			return box[Out]{out}, err
		}, err
	}
}

// A box wraps a value so that gob can encode it even if it is a nil pointer.
type box[T any] struct{ V T }

// empty reports whether the box type t holds a struct without fields, which gob refuses to encode.
func empty(t reflect.Type) bool {
	f := t.Field(0).Type
	return f.Kind() == reflect.Struct && f.NumField() == 0
}

func encode(e *gob.Encoder, b any) error {
	if empty(reflect.TypeOf(b)) {
		return nil
	}
	return e.Encode(b)
}

func decode(d *gob.Decoder, p any) error {
	if empty(reflect.TypeOf(p).Elem()) {
		return nil
	}
	return d.Decode(p)
}

// On runs the function on m. An error from another machine matches the same `sentinels` as the original error there. It
// also wraps the first *iotax.Error in the original error, or else the first *iotax.ExitError.
func (f Func[In, Out]) On(ctx context.Context, m iotax.Machine, in In) (out Out, err error) {
	if ctx.Err() == nil && iotax.IsLocal(m) {
		return f.here(ctx, m, in)
	}
	err = with(ctx, m, func(s *Session) error { return result(ctx, s, m, f.name, in, nil, &out) })
	return out, err
}

// Alone runs the function on m in a separate process. Use it for a function that measures the CPU time of its process,
// or whose commands must end even if this process is killed.
func (f Func[In, Out]) Alone(ctx context.Context, m iotax.Machine, in In) (out Out, err error) {
	program, err := Program(ctx, m)
	if err != nil {
		return out, err
	}
	link := &Link{Program: program}
	defer link.Hangup(context.WithoutCancel(ctx))
	s, err := link.Session(ctx, m)
	if err == nil {
		err = result(ctx, s, m, f.name, in, nil, &out)
	}
	return out, err
}

// result calls the function `name` in session s and stores its result in *out. It uses m only in error messages. After
// an error, *out may be incomplete.
func result[In, Out any](ctx context.Context, s *Session, m iotax.Machine, name string, in In, from io.Reader, out *Out) error {
	var r box[Out]
	err := s.call(ctx, m, name, box[In]{in}, from, &r)
	*out = r.V
	return err
}

// `with` opens the session of m if necessary, and passes it to `do`.
func with(ctx context.Context, m iotax.Machine, do func(*Session) error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	link := LinkOf(m)
	if link == nil { // without a link, the session lasts for this call only
		link = new(Link)
		defer link.Hangup(context.WithoutCancel(ctx))
	}
	s, err := link.Session(ctx, m)
	if err != nil {
		return err
	}
	return do(s)
}

// `here` calls the function in this process. Like a call on another machine, it returns within cancelTime after ctx is
// done, even if the function hangs.
func (f Func[In, Out]) here(ctx context.Context, m iotax.Machine, in In) (out Out, err error) {
	type result struct {
		out Out
		err error
	}
	done := make(chan result, 1)
	go func() {
		out, err := f.do(context.WithValue(ctx, hereKey{}, here{m}), in)
		done <- result{out, err}
	}()
	var r result
	select {
	case r = <-done:
	case <-ctx.Done():
		select {
		case r = <-done:
		case <-time.After(cancelTime):
			return out, hangs(ctx, f.name, m)
		}
	}
	if r.err != nil && ctx.Err() != nil {
		r.err = context.Cause(ctx)
	}
	return r.out, r.err
}

// hangs returns the error for a call that does not end after its context is done.
func hangs(ctx context.Context, name string, m iotax.Machine) error {
	return &iotax.Error{Op: "call " + name, On: "on " + m.String(), Err: fmt.Errorf("it did not end within %v: %w", cancelTime, context.Cause(ctx))}
}

// cancelTime limits how long a canceled call may take to end.
const cancelTime = 10 * time.Second

// call runs the agent's function `name`. `in` is a box, and `out` points to a box. If `from` is not nil, call sends
// the data of `from` after `in`.
func (s *Session) call(ctx context.Context, m iotax.Machine, name string, in any, from io.Reader, out any) error {
	fail := func(err error) error {
		return &iotax.Error{Op: "call " + name, On: "on " + m.String(), Err: err}
	}
	stream, err := s.open(kindFunc)
	if err != nil {
		return fail(s.gone(err))
	}
	defer stream.Close()
	enc := gob.NewEncoder(stream)
	if err := errors.Join(enc.Encode(name), encode(enc, in)); err != nil {
		return fail(s.gone(err))
	}
	var unread error // the error from reading `from`
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		if from != nil {
			unread = sendAll(enc, from)
		}
	}()
	var failure wireErrors
	var lost error
	done := make(chan struct{})
	go func() {
		dec := gob.NewDecoder(io.LimitReader(stream, maxMessage))
		var r reply
		lost = dec.Decode(&r)
		if failure = r.Err; lost == nil && len(failure) == 0 {
			lost = decode(dec, out)
		}
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
		stream.Close() // cancels the function's context on the machine
		select {
		case <-done:
		case <-time.After(cancelTime):
			_ = stream.SetReadDeadline(time.Now()) // makes the decoder fail, so that it no longer writes to `out`
			<-done
			return hangs(ctx, name, m)
		}
		return context.Cause(ctx)
	}
	_ = stream.SetWriteDeadline(time.Now()) // unblocks the goroutine that still sends to a function that has ended
	select {
	case <-sent:
		if unread != nil {
			return fail(unread)
		}
	default: // the goroutine may still read `from`
	}
	switch {
	case lost != nil:
		return fail(s.gone(lost))
	case len(failure) > 0:
		return failure.error()
	}
	return nil
}

// A reply answers a call or a Dial on its stream. Err is empty on success. The result of a function follows its reply.
type reply struct{ Err wireErrors }
