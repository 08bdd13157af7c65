package generate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"iotax"
	"iotax/internal/agent"
)

// A Repository describes a generated repository and git's I/O in it. The index and the objects have realistic sizes,
// but the repository has no history. status reads the index, calls lstat for every tracked file (in several threads
// from 1,000 files on, as git does), and lists every directory. gc copies all loose objects to a pack, calls fsync, and
// removes the objects.
type Repository struct {
	Dir   string // MakeRepository creates it, replacing an old one
	Files int
	Seed  uint64
	Cold  bool // drop the kernel's cache of names and attributes before status, if permitted
}

// GitSteps lists the steps of DoGit in order, each with its name and description.
var GitSteps = [][2]string{
	{"status", "find what was changed in the work tree"}, {"checkout", "go to a branch in which every fifth file differs"}, {"commit", "add and commit those files"},
	{"gc", "pack the loose objects"}, {"clone", "clone the repository and write all its files"},
}

var (
	// MakeRepository creates the repository in Dir, replacing an old Dir.
	MakeRepository = agent.New("make a repository", makeRepository)
	// DoGit runs the steps in a repository that MakeRepository created.
	DoGit = agent.New("work on a repository", doGit)
)

const (
	trackedSize = 4 << 10 // bytes of a file in the work tree; its object has a third of that size, as if compressed
	objectBytes = trackedSize / 3
	perEntry    = 72 // bytes of the index for each file
	perFolder   = 25
	changedEach = 5
)

// Space returns the space for all files in bytes: two work trees with their indexes, two copies of the packs, and loose
// objects.
func (r Repository) Space() int64 {
	const block = 4096
	return int64(r.Files)*(2*(trackedSize+block)+3*objectBytes+block+4*perEntry) + block*int64(r.Files/4+600)
}

func (r Repository) path(parts ...string) string {
	return filepath.Join(append([]string{r.Dir}, parts...)...)
}

func folder(i int) string {
	n := i / perFolder
	return filepath.Join(fmt.Sprintf("dir%02d", n%20), fmt.Sprintf("sub%04d", n/20))
}

func tracked(tree string, i int) string {
	return filepath.Join(tree, folder(i), fmt.Sprintf("file%06d.go", i))
}

// changed lists the files that differ in the other branch.
func (r Repository) changed() (all []int) {
	for i := 0; i < r.Files; i += changedEach {
		all = append(all, i)
	}
	return all
}

// object returns the path of a loose object, in one of 256 directories.
func (r Repository) object(i int) string {
	name := fmt.Sprintf("%08x", uint32(i)*2654435761) // distributes the objects evenly
	return r.path("main", ".git", "objects", name[:2], name[2:]+"0123456789abcdef0123456789abcdef")
}

// other returns the content number of file i in the other branch.
func (r Repository) other(i int) int { return r.Files + i }

func (r Repository) index() []byte { return make([]byte, r.Files*perEntry) }

// replace writes path.lock and renames it to path, as git updates its index and references.
func replace(path string, content []byte) error {
	err := create(path+".lock", content)
	if err == nil {
		err = rename(path+".lock", path)
	}
	return err
}

// folders returns each folder of a tree, parents before their children.
func (r Repository) folders(tree string) (all []string) {
	seen := map[string]bool{}
	for i := 0; i < r.Files; i += perFolder {
		d := filepath.Join(tree, folder(i))
		for _, d := range []string{filepath.Dir(d), d} {
			if !seen[d] {
				seen[d] = true
				all = append(all, d)
			}
		}
	}
	return all
}

// gitDir creates the directory `tree` with a .git directory that contains no packs.
func gitDir(tree string) (err error) {
	for _, d := range []string{"", ".git", ".git/objects", ".git/objects/pack", ".git/refs", ".git/refs/heads"} {
		if err == nil {
			err = mkdir(filepath.Join(tree, d))
		}
	}
	if err == nil {
		err = create(filepath.Join(tree, ".git", "HEAD"), []byte("ref: refs/heads/main\n"))
	}
	return err
}

// write creates the files of a work tree and its index.
func (r Repository) write(ctx context.Context, content filler, tree string) error {
	for _, d := range r.folders(tree) {
		if err := mkdir(d); err != nil {
			return err
		}
	}
	buf := make([]byte, trackedSize)
	_, err := each(ctx, deal(r.Files, 1), func(_, i int) error {
		return create(tracked(tree, i), content.fill(buf, i))
	})
	if err == nil {
		err = replace(filepath.Join(tree, ".git", "index"), r.index())
	}
	return err
}

