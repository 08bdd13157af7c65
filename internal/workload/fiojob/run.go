package fiojob

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"iotax"
	"iotax/fio"
	"iotax/internal/agent"
	"iotax/internal/leftover"
	"iotax/internal/plan"
	"iotax/internal/rules"
	"iotax/internal/workload/support"
	"iotax/internal/workload/task"
)

// fioJob is a fio workload on any number of targets.
type fioJob struct {
	name       string
	env        support.Env
	shared     *sharedState
	spec       *Fio
	settings   []fio.Setting      // of the job, without the options that iotax sets
	sharedFile bool               // all processes of the job use one file
	overridden []fio.Setting      // options of the job file that iotax sets itself
	share      float64            // load of an open loop as a share of the slowest target's capacity; Pilot computes rate from it
	capacities map[string]float64 // rate of a closed loop by target name, 1/s; determines the range of a search
	rate       float64            // offered load of an open loop, 1/s; 0 means a closed loop
	file       string             // filename in the job file, or ""
	beside     []part             // jobs that run at the same time

	states   map[*iotax.Target]*fioState
	prepared map[*iotax.Target]int   // number of Prepare calls, minus Cleanup calls
	unready  map[*iotax.Target]error // error of Prepare, or nil
}

// fioState holds the facts about the job on one target.
type fioState struct {
	survey  task.Survey
	tool    support.Tool
	binary  agent.Binary // identity of fio; unset if iotax copied fio there
	job     *resolved
	engine  string
	engines map[string]error // probe results; nil means that the engine works
	held    []string         // files that this workload uses; see support.HeldFiles
	needs   []need           // space for the missing test files
	claimed bool             // the needs have been claimed
	blocked bool             // a trial failed because a report of fio waited for an I/O
	err     error            // reason why the target cannot run the job; Check returns it
}

// state examines the target for the job and caches the result.
func (j *fioJob) state(ctx context.Context, t *iotax.Target) (*fioState, error) {
	if st := j.states[t]; st != nil {
		return st, st.err
	}
	st := &fioState{engines: map[string]error{}}
	st.err = func() (err error) {
		if err := j.suits(t); err != nil {
			return err
		}
		if st.survey, err = j.shared.survey(ctx, t.Machine); err != nil {
			return err
		}
		if st.job, err = j.resolve(st.survey.Vars); err != nil {
			return err
		}
		if t.Place.ReadOnly && t.Place.Kind == iotax.PlaceDevice && st.job.writes() {
			return &iotax.Error{Op: "check " + j.name + " on", On: t.Name, Err: errors.New("block devices are only read, and the job writes"),
				Hint: "rw: randread, or a directory on a file system of the device; if all that is on the device may be lost: iotax run --destroy " + iotax.Quote(cmp.Or(t.Device, t.Place.Path))}
		}
		if t.Place.ReadOnly && st.job.writes() && st.job.total() > 0 {
			return &iotax.Error{Op: "check " + j.name + " on", On: t.Name, Err: errors.New(t.Place.Path + " is read-only, and the job writes"),
				Hint: "rw: randread, or a target that can be written"}
		}
		// Check the place before the first run of fio, because fio creates missing directories.
		if t.Place.Kind == iotax.PlaceDir && st.job.total() > 0 {
			if err := j.checkPlace(ctx, t, st); err != nil {
				return err
			}
		}
		if st.tool, err = j.provide(ctx, t.Machine, st.survey, j.env.FillIn(j.spec.Binary, t, 0, support.AsItIs)); err != nil || st.tool.Pushed != "" {
			return err
		}
		st.binary, err = identify(ctx, t.Machine, st.tool.Argv[0])
		return err
	}()
	if err := ctx.Err(); err != nil && st.err != nil {
		return st, st.err // do not cache the result of a cancelled check
	}
	j.states[t] = st
	return st, st.err
}

// provide returns fio on m: `binary` if that is set, else the installed fio, or a fio that iotax installs or copies
// there.
func (j *fioJob) provide(ctx context.Context, m iotax.Machine, s task.Survey, binary string) (support.Tool, error) {
	if binary == "" {
		return support.Provide(ctx, m, s, j.spec.Install, j.env)
	}
	if j.spec.Install && binary == j.spec.Binary { // otherwise spec.Binary contains a label, and Install applies to targets for which the binary is ""
		return support.Tool{}, &iotax.Error{Op: "find fio on", On: m.String(), Err: errors.New("a job that names its binary: cannot install fio"), Hint: "leave binary or install out"}
	}
	found, err := identify(ctx, m, binary)
	if err != nil {
		return support.Tool{}, err
	}
	return support.Tool{Argv: []string{found.Path}, Version: found.Version}, nil
}

