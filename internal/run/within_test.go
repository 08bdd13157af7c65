package run

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

// A step that hangs ends, and its error says how long it was given; a run that is interrupted is told by its own cause.
func TestWithin(t *testing.T) {
	hangs := func(ctx context.Context) error {
		<-ctx.Done()
		return errors.New("cut off")
	}
	if err := within(t.Context(), 20*time.Millisecond, hangs); err == nil || !strings.Contains(err.Error(), "no end within") || !strings.Contains(err.Error(), "cut off") {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := within(ctx, time.Hour, hangs); err == nil || err.Error() != "cut off" {
		t.Errorf("got %v", err)
	}
	if err := within(t.Context(), time.Hour, func(context.Context) error { return nil }); err != nil {
		t.Errorf("got %v", err)
	}
}
