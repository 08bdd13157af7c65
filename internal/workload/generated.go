package workload

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"sync"
	"time"

	"iotax"
	"iotax/internal/agent"
	"iotax/internal/generate"
	"iotax/internal/metric"
	"iotax/internal/plan"
	"iotax/internal/rules"
	"iotax/internal/workload/support"
	"iotax/internal/workload/task"
)

// Metadata is the spec of `metadata:`. The workload runs the operations of generate.Operations, one kind after the
// other, on a tree of files.
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

// Scale multiplies the numbers of files and directories by a factor. The size of a file stays the same.
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

// Validate checks the range of every field.
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
	few := func(t *generate.Tree) { t.Files, t.Directories = 1, 1 }
	return rehearsed(&generated{
		name: w.Name, env: env, metrics: []string{iotax.ValueDuration}, limit: time.Duration(s.Timeout),
		// A file, its symbolic link and its replacement each need a block and an inode.
		space: int64(s.Files)*(3*4096+int64(s.Size)) + 3*4096*int64(s.Directories*s.Depth),
		try:   tryLink(s.Symlinks),
	}, tree, few, generate.MakeTree, generate.Metadata), s.Validate()
}

// tryLink returns a check that fails if the plan needs symbolic links and the place does not support them.
func tryLink(wished bool) func(context.Context, *iotax.Target) (hint string, err error) {
	return func(ctx context.Context, t *iotax.Target) (hint string, err error) {
		if wished {
			_, err = generate.TryLink.On(ctx, t.Machine, t.Place.Path)
		}
		if err != nil {
			err = fmt.Errorf("no symbolic link can be made there: %w", iotax.Cause(err))
		}
		return "symlinks: false leaves them out", err
	}
}

// Modules is the spec of `node_modules:`. The workload finds, removes and unpacks the files of packages
// (generate.ModuleSteps).
type Modules struct {
	Files    int           `yaml:"files" doc:"number of files; a package has 30"`
	Workers  int           `yaml:"workers" doc:"threads, each with packages of its own"`
	Symlinks bool          `yaml:"symlinks" doc:"link each package in .bin; false for a file system that has no symbolic links"`
	Timeout  plan.Duration `yaml:"timeout" doc:"time limit of one trial"`
}

func newModules() plan.Spec {
	return &Modules{Files: 3000, Workers: 4, Symlinks: true, Timeout: plan.Duration(10 * time.Minute)}
}

func (s *Modules) Traits() plan.Traits {
	return plan.Traits{Scale: s.Scale, Metrics: s.metrics}
}

// Scale multiplies the number of files, and therefore of packages, by a factor.
func (s *Modules) Scale(by float64) { s.Files = max(1, int(float64(s.Files)*by)) }

func (s *Modules) metrics() []metric.Metric {
	all := metric.Of(iotax.Seconds, iotax.Down, iotax.ValueDuration, "time of all steps")
	for _, step := range generate.ModuleSteps {
		all = append(all, metric.Of(iotax.Seconds, iotax.Down, step[0]+".duration", "time to "+step[1])...)
		all = append(all, metric.Latency(step[0]+".latency", "time of one package: "+step[1])...)
	}
	return all
}

// Validate checks the range of every field.
func (s *Modules) Validate() error {
	return errors.Join(within("files", s.Files, 1, 1e6), within("workers", s.Workers, 1, 256), within("timeout", s.Timeout, plan.Duration(time.Second), plan.Duration(24*time.Hour)))
}

func openModules(w plan.Workload, s *Modules, env support.Env) (iotax.Workload, error) {
	if err := s.Validate(); err != nil { // before work.Space, which lists all files, so Validate must limit their number
		return nil, err
	}
	work := generate.Modules{Files: s.Files, Workers: s.Workers, Symlinks: s.Symlinks}
	in := func(t *iotax.Target, out *iotax.Trial) generate.Modules {
		m := work
		m.Dir, m.Seed, m.Cold = generatedDir(t), out.Seed, out.Cold
		return m
	}
	few := func(m *generate.Modules) { m.Files = 1 }
	return rehearsed(&generated{
		name: w.Name, env: env, metrics: []string{"install.duration"}, limit: time.Duration(s.Timeout), space: work.Space(), try: tryLink(s.Symlinks),
	}, in, few, generate.MakeModules, generate.DoModules), nil
}

// Git is the spec of `git:`. The workload runs common git commands in a repository (generate.GitSteps), or does their
// I/O without git.
type Git struct {
	Files   int           `yaml:"files" doc:"number of tracked files, 25 in a directory"`
	Program bool          `yaml:"program" doc:"run the installed git, of one version on all targets; false does its I/O without it"`
	Timeout plan.Duration `yaml:"timeout" doc:"time limit of one trial"`
}

