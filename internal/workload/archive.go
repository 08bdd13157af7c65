package workload

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"iotax"
	"iotax/internal/agent"
	"iotax/internal/metric"
	"iotax/internal/plan"
	"iotax/internal/workload/support"
	"iotax/internal/workload/task"
)

// Archive is the spec of `archive: extract`. The workload extracts a tar archive in the target's directory, or creates
// one there. Without a file, iotax generates an archive, which is the same on every target and in every run. Its
// default shape is that of git's source tree.
type Archive struct {
	Do          string        `yaml:"do" enum:"extract,create" doc:"extract the archive, or create it from its files"`
	File        string        `yaml:"file" doc:"a tar archive on this host (plain, gzip, xz or zstd); empty makes one"`
	Files       int           `yaml:"files" doc:"number of files of a generated archive"`
	Directories int           `yaml:"directories" doc:"number of directories"`
	Size        plan.Size     `yaml:"size" doc:"total size of all files"`
	Timeout     plan.Duration `yaml:"timeout" doc:"time limit of one trial"`
}

func newArchive() plan.Spec {
	return &Archive{Do: "extract", Files: 4294, Directories: 213, Size: 43e6, Timeout: plan.Duration(10 * time.Minute)}
}

// SetScalar accepts extract, create, or the name of an archive to extract.
func (s *Archive) SetScalar(text string) error {
	switch text {
	case "extract", "create":
		s.Do = text
	default:
		if !strings.Contains(text, ".") {
			return &plan.ValueError{Msg: fmt.Sprintf("%q is neither extract nor create nor the name of an archive", text), Hint: "archive: extract"}
		}
		s.File = text
	}
	return nil
}

func (s *Archive) Traits() plan.Traits {
	return plan.Traits{HostFiles: []*string{&s.File}, Scale: s.Scale, Metrics: s.metrics}
}

func (s *Archive) metrics() []metric.Metric {
	return slices.Concat(metric.Of(iotax.Seconds, iotax.Down, iotax.ValueDuration, "time of tar", iotax.ValueSyncDuration, "time until the device has it, after tar",
		"synced.duration", "both together"),
		metric.Of(iotax.PerSecond, iotax.Up, iotax.ValueArchiveFiles, "files per second"),
		metric.Of(iotax.BytesPerSecond, iotax.Up, "archive.bandwidth", "bytes of the files per second"))
}

// Validate returns an error for fields that are out of range.
func (s *Archive) Validate() error {
	var errs []error
	bad := func(field, format string, args ...any) {
		errs = append(errs, &plan.FieldError{Field: field, Msg: fmt.Sprintf(format, args...)})
	}
	if s.Files < 1 || s.Files > 1e6 {
		bad("files", "%d is not a number from 1 to 1000000", s.Files)
	}
	if s.Directories < 1 || s.Directories > 1e5 {
		bad("directories", "%d is not a number from 1 to 100000", s.Directories)
	}
	if s.Size < plan.Size(s.Files) || s.Size > plan.Size(maxUnpacked) {
		bad("size", "%v is less than a byte a file, or more than %v", s.Size, plan.Size(maxUnpacked))
	}
	if s.Timeout <= 0 {
		bad("timeout", "it must be more than nothing")
	}
	if own := newArchive().(*Archive); s.File != "" && (s.Files != own.Files || s.Directories != own.Directories || s.Size != own.Size) {
		errs = append(errs, &plan.FieldError{Field: "file", Msg: "the archive in the file has its own files and size", Hint: "leave files, directories and size out, or leave file out"})
	}
	return errors.Join(errs...)
}

// Scale multiplies the number of files, the number of directories and the total size by a factor. It does not apply to
// an archive in a file.
func (s *Archive) Scale(by float64) {
	if s.File != "" {
		return
	}
	s.Files = max(1, int(float64(s.Files)*by))
	s.Directories = max(1, int(float64(s.Directories)*by))
	s.Size = max(plan.Size(s.Files), plan.Size(float64(s.Size)*by))
}

type archive struct {
	name    string
	spec    *Archive
	path    string // path of the archive on this host; "" for a generated archive
	content *content
	held    *support.HeldFiles
}

func openArchive(w plan.Workload, s *Archive, e support.Env) (iotax.Workload, error) {
	return &archive{name: w.Name, spec: s, path: s.File, held: &e.Shared.Held}, s.Validate()
}

func (a *archive) Metrics() []string { return []string{iotax.ValueDuration, iotax.ValueSyncDuration} }

func (a *archive) Caps() iotax.WorkloadCaps {
	return iotax.WorkloadCaps{Space: a.Space, Look: a.Look, Limit: time.Duration(a.spec.Timeout), Stage: a.Stage, Unstage: a.Unstage}
}

// Space estimates the bytes of the archive and of two copies of its files.
func (a *archive) Space() int64 {
	if st, err := os.Stat(a.path); a.path != "" && err == nil {
		return 12 * st.Size() // text is four to six times as large as its compressed archive
	}
	return 3*int64(a.spec.Size) + 2*8192*int64(a.spec.Files+a.spec.Directories)
}