// identify returns the fio binary that a name or path on m refers to.
func identify(ctx context.Context, m iotax.Machine, name string) (b agent.Binary, err error) {
	err = support.Limited(ctx, support.GlanceTime, func(ctx context.Context) error {
		b, err = agent.IdentifyThere.On(ctx, m, name)
		return err
	})
	if err == nil && !strings.HasPrefix(b.Version, "fio-") {
		err = fmt.Errorf("its version is %q, which is not one of fio", b.Version)
	}
	if err != nil && ctx.Err() == nil {
		err = &iotax.Error{Op: "identify fio on " + m.String(), On: name, Err: err, Hint: "binary: must be a fio there that can be started"}
	}
	return b, err
}

// Look checks that m has the job's fio. If the plan names no binary and m has no fio, Look copies this host's fio
// there. It does not check a binary that depends on the target, and does not install fio.
func (j *fioJob) Look(ctx context.Context, m iotax.Machine) error {
	if strings.Contains(j.spec.Binary, "{") {
		return nil // each target has its own binary
	}
	if j.spec.Binary != "" {
		_, err := identify(ctx, m, j.spec.Binary)
		return err
	}
	s, err := j.shared.survey(ctx, m)
	if err != nil || s.Fio != "" || j.spec.Install {
		return err
	}
	_, err = support.Provide(ctx, m, s, false, j.env)
	return err
}

func (j *fioJob) suits(t *iotax.Target) error {
	if t.Place.Kind != iotax.PlaceDir && t.Place.Kind != iotax.PlaceDevice && !support.IsNBD(t.Place) {
		return &iotax.Error{Op: "check " + j.name + " on", On: t.Name, Err: fmt.Errorf("fio jobs run in a directory, on a block device or over NBD, not at the %s %s", t.Place.Kind, t.Place.Path)}
	}
	if err := checkExact(t.Place); err != nil {
		return &iotax.Error{Op: "check " + j.name + " on", On: t.Name, Err: err, Hint: "give the device or export another name"}
	}
	return nil
}

// candidates returns the engines of an operating system, best first.
func candidates(os string) []string {
	switch os {
	case "linux":
		return []string{"io_uring", "libaio", "posixaio", "psync"}
	case "windows":
		return []string{"windowsaio", "psync"}
	}
	return []string{"posixaio", "psync"}
}

// nbdEngine is fio's only engine for NBD exports.
const nbdEngine = "nbd"

func (st *fioState) candidates(t *iotax.Target) []string {
	if support.IsNBD(t.Place) {
		return []string{nbdEngine}
	}
	return candidates(st.survey.OS)
}

// waiting lists the engines that wait for each I/O, whatever the iodepth.
var waiting = []string{"sync", "psync", "vsync", "pvsync", "pvsync2", "mmap"}

// first returns the index of the first engine that works on t.
func (j *fioJob) first(ctx context.Context, t *iotax.Target, st *fioState) (int, error) {
	var errs []error
	for i, engine := range st.candidates(t) {
		err := j.probe(ctx, t, st, engine)
		if err == nil {
			return i, nil
		}
		if ctx.Err() != nil {
			return 0, err
		}
		errs = append(errs, fmt.Errorf("%s: %w", engine, err))
	}
	hint := "if the file system refuses direct I/O: direct: 0"
	if support.IsNBD(t.Place) {
		hint = "see that the export is there (nbdinfo " + iotax.Quote(t.Place.Path) + "), and that fio was built with libnbd (fio --enghelp)"
	}
	return 0, &iotax.Error{Op: "find an I/O engine for " + j.name + " on", On: t.Name, Err: errors.Join(errs...), Hint: hint}
}

// probe returns an error if fio cannot do a small I/O through the engine at the place.
func (j *fioJob) probe(ctx context.Context, t *iotax.Target, st *fioState, engine string) error {
	if err, known := st.engines[engine]; known {
		return err
	}
	err := j.shared.probe(ctx, j.env, t, st, engine)
	if ctx.Err() == nil {
		st.engines[engine] = err
	}
	return err
}