func newGit() plan.Spec {
	return &Git{Files: 2000, Timeout: plan.Duration(10 * time.Minute)}
}

func (s *Git) Traits() plan.Traits {
	return plan.Traits{Scale: s.Scale, Metrics: func() []metric.Metric {
		all := metric.Of(iotax.Seconds, iotax.Down, iotax.ValueDuration, "time of all steps")
		for _, step := range generate.GitSteps {
			all = append(all, metric.Of(iotax.Seconds, iotax.Down, step[0]+".duration", "time to "+step[1])...)
		}
		return all
	}}
}

// Scale multiplies the number of files by a factor.
func (s *Git) Scale(by float64) { s.Files = max(1, int(float64(s.Files)*by)) }

// Validate checks the range of every field.
func (s *Git) Validate() error {
	return errors.Join(within("files", s.Files, 1, 1e5), within("timeout", s.Timeout, plan.Duration(time.Second), plan.Duration(24*time.Hour)))
}

func openGit(w plan.Workload, s *Git, env support.Env) (iotax.Workload, error) {
	in := func(t *iotax.Target, out *iotax.Trial) generate.Repository {
		return generate.Repository{Dir: generatedDir(t), Files: s.Files, Seed: out.Seed, Cold: out.Cold}
	}
	g := &generated{name: w.Name, env: env, metrics: []string{"status.duration"}, limit: time.Duration(s.Timeout), space: generate.Repository{Files: s.Files}.Space()}
	few := func(r *generate.Repository) { r.Files = 1 }
	if !s.Program {
		return rehearsed(g, in, few, generate.MakeRepository, generate.DoGit), s.Validate()
	}
	g.space *= 2 // git keeps replaced objects until its next gc
	g.try = sameVersion("git", generate.GitVersion, "program: false does git's I/O without git")
	return rehearsed(g, in, few, generate.MakeRealRepository, generate.DoRealGit), s.Validate()
}

// sameVersion returns a check that fails if a program is missing on a target, or if its version differs from that on
// the first target.
func sameVersion(program string, version agent.Func[struct{}, string], hint string) func(context.Context, *iotax.Target) (string, error) {
	var mu sync.Mutex
	var first, on string
	return func(ctx context.Context, t *iotax.Target) (string, error) {
		v, err := version.On(ctx, t.Machine, struct{}{})
		if err != nil {
			return "install " + program + " there; " + hint, fmt.Errorf("%s does not run there: %w", program, iotax.Cause(err))
		}
		mu.Lock()
		defer mu.Unlock()
		if first == "" {
			first, on = v, t.Name
		}
		if v != first {
			return "one version on all targets; " + hint, fmt.Errorf("it has %s, and %s has %s", v, on, first)
		}
		return "", nil
	}
}

// Build is the spec of `build:`. The workload does the I/O of make, a compiler and ar.
type Build struct {
	Sources  int           `yaml:"sources" doc:"number of source files"`
	Headers  int           `yaml:"headers" doc:"number of headers, in three directories"`
	Includes int           `yaml:"includes" doc:"headers that each source includes"`
	Jobs     int           `yaml:"jobs" doc:"sources that are compiled at the same time"`
	Compile  plan.Duration `yaml:"compile" doc:"CPU time that stands for the compiler, for each source"`
	Timeout  plan.Duration `yaml:"timeout" doc:"time limit of one trial"`
}

func newBuild() plan.Spec {
	return &Build{Sources: 200, Headers: 400, Includes: 25, Jobs: 2, Compile: plan.Duration(10 * time.Millisecond), Timeout: plan.Duration(10 * time.Minute)}
}

func (s *Build) Traits() plan.Traits {
	return plan.Traits{Scale: s.Scale, Metrics: func() []metric.Metric {
		all := metric.Of(iotax.Seconds, iotax.Down, iotax.ValueDuration, "time of the build", "nothing.duration", "time to find that nothing is left to build")
		all = append(all, metric.Latency("compile.latency", "time to compile one source")...)
		return append(all, metric.Of(iotax.RatioUnit, iotax.Neither, "compute.share", "share of the build's time that the CPU time of compiling takes")...)
	}}
}

// Scale multiplies the number of sources by a factor. The size of a source stays the same.
func (s *Build) Scale(by float64) { s.Sources = max(1, int(float64(s.Sources)*by)) }

