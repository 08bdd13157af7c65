package bisect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"iotax"
	"iotax/internal/machine/host"
)

// List returns a Deps.Left for a list of versions from oldest to newest.
func List(versions []string) func(context.Context, []string, string) ([]string, error) {
	return func(_ context.Context, good []string, bad string) ([]string, error) {
		last, first := slices.Index(versions, bad), -1
		if last < 0 {
			return nil, &iotax.Error{Op: "find version", On: bad, Err: errors.New("it is not in the list"), Hint: "the versions are " + strings.Join(versions, ", ")}
		}
		for _, g := range good {
			i := slices.Index(versions, g)
			if i < 0 {
				return nil, &iotax.Error{Op: "find version", On: g, Err: errors.New("it is not in the list"), Hint: "the versions are " + strings.Join(versions, ", ")}
			}
			if i < last {
				first = max(first, i)
			}
		}
		if first < 0 {
			return nil, &iotax.Error{Op: "bisect", On: bad, Err: errors.New("no good version is listed before it"), Hint: "list the versions from the oldest to the newest"}
		}
		left := slices.Clone(versions[first+1 : last+1])
		middle := (len(left) - 1) / 2
		at := func(v string) int { i := slices.Index(left, v); return max(i-middle, middle-i) }
		slices.SortStableFunc(left, func(a, b string) int {
			if a == bad || b == bad {
				return cmp.Compare(slices.Index([]string{a, b}, bad), 0) // bad sorts last
			}
			return cmp.Compare(at(a), at(b))
		})
		return left, nil
	}
}

// A Repo is a git repository.
type Repo struct{ Dir string }

// gitTime limits each git command.
const gitTime = 10 * time.Minute

func (r Repo) git(ctx context.Context, args ...string) (string, error) {
	limited, cancel := context.WithTimeoutCause(ctx, gitTime, fmt.Errorf("no end within %v", gitTime))
	defer cancel()
	c := exec.CommandContext(limited, "git", append([]string{"-C", r.Dir}, args...)...)
	c.Env = iotax.GitEnviron()
	var stderr iotax.Capture
	c.Stderr = &stderr
	out, err := iotax.ExecOutput(c)
	if err != nil {
		if cause := context.Cause(limited); cause != nil {
			err = cause
		} else if text := strings.TrimSpace(string(stderr.Bytes())); text != "" {
			err = errors.New(text)
		}
		return "", &iotax.Error{Op: "git " + args[0], On: r.Dir, Err: err}
	}
	return strings.TrimSpace(string(out)), nil
}

// Commit returns the commit of a revision. If revision is a date (2025-03-01) that git cannot resolve, Commit returns
// the last commit of HEAD up to the end of that day.
func (r Repo) Commit(ctx context.Context, revision string) (string, error) {
	commit, err := r.git(ctx, "rev-parse", "--verify", "--end-of-options", revision+"^{commit}")
	day, notDate := time.Parse(time.DateOnly, revision)
	if err == nil || notDate != nil {
		return commit, err
	}
	if commit, err = r.git(ctx, "rev-list", "-1", "--before="+day.Format(time.DateOnly)+" 23:59:59", "HEAD"); err == nil && commit == "" {
		err = &iotax.Error{Op: "find commit", On: revision, Err: errors.New("HEAD has no commit before that date")}
	}
	return commit, err
}

// StateDir returns the directory for the state of a bisection.
func (r Repo) StateDir(ctx context.Context) (string, error) {
	dir, err := r.git(ctx, "rev-parse", "--git-common-dir")
	if err == nil && !filepath.IsAbs(dir) {
		dir, err = filepath.Abs(filepath.Join(r.Dir, dir))
	}
	return filepath.Join(dir, "iotax-bisect"), err
}

// Subject describes a commit in one line.
func (r Repo) Subject(ctx context.Context, commit string) (string, error) {
	return r.git(ctx, "show", "-s", "--format=%h %ad %s", "--date=short", commit)
}

// Left implements Deps.Left for commits.
func (r Repo) Left(ctx context.Context, good []string, bad string) ([]string, error) {
	text, err := r.git(ctx, append([]string{"rev-list", "--bisect-all", bad, "--not"}, good...)...)
	if err != nil {
		return nil, err
	}
	var left []string
	for line := range strings.Lines(text) {
		if commit, _, _ := strings.Cut(line, " "); strings.TrimSpace(commit) != bad {
			left = append(left, commit)
		}
	}
	if text == "" {
		return nil, &iotax.Error{Op: "bisect", On: bad, Err: errors.New("the good version contains the bad one"), Hint: "exchange --good and --bad, or name an older good version"}
	}
	return append(left, bad), nil
}

