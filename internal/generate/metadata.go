package generate

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"time"

	"iotax"
	"iotax/internal/agent"
)

// A Tree describes the files of the metadata operations. Size is in bytes. Each directory is Depth levels below the
// root of its tree, and belongs to one worker.
type Tree struct {
	Dir                                string // MakeTree creates it, replacing an old one
	Files, Directories, Depth, Workers int
	Size                               int
	Symlinks                           bool // also make symbolic links
	Seed                               uint64
	Cold                               bool // drop the kernel's cache of names and attributes before the first operation, if permitted
}

// Operations lists the operations of Metadata in order, each with its name and description.
var Operations = [][2]string{
	{"stat", "read the attributes of a file"}, {"missing", "look for a name that does not exist"}, {"readdir", "list the names of a directory"},
	{"read", "open, read and close a file"}, {"chmod", "change the rights of a file"}, {"rename", "rename a file"}, {"symlink", "make a symbolic link"},
	{"unlink", "remove a file or link"}, {"rmdir", "remove a directory"}, {"mkdir", "make a directory"}, {"create", "make an empty file"},
}

var (
	// MakeTree creates the tree in Dir, replacing an old Dir.
	MakeTree = agent.New("make metadata tree", makeTree)
	// Metadata runs the operations on a tree that MakeTree created. It removes the files of that tree with their
	// directories, and leaves a new tree of empty files.
	Metadata = agent.New("do metadata operations", metadata)
	// TryLink returns an error if symbolic links cannot be created in a directory.
	TryLink = agent.New("try symbolic link", func(_ context.Context, dir string) (none struct{}, err error) {
		path := filepath.Join(dir, fmt.Sprintf("iotax-link.%d", os.Getpid()))
		if err = symlink("iotax", path); err == nil {
			err = unlink(path)
		}
		return none, err
	})
)

// directory returns the path of directory i in one of the two trees, "old" and "new".
func (t Tree) directory(tree string, i int) string {
	fan := max(2, int(math.Ceil(math.Pow(float64(t.Directories), 1/float64(t.Depth)))))
	path := ""
	for range t.Depth {
		path = filepath.Join(fmt.Sprintf("d%04d", i%fan), path)
		i /= fan
	}
	return filepath.Join(t.Dir, tree, path)
}

func (t Tree) paths(tree string) (files, dirs []string) {
	for i := range t.Directories {
		dirs = append(dirs, t.directory(tree, i))
	}
	for i := range t.Files {
		files = append(files, filepath.Join(dirs[i%t.Directories], fmt.Sprintf("f%07d", i)))
	}
	return files, dirs
}

// A filler makes the content of files: the same block for each file, except for the first 16 bytes.
type filler struct {
	seed  uint64
	block []byte
}

func newFiller(seed uint64, size int) filler {
	f := filler{seed, make([]byte, size)}
	_, _ = rand.NewChaCha8([32]byte{}).Read(f.block) // it never fails
	return f
}

// fill fills buf with the first bytes of a file and returns buf. The first 16 bytes distinguish the file from others.
func (f filler) fill(buf []byte, file int) []byte {
	copy(buf, f.block)
	return f.mark(buf, file)
}

// mark turns the first bytes of any file into those of another file.
func (f filler) mark(buf []byte, file int) []byte {
	head := f.head(file)
	copy(buf, head[:])
	return buf
}

func (f filler) head(file int) (head [16]byte) {
	binary.LittleEndian.PutUint64(head[:], f.seed)
	binary.LittleEndian.PutUint64(head[8:], uint64(file))
	return head
}

// filled reports whether got holds size bytes as fill would fill them. It copies nothing, unlike fill.
func (f filler) filled(got []byte, size, file int) bool {
	head := f.head(file)
	return len(got) == size && bytes.Equal(got[:len(head)], head[:]) && bytes.Equal(got[len(head):], f.block[len(head):size])
}

// check reads a file into got and verifies its content. got must be longer than size, so that a file that is too long is
// detected.
func (f filler) check(path string, got []byte, size, file int) error {
	found, err := read(path, got)
	if err == nil && !f.filled(found, size, file) {
		err = fmt.Errorf("%s does not hold what was written", path)
	}
	return err
}

// shares distributes the numbers below n among the workers. They are numbers of directories, or of files followed by
// their links. A directory, its files and their links belong to one worker. If `order` is nil, each share is in
// ascending order, otherwise in random order.
func (t Tree) shares(n int, order *rand.Rand) [][]int {
	shares := make([][]int, t.Workers)
	for i := range n {
		w := i % t.Files % t.Directories % t.Workers
		shares[w] = append(shares[w], i)
	}
	if order != nil {
		for _, s := range shares {
			order.Shuffle(len(s), func(i, j int) { s[i], s[j] = s[j], s[i] })
		}
	}
	return shares
}

// deal distributes the numbers below n evenly among the workers.
func deal(n, workers int) [][]int {
	shares := make([][]int, workers)
	for i := range n {
		shares[i%workers] = append(shares[i%workers], i)
	}
	return shares
}

// each calls `do` for every number in `shares`, and records the duration of each call. The workers run in parallel. A
// worker stops at its first error.
func each(ctx context.Context, shares [][]int, do func(worker, i int) error) (*recorder, error) {
	errs, recorders := make([]error, len(shares)), make([]recorder, len(shares))
	var all sync.WaitGroup
	work := func(w int) {
		last := clock() // the end of an operation is the start of the next, so that each reads the clock only once
		for n, i := range shares[w] {
			err := do(w, i)
			if err == nil && n%64 == 0 {
				err = context.Cause(ctx)
			}
			if err != nil {
				errs[w] = err
				return
			}
			now := clock()
			recorders[w].add(now - last)
			last = now
		}
	}
	for w := range shares[1:] {
		all.Go(func() { work(w + 1) })
	}
	work(0)
	all.Wait()
	for i := range recorders[1:] {
		recorders[0].merge(&recorders[1+i])
	}
	return &recorders[0], errors.Join(errs...)
}

