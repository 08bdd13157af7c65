package generate

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"iotax"
	"iotax/internal/agent"
)

// A Build does the I/O of make, a compiler and ar. make reads the modification times of all files. For each source, the
// compiler reads the source, searches the header directories for its headers and reads them, uses CPU time, and writes
// an object. ar copies all objects to an archive. Then make reads the modification times again.
type Build struct {
	Dir                              string // MakeSources creates it, replacing an old one
	Sources, Headers, Includes, Jobs int    // Includes is the number of headers that each source includes
	Compile                          time.Duration
	Seed                             uint64
	Cold                             bool // drop the kernel's cache of names and attributes first, if permitted
}

const (
	sourceSize = 12 << 10
	headerSize = 6 << 10
	objectSize = 24 << 10
	headerDirs = 3
	archive    = "lib.a"
)

var (
	// MakeSources creates the sources in Dir, replacing an old Dir.
	MakeSources = agent.New("make a source tree", makeSources)
	// DoBuild builds the tree of MakeSources.
	DoBuild = agent.New("build a source tree", doBuild)
)

// Space returns the space that all files need, in bytes.
func (b Build) Space() int64 {
	const block = 4096
	return int64(b.Sources)*(sourceSize+2*objectSize+3*block) + int64(b.Headers)*(headerSize+2*block) + block*int64(b.Sources/10+8)
}

func (b Build) source(i int) string {
	return filepath.Join(b.Dir, fmt.Sprintf("src%03d", i/20), fmt.Sprintf("file%05d.c", i))
}

func (b Build) object(i int) string { return b.source(i) + ".o" }

// header returns the path that header i would have in the header directory dir. Only one of the headerDirs directories
// contains header i.
func (b Build) header(dir, i int) string {
	return filepath.Join(b.Dir, fmt.Sprintf("include%d", dir), fmt.Sprintf("header%05d.h", i))
}

// headerNumber and objectNumber return the content number of a header and of an object. The sources have the numbers
// from 0, followed by the headers and the objects.
func (b Build) headerNumber(i int) int { return b.Sources + i }
func (b Build) objectNumber(i int) int { return b.Sources + b.Headers + i }

func makeSources(ctx context.Context, b Build) (none struct{}, err error) {
	err = os.RemoveAll(b.Dir)
	for i := 0; i < b.Sources && err == nil; i += 20 {
		err = os.MkdirAll(filepath.Dir(b.source(i)), 0o755)
	}
	for d := range headerDirs {
		if err == nil {
			err = os.MkdirAll(filepath.Dir(b.header(d, 0)), 0o755)
		}
	}
	content, buf := newFiller(b.Seed, objectSize), make([]byte, objectSize)
	for i := 0; i < b.Sources && err == nil; i++ {
		if err = os.WriteFile(b.source(i), content.fill(buf[:sourceSize], i), 0o644); err == nil {
			err = context.Cause(ctx)
		}
	}
	for i := 0; i < b.Headers && err == nil; i++ {
		err = os.WriteFile(b.header(i%headerDirs, i), content.fill(buf[:headerSize], b.headerNumber(i)), 0o644)
	}
	return none, err
}

// compute computes checksums of block until it has used the given CPU time. It returns a checksum, so that the Go
// compiler does not remove the loop.
func compute(long time.Duration, block []byte) (sum uint32) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for end := cpuTime() + long; cpuTime() < end; {
		sum = crc32.Update(sum, table, block)
	}
	return sum
}

// A sources is a Build with the paths of its files.
type sources struct {
	Build
	source, object []string
	header         [headerDirs][]string // the paths that each header would have in each directory
}

func (b Build) paths() sources {
	s := sources{Build: b}
	for i := range b.Sources {
		s.source, s.object = append(s.source, b.source(i)), append(s.object, b.object(i))
	}
	for i := range b.Headers {
		for d := range s.header {
			s.header[d] = append(s.header[d], b.header(d, i))
		}
	}
	return s
}

// look reads the attributes of all sources, objects and headers, as make does. If `built` is true, the objects must
// exist.
func (b sources) look(built bool) error {
	for i := range b.Sources {
		err := stat(b.source[i])
		if err == nil {
			if err = stat(b.object[i]); !built && errors.Is(err, fs.ErrNotExist) {
				err = nil
			}
		}
		if err != nil {
			return err
		}
	}
	for i := range b.Headers {
		if err := stat(b.header[i%headerDirs][i]); err != nil {
			return err
		}
	}
	return nil
}