// Checkout creates dir with the files of a commit. The caller removes it with Remove.
func (r Repo) Checkout(ctx context.Context, commit, dir string) error {
	_, err := r.git(ctx, "worktree", "add", "--force", "--detach", dir, commit)
	return err
}

// Remove removes a directory that Checkout created.
func (r Repo) Remove(ctx context.Context, dir string) error {
	_, err := r.git(ctx, "worktree", "remove", "--force", dir)
	return err
}

// A Builder runs a build script once for each version, in a directory that belongs to that version.
type Builder struct {
	Dir    string        // contains the directories of all builds
	Script []string      // the script and its arguments
	Limit  time.Duration // time limit of one build
	Log    io.Writer
	// Checkout fills the directory of a version before the script runs. If Checkout is nil, the directory is empty.
	Checkout func(ctx context.Context, version, dir string) error
	Remove   func(ctx context.Context, dir string) error
}

// Of returns the build directory of a version.
func (b *Builder) Of(version string) string { return b.at("version", version) }

// built returns the file that exists once a version has been built.
func (b *Builder) built(version string) string { return b.at("built", version) }

// at returns a path directly in b.Dir that differs between versions, even for names such as a/b, .. and a.built.
func (b *Builder) at(what, version string) string {
	return filepath.Join(b.Dir, what+"-"+url.QueryEscape(version))
}

// Build implements Deps.Build.
func (b *Builder) Build(ctx context.Context, version string) error {
	dir := b.Of(version)
	done := b.built(version)
	if _, err := os.Stat(done); err == nil {
		return nil
	}
	if err := b.Clear(ctx, version); err != nil { // remove the leftovers of an interrupted build
		return err
	}
	var err error
	if b.Checkout != nil {
		err = b.Checkout(ctx, version, dir)
	} else {
		err = os.MkdirAll(dir, 0o700)
	}
	if err != nil {
		return err
	}
	tail := &lastLines{}
	limited, cancel := context.WithTimeoutCause(ctx, b.Limit, fmt.Errorf("no end within %v", b.Limit))
	defer cancel()
	began := false
	out := io.MultiWriter(tail, b.Log)
	err = host.Local().Run(limited, &iotax.Cmd{Args: b.Script, Dir: dir, Env: []string{"IOTAX_VERSION=" + version}, Stdout: out, Stderr: out, Started: func(int) { began = true }})
	if err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if !began {
			return &iotax.Error{Op: "start build script", On: b.Script[0], Err: err, Hint: "name a program that can be run; it runs in the directory of each version"}
		}
		if exit := (*iotax.ExitError)(nil); errors.As(err, &exit) { // omit the output; its last line is in tail
			err = &iotax.ExitError{Args: exit.Args, Code: exit.Code, Signal: exit.Signal}
		}
		if cause := context.Cause(limited); cause != nil {
			err = cause
		} else if last := tail.last(); last != "" {
			err = fmt.Errorf("%w: %s", err, last)
		}
		return errors.Join(b.Clear(ctx, version), &BuildError{fmt.Errorf("build: %w", err)})
	}
	if err := os.WriteFile(done, nil, 0o600); err != nil {
		return &iotax.Error{Op: "note the build of", On: version, Err: err}
	}
	return nil
}

// Clear removes the build of a version.
func (b *Builder) Clear(ctx context.Context, version string) error {
	dir := b.Of(version)
	if err := os.Remove(b.built(version)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
		return nil // git prunes a worktree whose directory is missing
	}
	if b.Remove != nil && b.Remove(ctx, dir) == nil {
		return nil
	}
	return os.RemoveAll(dir)
}

// lastLines keeps the last 1000 bytes written to it.
type lastLines struct{ text []byte }

func (l *lastLines) Write(p []byte) (int, error) {
	l.text = append(l.text, p...)
	l.text = l.text[max(0, len(l.text)-1000):]
	return len(p), nil
}

// last returns the last line that is not empty.
func (l *lastLines) last() string {
	text := strings.TrimSpace(string(l.text))
	return strings.TrimSpace(text[strings.LastIndexByte(text, '\n')+1:])
}
