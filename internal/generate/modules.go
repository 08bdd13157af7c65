package generate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"iotax"
	"iotax/internal/agent"
)

// Modules describes node_modules and the I/O of pnpm and rimraf in it. pnpm unpacks a package to a temporary directory,
// renames that directory, and creates a link in .bin to the package's first file.
type Modules struct {
	Dir            string // MakeModules creates it, replacing an old one
	Files, Workers int
	Symlinks       bool // create the links in .bin
	Seed           uint64
	Cold           bool // drop the kernel's cache of names and attributes before find, if permitted
}

// ModuleSteps lists the steps of DoModules in order, each with its name and description.
var ModuleSteps = [][2]string{
	{"find", "list all directories and read the attributes of every file"}, {"remove", "remove everything"}, {"install", "unpack all packages"},
}

var (
	// MakeModules creates the packages that DoModules finds and removes.
	MakeModules = agent.New("make node_modules", makeModules)
	// DoModules runs the steps. The packages of the last step remain.
	DoModules = agent.New("work on node_modules", doModules)
)

// A pack is a package.
type pack struct {
	name  string
	dirs  []string // parents before their children
	files []packed
	bytes int64
}

// A packed describes one file of a package. Its number determines its content.
type packed struct {
	path         string
	number, size int
}

const (
	perPackage  = 30 // files; an assumption, like the sizes in bytes below
	medianFile  = 1500
	largestFile = 256 << 10
	slash       = string(filepath.Separator) // filepath.Join takes longer: it cleans the path
)

// packages returns the packages. Their names and sizes are the same in every trial.
func (m Modules) packages() []pack {
	r := rand.New(rand.NewPCG(1, 1))
	all := make([]pack, (m.Files+perPackage-1)/perPackage)
	for i := range m.Files {
		p, dir := &all[i%len(all)], []string{"", "dist", "lib", "lib/util"}[i/len(all)%4]
		if p.name = fmt.Sprintf("package-%05d", i%len(all)); i/len(all) < 4 && dir != "" {
			p.dirs = append(p.dirs, dir)
		}
		f := packed{filepath.Join(dir, fmt.Sprintf("file-%03d.js", i/len(all))), i, int(min(max(16, medianFile*math.Exp(1.6*r.NormFloat64())), largestFile))}
		p.files, p.bytes = append(p.files, f), p.bytes+int64(f.size)
	}
	return all
}

// Space returns twice the size of all files in bytes, because a file system may free the space of removed files only
// later.
func (m Modules) Space() int64 {
	const block = 4096
	bytes := int64(8 * block)
	for _, p := range m.packages() {
		bytes += block * int64(2+2*len(p.dirs))
		for _, f := range p.files {
			bytes += block + int64(f.size+block-1)/block*block
		}
	}
	return 2 * bytes
}

// install creates a directory and unpacks all packages in it.
func (m Modules) install(ctx context.Context, name string, packs []pack) (*recorder, error) {
	top := filepath.Join(m.Dir, name)
	bin, content := filepath.Join(top, ".bin"), newFiller(m.Seed, largestFile)
	err := mkdir(top)
	if err == nil && m.Symlinks {
		err = mkdir(bin)
	}
	if err != nil {
		return nil, err
	}
	buffers := make([][]byte, m.Workers)
	for w := range buffers {
		buffers[w] = bytes.Clone(content.block)
	}
	return each(ctx, deal(len(packs), m.Workers), func(w, i int) error {
		p := packs[i]
		place, unpacked := filepath.Join(top, p.name), filepath.Join(top, "."+p.name+".new")
		err := mkdir(unpacked)
		for _, d := range p.dirs {
			if err == nil {
				err = mkdir(unpacked + slash + d)
			}
		}
		for _, f := range p.files {
			if err == nil {
				err = create(unpacked+slash+f.path, content.mark(buffers[w][:f.size], f.number))
			}
		}
		if err == nil {
			err = rename(unpacked, place)
		}
		if err == nil && m.Symlinks {
			err = symlink(filepath.Join("..", p.name, p.files[0].path), filepath.Join(bin, p.name))
		}
		return err
	})
}

func makeModules(ctx context.Context, m Modules) (none struct{}, err error) {
	if err = errors.Join(os.RemoveAll(m.Dir), os.Mkdir(m.Dir, 0o755)); err == nil {
		_, err = m.install(ctx, "old", m.packages())
	}
	return none, err
}

// walked contains the counts that walk returns.
type walked struct {
	names, dirs int
	asked       int // system calls that listed names
	bytes       int64
}

