package generate

import (
	"cmp"
	"encoding/json"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
)

// The generators count the same system calls as strace. For metadata and node_modules the test compares all calls, for the
// others only the kinds of calls in their results. No two names differ only by case, so a file system may ignore it.
func TestCalls(t *testing.T) {
	const variable = "IOTAX_TRACED"
	type traced struct {
		stage func(dir string) error
		do    func(dir string) (*Result, error)
		more  map[string]int // calls of the later verification
		named bool           // compare only the calls that the result names
		not   string         // name of a file whose calls the generator does not count
	}
	tree := Tree{Files: 3000, Directories: 2, Depth: 1, Workers: 2, Size: 64, Symlinks: true}
	modules := Modules{Files: 500, Workers: 2, Symlinks: true}
	packs := len(modules.packages())
	build := Build{Sources: 45, Headers: 7, Includes: 5, Jobs: 2, Seed: 4}
	repository := Repository{Files: 600, Seed: 1}
	load := Dataload{Shards: 3, Records: 11, Size: 10_000, Workers: 4, Batch: 5, Checkpoint: 5<<20 + 1, Seed: 2}
	etcd := Etcd{Entry: 1 << 20, Keys: 10, Seed: 3, Ramp: 50 * time.Millisecond, Length: 3 * time.Second} // large entries begin new segments
	wal := func(method string) traced {
		w := WAL{Committers: 16, Record: 200_000, Pages: 128, Method: method, Checkpoint: 50 * time.Millisecond, Seed: 9, Ramp: 50 * time.Millisecond, Length: time.Second}
		return traced{
			stage: func(dir string) error { w.Dir = dir; _, err := makeWAL(t.Context(), w); return err },
			do:    func(dir string) (*Result, error) { w.Dir = dir; return doWAL(t.Context(), w) },
			named: true,
		}
	}
	for name, c := range map[string]traced{
		"metadata": {
			stage: func(dir string) error { tree.Dir = dir; _, err := makeTree(t.Context(), tree); return err },
			do:    func(dir string) (*Result, error) { tree.Dir = dir; return metadata(t.Context(), tree) },
			more:  map[string]int{"newfstatat": tree.Files + tree.Directories},
		},
		"node_modules": {
			stage: func(dir string) error { modules.Dir = dir; _, err := makeModules(t.Context(), modules); return err },
			do:    func(dir string) (*Result, error) { modules.Dir = dir; return doModules(t.Context(), modules) },
			more:  map[string]int{"openat": modules.Files + packs, "read": modules.Files + packs, "close": modules.Files + packs},
		},
		"build": {
			stage: func(dir string) error { build.Dir = dir; _, err := makeSources(t.Context(), build); return err },
			do:    func(dir string) (*Result, error) { build.Dir = dir; return doBuild(t.Context(), build) },
			more:  map[string]int{"openat": 1, "read": build.Sources, "close": 1},
			named: true,
		},
		"git": {
			stage: func(dir string) error {
				repository.Dir = dir
				_, err := makeRepository(t.Context(), repository)
				return err
			},
			do:    func(dir string) (*Result, error) { repository.Dir = dir; return doGit(t.Context(), repository) },
			more:  map[string]int{"openat": 2 * repository.Files},
			named: true,
		},
		"dataload": {
			stage: func(dir string) error { load.Dir = dir; _, err := makeShards(t.Context(), load); return err },
			do:    func(dir string) (*Result, error) { load.Dir = dir; return doDataload(t.Context(), load) },
			named: true,
		},
		"etcd": {
			stage: func(string) error { return nil },
			do:    func(dir string) (*Result, error) { etcd.Dir = dir; return doEtcd(t.Context(), etcd) },
			named: true, not: "/db",
		},
		"wal with fdatasync": wal("fdatasync"), "wal with fsync": wal("fsync"), "wal with open_datasync": wal("open_datasync"),
	} {
		t.Run(name, func(t *testing.T) {
			if dir := os.Getenv(variable); dir != "" {
				out, err := c.do(dir)
				if err != nil {
					t.Fatal(err)
				}
				calls, _ := json.Marshal(out.Calls)
				if err := os.WriteFile(dir+".calls", calls, 0o600); err != nil {
					t.Fatal(err)
				}
				return
			}
			dir := filepath.Join(t.TempDir(), "w")
			if err := c.stage(dir); err != nil {
				t.Fatal(err)
			}
			log := dir + ".strace"
			cmd := exec.Command("strace", "-f", "-y", "-qq", "-e", "trace=%file,%desc", "-o", log, os.Args[0], "-test.run=^TestCalls$/^"+strings.ReplaceAll(name, " ", "_")+"$")
			cmd.Env = append(os.Environ(), variable+"="+dir)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			read := func(file string) []byte {
				b, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				return b
			}
			want := map[string]int{}
			if err := json.Unmarshal(read(dir+".calls"), &want); err != nil {
				t.Fatal(err)
			}
			for call, n := range c.more {
				want[call] += n
			}
			got, name := map[string]int{}, regexp.MustCompile(`^\d+ +(\w+)\(`)
			for line := range strings.Lines(string(read(log))) {
				m := name.FindStringSubmatch(line)
				inside := strings.Contains(line, dir+"/") && (c.not == "" || !strings.Contains(line, dir+c.not))
				if m == nil || !inside && !(m[1] == "fsync" && strings.Contains(line, dir+">")) {
					continue
				}
				if _, counted := want[m[1]]; counted || !c.named {
					got[m[1]]++
				}
			}
			t.Log(got)
			names := map[string]bool{}
			if err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
				if low := strings.ToLower(path); names[low] {
					t.Errorf("%s differs from another name only by case", path)
				} else {
					names[low] = true
				}
				return err
			}); err != nil {
				t.Error(err)
			}
			if d := gocmp.Diff(want, got); d != "" {
				t.Errorf("calls (-counted +strace):\n%s", d)
			}
		})
	}
}