// Settle chooses one engine that works on every target, if possible, because targets with different engines run
// different workloads. It keeps an engine that the job names, except at NBD exports. It skips a target that cannot run
// the job.
func (j *fioJob) Settle(ctx context.Context, targets []*iotax.Target) ([]iotax.Finding, error) {
	type candidate struct {
		t     *iotax.Target
		st    *fioState
		index int
	}
	var open []candidate
	found := j.findings()
	versions := map[string][]string{}
	for _, t := range targets {
		st, err := j.state(ctx, t)
		if ctx.Err() != nil {
			return found, context.Cause(ctx)
		}
		if err != nil {
			continue
		}
		versions[st.tool.Version] = append(versions[st.tool.Version], t.Name)
		if support.IsNBD(t.Place) {
			st.engine = nbdEngine
			continue
		}
		if st.engine = st.job.asked(); st.engine != "" {
			continue
		}
		i, err := j.first(ctx, t, st)
		if ctx.Err() != nil {
			return found, context.Cause(ctx)
		}
		if err != nil {
			st.err = err
			continue
		}
		st.engine = candidates(st.survey.OS)[i]
		open = append(open, candidate{t, st, i})
	}
	if len(versions) > 1 {
		var parts []string
		for v, names := range versions {
			parts = append(parts, v+" on "+strings.Join(names, ", "))
		}
		slices.Sort(parts)
		found = append(found, rules.FioVersionDiffers.Found(iotax.AboutRun(), "%s", strings.Join(parts, "; ")))
	}
	if len(open) < 2 {
		return found, nil
	}
	worst := slices.MaxFunc(open, func(a, b candidate) int { return cmp.Compare(a.index, b.index) })
	best := slices.MinFunc(open, func(a, b candidate) int { return cmp.Compare(a.index, b.index) })
	if best.st.engine == worst.st.engine {
		return found, nil
	}
	why, hint := unavailable(best.st.engine, worst.t, worst.st.engines[best.st.engine])
	for _, engine := range candidates(worst.st.survey.OS)[worst.index:] {
		works := true
		for _, c := range open {
			if works = slices.Contains(candidates(c.st.survey.OS), engine) && j.probe(ctx, c.t, c.st, engine) == nil; !works {
				break
			}
		}
		if ctx.Err() != nil {
			return found, context.Cause(ctx)
		}
		if works {
			for _, c := range open {
				c.st.engine = engine
			}
			return append(found, rules.EngineCommon.Hinting(hint).Found(iotax.AboutWorkload(j.name), "%s: every target uses %s, because not all can do better (%s)", j.name, engine, why)), nil
		}
	}
	var parts []string
	for _, c := range open {
		parts = append(parts, c.st.engine+" on "+c.t.Name)
	}
	return append(found, rules.EngineDiffers.Found(iotax.AboutWorkload(j.name), "%s: %s (%s)", j.name, strings.Join(parts, ", "), why)), nil
}

// unavailable explains why an engine does not work at t, with a hint if one is known. A container's seccomp profile can
// make io_uring_setup(2) fail with ENOSYS or EPERM, and fio reports that the kernel lacks io_uring.
func unavailable(engine string, t *iotax.Target, err error) (why, hint string) {
	why = fmt.Sprintf("%s on %s: %v", engine, t.Name, err)
	profile := t.Facts["seccomp"]
	if engine != "io_uring" || profile == "" || profile == "unconfined" || err == nil {
		return why, ""
	}
	is, key := "is", "security: [seccomp=unconfined], or a profile that allows it"
	if t.Facts["engine"] == "kubernetes" {
		key = "seccomp: Unconfined; for a pod that exists, seccompProfile: {type: Unconfined} in its own spec"
		if profile == "the node's default" { // on many nodes, the default is no profile
			is = "may be"
		}
	}
	return fmt.Sprintf("%s on %s %s blocked by the container's seccomp profile (%s), which fio cannot distinguish from a kernel without it: %v", engine, t.Name, is, profile, err),
		"to measure io_uring there: " + key
}

// Check returns an error if t lacks fio, a working engine, a suitable place, or space, or if its fio does not accept
// the job's options. It claims the space for missing test files until Prepare or Cleanup.
func (j *fioJob) Check(ctx context.Context, t *iotax.Target) error {
	if len(t.Together) > 0 {
		return j.checkTogether(ctx, t)
	}
	if err := j.check(ctx, t); err != nil {
		return err
	}
	return claimAll([]party{{job: j, target: t}})
}

