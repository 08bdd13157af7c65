package workload

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"time"

	"iotax"
	"iotax/internal/generate"
	"iotax/internal/metric"
	"iotax/internal/plan"
	"iotax/internal/rules"
	"iotax/internal/workload/support"
	"iotax/internal/workload/task"
)

// Metadata is the spec of `metadata:`. It does the operations of generate.Operations, one kind after the other, on a tree of files.
type Metadata struct {
	Files       int           `yaml:"files" doc:"number of files"`
	Directories int           `yaml:"directories" doc:"number of directories that hold them"`
	Depth       int           `yaml:"depth" doc:"levels of directories: 1 is a flat tree"`
	Workers     int           `yaml:"workers" doc:"threads, each with directories of its own"`
	Size        plan.Size     `yaml:"size" doc:"size of each file"`
	Symlinks    bool          `yaml:"symlinks" doc:"make symbolic links too; false for a file system that has none"`
	Timeout     plan.Duration `yaml:"timeout" doc:"time limit of one trial"`
}

func newMetadata() plan.Spec {
	return &Metadata{Files: 500, Directories: 10, Depth: 1, Workers: 1, Size: 4096, Symlinks: true, Timeout: plan.Duration(10 * time.Minute)}
}

func (s *Metadata) Traits() plan.Traits {
	return plan.Traits{Scale: s.Scale, Metrics: s.metrics}
}

// Scale makes the tree smaller or larger; a file stays as it is.
func (s *Metadata) Scale(by float64) {
	s.Files = max(1, int(float64(s.Files)*by))
	s.Directories = max(1, int(float64(s.Directories)*by))
}

func (s *Metadata) metrics() []metric.Metric {
	all := metric.Of(iotax.Seconds, iotax.Down, iotax.ValueDuration, "time of all operations")
	all = append(all, metric.Of(iotax.PerSecond, iotax.Up, "operations.rate", "operations of all kinds per second")...)
	for _, o := range generate.Operations {
		if o[0] != "symlink" || s.Symlinks {
			all = append(append(all, metric.Of(iotax.PerSecond, iotax.Up, o[0]+".rate", "operations per second: "+o[1])...), metric.Latency(o[0]+".latency", "time to "+o[1])...)
		}
	}
	return all
}

// Validate finds what is out of range.
func (s *Metadata) Validate() error {
	return errors.Join(within("files", s.Files, 1, 1e6), within("directories", s.Directories, 1, 1e5), within("depth", s.Depth, 1, 16),
		within("workers", s.Workers, 1, 256), within("size", int64(s.Size), 16, 1<<20), within("timeout", s.Timeout, plan.Duration(time.Second), plan.Duration(24*time.Hour)))
}

func within[T int | int64 | plan.Duration](field string, v, least, most T) error {
	if v < least || v > most {
		return &plan.FieldError{Field: field, Msg: fmt.Sprintf("%v is not from %v to %v", v, least, most)}
	}
	return nil
}

func openMetadata(w plan.Workload, s *Metadata, env support.Env) (iotax.Workload, error) {
	tree := func(t *iotax.Target, out *iotax.Trial) generate.Tree {
		return generate.Tree{Dir: generatedDir(t), Files: s.Files, Directories: s.Directories, Depth: s.Depth, Workers: s.Workers, Size: int(s.Size),
			Symlinks: s.Symlinks, Seed: out.Seed, Cold: out.Cold}
	}
	return &generated{
		name: w.Name, env: env, metrics: []string{iotax.ValueDuration}, limit: time.Duration(s.Timeout),
		// A file, its link and its successor have a block and an inode each.
		space: int64(s.Files)*(3*4096+int64(s.Size)) + 3*4096*int64(s.Directories*s.Depth),
		try: func(ctx context.Context, t *iotax.Target) (hint string, err error) {
			if s.Symlinks {
				_, err = generate.TryLink.On(ctx, t.Machine, t.Place.Path)
			}
			if err != nil {
				err = fmt.Errorf("no symbolic link can be made there: %w", iotax.Cause(err))
			}
			return "symlinks: false leaves them out", err
		},
		stage: func(ctx context.Context, t *iotax.Target, out *iotax.Trial) error {
			_, err := generate.MakeTree.On(ctx, t.Machine, tree(t, out))
			return err
		},
		run: func(ctx context.Context, t *iotax.Target, out *iotax.Trial) (*generate.Result, error) {
			return generate.Metadata.Alone(ctx, t.Machine, tree(t, out))
		},
	}, s.Validate()
}

// Etcd is the spec of `etcd:`.
type Etcd struct {
	Entry plan.Size `yaml:"entry" doc:"size of an entry of the write-ahead log"`
	Keys  int       `yaml:"keys" doc:"number of keys in the page file"`
}

func newEtcd() plan.Spec { return &Etcd{Entry: 2300, Keys: 10000} }

func (s *Etcd) Traits() plan.Traits {
	return plan.Traits{Metrics: func() []metric.Metric {
		all := metric.Of(iotax.PerSecond, iotax.Up, iotax.ValueWriteIOPS, "requests per second, one after the other")
		all = append(all, metric.Latency("sync.latency", "time of a flush of the log (fdatasync)")...)
		all = append(all, metric.Latency("request.latency", "time of a request: append, flush, put into the page file")...)
		return append(all, metric.Latency("commit.latency", "time of a commit of the page file")...)
	}}
}