// Validate checks the range of every field.
func (s *Build) Validate() error {
	return errors.Join(within("sources", s.Sources, 1, 1e5), within("headers", s.Headers, 1, 1e5), within("includes", s.Includes, 0, 1e4), within("jobs", s.Jobs, 1, 256),
		within("compile", s.Compile, 0, plan.Duration(time.Minute)), within("timeout", s.Timeout, plan.Duration(time.Second), plan.Duration(24*time.Hour)))
}

func openBuild(w plan.Workload, s *Build, env support.Env) (iotax.Workload, error) {
	in := func(t *iotax.Target, out *iotax.Trial) generate.Build {
		return generate.Build{Dir: generatedDir(t), Sources: s.Sources, Headers: s.Headers, Includes: s.Includes, Jobs: s.Jobs, Compile: time.Duration(s.Compile), Seed: out.Seed, Cold: out.Cold}
	}
	few := func(b *generate.Build) { b.Sources, b.Headers = 1, 1 }
	return rehearsed(&generated{
		name: w.Name, env: env, metrics: []string{iotax.ValueDuration}, limit: time.Duration(s.Timeout), space: generate.Build{Sources: s.Sources, Headers: s.Headers}.Space(),
	}, in, few, generate.MakeSources, generate.DoBuild), s.Validate()
}

// Dataload is the spec of `dataload:`. The workload does the I/O of one epoch of training: it reads records in random
// order, writes a checkpoint, and reads it back.
type Dataload struct {
	Data       plan.Size     `yaml:"data" doc:"size of all records"`
	Shards     int           `yaml:"shards" doc:"number of files that hold them"`
	Record     plan.Size     `yaml:"record" doc:"size of a record"`
	Workers    int           `yaml:"workers" doc:"threads that read ahead"`
	Batch      int           `yaml:"batch" doc:"records of a step"`
	Step       plan.Duration `yaml:"step" doc:"time of a step once its records are there"`
	Checkpoint plan.Size     `yaml:"checkpoint" doc:"size of what is saved in the end"`
	Timeout    plan.Duration `yaml:"timeout" doc:"time limit of one trial"`
}

func newDataload() plan.Spec {
	return &Dataload{Data: 256 << 20, Shards: 8, Record: 128 << 10, Workers: 4, Batch: 16, Step: plan.Duration(10 * time.Millisecond), Checkpoint: 32 << 20, Timeout: plan.Duration(10 * time.Minute)}
}

func (s *Dataload) Traits() plan.Traits {
	return plan.Traits{Scale: s.Scale, Cold: true, Metrics: func() []metric.Metric {
		all := metric.Of(iotax.Seconds, iotax.Down, iotax.ValueDuration, "time of the epoch", "checkpoint.write.duration", "time to write a checkpoint and flush it",
			"checkpoint.read.duration", "time to read it back, from the cache if there is one")
		all = append(all, metric.Of(iotax.RatioUnit, iotax.Down, "waited.share", "share of the steps that waited for records for more than 1 ms")...)
		all = append(all, metric.Of(iotax.PerSecond, iotax.Up, "records.rate", "records per second")...)
		all = append(all, metric.Latency("step.latency", "time of a step: waiting and computing")...)
		return append(all, metric.Latency("record.latency", "time to read one record")...)
	}}
}

// Scale multiplies the number of records and the size of the checkpoint by a factor.
func (s *Dataload) Scale(by float64) {
	s.Data = max(plan.Size(s.Shards)*s.Record, plan.Size(float64(s.Data)*by))
	s.Checkpoint = max(1<<20, plan.Size(float64(s.Checkpoint)*by))
}

// Validate checks the range of every field.
func (s *Dataload) Validate() error {
	err := errors.Join(within("shards", s.Shards, 1, 1e5), within("record", int64(s.Record), 16, 64<<20), within("workers", s.Workers, 1, 256), within("batch", s.Batch, 1, 1e4),
		within("step", s.Step, 0, plan.Duration(time.Minute)), within("checkpoint", int64(s.Checkpoint), 1<<20, 1<<40),
		within("timeout", s.Timeout, plan.Duration(time.Second), plan.Duration(24*time.Hour)))
	if err == nil {
		err = errors.Join(within("data", int64(s.Data), int64(s.Shards)*int64(s.Record), min(1<<44, mostRecords*int64(s.Record))), held("workers", s.Workers, 2*s.Record))
	}
	return err
}

// Limits for a generator on the target's machine: the number of records, and the memory in bytes.
const (
	mostRecords = 1e7
	mostHeld    = 256 << 20
)

// held returns an error if `threads` threads with `each` bytes of memory need more than mostHeld in total.
func held(field string, threads int, each plan.Size) error {
	if int64(threads)*int64(each) > mostHeld {
		return &plan.FieldError{Field: field, Msg: fmt.Sprintf("%d threads with %v each hold more than %v in memory", threads, each, plan.Size(mostHeld))}
	}
	return nil
}