// check does the same as Check for a single target, but does not claim space.
func (j *fioJob) check(ctx context.Context, t *iotax.Target) error {
	st, err := j.state(ctx, t)
	if err != nil {
		return err
	}
	on := func(err error, hint string) error {
		return &iotax.Error{Op: "check " + j.name + " on", On: t.Name, Err: err, Hint: hint}
	}
	if st.engine == "" && !support.IsNBD(t.Place) {
		st.engine = st.job.asked()
	}
	if st.engine == "" || support.IsNBD(t.Place) { // always probe an export, to detect a server that does not answer
		i, err := j.first(ctx, t, st)
		if err != nil {
			return err
		}
		st.engine = st.candidates(t)[i]
	}
	var stderr task.Head
	err = j.shared.accept(j.env, st, func() error {
		// Insert --parse-only before the jobs, because fio sets up the first job when it reaches the second --name.
		args := slices.Insert(j.line(t, st, &iotax.Trial{Length: time.Second}).args(), len(st.tool.Argv), "--parse-only")
		stderr = task.Head{Limit: support.MessageLimit}
		return t.Machine.Run(ctx, &iotax.Cmd{Args: args, Stdout: &stderr, Stderr: &stderr})
	})
	if err != nil {
		if ctx.Err() != nil {
			return err
		}
		msg := fioMessage(stderr.String())
		if msg == "" {
			return on(err, "")
		}
		hint, err := j.refused(st, msg)
		return on(err, hint)
	}
	if t.Facts == nil {
		t.Facts = map[string]string{}
	}
	t.Facts[iotax.FactFio] = st.tool.Version
	if st.tool.Pushed != "" {
		t.Facts["fio.pushed"] = st.tool.Pushed
	} else {
		st.binary.Facts("fio", t.Facts)
	}
	return nil
}

// maxFiles limits the number of test files of a workload.
const maxFiles = 1000

func (j *fioJob) checkPlace(ctx context.Context, t *iotax.Target, st *fioState) error {
	on := func(err error, hint string) error {
		return &iotax.Error{Op: "check " + j.name + " on", On: t.Name, Err: err, Hint: hint}
	}
	if n := st.job.files(); n > maxFiles {
		return on(fmt.Errorf("the job has %d files; %d are the most", n, maxFiles), "fewer numjobs or nrfiles")
	}
	sizes := st.job.sizes()
	names := slices.Sorted(maps.Keys(sizes))
	var found task.Place
	err := support.Limited(ctx, support.GlanceTime, func(ctx context.Context) (err error) {
		found, err = task.CheckPlace.On(ctx, t.Machine, task.Check{Files: task.Files{Dir: t.Place.Path, Names: names}, Write: !t.Place.ReadOnly})
		return err
	})
	if err != nil {
		return on(err, "")
	}
	switch found.Problem {
	case task.Missing:
		return on(fmt.Errorf("%s: %w", t.Place.Path, fs.ErrNotExist), "make the directory, or name another")
	case task.NoDir:
		return on(fmt.Errorf("%s is not a directory", t.Place.Path), "name a directory")
	case task.Denied:
		return on(fmt.Errorf("%s: %w", t.Place.Path, fs.ErrPermission), "run as a user who may enter it")
	case task.Unwritable:
		return on(fmt.Errorf("%s cannot be written", t.Place.Path), "a directory this user can write, on a file system mounted rw")
	}
	own, missing := room{found.Room, support.Identity(t.Machine)}, maps.Clone(sizes)
	maps.DeleteFunc(missing, func(name string, size int64) bool { return found.Sizes[name] == size })
	if t.Place.ReadOnly {
		if len(missing) > 0 {
			return on(fmt.Errorf("%s is read-only and does not hold the test file %s", t.Place.Path, slices.Min(slices.Collect(maps.Keys(missing)))), "a target that can be written")
		}
		return nil
	}
	if st.needs, err = j.needs(ctx, t, own, missing); err != nil {
		return on(err, "")
	}
	for _, n := range st.needs {
		if err := support.Short(n.room.Room, n.bytes, n.where); err != nil {
			return on(err, hintSpace(err, st.job.total()))
		}
	}
	return nil
}

func (j *fioJob) line(t *iotax.Target, st *fioState, out *iotax.Trial) line {
	length := max(out.Length, time.Millisecond)
	switch {
	case j.spec.BySize:
		length = 0
	case out.Length <= 0:
		length = time.Duration(plan.Defaults().Trial)
	}
	return line{
		fio: st.tool.Argv, job: st.job, name: j.name, place: t.Place.Path, device: t.Place.Kind == iotax.PlaceDevice, export: support.IsNBD(t.Place),
		engine: st.engine, seed: out.Seed, runtime: length.Milliseconds(), ramp: out.Ramp.Milliseconds(), keepWarm: !out.Cold, rate: j.rate,
	}
}