// included returns the numbers of the headers that a source includes.
func (b Build) included(source int) []int {
	random, all := rand.New(rand.NewPCG(b.Seed, uint64(source))), make([]int, b.Includes)
	for i := range all {
		all[i] = random.IntN(b.Headers)
	}
	return all
}

func (b sources) compile(content filler, got []byte, source int) error {
	if err := content.check(b.source[source], got, sourceSize, source); err != nil {
		return err
	}
	for _, h := range b.included(source) {
		for d := range h % headerDirs {
			if _, err := read(b.header[d][h], got); !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("%s was never created, but opening it returned %v", b.header[d][h], err)
			}
		}
		if err := content.check(b.header[h%headerDirs][h], got, headerSize, b.headerNumber(h)); err != nil {
			return err
		}
	}
	compute(b.Compile, got)
	return create(b.object[source], content.fill(got[:objectSize], b.objectNumber(source)))
}

// join copies all objects to the archive.
func (b sources) join(content filler, got []byte) error {
	f, err := os.OpenFile(filepath.Join(b.Dir, archive), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	for i := 0; i < b.Sources && err == nil; i++ {
		if err = content.check(b.object[i], got, objectSize, b.objectNumber(i)); err == nil {
			_, err = f.Write(got[:objectSize])
		}
	}
	return errors.Join(err, f.Close())
}

func doBuild(ctx context.Context, b Build) (*Result, error) {
	out, content := &Result{Facts: map[string]string{}, Calls: map[string]int{}}, newFiller(b.Seed, objectSize)
	if b.Cold {
		out.forget()
	}
	got := make([][]byte, b.Jobs)
	for w := range b.Jobs {
		got[w] = make([]byte, objectSize+1)
	}
	fail := func(op string, err error) error {
		return &iotax.Error{Op: op, On: b.Dir, Err: err}
	}
	tree := b.paths()
	begun := time.Now()
	if err := tree.look(false); err != nil {
		return nil, fail("read the times of the sources", err)
	}
	compiled, err := each(ctx, deal(b.Sources, b.Jobs), func(w, i int) error { return tree.compile(content, got[w], i) })
	if err != nil {
		return nil, fail("compile", err)
	}
	if err := tree.join(content, got[0]); err != nil {
		return nil, fail("make the archive", err)
	}
	took := time.Since(begun)
	again := time.Now()
	if err := tree.look(true); err != nil {
		return nil, fail("read the times of the objects", err)
	}
	out.value("nothing.duration", time.Since(again).Seconds(), iotax.Seconds, iotax.Down)
	out.value(iotax.ValueDuration, took.Seconds(), iotax.Seconds, iotax.Down)
	parallel := min(b.Jobs, runtime.GOMAXPROCS(0)) // more jobs than CPUs do not compile faster
	out.value("compute.share", b.Compile.Seconds()*float64(b.Sources)/float64(parallel)/took.Seconds(), iotax.RatioUnit, iotax.Neither)
	compiled.into(out, "compile")
	out.called(4*b.Sources+2*b.Headers, "newfstatat")
	out.called((2+b.Includes)*b.Sources, "openat", "read", "close") // sources, headers, and objects for the archive
	out.called(b.Sources, "openat", "write", "close")
	for i := range b.Sources {
		for _, h := range b.included(i) {
			out.called(h%headerDirs, "openat") // these fail
		}
	}
	out.called(1, "openat", "close")
	out.called(b.Sources, "write")
	return out, b.verify(content)
}

// verify reads the archive and compares it with the expected contents.
func (b Build) verify(content filler) error {
	path := filepath.Join(b.Dir, archive)
	f, err := os.Open(path)
	if err != nil {
		return &iotax.Error{Op: "verify", On: path, Err: iotax.Cause(err)}
	}
	defer f.Close()
	got := make([]byte, objectSize)
	for i := 0; i < b.Sources && err == nil; i++ {
		if _, err = io.ReadFull(f, got); err == nil && !content.filled(got, objectSize, b.objectNumber(i)) {
			err = fmt.Errorf("object %d is not what was written", i)
		}
	}
	if err != nil {
		return lost(path, err)
	}
	return nil
}