func openDataload(w plan.Workload, s *Dataload, env support.Env) (iotax.Workload, error) {
	if err := s.Validate(); err != nil { // before the divisions, because a divisor may be 0
		return nil, err
	}
	in := func(t *iotax.Target, out *iotax.Trial) generate.Dataload {
		return generate.Dataload{Dir: generatedDir(t), Shards: s.Shards, Records: int(int64(s.Data) / int64(s.Shards) / int64(s.Record)), Size: int(s.Record), Workers: s.Workers, Batch: s.Batch,
			Step: time.Duration(s.Step), Checkpoint: int(s.Checkpoint), Seed: out.Seed}
	}
	return staged(&generated{
		name: w.Name, env: env, metrics: []string{iotax.ValueDuration}, limit: time.Duration(s.Timeout),
		space: generate.Dataload{Shards: s.Shards, Records: int(int64(s.Data) / int64(s.Shards) / int64(s.Record)), Size: int(s.Record), Checkpoint: int(s.Checkpoint)}.Space(),
	}, in, generate.MakeShards, generate.DoDataload), nil
}

// WAL is the spec of `wal:`. The workload does the I/O of a database with group commit, such as PostgreSQL.
type WAL struct {
	Committers int           `yaml:"committers" doc:"threads that commit, each one transaction after the other"`
	Record     plan.Size     `yaml:"record" doc:"what a transaction adds to the log"`
	Data       plan.Size     `yaml:"data" doc:"size of the data file, whose pages transactions change"`
	Compute    plan.Duration `yaml:"compute" doc:"CPU time of a transaction before it commits: what a database needs to find and change a row"`
	Method     string        `yaml:"method" doc:"how the log is made durable: fdatasync, fsync or open_datasync"`
	Checkpoint plan.Duration `yaml:"checkpoint" doc:"time from one checkpoint to the next"`
}

func newWAL() plan.Spec {
	return &WAL{Committers: 8, Record: 640, Data: 22 << 20, Compute: plan.Duration(300 * time.Microsecond), Method: generate.Methods[0], Checkpoint: plan.Duration(5 * time.Second)}
}

func (s *WAL) Traits() plan.Traits {
	return plan.Traits{Metrics: func() []metric.Metric {
		all := metric.Of(iotax.PerSecond, iotax.Up, "transactions.rate", "transactions per second, of all committers")
		all = append(all, metric.Of(iotax.RatioUnit, iotax.Neither, "transactions.per-sync", "transactions that one flush of the log made durable")...)
		all = append(all, metric.Of(iotax.PerSecond, iotax.Up, iotax.ValueWriteIOPS, "writes of the log per second, each with its flush")...)
		all = append(all, metric.Latency("commit.latency", "time of a transaction until it is durable")...)
		all = append(all, metric.Latency("sync.latency", "time of a write of the log with its flush")...)
		return append(all, metric.Latency("checkpoint.latency", "time of a checkpoint")...)
	}}
}

// Validate checks every field.
func (s *WAL) Validate() error {
	return errors.Join(within("committers", s.Committers, 1, 1024), within("record", int64(s.Record), 64, 1<<20), within("data", int64(s.Data), 1<<20, 8<<30),
		within("compute", s.Compute, 0, plan.Duration(time.Second)), held("committers", s.Committers, s.Record),
		within("checkpoint", s.Checkpoint, plan.Duration(100*time.Millisecond), plan.Duration(time.Hour)), oneOf("method", s.Method, generate.Methods))
}

func openWAL(w plan.Workload, s *WAL, env support.Env) (iotax.Workload, error) {
	work := generate.WAL{Committers: s.Committers, Record: int(s.Record), Pages: int(s.Data / 8192), Compute: time.Duration(s.Compute), Method: s.Method, Checkpoint: time.Duration(s.Checkpoint)}
	in := func(t *iotax.Target, out *iotax.Trial) generate.WAL {
		l := work
		l.Dir, l.Seed, l.Ramp, l.Length = generatedDir(t), out.Seed, out.Ramp, out.Length
		return l
	}
	return staged(&generated{
		name: w.Name, env: env, metrics: []string{"transactions.rate"}, space: work.Space(),
		try: func(ctx context.Context, t *iotax.Target) (hint string, err error) {
			_, err = generate.TryWAL.On(ctx, t.Machine, in(t, &iotax.Trial{}))
			if err != nil {
				err = fmt.Errorf("%s is not available there: %w", s.Method, iotax.Cause(err))
			}
			return "another method, or leave the target out with at:", err
		},
	}, in, generate.MakeWAL, generate.DoWAL), s.Validate()
}