// Prepare writes the test files with random data. It writes each file under a temporary name, so a file with the final
// name and the right size is complete. It reuses such a file.
func (j *fioJob) Prepare(ctx context.Context, t *iotax.Target) error {
	if len(t.Together) > 0 {
		return j.each(t, true, func(p party) error { return p.job.Prepare(ctx, p.target) })
	}
	if j.prepared[t]++; j.prepared[t] > 1 {
		return j.unready[t] // t was prepared before, because several combined targets contain it
	}
	j.unready[t] = j.prepare(ctx, t)
	return j.unready[t]
}

func (j *fioJob) prepare(ctx context.Context, t *iotax.Target) error {
	st, err := j.state(ctx, t)
	if err != nil {
		return err
	}
	want := st.job.sizes()
	defer j.shared.settle(t, want)
	if t.Place.Kind != iotax.PlaceDir || len(want) == 0 {
		return nil
	}
	on := func(err error, hint string) error {
		return &iotax.Error{Op: "write the test file of " + j.name + " on", On: t.Name, Err: err, Hint: hint}
	}
	names := slices.Sorted(maps.Keys(want))
	st.held = j.env.Shared.Held.Hold(t, names)
	sizes, err := support.FileSizes(ctx, t, names)
	if err != nil {
		return on(err, "")
	}
	missing := map[int64][]string{} // by size
	for _, n := range names {
		if sizes[n] != want[n] {
			missing[want[n]] = append(missing[want[n]], n)
		}
	}
	if len(missing) > 0 && t.Place.ReadOnly {
		return on(errors.New("the place is read-only"), "")
	}
	// Write eight files at the same time: with fewer, fio would have to start more often, and with more, the files
	// would interleave more on the disk.
	for _, bytes := range slices.Sorted(maps.Keys(missing)) {
		for batch := range slices.Chunk(missing[bytes], 8) {
			files := map[string]int64{}
			for _, n := range batch {
				files[n] = bytes
			}
			if err := j.roomFor(ctx, t, files); err != nil {
				return on(err, hintSpace(err, st.job.total()))
			}
			if err := support.GuardFio(ctx, t, true); err != nil {
				return err
			}
			if err := j.fill(ctx, t, st, batch, bytes); err != nil {
				return on(err, hintSpace(err, st.job.total()))
			}
		}
	}
	return nil
}

func hintSpace(err error, total int64) string {
	var short *support.NoRoomError
	if errors.As(err, &short) || strings.Contains(err.Error(), "No space left") {
		return fmt.Sprintf("a smaller size (now %s in all), or a place with more space", plan.Size(total))
	}
	return ""
}

func (j *fioJob) fill(ctx context.Context, t *iotax.Target, st *fioState, names []string, size int64) (err error) {
	parts := make([]string, len(names))
	for i, n := range names {
		parts[i] = n + support.Partial
	}
	defer func() {
		if err != nil {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
			defer cancel()
			err = errors.Join(err, support.RemoveFiles(ctx, t, parts))
		}
	}()
	engine := st.engine
	if engine == "" || slices.Contains([]string{"mmap", "splice", "exec"}, engine) {
		engine = "psync"
	}
	out, stderr := iotax.Capture{}, task.Head{Limit: support.MessageLimit}
	on, in, args := t.Machine, support.WorkDir(t), fillArgs(st.tool.Argv, engine, st.job.anyDirect(), parts, size)
	if dir, tool := j.behind(t); dir != "" {
		on, in, args = j.env.Host, dir, fillArgs([]string{tool}, "psync", false, parts, size)
	}
	err = on.Run(ctx, &iotax.Cmd{Args: args, Dir: in, Stdout: &out, Stderr: &stderr})
	if ctx.Err() != nil && err != nil {
		return err
	}
	r, perr := fio.Parse(out.Bytes())
	switch msg := fioMessage(stderr.String() + "\n" + strings.Join(r.Notes, "\n")); {
	case err != nil && msg != "":
		return errors.New(msg)
	case err != nil:
		return err
	case perr != nil:
		return perr
	}
	if err := r.Err(); err != nil {
		return err
	}
	var written uint64
	for i := range r.Jobs {
		written += r.Jobs[i].Write.Bytes
	}
	if want := uint64(size) * uint64(len(names)); written != want {
		return fmt.Errorf("fio wrote %d bytes in place of %d", written, want)
	}
	sizes, err := support.FileSizes(ctx, t, parts)
	if err != nil {
		return err
	}
	for _, n := range parts {
		if sizes[n] != size {
			return fmt.Errorf("%s has %d bytes in place of %d", path.Join(t.Place.Path, n), sizes[n], size)
		}
	}
	_, err = task.Rename.On(ctx, t.Machine, task.Renaming{Files: task.Files{Dir: t.Place.Path, Names: parts}, Ending: support.Partial})
	return err
}