// BenchmarkOverhead measures the overhead of generators in percent: how much longer they take on tmpfs than a plain loop
// of the same calls. It reports the median of pairs, with a 95 % confidence interval. The pairs are short, because the
// machine's speed changes from second to second.
func BenchmarkOverhead(b *testing.B) {
	modules := func(dir string) Modules { return Modules{Dir: dir, Files: 600, Workers: 1, Symlinks: true} }
	build := func(dir string) Build {
		return Build{Dir: dir, Sources: 40, Headers: 80, Includes: 25, Jobs: 1}
	}
	for name, c := range map[string]struct {
		stage func(dir string) error
		plan  func(dir string) []func() error // the calls of the plain loop
		do    func(dir string) (*Result, error)
		value []string // the values whose sum the loop is compared with
	}{
		"metadata": {
			func(dir string) error { _, err := makeTree(b.Context(), treeIn(dir)); return err },
			func(dir string) []func() error { return treeIn(dir).plain() },
			func(dir string) (*Result, error) { return metadata(b.Context(), treeIn(dir)) },
			[]string{"duration"},
		},
		"node_modules": {
			func(dir string) error { _, err := makeModules(b.Context(), modules(dir)); return err },
			func(dir string) []func() error { return modules(dir).plain() },
			func(dir string) (*Result, error) { return doModules(b.Context(), modules(dir)) },
			[]string{"duration"},
		},
		"build": {
			func(dir string) error { _, err := makeSources(b.Context(), build(dir)); return err },
			func(dir string) []func() error { return build(dir).plain() },
			func(dir string) (*Result, error) { return doBuild(b.Context(), build(dir)) },
			[]string{"duration", "nothing.duration"},
		},
	} {
		b.Run(name, func(b *testing.B) {
			dir, err := os.MkdirTemp("/dev/shm", "")
			if err != nil {
				b.Fatal(err)
			}
			defer os.RemoveAll(dir)
			dir = filepath.Join(dir, "w")
			var more []float64
			for b.Loop() {
				var took [2]float64
				for _, i := range rand.Perm(2) {
					err := c.stage(dir)
					if err == nil && i == 0 {
						calls := c.plan(dir)
						runtime.GC()
						begun := time.Now()
						for _, call := range calls {
							if err = call(); err != nil {
								break
							}
						}
						took[0] = time.Since(begun).Seconds()
					} else if err == nil {
						var out *Result
						runtime.GC()
						if out, err = c.do(dir); err == nil {
							for _, v := range c.value {
								took[1] += values(out)[v]
							}
						}
					}
					if err != nil {
						b.Fatal(err)
					}
				}
				more = append(more, 100*(took[1]/took[0]-1))
			}
			slices.Sort(more)
			n := len(more)
			b.ReportMetric(more[n/2], "%more")
			b.ReportMetric(more[max(0, n/2-int(math.Sqrt(float64(n))))], "%least")
			b.ReportMetric(more[min(n-1, n/2+int(math.Sqrt(float64(n))))], "%most")
		})
	}
}

func treeIn(dir string) Tree {
	return Tree{Dir: dir, Files: 500, Directories: 10, Depth: 1, Workers: 1, Size: 4096, Symlinks: true}
}