// Etcd is the spec of `etcd:`. The workload does the I/O of one member of etcd.
type Etcd struct {
	Entry plan.Size `yaml:"entry" doc:"size of an entry of the write-ahead log"`
	Keys  int       `yaml:"keys" doc:"number of keys in the page file"`
}

func newEtcd() plan.Spec { return &Etcd{Entry: 2300, Keys: 5000} }

func (s *Etcd) Traits() plan.Traits {
	return plan.Traits{Metrics: func() []metric.Metric {
		all := metric.Of(iotax.PerSecond, iotax.Up, iotax.ValueWriteIOPS, "requests per second, one after the other")
		all = append(all, metric.Latency("sync.latency", "time of a flush of the log (fdatasync)")...)
		all = append(all, metric.Latency("request.latency", "time of a request: append, flush, put into the page file")...)
		return append(all, metric.Latency("commit.latency", "time of a commit of the page file")...)
	}}
}

// Validate checks the range of every field.
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
				err = fmt.Errorf("etcd's log or its page file cannot be made there: %w", iotax.Cause(err))
			}
			return "etcd maps the page file into memory, which not every share can; leave the target out with at:, or set keep_going", err
		},
		run: func(ctx context.Context, t *iotax.Target, out *iotax.Trial) (*generate.Result, error) {
			e := work
			e.Dir, e.Seed, e.Ramp, e.Length = generatedDir(t), out.Seed, out.Ramp, out.Length
			return generate.DoEtcd.Alone(ctx, t.Machine, e)
		},
	}, s.Validate()
}

// generated is a workload that package generate runs, in its own directory at the place.
type generated struct {
	name    string
	env     support.Env
	metrics []string
	limit   time.Duration
	space   int64
	try     func(context.Context, *iotax.Target) (hint string, err error) // returns an error if the workload cannot run on the target; may be nil
	stage   func(context.Context, *iotax.Target, *iotax.Trial) error
	run     func(context.Context, *iotax.Target, *iotax.Trial) (*generate.Result, error)
}

// staged sets g's agent calls: one that creates the files of a trial, and one that runs the trial. It returns g.
func staged[T any](g *generated, in func(*iotax.Target, *iotax.Trial) T, files agent.Func[T, struct{}], do agent.Func[T, *generate.Result]) *generated {
	g.stage = func(ctx context.Context, t *iotax.Target, out *iotax.Trial) error {
		_, err := files.On(ctx, t.Machine, in(t, out))
		return err
	}
	g.run = func(ctx context.Context, t *iotax.Target, out *iotax.Trial) (*generate.Result, error) {
		return do.Alone(ctx, t.Machine, in(t, out))
	}
	return g
}

// rehearsed is like staged, and Check also does the work once with few files. It refuses a place that lacks one of the
// operations, such as a file system without chmod.
func rehearsed[T any](g *generated, in func(*iotax.Target, *iotax.Trial) T, few func(*T), files agent.Func[T, struct{}], do agent.Func[T, *generate.Result]) *generated {
	try := g.try
	g.try = func(ctx context.Context, t *iotax.Target) (hint string, err error) {
		if try != nil {
			if hint, err = try(ctx, t); err != nil {
				return hint, err
			}
		}
		work := in(t, &iotax.Trial{})
		few(&work)
		if _, err = files.On(ctx, t.Machine, work); err == nil {
			_, err = do.On(ctx, t.Machine, work)
		}
		return "leave the target out with at:, or set keep_going", errors.Join(err, g.Cleanup(ctx, t))
	}
	return staged(g, in, files, do)
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
	if g.try == nil {
		return nil
	}
	if hint, err := g.try(ctx, t); err != nil {
		return on(err, hint)
	}
	return nil
}

func (g *generated) Prepare(context.Context, *iotax.Target) error { return nil }

// Stage creates the files that the trial starts with.
func (g *generated) Stage(ctx context.Context, t *iotax.Target, out *iotax.Trial) error {
	err := support.Fits(ctx, g.env, t, g.space) // other processes may have written since Check
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

// Unstage removes the files of the trial.
func (g *generated) Unstage(ctx context.Context, t *iotax.Target, _ *iotax.Trial) error {
	return g.Cleanup(ctx, t)
}

func (g *generated) Cleanup(ctx context.Context, t *iotax.Target) error {
	if err := support.RemoveFiles(ctx, t, []string{generatedName}); err != nil {
		return support.Failed("remove the files of "+g.name+" on", t.Name, err, "")
	}
	return nil
}