func (r Repository) pack(tree string, number int) string {
	return r.path(tree, ".git", "objects", "pack", fmt.Sprintf("pack-%d.pack", number))
}

func drain(from string, to io.Writer) error {
	f, err := os.Open(from)
	if err == nil {
		_, err = io.Copy(to, f)
		err = errors.Join(err, f.Close())
	}
	return err
}

func makeRepository(ctx context.Context, r Repository) (none struct{}, err error) {
	if err = errors.Join(os.RemoveAll(r.Dir), os.Mkdir(r.Dir, 0o755)); err == nil {
		err = gitDir(r.path("main"))
	}
	content, buf := newFiller(r.Seed, trackedSize), make([]byte, trackedSize)
	if err == nil {
		err = r.write(ctx, content, r.path("main"))
	}
	if err != nil {
		return none, err
	}
	pack, err := os.Create(r.pack("main", 0))
	if err != nil {
		return none, err
	}
	for i := 0; i < r.Files && err == nil; i++ {
		_, err = pack.Write(content.fill(buf, i)[:objectBytes])
	}
	return none, errors.Join(err, pack.Close())
}

func (r Repository) status(ctx context.Context) error {
	main := r.path("main")
	if _, err := os.ReadFile(filepath.Join(main, ".git", "index")); err != nil {
		return err
	}
	if _, err := each(ctx, deal(r.Files, min(max(1, r.Files/500), 20)), func(_, i int) error {
		_, size, err := lstat(tracked(main, i))
		if err == nil && size != trackedSize {
			err = fmt.Errorf("%s has %d bytes in place of %d", tracked(main, i), size, trackedSize)
		}
		return err
	}); err != nil {
		return err
	}
	names, buf := 0, make([]byte, 32<<10)
	folders := append([]string{main}, r.folders(main)...)
	for _, d := range folders {
		_, _, err := lstat(d)
		if err != nil {
			return err
		}
		found, _, err := list(d, buf)
		if err != nil {
			return err
		}
		names += len(found)
		if d != main && !strings.HasPrefix(filepath.Base(d), "dir") { // git reads ignore files only in directories with an entry that is not in the index, such as a subdirectory
			continue
		}
		if _, err := read(filepath.Join(d, ".gitignore"), nil); !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s/.gitignore was never created, but opening it returned %v", d, err)
		}
	}
	if want := r.Files + len(folders); names != want { // the names include .git but not main, and folders includes main but not .git
		return fmt.Errorf("%d names are in the work tree in place of %d", names, want)
	}
	return nil
}

func (r Repository) checkout(content filler, got []byte) error {
	main := r.path("main")
	if err := drain(r.pack("main", 0), io.Discard); err != nil {
		return err
	}
	for i := range r.Files { // git checks for local changes first
		if _, _, err := lstat(tracked(main, i)); err != nil {
			return err
		}
	}
	for _, i := range r.changed() {
		path := tracked(main, i)
		_, _, err := lstat(path)
		if err == nil {
			err = unlink(path)
		}
		if err == nil {
			err = create(path, content.fill(got[:trackedSize], r.other(i)))
		}
		if err != nil {
			return err
		}
	}
	if err := replace(filepath.Join(main, ".git", "index"), r.index()); err != nil {
		return err
	}
	return replace(filepath.Join(main, ".git", "HEAD"), []byte("ref: refs/heads/other\n"))
}

func (r Repository) commit(content filler, got []byte) error {
	for _, i := range r.changed() {
		object := r.object(i)
		err := content.check(tracked(r.path("main"), i), got, trackedSize, r.other(i))
		if err == nil {
			if err = mkdir(filepath.Dir(object)); errors.Is(err, fs.ErrExist) {
				err = nil
			}
		}
		if err == nil {
			err = create(filepath.Join(filepath.Dir(object), fmt.Sprintf("tmp_obj_%d", i)), got[:objectBytes])
		}
		if err == nil {
			err = rename(filepath.Join(filepath.Dir(object), fmt.Sprintf("tmp_obj_%d", i)), object)
		}
		if err != nil {
			return err
		}
	}
	err := replace(r.path("main", ".git", "index"), r.index())
	if err == nil {
		err = replace(r.path("main", ".git", "refs", "heads", "other"), []byte(fmt.Sprintf("%040d\n", r.Seed)))
	}
	return err
}