func makeTree(ctx context.Context, t Tree) (none struct{}, err error) {
	files, dirs := t.paths("old")
	_, added := t.paths("new")
	err = os.RemoveAll(t.Dir)
	for _, d := range dirs {
		if err == nil {
			err = os.MkdirAll(d, 0o755)
		}
	}
	for _, d := range added {
		if err == nil {
			err = os.MkdirAll(filepath.Dir(d), 0o755)
		}
	}
	if err != nil {
		return none, err
	}
	f := newFiller(t.Seed, t.Size)
	_, err = each(ctx, t.shares(t.Files, nil), func(_, i int) error {
		return os.WriteFile(files[i], f.fill(make([]byte, t.Size), i), 0o644)
	})
	return none, err
}

func metadata(ctx context.Context, t Tree) (*Result, error) {
	out := &Result{Facts: map[string]string{}, Calls: map[string]int{}}
	if t.Cold {
		out.forget()
	}
	files, dirs := t.paths("old")
	added, addedDirs := t.paths("new")
	ending := func(names []string, end string) (all []string) {
		for _, n := range names {
			all = append(all, n+end)
		}
		return all
	}
	missing, renamed, links := ending(files, ".none"), ending(files, ".new"), []string(nil)
	if t.Symlinks {
		links = ending(files, ".link")
	}
	type buffers struct {
		got, names []byte
		asked      int
	}
	f, own := newFiller(t.Seed, t.Size), make([]buffers, t.Workers)
	for w := range own {
		own[w] = buffers{make([]byte, t.Size+1), make([]byte, 32<<10), 0}
	}
	do := map[string]func(w, i int) error{
		"stat": func(_, i int) error { return stat(files[i]) },
		"missing": func(_, i int) error {
			if err := stat(missing[i]); !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("%s was never created, but its lookup returned %v", missing[i], err)
			}
			return nil
		},
		"readdir": func(w, i int) error {
			names, asked, err := list(dirs[i], own[w].names)
			own[w].asked += asked
			if want := (t.Files - i + t.Directories - 1) / t.Directories; err == nil && len(names) != want {
				err = fmt.Errorf("%s lists %d names in place of %d", dirs[i], len(names), want)
			}
			return err
		},
		"read":    func(w, i int) error { return f.check(files[i], own[w].got, t.Size, i) },
		"chmod":   func(_, i int) error { return chmod(files[i]) },
		"rename":  func(_, i int) error { return rename(files[i], renamed[i]) },
		"symlink": func(_, i int) error { return symlink(filepath.Base(renamed[i]), links[i]) },
		"unlink": func(_, i int) error {
			if i < t.Files {
				return unlink(renamed[i])
			}
			return unlink(links[i-t.Files])
		},
		"rmdir":  func(_, i int) error { return rmdir(dirs[i]) },
		"mkdir":  func(_, i int) error { return mkdir(addedDirs[i]) },
		"create": func(_, i int) error { return create(added[i], nil) },
	}
	calls := map[string][]string{
		"stat": {"newfstatat"}, "missing": {"newfstatat"}, "readdir": {"openat", "close"}, "read": {"openat", "read", "close"}, "chmod": {"fchmodat"}, "rename": {"renameat"},
		"symlink": {"symlinkat"}, "unlink": {"unlinkat"}, "rmdir": {"unlinkat"}, "mkdir": {"mkdirat"}, "create": {"openat", "close"},
	}
	count := map[string]int{"readdir": t.Directories, "rmdir": t.Directories, "mkdir": t.Directories, "symlink": len(links), "unlink": t.Files + len(links)}
	var total time.Duration
	operations := 0
	for number, o := range Operations {
		op, n := o[0], t.Files
		if c, there := count[op]; there {
			n = c
		}
		if n == 0 {
			continue
		}
		order := rand.New(rand.NewPCG(t.Seed, uint64(number)))
		if op == "create" || op == "mkdir" { // in ascending order, as a program creates them
			order = nil
		}
		shares := t.shares(n, order)
		begun := time.Now()
		recorded, err := each(ctx, shares, do[op])
		took := time.Since(begun)
		if err != nil {
			return nil, &iotax.Error{Op: op, On: t.Dir, Err: err}
		}
		out.value(op+".rate", float64(n)/took.Seconds(), iotax.PerSecond, iotax.Up)
		recorded.into(out, op)
		out.called(n, calls[op]...)
		total += took
		operations += n
	}
	for _, o := range own {
		out.called(o.asked, "getdents64")
	}
	out.value(iotax.ValueDuration, total.Seconds(), iotax.Seconds, iotax.Down)
	out.value(iotax.ValueOperations, float64(operations), iotax.Count, iotax.Neither)
	out.value("operations.rate", float64(operations)/total.Seconds(), iotax.PerSecond, iotax.Up)
	return out, verifyNew(t, added)
}

// verifyNew checks that the new files exist and are empty, and that the old directories do not exist.
func verifyNew(t Tree, files []string) error {
	for _, f := range files {
		if st, err := os.Stat(f); err != nil || st.Size() != 0 {
			return &iotax.Error{Op: "verify", On: f, Err: fmt.Errorf("it was created empty, and is missing or not empty now (%v)", err)}
		}
	}
	for i := range t.Directories {
		if d := t.directory("old", i); !errors.Is(stat(d), fs.ErrNotExist) {
			return &iotax.Error{Op: "verify", On: d, Err: errors.New("it was removed, but still exists")}
		}
	}
	return nil
}