// contents reads or generates the archive once, and returns a description of it.
func (a *archive) contents(ctx context.Context) (*content, error) {
	if a.content != nil {
		return a.content, nil
	}
	var err error
	if a.path == "" {
		a.content, err = describeTar(ctx, func(w io.Writer) error { return writeTree(w, a.spec.Files, a.spec.Directories, int64(a.spec.Size)) })
	} else {
		a.content, err = describeTar(ctx, func(w io.Writer) error { return support.CopyFile(w, a.path) })
	}
	if err != nil {
		return nil, support.Failed("read the archive of "+a.name, a.path, err, "a tar archive, plain or compressed by gzip, xz or zstd")
	}
	return a.content, nil
}

// Look returns an error if the archive cannot be read or generated.
func (a *archive) Look(ctx context.Context, _ iotax.Machine) error {
	_, err := a.contents(ctx)
	return err
}

func (a *archive) Check(ctx context.Context, t *iotax.Target) error {
	on := func(err error, hint string) error {
		return &iotax.Error{Op: "check " + a.name + " on", On: t.Name, Err: err, Hint: hint}
	}
	if t.Place.Kind != iotax.PlaceDir {
		return on(fmt.Errorf("an archive needs a directory, and the place is a %s", t.Place.Kind), "a target with a directory")
	}
	if _, err := a.contents(ctx); err != nil {
		return err
	}
	tar, err := task.Find.On(ctx, t.Machine, "tar")
	if err != nil {
		return on(err, "")
	}
	if tar == "" {
		return on(errors.New("it has no tar"), "install it on "+t.Machine.String()+"; busybox has it too")
	}
	found, err := task.CheckPlace.On(ctx, t.Machine, task.Check{Files: task.Files{Dir: t.Place.Path}, Write: true})
	if err == nil && found.Problem != "" {
		err = fmt.Errorf("%s cannot be written (%s)", t.Place.Path, found.Problem)
	}
	if err != nil || t.Place.ReadOnly {
		return on(cmp.Or(err, fmt.Errorf("%s cannot be written", t.Place.Path)), "a directory that this user can write")
	}
	return nil
}

// archiveNew is the name of the archive that a trial creates, in the target's directory.
const archiveNew = "iotax-new.tar"

func (a *archive) file() string { return "iotax-" + a.content.id + ".tar" }

// tree returns the name of the directory with the archive's files. For create, only Prepare extracts these files, so
// they must not be in iotax-tree: the trials of other workloads remove that directory.
func (a *archive) tree() string {
	if a.spec.Do == "create" {
		return "iotax-tree-" + a.content.id
	}
	return "iotax-tree"
}

// Prepare copies the archive to the place. For create, it also extracts the files there.
func (a *archive) Prepare(ctx context.Context, t *iotax.Target) error {
	c, err := a.contents(ctx)
	if err != nil {
		return err
	}
	fail := func(err error) error {
		return support.Failed("bring the archive of "+a.name+" to", t.Name, err, "")
	}
	sizes, err := support.FileSizes(ctx, t, []string{a.file()})
	if err != nil {
		return fail(err)
	}
	if sizes[a.file()] != c.packed {
		err := support.Send(c.write, func(r io.Reader) error {
			return agent.Put(ctx, t.Machine, r, filepath.ToSlash(filepath.Join(t.Place.Path, a.file())), 0o600)
		})
		if err != nil {
			return fail(err)
		}
	}
	a.held.Hold(t, []string{a.file()})
	if a.spec.Do != "create" {
		return nil
	}
	if err := a.Stage(ctx, t, nil); err != nil {
		return err
	}
	_, err = task.Empty.On(ctx, t.Machine, task.Files{Dir: t.Place.Path, Names: []string{a.tree()}})
	if err == nil {
		err = a.command(ctx, t, nil, "tar", "-xof", a.file(), "-C", a.tree())
	}
	if err != nil {
		return fail(err)
	}
	return a.verifyTree(ctx, t)
}

// command runs a command in the target's directory and writes its standard output to `out`.
func (a *archive) command(ctx context.Context, t *iotax.Target, out io.Writer, args ...string) error {
	return t.Machine.Run(ctx, &iotax.Cmd{Args: args, Dir: t.Place.Path, Stdout: out})
}

// Stage removes the files of the previous trial, and flushes the machine's file systems.
func (a *archive) Stage(ctx context.Context, t *iotax.Target, _ *iotax.Trial) (err error) {
	if a.spec.Do == "create" {
		err = support.RemoveFiles(ctx, t, []string{archiveNew})
	} else {
		_, err = task.Empty.On(ctx, t.Machine, task.Files{Dir: t.Place.Path, Names: []string{a.tree()}})
	}
	if err == nil {
		_, err = task.Sync.On(ctx, t.Machine, struct{}{})
	}
	if err != nil {
		return support.Failed("clear the place of "+a.name+" on", t.Name, err, "")
	}
	return nil
}