// behind returns the directory of this host that t's machine accesses through a share, and this host's fio. Writing
// there is many times faster than through the share. behind returns "" if the files must be written through t's
// machine.
func (j *fioJob) behind(t *iotax.Target) (dir, tool string) {
	f := t.Place.Facts
	if j.env.Host == nil || t.Place.Backing == "" || !slices.Contains([]string{"virtiofs", "9p", "nfs"}, f[iotax.FactShareType]) {
		return "", ""
	}
	// The root user of another system could create links in the share, and fio would follow them on this host. The
	// guests that iotax starts do not create links.
	if os.Geteuid() == 0 && t.Machine.Caps().Facts[iotax.FactKernelFile] == "" {
		return "", ""
	}
	inside, err := filepath.Rel(f[iotax.FactFilesystemMount], t.Place.Path)
	if err != nil || !filepath.IsLocal(inside) {
		return "", ""
	}
	if tool, err = exec.LookPath("fio"); err != nil {
		return "", ""
	}
	dir = filepath.Join(t.Place.Backing, inside)
	if st, err := os.Stat(dir); err != nil || !st.IsDir() {
		return "", ""
	}
	return dir, tool
}

// Cleanup removes the test files, unless another workload on the target still uses them.
func (j *fioJob) Cleanup(ctx context.Context, t *iotax.Target) error {
	if len(t.Together) > 0 {
		return j.each(t, false, func(p party) error { return p.job.Cleanup(ctx, p.target) })
	}
	if j.prepared[t] > 1 {
		j.prepared[t]--
		return nil
	}
	delete(j.prepared, t)
	st := j.states[t]
	if st == nil {
		return nil
	}
	if st.job != nil { // releases the claims of a job that was checked but never prepared
		j.shared.settle(t, st.job.sizes())
	}
	files := j.env.Shared.Held.Release(t, st.held)
	st.held = nil
	if len(files) == 0 || t.Place.ReadOnly { // the files of a read-only place were created with it
		return nil
	}
	if err := support.RemoveFiles(ctx, t, files); err != nil {
		return &iotax.Error{Op: "remove test files of " + j.name + " on", On: t.Name, Err: err}
	}
	return nil
}

var (
	outputLimit = 60 << 20 // limit for fio's output with its logs, bytes; an answer of the agent has at most 64 MiB
	logLimit    = 48 << 20 // limit for fio's logs, bytes
)

// seconds returns the maximum length of the measured window, in seconds.
func (l line) seconds() float64 { return cmp.Or(float64(l.runtime)/1000, sizeTime.Seconds()) }

// logBytes estimates the size of fio's logs with one line per second.
func (l line) logBytes() (bytes float64) {
	for _, r := range l.job.all() {
		const lineSize = 40 // bytes, at most
		logs := 2           // per process and direction
		if reads(r.rw) && writes(r.rw) || strings.Contains(r.rw, "trimwrite") {
			logs *= 2
		}
		bytes += float64(logs*r.processes*lineSize) * l.seconds()
	}
	return bytes
}

// logStep returns the interval between lines of fio's logs, in seconds. It is 1, or more if the logs would otherwise
// exceed logLimit.
func (l line) logStep() int { return max(1, int(math.Ceil(l.logBytes()/float64(logLimit)))) }

// reportStep returns the interval between fio's reports, in seconds. It is 1, or more if the reports would otherwise
// exceed the part of outputLimit that the logs leave. It is 0 if fio cannot print reports, or if they could break the
// trial.
func (l line) reportStep(st *fioState) int {
	const reportSize = 32 << 10 // upper estimate for one direction, bytes
	processes, bytes := 0, 0.0
	for _, r := range l.job.all() {
		processes += r.processes
		bytes += float64(len(directionsOf(r.rw))*reportSize) * (float64(l.ramp)/1000 + l.seconds())
	}
	flushesLong := l.job.some(func(r *resolved) bool { return writes(r.rw) && !r.direct })
	if !fio.CanReport(st.tool.Version) || fio.ReportCanBlock(st.tool.Version, processes) && (st.blocked || flushesLong) {
		return 0
	}
	return max(1, int(math.Ceil(bytes/(float64(outputLimit)-l.logBytes()/float64(l.logStep())))))
}