// Validate finds what is out of range.
func (s *Etcd) Validate() error {
	return errors.Join(within("entry", int64(s.Entry), 512, 1<<20), within("keys", s.Keys, 1, 1e6))
}

func openEtcd(w plan.Workload, s *Etcd, env support.Env) (iotax.Workload, error) {
	work := generate.Etcd{Entry: int(s.Entry), Keys: s.Keys}
	return &generated{
		name: w.Name, env: env, metrics: []string{"sync.latency.p99"}, space: work.Space(),
		try: func(ctx context.Context, t *iotax.Target) (hint string, err error) {
			_, err = generate.TryEtcd.On(ctx, t.Machine, generatedDir(t))
			if err != nil {
				err = fmt.Errorf("bbolt cannot open a page file there: %w", iotax.Cause(err))
			}
			return "etcd maps that file into memory, which not every share can; leave the target out with at:, or say keep_going", err
		},
		run: func(ctx context.Context, t *iotax.Target, out *iotax.Trial) (*generate.Result, error) {
			e := work
			e.Dir, e.Seed, e.Ramp, e.Length = generatedDir(t), out.Seed, out.Ramp, out.Length
			return generate.DoEtcd.Alone(ctx, t.Machine, e)
		},
	}, s.Validate()
}

// generated is a workload that package generate does, in a directory of its own at the place.
type generated struct {
	name    string
	env     support.Env
	metrics []string
	limit   time.Duration
	space   int64
	try     func(context.Context, *iotax.Target) (hint string, err error) // whether the place can do it
	stage   func(context.Context, *iotax.Target, *iotax.Trial) error
	run     func(context.Context, *iotax.Target, *iotax.Trial) (*generate.Result, error)
}

const generatedName = "iotax-work"

func generatedDir(t *iotax.Target) string { return path.Join(t.Place.Path, generatedName) }

func (g *generated) Metrics() []string { return g.metrics }

func (g *generated) Caps() iotax.WorkloadCaps {
	return iotax.WorkloadCaps{Space: func() int64 { return g.space }, Limit: g.limit, Stage: g.Stage, Unstage: g.Unstage}
}

func (g *generated) Check(ctx context.Context, t *iotax.Target) error {
	on := func(err error, hint string) error {
		return &iotax.Error{Op: "check " + g.name + " on", On: t.Name, Err: err, Hint: hint}
	}
	if t.Place.Kind != iotax.PlaceDir {
		return on(fmt.Errorf("it needs a directory, and the place is a %s", t.Place.Kind), "a target with a directory")
	}
	found, err := task.CheckPlace.On(ctx, t.Machine, task.Check{Files: task.Files{Dir: t.Place.Path}, Write: true})
	switch {
	case err != nil:
		return on(err, "")
	case found.Problem != "" || t.Place.ReadOnly:
		return on(fmt.Errorf("%s cannot be written (%s)", t.Place.Path, cmp.Or(found.Problem, "read-only")), "a directory that this user can write")
	}
	if err := support.Fits(ctx, g.env, t, g.space); err != nil {
		return on(err, "a smaller workload, or a place with more space")
	}
	if hint, err := g.try(ctx, t); err != nil {
		return on(err, hint)
	}
	return nil
}

func (g *generated) Prepare(context.Context, *iotax.Target) error { return nil }

// Stage makes what the trial begins with.
func (g *generated) Stage(ctx context.Context, t *iotax.Target, out *iotax.Trial) error {
	err := support.Fits(ctx, g.env, t, g.space) // others may have written since Check
	if err == nil && g.stage != nil {
		if err = g.stage(ctx, t, out); err == nil {
			_, err = task.Sync.On(ctx, t.Machine, struct{}{})
		}
	}
	if err != nil {
		return support.Failed("make the files of "+g.name+" on", t.Name, err, "")
	}
	return nil
}

func (g *generated) Run(ctx context.Context, t *iotax.Target, out *iotax.Trial) error {
	r, err := g.run(ctx, t, out)
	if err != nil {
		return support.Failed("do "+g.name+" on", t.Name, err, "")
	}
	if out.Raw, err = json.Marshal(r); err != nil {
		return err
	}
	if out.Facts == nil {
		out.Facts = map[string]string{}
	}
	maps.Copy(out.Facts, r.Facts)
	out.Values, out.Histograms = append(out.Values, r.Values...), append(out.Histograms, r.Histograms...)
	if why := r.Facts[generate.FactNames]; why != "" {
		out.Findings = append(out.Findings, rules.CachesNotDropped.Found(iotax.AboutTrial(out), "names and attributes of files: %s", why))
	}
	return nil
}

// Unstage removes what the trial made.
func (g *generated) Unstage(ctx context.Context, t *iotax.Target, _ *iotax.Trial) error {
	return g.Cleanup(ctx, t)
}

func (g *generated) Cleanup(ctx context.Context, t *iotax.Target) error {
	if err := support.RemoveFiles(ctx, t, []string{generatedName}); err != nil {
		return support.Failed("remove the files of "+g.name+" on", t.Name, err, "")
	}
	return nil
}
