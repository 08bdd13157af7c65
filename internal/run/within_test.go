package run

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

// A step that hangs is cancelled, and its error contains the time limit. After an interruption, the step's own
// error is returned unchanged.
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