func outputError(err error) error {
	return fmt.Errorf("fio's output with its logs: %w (fewer numjobs or a shorter trial make less)", err)
}

// Run runs a trial on t, or on all the targets that t joins, and fills in out. A search runs fio several times.
func (j *fioJob) Run(ctx context.Context, t *iotax.Target, out *iotax.Trial) error {
	switch {
	case len(t.Together) > 0:
		return j.runTogether(ctx, t, out)
	case j.spec.finds():
		return j.find(ctx, t, out)
	}
	return j.once(ctx, t, out)
}

// once runs one fio process and fills in out.
func (j *fioJob) once(ctx context.Context, t *iotax.Target, out *iotax.Trial) error {
	st, err := j.state(ctx, t)
	if err != nil {
		return err
	}
	l := j.line(t, st, out)
	args := l.args()
	if out.Facts == nil {
		out.Facts = map[string]string{}
	}
	j.facts(out.Facts, st, out)
	out.Facts[iotax.FactCommand] = typed(t, args)

	step := l.logStep()
	if err := support.GuardFio(ctx, t, st.job.writes()); err != nil {
		return err
	}
	ran, err := task.Fio.On(ctx, t.Machine, task.FioRun{Args: args, Env: leftover.Environ(), Dir: support.WorkDir(t), Label: leftover.Current().String(),
		Step: step * 1000, Report: l.reportStep(st), Limit: outputLimit, Messages: support.MessageLimit})
	last, intervals, missing := fio.Reports(ran.Stdout)
	out.Raw = last
	fail := func(err error) error {
		return &iotax.Error{Op: "run fio for " + j.name + " on", On: t.Name, Err: err}
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return err
	case err != nil:
		return fail(err)
	case ran.Over:
		out.Raw = bytes.Clone(ran.Stdout[:min(len(ran.Stdout), support.RawLimit)])
		return fail(outputError(&iotax.LimitError{Limit: int64(outputLimit)}))
	}
	r, perr := fio.Parse(last)
	msg := fioMessage(string(ran.Stderr) + "\n" + strings.Join(r.Notes, "\n"))
	switch {
	case fio.Blocked(msg):
		st.blocked = true
		return &iotax.Error{Op: "run fio for " + j.name + " on", On: t.Name, Err: errors.New("a report of fio waited more than 5 s for an I/O of one process, and another process gave up"),
			Hint: "fio 3.42 or later does not do that; the next trials have no reports, and so no latency over time"}
	case ran.Exit != nil && msg != "":
		return fail(fmt.Errorf("%s (%s)", msg, exitStatus(ran.Exit)))
	case ran.Exit != nil:
		return fail(ran.Exit)
	case perr != nil:
		return fail(perr)
	}
	if err := r.Err(); err != nil {
		if msg != "" {
			err = errors.New(msg)
		}
		return fail(err)
	}
	out.Values = append(out.Values, r.Values()...)
	j.judgeLoad(l, out)
	out.Histograms = append(out.Histograms, r.Histograms()...)
	out.Intervals = intervals
	if missing != nil {
		out.Facts["intervals"] = missing.Error()
	}
	out.Findings = append(out.Findings, rules.FioErrors(iotax.AboutTrial(out), r.Err(), r.Damaged())...)
	series, err := logsOf(ran.Logs).series(step)
	out.Series = append(out.Series, series...)
	if err != nil {
		return fail(err)
	}
	out.Facts[iotax.FactFio] = r.Version
	out.Facts["latency"] = r.Latencies
	var ios uint64
	for i := range r.Jobs {
		ios += r.Jobs[i].Read.IOs + r.Jobs[i].Write.IOs + r.Jobs[i].Trim.IOs + r.Jobs[i].Mixed.IOs
	}
	if ios == 0 {
		return fail(errors.New("fio completed no I/O in the measured window"))
	}
	return nil
}

// typed returns the shell command with which a user would run args at t.
func typed(t *iotax.Target, args []string) string {
	text := iotax.QuoteAll(args)
	if dir := support.WorkDir(t); dir != "" {
		text = "cd " + iotax.Quote(dir) + " && " + text
	}
	return text
}

