package workload

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"iotax"
)

// A scratch is a directory of a workload's own on a target's machine, away from the place that is measured.
type scratch struct {
	m    iotax.Machine
	path string
}

// newScratch makes one in base, or where the machine keeps its files. Its name is drawn over there and comes back at once.
func newScratch(ctx context.Context, m iotax.Machine, base string) (*scratch, error) {
	if base == "" {
		base = "/var/tmp"
		if h, ok := m.(interface{ Home() string }); ok {
			base = h.Home()
		}
	}
	out, err := iotax.Output(ctx, m, "mktemp", "-d", base+"/iotax-XXXXXX")
	path := strings.TrimSpace(string(out))
	if err == nil && !strings.HasPrefix(path, base+"/iotax-") {
		err = fmt.Errorf("mktemp answered %q", path)
	}
	if err != nil {
		return nil, err
	}
	return &scratch{m, path}, nil
}

// sh runs a script in the directory, with a deadline of its own.
func (s *scratch) sh(ctx context.Context, limit time.Duration, script string, args ...string) (string, error) {
	inner, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("no end within %v", limit))
	defer cancel()
	out, err := iotax.Output(inner, s.m, append([]string{"sh", "-c", `export LC_ALL=C; cd -- "$0" || exit; ` + script, s.path}, args...)...)
	if err != nil && inner.Err() != nil && ctx.Err() == nil {
		err = context.Cause(inner)
	}
	return string(out), err
}

// timed runs a script and returns how long that took, by this host's clock.
func (s *scratch) timed(ctx context.Context, limit time.Duration, script string, args ...string) (time.Duration, error) {
	begun := time.Now()
	_, err := s.sh(ctx, limit, script, args...)
	return time.Since(begun), err
}

func (s *scratch) remove(ctx context.Context) error {
	if s == nil {
		return nil
	}
	return s.m.Run(ctx, iotax.Command("rm", "-rf", "--", s.path))
}

// room refuses when fewer than need bytes are free in the directory.
func (s *scratch) room(ctx context.Context, need int64) error {
	out, err := s.sh(ctx, time.Minute, `df -Pk .`)
	if err != nil {
		return err
	}
	f := strings.Fields(out[strings.LastIndexByte(strings.TrimSpace(out), '\n')+1:])
	if len(f) < 4 {
		return nil // a df of another kind; the work itself will tell
	}
	if free, err := strconv.ParseInt(f[3], 10, 64); err == nil && free*1024 < need {
		return fmt.Errorf("%d MiB are needed in %s, %d MiB are free", need>>20, s.path, free>>10)
	}
	return nil
}

// tools finds what is not installed on m.
func missingTool(ctx context.Context, m iotax.Machine, tools map[string]string) error {
	for tool, pkg := range tools {
		if _, err := iotax.Output(ctx, m, "sh", "-c", `command -v "$1"`, "sh", tool); err != nil {
			if ctx.Err() != nil {
				return err
			}
			return &iotax.Error{Op: "find " + tool + " on", On: m.String(), Err: fmt.Errorf("it is not installed"), Mend: "apt install " + pkg + " on " + m.String()}
		}
	}
	return nil
}

// longest is what one step of an image or a copy may take: 4 MiB/s, and some minutes.
func longest(bytes int64) time.Duration {
	return 3*time.Minute + time.Duration(bytes/(4<<20))*time.Second
}
