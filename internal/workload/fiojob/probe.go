package fiojob

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"iotax"
	"iotax/internal/workload/support"
	"iotax/internal/workload/task"
)

type probeKey struct {
	machine any
	place   string
	fio     string
	engine  string
	direct  bool
	write   bool
}

func (s *sharedState) survey(ctx context.Context, m iotax.Machine) (task.Survey, error) {
	if known, ok := s.surveys.Load(support.Identity(m)); ok {
		return known.(task.Survey), nil
	}
	found, err := support.Survey(ctx, m)
	if err == nil && found.Fio != "" { // do not cache a survey of a machine without fio, because fio may be installed later
		s.surveys.Store(support.Identity(m), found)
	}
	return found, err
}

// probeTime limits a probe. An engine that hangs, as on a FUSE file system whose server is stuck, counts as not
// working.
const probeTime = 20 * time.Second

// probe returns an error if one small I/O through the engine fails at the place. It caches results for the run. Except
// for NBD exports, it also caches a success on this host across runs, because a probe takes 0.3 s, mostly for fio's
// clock calibration.
func (s *sharedState) probe(ctx context.Context, env support.Env, t *iotax.Target, st *fioState, engine string) error {
	if diskless(engine) {
		return nil
	}
	write := !t.Place.ReadOnly && t.Place.Kind == iotax.PlaceDir
	key := probeKey{support.Identity(t.Machine), t.Place.Path, strings.Join(st.tool.Argv, " "), engine, st.job.anyDirect(), write}
	if known, ok := s.probes.Load(key); ok {
		err, _ := known.(error)
		return err
	}
	mark := ""
	if !support.IsNBD(t.Place) && env.CacheDir != "" && iotax.IsLocal(t.Machine) && st.survey.Key != "" {
		parts := []string{st.survey.Key, st.tool.Version, strings.Join(st.tool.Argv, " "), path.Dir(t.Place.Path), engine, fmt.Sprint(key.direct, write), string(t.Place.Kind)}
		for _, k := range slices.Sorted(maps.Keys(t.Place.Facts)) {
			parts = append(parts, k+"="+t.Place.Facts[k])
		}
		mark = filepath.Join(env.CacheDir, "engines", fmt.Sprintf("%x", sha256.Sum256([]byte(strings.Join(parts, "\x00"))))[:32])
		if _, err := os.Stat(mark); err == nil {
			return nil
		}
	}
	inner, cancel := context.WithTimeoutCause(ctx, probeTime, fmt.Errorf("no answer within %s", probeTime))
	defer cancel()
	err := probeEngine(inner, t, st, engine, write)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if inner.Err() != nil && err != nil {
		err = context.Cause(inner)
	}
	s.probes.Store(key, err)
	if mark != "" && err == nil {
		if os.MkdirAll(filepath.Dir(mark), 0o700) == nil {
			_ = os.WriteFile(mark, []byte(engine+"\n"), 0o600) // if this fails, the next run probes again
		}
	}
	return err
}

// accept calls `parse` to check whether a target's fio accepts the job's options. It caches a success for all targets
// and runs with the same version of fio, platform, engine and options, because the check is slow: fio calibrates its
// clock before it parses options.
func (s *sharedState) accept(env support.Env, st *fioState, parse func() error) error {
	parts := []string{st.tool.Version, st.survey.OS, st.survey.Arch, st.engine}
	for _, r := range st.job.all() {
		parts = append(parts, r.name)
		for _, o := range r.settings {
			parts = append(parts, o.String())
		}
	}
	key := fmt.Sprintf("%x", sha256.Sum256([]byte(strings.Join(parts, "\x00"))))[:32]
	if _, known := s.accepted.Load(key); known {
		return nil
	}
	mark := ""
	if env.CacheDir != "" {
		mark = filepath.Join(env.CacheDir, "options", key)
	}
	_, missing := os.Stat(mark)
	if mark == "" || missing != nil {
		if err := parse(); err != nil {
			return err
		}
	}
	s.accepted.Store(key, true)
	if mark != "" && missing != nil && os.MkdirAll(filepath.Dir(mark), 0o700) == nil {
		_ = os.WriteFile(mark, nil, 0o600) // if this fails, the next run starts fio again
	}
	return nil
}

func probeEngine(ctx context.Context, t *iotax.Target, st *fioState, engine string, write bool) (err error) {
	const size = "65536"
	args := slices.Clone(st.tool.Argv)
	file := ""
	if !write {
		args = append(args, "--readonly")
	}
	args = append(args, "--name=probe", "--ioengine="+engine, "--bs=4096", "--io_size=4096", "--size="+size, "--eta=never", "--minimal")
	if st.job.anyDirect() {
		args = append(args, "--direct=1")
	}
	switch {
	case write:
		file = "iotax-probe." + engine + ".dat"
		args = append(args, "--rw=write", "--filename="+file)
	case support.IsNBD(t.Place):
		args = append(args, "--rw=read", "--uri="+t.Place.Path)
	case t.Place.Kind == iotax.PlaceDevice:
		args = append(args, "--rw=read", "--filename="+t.Place.Path)
	default:
		args = append(args, "--rw=read", "--allow_file_create=0", "--filename="+slices.Min(slices.Collect(maps.Keys(st.job.sizes()))))
	}
	if file != "" {
		defer func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), probeTime)
			defer cancel()
			err = cmp.Or(err, support.RemoveFiles(ctx, t, []string{file}))
		}()
	}
	stderr := task.Head{Limit: support.MessageLimit}
	err = t.Machine.Run(ctx, &iotax.Cmd{Args: args, Dir: support.WorkDir(t), Stderr: &stderr})
	if err == nil {
		return nil
	}
	if msg := fioMessage(stderr.String()); msg != "" && ctx.Err() == nil {
		return errors.New(msg)
	}
	return err
}