// facts adds the facts that describe the job, except its command line, to `facts`. It adds a finding to out if the
// engine ignores iodepth.
func (j *fioJob) facts(facts map[string]string, st *fioState, out *iotax.Trial) {
	facts[iotax.FactFio] = st.tool.Version
	j.loadFacts(facts)
	facts[iotax.FactJob] = iotax.JobText(j.normal(st))
	facts["ramp"] = out.Ramp.String()
	for key, value := range st.job.facts(st.engine) {
		facts[key] = value
	}
	if len(j.overridden) > 0 {
		var names []string
		for _, s := range j.overridden {
			names = append(names, strings.TrimPrefix(s.String(), "--"))
		}
		facts["overridden"] = strings.Join(names, ", ")
	}
	if n, _ := strconv.Atoi(facts[iotax.FactIODepth]); n > 1 && slices.Contains(waiting, st.engine) {
		out.Findings = append(out.Findings, rules.DepthOfSyncEngine.Found(iotax.AboutTrial(out), "iodepth %d with the engine %s, which waits for each I/O: the depth is 1", n, st.engine))
	}
}

// normal describes the work of the jobs independently of where and how long they run. The options of each job after the
// first are prefixed with its number.
func (j *fioJob) normal(st *fioState) map[string]string {
	out := map[string]string{"kind": "fio"}
	l := line{job: st.job, engine: st.engine}
	for i, r := range st.job.all() {
		prefix := ""
		if i > 0 {
			prefix = strconv.Itoa(i+1) + "."
		}
		for k, v := range fio.Normal(slices.Concat(r.settings, []fio.Setting{{Key: "ioengine", Value: l.engineOf(r)}})) {
			out[prefix+k] = v
		}
	}
	switch {
	case j.spec.finds():
		out["find"] = j.spec.Find.Most + " while " + j.spec.Find.While
	case j.share > 0:
		out["load"] = j.load()
	case j.rate > 0:
		out["rate"] = strconv.FormatFloat(j.rate, 'f', -1, 64) + "/s"
	}
	if j.spec.BySize {
		out["by_size"] = "true"
	}
	return out
}

// logs maps each kind of log to the contents of fio's log files.
type logs map[fio.LogKind][][]byte

func logsOf(files map[string][]byte) logs {
	l := logs{}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		switch {
		case strings.HasPrefix(name, "s_bw."):
			l[fio.BandwidthLog] = append(l[fio.BandwidthLog], files[name])
		case strings.HasPrefix(name, "s_iops."):
			l[fio.IOPSLog] = append(l[fio.IOPSLog], files[name])
		}
	}
	return l
}

// series returns the rates in the logs, with one value every `step` seconds.
func (l logs) series(step int) ([]iotax.Series, error) {
	var out []iotax.Series
	for _, kind := range []fio.LogKind{fio.IOPSLog, fio.BandwidthLog} {
		var jobs [][]fio.Sample
		for _, text := range l[kind] {
			s, err := fio.ParseLog(text)
			if err != nil {
				return out, err
			}
			jobs = append(jobs, s)
		}
		out = append(out, fio.Rates(kind, float64(step), jobs...)...)
	}
	return out, nil
}

// fioMessage extracts fio's error messages from its output. fio prints an I/O error up to three times, and again for
// every request in flight. fioMessage keeps only the first line about an I/O error, which names the file.
func fioMessage(text string) string {
	var lines []string
	why := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(line), "fio:"))
		switch {
		case line == "" || slices.Contains(lines, line):
		case strings.HasPrefix(line, "pid="):
			// For example "pid=1, err=28/file:io_u.c:1846, func=io_u error, error=No space left on device"
			if _, w, ok := strings.Cut(line, "error="); ok && why == "" {
				why = w
			}
		case strings.HasPrefix(line, "io_u error") && slices.ContainsFunc(lines, func(s string) bool { return strings.HasPrefix(s, "io_u error") }):
		default:
			lines = append(lines, line)
		}
	}
	lines = lines[:min(len(lines), 5)]
	if why != "" && !strings.Contains(strings.Join(lines, "\n"), why) {
		lines = append(lines, why)
	}
	return strings.Join(lines, "; ")
}

func exitStatus(e *iotax.ExitError) string {
	if e.Signal != "" {
		return "signal " + e.Signal
	}
	return "exit status " + strconv.Itoa(e.Code)
}

// sharedState caches facts about machines and places for all jobs of a run.
type sharedState struct {
	surveys    sync.Map // task.Survey, by support.Identity of the machine
	probes     sync.Map // error, by probeKey
	accepted   sync.Map // keys of the jobs that a version of fio accepted
	capacities sync.Map // rate of a job on a target in a closed loop, 1/s: float64

	mu     sync.Mutex
	claims map[claimKey]map[string]int64 // bytes that are still to be written, by file system and file
}