func (w *walked) add(o walked) {
	w.names += o.names
	w.dirs += o.dirs
	w.asked += o.asked
	w.bytes += o.bytes
}

// walk calls lstat for every name below a directory. If `remove` is true, walk also removes the directory and
// everything below it.
func walk(path string, remove bool, buf []byte) (w walked, err error) {
	names, asked, err := list(path, buf)
	w = walked{len(names), 1, asked, 0}
	for _, n := range names {
		if err != nil {
			return w, err
		}
		var dir bool
		var size int64
		n = path + slash + n
		switch dir, size, err = lstat(n); {
		case err != nil:
		case dir:
			var below walked
			below, err = walk(n, remove, buf)
			w.add(below)
		default:
			if w.bytes += size; remove {
				err = unlink(n)
			}
		}
	}
	if err == nil && remove {
		err = rmdir(path)
	}
	return w, err
}

func doModules(ctx context.Context, m Modules) (*Result, error) {
	out := &Result{Facts: map[string]string{}, Calls: map[string]int{}}
	packs, old := m.packages(), filepath.Join(m.Dir, "old")
	var below []string // names in the top directory: one per package, and .bin with Symlinks
	var links, dirs int
	for _, p := range packs {
		below, dirs = append(below, p.name), dirs+1+len(p.dirs)
	}
	if m.Symlinks {
		below, links, dirs = append(below, ".bin"), len(packs), dirs+1
	}
	if m.Cold {
		out.forget()
	}
	through := func(remove bool) func() (*recorder, error) {
		return func() (*recorder, error) {
			buffers, seen := make([][]byte, m.Workers), make([]walked, m.Workers)
			for w := range buffers {
				buffers[w] = make([]byte, 32<<10)
			}
			names, asked, err := list(old, buffers[0])
			if err != nil {
				return nil, err
			}
			if len(names) != len(below) {
				return nil, fmt.Errorf("%s lists %d names in place of %d", old, len(names), len(below))
			}
			recorded, err := each(ctx, deal(len(below), m.Workers), func(w, i int) error {
				found, err := walk(filepath.Join(old, below[i]), remove, buffers[w])
				if err == nil && i < len(packs) && found.bytes != packs[i].bytes {
					err = fmt.Errorf("the files of %s have %d bytes in place of %d", below[i], found.bytes, packs[i].bytes)
				}
				seen[w].add(found)
				return err
			})
			all := walked{asked: asked, dirs: 1}
			for _, s := range seen {
				all.add(s)
			}
			if want := m.Files + links + dirs - len(below); err == nil && all.names != want {
				err = fmt.Errorf("%d names are below %s in place of %d", all.names, old, want)
			}
			out.called(all.dirs, "openat", "close")
			out.called(all.asked, "getdents64")
			out.called(all.names, "newfstatat")
			if err == nil && remove {
				err = rmdir(old)
				out.called(m.Files+links+dirs+1, "unlinkat")
			}
			return recorded, err
		}
	}
	do := map[string]func() (*recorder, error){
		"find": through(false), "remove": through(true),
		"install": func() (*recorder, error) {
			out.called(dirs+1, "mkdirat")
			out.called(m.Files, "openat", "write", "close")
			out.called(len(packs), "renameat")
			out.called(links, "symlinkat")
			return m.install(ctx, "new", packs)
		},
	}
	var total time.Duration
	for _, s := range ModuleSteps {
		begun := time.Now()
		recorded, err := do[s[0]]()
		if err != nil {
			return nil, &iotax.Error{Op: s[0], On: m.Dir, Err: err}
		}
		took := time.Since(begun)
		out.value(s[0]+".duration", took.Seconds(), iotax.Seconds, iotax.Down)
		recorded.into(out, s[0])
		total += took
	}
	out.value(iotax.ValueDuration, total.Seconds(), iotax.Seconds, iotax.Down)
	return out, m.verify(packs)
}

// verify reads every installed file back and compares it with the expected content.
func (m Modules) verify(packs []pack) error {
	content, got := newFiller(m.Seed, largestFile), make([]byte, largestFile+1)
	holds := func(path string, f packed) error {
		if err := content.check(path, got, f.size, f.number); err != nil {
			return lost(path, err)
		}
		return nil
	}
	top := filepath.Join(m.Dir, "new")
	for _, p := range packs {
		for _, f := range p.files {
			if err := holds(filepath.Join(top, p.name, f.path), f); err != nil {
				return err
			}
		}
		if m.Symlinks {
			if err := holds(filepath.Join(top, ".bin", p.name), p.files[0]); err != nil {
				return err
			}
		}
	}
	return nil
}
