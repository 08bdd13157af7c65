// Package agent calls Go functions on machines. A package declares a function with New. On this host a call is an ordinary
// one; elsewhere an iotax process over there, the agent, runs the same function.
//
// A machine has one session with its agent (Link): yamux streams over the standard streams of one program that
// Machine.Run keeps running. It uses no CPU while no call is under way, and ends with the machine.
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

// A Func runs on a machine. In and Out are encoded with gob: exported fields only, and a pointer to a zero value arrives
// as nil.
type Func[In, Out any] struct {
	name string
	do   func(context.Context, In) (Out, error)
}

// A receiver reads the input of a function, and returns the call.
type receiver func(in *source) (call func(context.Context) (out any, err error), err error)

// functions are all that New declared, by name. They are complete before main begins.
var functions = map[string]receiver{}

// New declares a function, as a variable of a package. It panics if another one has the name. Functions run concurrently.
// Once its context is done, do should return soon.
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

// A box carries any value: gob itself refuses a nil pointer.
type box[T any] struct{ V T }

// empty reports whether gob has nothing to encode of a box: it refuses a struct without fields.
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

// decode reads into the box that p points to.
func decode(d *gob.Decoder, p any) error {
	if empty(reflect.TypeOf(p).Elem()) {
		return nil
	}
	return d.Decode(p)
}

// On runs the function on m. An error of the function keeps what it wraps of *iotax.Error, *iotax.ExitError, and those
// errors of the standard library that sentinels lists.
func (f Func[In, Out]) On(ctx context.Context, m iotax.Machine, in In) (out Out, err error) {
	if ctx.Err() == nil && iotax.IsLocal(m) {
		return f.here(ctx, m, in)
	}
	err = with(ctx, m, func(s *Session) error { return result(ctx, s, m, f.name, in, nil, &out) })
	return out, err
}

// Alone runs the function in a process of its own on m, for one that measures the CPU time of its process, or that must not
// end with this one.
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

// result calls a function of s. After an error out is a zero value.
func result[In, Out any](ctx context.Context, s *Session, m iotax.Machine, name string, in In, from io.Reader, out *Out) error {
	var r box[Out]
	err := s.call(ctx, m, name, box[In]{in}, from, &r)
	*out = r.V
	return err
}

// with calls do with the session of m.
func with(ctx context.Context, m iotax.Machine, do func(*Session) error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	link := LinkOf(m)
	if link == nil { // the session lasts for this call
		link = new(Link)
		defer link.Hangup(context.WithoutCancel(ctx))
	}
	s, err := link.Session(ctx, m)
	if err != nil {
		return err
	}
	return do(s)
}

// here calls the function in this process. Like a call elsewhere, it returns when ctx is done although the function may hang.
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

// hangs is the error of a call that goes on after its context is done.
func hangs(ctx context.Context, name string, m iotax.Machine) error {
	return &iotax.Error{Op: "call " + name, On: "on " + m.String(), Err: fmt.Errorf("it did not end within %v: %w", cancelTime, context.Cause(ctx))}
}

// cancelTime is how long a call that was canceled may take to end.
const cancelTime = 10 * time.Second

// call runs a function of the agent; in is a box, and out points to one. The bytes of from follow where it is not nil.
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
	var unread error // why from could not be read
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		if from != nil {
			unread = sendAll(enc, from)
		}
	}()
	var failure *wireError
	var lost error
	done := make(chan struct{})
	go func() {
		dec := gob.NewDecoder(io.LimitReader(stream, maxMessage))
		var r reply
		lost = dec.Decode(&r)
		if failure = r.Err; lost == nil && failure == nil {
			lost = decode(dec, out)
		}
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
		stream.Close() // which cancels the context over there
		select {
		case <-done:
		case <-time.After(cancelTime):
			_ = stream.SetReadDeadline(time.Now()) // nothing may touch out any more
			<-done
			return hangs(ctx, name, m)
		}
		return context.Cause(ctx)
	}
	_ = stream.SetWriteDeadline(time.Now()) // wakes what still sends to a function that has ended
	select {
	case <-sent:
		if unread != nil {
			return fail(unread)
		}
	default: // from is still being read
	}
	switch {
	case lost != nil:
		return fail(s.gone(lost))
	case failure != nil:
		return failure.error()
	}
	return nil
}

// A reply comes before the result of a function.
type reply struct{ Err *wireError }