// plain returns the calls of metadata, in the same order.
func (t Tree) plain() (calls []func() error) {
	files, dirs := t.paths("old")
	added, addedDirs := t.paths("new")
	names, got := make([]byte, 32<<10), make([]byte, t.Size+1)
	for number, o := range Operations {
		n := map[string]int{"readdir": t.Directories, "rmdir": t.Directories, "mkdir": t.Directories, "unlink": 2 * t.Files}[o[0]]
		order := rand.New(rand.NewPCG(t.Seed, uint64(number)))
		if o[0] == "create" || o[0] == "mkdir" {
			order = nil
		}
		for _, i := range t.shares(cmp.Or(n, t.Files), order)[0] {
			f := files[i%t.Files]
			var call func() error
			switch none, renamed, link, base := f+".none", f+".new", f+".link", filepath.Base(f+".new"); o[0] {
			case "stat":
				call = func() error { return stat(f) }
			case "missing":
				call = func() error { _ = stat(none); return nil }
			case "readdir":
				call = func() error { _, _, err := list(dirs[i], names); return err }
			case "read":
				call = func() error { _, err := read(f, got); return err }
			case "chmod":
				call = func() error { return chmod(f) }
			case "rename":
				call = func() error { return rename(f, renamed) }
			case "symlink":
				call = func() error { return symlink(base, link) }
			case "unlink":
				if call = func() error { return unlink(renamed) }; i >= t.Files {
					call = func() error { return unlink(link) }
				}
			case "rmdir":
				call = func() error { return rmdir(dirs[i]) }
			case "mkdir":
				call = func() error { return mkdir(addedDirs[i]) }
			case "create":
				call = func() error { return create(added[i], nil) }
			}
			calls = append(calls, call)
		}
	}
	return calls
}

// plain returns the calls of doModules, in the same order.
func (m Modules) plain() (calls []func() error) {
	names, content := make([]byte, 32<<10), make([]byte, largestFile)
	var walk func(path string, remove bool)
	walk = func(path string, remove bool) {
		calls = append(calls, func() error { _, _, err := list(path, names); return err })
		all, _, _ := list(path, make([]byte, 32<<10))
		for _, n := range all {
			n = filepath.Join(path, n)
			calls = append(calls, func() error { _, _, err := lstat(n); return err })
			if dir, _, _ := lstat(n); dir {
				walk(n, remove)
			} else if remove {
				calls = append(calls, func() error { return unlink(n) })
			}
		}
		if remove {
			calls = append(calls, func() error { return rmdir(path) })
		}
	}
	top, bin := filepath.Join(m.Dir, "old"), filepath.Join(m.Dir, "new", ".bin")
	for _, remove := range []bool{false, true} {
		calls = append(calls, func() error { _, _, err := list(top, names); return err })
		for _, p := range m.packages() {
			walk(filepath.Join(top, p.name), remove)
		}
		walk(filepath.Join(top, ".bin"), remove)
	}
	calls = append(calls, func() error { return rmdir(top) }, func() error { return mkdir(filepath.Dir(bin)) }, func() error { return mkdir(bin) })
	for _, p := range m.packages() {
		place, link := filepath.Join(filepath.Dir(bin), p.name), filepath.Join(bin, p.name)
		unpacked, first := place+".new", filepath.Join("..", p.name, p.files[0].path)
		calls = append(calls, func() error { return mkdir(unpacked) })
		for _, d := range p.dirs {
			d = filepath.Join(unpacked, d)
			calls = append(calls, func() error { return mkdir(d) })
		}
		for _, f := range p.files {
			path := filepath.Join(unpacked, f.path)
			calls = append(calls, func() error { return create(path, content[:f.size]) })
		}
		calls = append(calls, func() error { return rename(unpacked, place) }, func() error { return symlink(first, link) })
	}
	return calls
}

// plain returns the calls of doBuild, in the same order.
func (b Build) plain() (calls []func() error) {
	got, object := make([]byte, objectSize+1), make([]byte, objectSize)
	tree := b.paths()
	calls = append(calls, func() error { return tree.look(false) })
	for i, source := range tree.source {
		calls = append(calls, func() error { _, err := read(source, got); return err })
		for _, h := range b.included(i) {
			for d := range h % headerDirs {
				calls = append(calls, func() error { _, _ = read(tree.header[d][h], got); return nil })
			}
			calls = append(calls, func() error { _, err := read(tree.header[h%headerDirs][h], got); return err })
		}
		calls = append(calls, func() error { return create(tree.object[i], object) })
	}
	var fd int
	calls = append(calls, func() (err error) {
		fd, err = open(filepath.Join(b.Dir, archive), syscall.O_CREAT|syscall.O_EXCL|syscall.O_WRONLY)
		return err
	})
	for _, o := range tree.object {
		calls = append(calls, func() error { _, err := read(o, got); return err }, func() error { _, err := syscall.Write(fd, object); return err })
	}
	return append(calls, func() error { return syscall.Close(fd) }, func() error { return tree.look(true) })
}
