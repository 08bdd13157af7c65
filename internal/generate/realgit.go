package generate

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"iotax"
	"iotax/internal/agent"
)

var (
	// GitVersion returns the version of the installed git.
	GitVersion = agent.New("ask git for its version", gitVersion)
	// MakeRealRepository creates the repository with the installed git, replacing an old Dir.
	MakeRealRepository = agent.New("make a repository with git", makeRealRepository)
	// DoRealGit runs the steps with the installed git in a repository that MakeRealRepository created.
	DoRealGit = agent.New("run git", doRealGit)
)

func gitVersion(ctx context.Context, _ struct{}) (string, error) {
	out, err := iotax.ExecOutput(exec.CommandContext(ctx, "git", "version"))
	return strings.TrimSpace(string(out)), err
}

// git runs git in a tree without the user's configuration, and returns its output.
func (r Repository) git(ctx context.Context, tree string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", append([]string{"-c", "safe.directory=*", "-c", "gc.auto=0", "-c", "user.name=iotax", "-c", "user.email=iotax@example.org"}, args...)...)
	cmd.Dir = r.path(tree)
	cmd.Env = append(iotax.GitEnviron(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_TERMINAL_PROMPT=0", "LC_ALL=C")
	out, err := iotax.ExecOutput(cmd)
	if err != nil {
		err = fmt.Errorf("git %s: %w: %s", strings.Join(args, " "), cmp.Or(context.Cause(ctx), err), bytes.TrimSpace(out))
	}
	return string(out), err
}

// gits runs several git commands in a tree.
func (r Repository) gits(ctx context.Context, tree string, commands ...string) (err error) {
	for _, c := range commands {
		if err == nil {
			_, err = r.git(ctx, tree, strings.Fields(c)...)
		}
	}
	return err
}

// text returns the content of a file for git: the same random data three times, so that it compresses to a third.
func (r Repository) text(content filler, buf []byte, number int) []byte {
	content.fill(buf, number)
	copy(buf[objectBytes:], buf[:objectBytes])
	copy(buf[2*objectBytes:], buf[:objectBytes])
	return buf
}

// change rewrites every fifth file. A different `by` produces different content.
func (r Repository) change(content filler, buf []byte, by int) (err error) {
	for _, i := range r.changed() {
		if err == nil {
			err = os.WriteFile(tracked(r.path("main"), i), r.text(content, buf, i+by*r.Files), 0o644)
		}
	}
	return err
}

func makeRealRepository(ctx context.Context, r Repository) (none struct{}, err error) {
	main := r.path("main")
	err = errors.Join(os.RemoveAll(r.Dir), os.MkdirAll(main, 0o755))
	content, buf := newFiller(r.Seed, trackedSize), make([]byte, trackedSize)
	for i := 0; i < r.Files && err == nil; i++ {
		path := tracked(main, i)
		if err = os.MkdirAll(filepath.Dir(path), 0o755); err == nil {
			err = os.WriteFile(path, r.text(content, buf, i), 0o644)
		}
	}
	if err == nil {
		err = r.gits(ctx, "main", "init -q -b main", "add .", "commit -q -m main", "checkout -q -b other")
	}
	if err == nil {
		err = r.change(content, buf, 1)
	}
	if err == nil {
		err = r.gits(ctx, "main", "commit -q -a -m other", "checkout -q main", "repack -q -a -d")
	}
	// Make the files older than the index, as in a repository in use: git rereads files that are as new as the index.
	past := time.Now().Add(-time.Hour)
	for i := 0; i < r.Files && err == nil; i++ {
		err = os.Chtimes(tracked(main, i), past, past)
	}
	if err == nil {
		err = r.gits(ctx, "main", "update-index -q --refresh")
	}
	return none, err
}

func doRealGit(ctx context.Context, r Repository) (*Result, error) {
	out := &Result{Facts: map[string]string{}}
	fail := func(op string, err error) error {
		return &iotax.Error{Op: op, On: r.Dir, Err: err}
	}
	if r.Cold {
		out.forget()
	}
	do := map[string]string{"status": "status --porcelain", "checkout": "checkout -q other", "commit": "commit -q -a -m changed", "gc": "gc -q", "clone": "clone -q --no-hardlinks . ../other"}
	var total time.Duration
	for _, s := range GitSteps {
		step := s[0]
		if step == "commit" { // commit files that differ from those of the branch
			if err := r.change(newFiller(r.Seed, trackedSize), make([]byte, trackedSize), 2); err != nil {
				return nil, fail("change files", err)
			}
		}
		begun := time.Now()
		printed, err := r.git(ctx, "main", strings.Fields(do[step])...)
		took := time.Since(begun)
		if err == nil && printed != "" {
			err = fmt.Errorf("git printed %q", printed)
		}
		if err != nil {
			return nil, fail(step, err)
		}
		out.value(step+".duration", took.Seconds(), iotax.Seconds, iotax.Down)
		total += took
	}
	out.value(iotax.ValueDuration, total.Seconds(), iotax.Seconds, iotax.Down)
	for _, tree := range []string{"main", "other"} {
		for _, c := range []string{"fsck --no-dangling --no-progress", "status --porcelain"} {
			printed, err := r.git(ctx, tree, strings.Fields(c)...)
			if err == nil && printed != "" {
				err = fmt.Errorf("git %s printed %q", c, printed)
			}
			if err != nil {
				return nil, lost(r.path(tree), err)
			}
		}
	}
	return out, nil
}
