package main

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"iotax"
	"iotax/internal/machine/kube"
)

// watchJob waits while the cluster does not answer, for example because the API server restarts. It gives up after
// jobSilence, or at once if the job no longer exists.
func TestWatchJob(t *testing.T) {
	lost := errors.New("connection refused")
	for _, c := range []struct {
		name   string
		silent time.Duration
		err    error
		want   error
		after  time.Duration
	}{
		{"answers", 0, nil, nil, 10 * time.Minute},
		{"restarts", 4 * time.Minute, lost, nil, 10 * time.Minute},
		{"gone", time.Hour, lost, lost, jobSilence},
		{"job removed", time.Hour, iotax.Gone(lost), iotax.ErrGone, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			var errs bytes.Buffer
			begun := time.Now()
			last, err := (&app{err: &errs}).watchJob(t.Context(), 2, func(context.Context) (kube.Progress, error) {
				switch since := time.Since(begun); {
				case since < c.silent:
					return kube.Progress{}, c.err
				case since < 10*time.Minute:
					return kube.Progress{Running: 2}, nil
				}
				return kube.Progress{Done: 2, Over: true}, nil
			})
			if took := time.Since(begun); !errors.Is(err, c.want) || last.Over != (c.want == nil) || took < c.after || took > c.after+jobPause {
				t.Errorf("%s: %+v, %v after %s", c.name, last, err, took)
			}
			if n := strings.Count(errs.String(), "the cluster does not answer"); (n == 1) != (c.err == lost) {
				t.Errorf("%s: printed %s", c.name, &errs)
			}
		})
	}
}