// Run extracts or creates the archive, and then flushes the machine's file systems.
func (a *archive) Run(ctx context.Context, t *iotax.Target, out *iotax.Trial) error {
	args := []string{"tar", "-xof", a.file(), "-C", a.tree()} // -o means --no-same-owner, in GNU tar and in busybox
	if a.spec.Do == "create" {
		args = []string{"tar", "-cf", archiveNew, "-C", a.tree(), "."}
	}
	if out.Facts == nil {
		out.Facts = map[string]string{}
	}
	out.Facts[iotax.FactCommand] = iotax.QuoteAll(args)
	out.Facts["archive"] = fmt.Sprintf("%d files, %d directories, %v", a.content.files, a.content.dirs, plan.Size(a.content.bytes))
	raw := &task.Head{Limit: support.RawLimit}
	fail := func(what string, err error) error {
		out.Raw = raw.Bytes()
		if ctx.Err() != nil {
			return err
		}
		return support.Failed(what+" for "+a.name+" on", t.Name, err, "")
	}
	took, err := support.Timed(ctx, t.Machine, out, func() (int, error) {
		return a.content.files, t.Machine.Run(ctx, &iotax.Cmd{Args: args, Dir: t.Place.Path, Stdout: raw, Stderr: raw})
	})
	if err != nil {
		return fail(a.spec.Do, err)
	}
	begun := time.Now()
	if _, err := task.Sync.On(ctx, t.Machine, struct{}{}); err != nil {
		return fail("sync", err)
	}
	synced := time.Since(begun)
	out.Raw = raw.Bytes()
	add := func(name string, v float64, unit string, better iotax.Better) {
		out.Values = append(out.Values, iotax.Value{Name: name, Value: v, Unit: unit, Better: better})
	}
	add(iotax.ValueSyncDuration, synced.Seconds(), iotax.Seconds, iotax.Down)
	add("synced.duration", (took + synced).Seconds(), iotax.Seconds, iotax.Down)
	add(iotax.ValueArchiveFiles, float64(a.content.files)/took.Seconds(), iotax.PerSecond, iotax.Up)
	add("archive.bandwidth", float64(a.content.bytes)/took.Seconds(), iotax.BytesPerSecond, iotax.Up)
	return nil
}

// Unstage verifies the result of the trial. The trial's duration does not include the verification.
func (a *archive) Unstage(ctx context.Context, t *iotax.Target, out *iotax.Trial) error {
	if out.Err != "" || len(out.Values) == 0 {
		return nil
	}
	if a.spec.Do == "create" {
		return a.verifyNew(ctx, t)
	}
	return a.verifyTree(ctx, t)
}

func (a *archive) verifyTree(ctx context.Context, t *iotax.Target) error {
	tree, err := task.ReadTree.On(ctx, t.Machine, path.Join(t.Place.Path, a.tree()))
	if err == nil {
		switch {
		case tree.Files != a.content.files:
			err = fmt.Errorf("%d files in place of %d", tree.Files, a.content.files)
		case tree.Dirs != a.content.dirs+1: // plus the root of the tree
			err = fmt.Errorf("%d directories in place of %d", tree.Dirs, a.content.dirs+1)
		case tree.Sum != a.content.sum:
			err = errors.New("the files are not what is in the archive")
		}
	}
	if err != nil && ctx.Err() == nil {
		return support.Failed("verify what "+a.name+" extracted on", t.Name, err, "the place or its share lost data: trust nothing there")
	}
	return err
}

func (a *archive) verifyNew(ctx context.Context, t *iotax.Target) error {
	out := iotax.Capture{Limit: 1 << 30}
	err := a.command(ctx, t, &out, "tar", "-tf", archiveNew)
	n := 0
	for name := range bytes.Lines(out.Bytes()) {
		if !bytes.HasSuffix(name, []byte("/\n")) {
			n++
		}
	}
	if want := a.content.files + a.content.others; err == nil && n != want {
		err = fmt.Errorf("it lists %d files in place of %d", n, want)
	}
	if err != nil && ctx.Err() == nil {
		return support.Failed("verify what "+a.name+" created on", t.Name, err, "the place or its share lost data: trust nothing there")
	}
	return err
}

// Cleanup removes the trial's files, and the archive unless another workload uses it.
func (a *archive) Cleanup(ctx context.Context, t *iotax.Target) error {
	if a.content == nil {
		return nil
	}
	err := support.RemoveFiles(ctx, t, []string{a.tree(), archiveNew})
	if files := a.held.Release(t, []string{a.file()}); len(files) > 0 {
		err = errors.Join(err, support.RemoveFiles(ctx, t, files))
	}
	if err != nil {
		return support.Failed("remove what "+a.name+" made on", t.Name, err, "")
	}
	return nil
}