func (r Repository) gc(content filler, got []byte) error {
	objects, dirs := r.path("main", ".git", "objects"), map[string]bool{}
	pack, err := os.OpenFile(filepath.Join(objects, "pack", "tmp_pack"), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o444)
	if err != nil {
		return err
	}
	for _, i := range r.changed() {
		if err == nil {
			err = content.check(r.object(i), got, objectBytes, r.other(i))
		}
		if err == nil {
			_, err = pack.Write(got[:objectBytes])
		}
		dirs[filepath.Dir(r.object(i))] = true
	}
	if err == nil {
		err = fsync(pack)
	}
	if err = errors.Join(err, pack.Close()); err == nil {
		err = rename(filepath.Join(objects, "pack", "tmp_pack"), r.pack("main", 1))
	}
	for _, i := range r.changed() {
		if err == nil {
			err = unlink(r.object(i))
		}
	}
	for d := range dirs {
		if err == nil {
			err = rmdir(d)
		}
	}
	return err
}

func (r Repository) clone(ctx context.Context, content filler) error {
	err := gitDir(r.path("other"))
	for pack := range 2 {
		if err != nil {
			return err
		}
		from, to := r.pack("main", pack), r.pack("other", pack)
		if os.Link(from, to) == nil {
			continue
		}
		var f *os.File // git copies a pack that it cannot link
		if f, err = os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o444); err == nil {
			err = errors.Join(drain(from, f), f.Close())
		}
	}
	if err != nil {
		return err
	}
	return r.write(ctx, content, r.path("other"))
}

// calls returns how often the steps make most of their system calls.
func (r Repository) calls() map[string]int {
	folders, changed := r.folders(""), len(r.changed())
	objects, tops := map[string]bool{}, 0
	for _, i := range r.changed() {
		objects[filepath.Dir(r.object(i))] = true
	}
	for _, d := range folders {
		if strings.HasPrefix(filepath.Base(d), "dir") {
			tops++
		}
	}
	return map[string]int{
		"newfstatat": 2*r.Files + len(folders) + 1 + changed,
		"openat":     1 + len(folders) + 1 + tops + 1 + 1 + changed + 2 + 2*changed + 2 + 1 + changed + 1 + r.Files + 1,
		"write":      changed + 2 + changed + 2 + changed + 1 + r.Files + 1,
		"renameat":   2 + changed + 2 + 1 + 1,
		"unlinkat":   2*changed + len(objects),
		"mkdirat":    changed + 6 + len(folders),
		"linkat":     2,
		"fsync":      1,
	}
}

func doGit(ctx context.Context, r Repository) (*Result, error) {
	out := &Result{Facts: map[string]string{}, Calls: r.calls()}
	content, got := newFiller(r.Seed, trackedSize), make([]byte, trackedSize+1)
	if r.Cold {
		out.forget()
	}
	do := map[string]func() error{
		"status": func() error { return r.status(ctx) }, "checkout": func() error { return r.checkout(content, got) },
		"commit": func() error { return r.commit(content, got) }, "gc": func() error { return r.gc(content, got) },
		"clone": func() error { return r.clone(ctx, content) },
	}
	var total time.Duration
	for _, s := range GitSteps {
		begun := time.Now()
		if err := do[s[0]](); err != nil {
			return nil, &iotax.Error{Op: s[0], On: r.Dir, Err: err}
		}
		took := time.Since(begun)
		out.value(s[0]+".duration", took.Seconds(), iotax.Seconds, iotax.Down)
		total += took
	}
	out.value(iotax.ValueDuration, total.Seconds(), iotax.Seconds, iotax.Down)
	return out, r.verify(content, got)
}

// verify reads both work trees back and compares them with the expected contents.
func (r Repository) verify(content filler, got []byte) error {
	for i := range r.Files {
		number := i
		if i%changedEach == 0 {
			number = r.other(i)
		}
		for tree, n := range map[string]int{"main": number, "other": i} {
			path := tracked(r.path(tree), i)
			if err := content.check(path, got, trackedSize, n); err != nil {
				return lost(path, err)
			}
		}
	}
	return nil
}
