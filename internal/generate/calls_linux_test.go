package generate

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// The generators count the same system calls as strace. For metadata and node_modules the test compares all calls, for the
// others only the kinds of calls in their results.
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
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("calls (-counted +strace):\n%s", d)
			}
		})
	}
}

// BenchmarkOverhead measures the overhead of the metadata generator in percent: how much longer its operations take on
// tmpfs than a plain loop of the same calls. The pairs are short, because the machine's speed changes from second to
// second.
func BenchmarkOverhead(b *testing.B) {
	tree := Tree{Files: 2000, Directories: 2, Depth: 1, Workers: 1, Size: 4096, Symlinks: true}
	dir, err := os.MkdirTemp("/dev/shm", "")
	if err != nil {
		b.Fatal(err)
	}
	defer os.RemoveAll(dir)
	tree.Dir = filepath.Join(dir, "tree")
	var more []float64
	for b.Loop() {
		var took [2]time.Duration
		for _, i := range rand.Perm(2) {
			if _, err := makeTree(b.Context(), tree); err != nil {
				b.Fatal(err)
			}
			if i == 0 {
				took[i], err = plain(tree)
			} else {
				var out *Result
				if out, err = metadata(b.Context(), tree); err == nil {
					took[i] = time.Duration(values(out)["duration"] * 1e9)
				}
			}
			if err != nil {
				b.Fatal(err)
			}
		}
		more = append(more, 100*(took[1].Seconds()/took[0].Seconds()-1))
	}
	slices.Sort(more)
	b.ReportMetric(more[len(more)/2], "%more")
}

// plain makes the same calls as metadata, in the same order, and nothing else.
func plain(t Tree) (time.Duration, error) {
	files, dirs := t.paths("old")
	added, addedDirs := t.paths("new")
	names, got := make([]byte, 32<<10), make([]byte, t.Size+1)
	missing, renamed, links, base := slices.Clone(files), slices.Clone(files), slices.Clone(files), slices.Clone(files)
	for i, f := range files {
		missing[i], renamed[i], links[i], base[i] = f+".none", f+".new", f+".link", filepath.Base(f+".new")
	}
	order := make([][]int, len(Operations))
	for i, n := range []int{t.Files, t.Files, t.Directories, t.Files, t.Files, t.Files, t.Files, 2 * t.Files, t.Directories} {
		order[i] = t.shares(n, rand.New(rand.NewPCG(t.Seed, uint64(i))))[0]
	}
	var st syscall.Stat_t
	var fd int
	begun, errs := time.Now(), error(nil)
	keep := func(err error) {
		if err != nil {
			errs = err
		}
	}
	for _, i := range order[0] {
		keep(syscall.Stat(files[i], &st))
	}
	for _, i := range order[1] {
		_ = syscall.Stat(missing[i], &st)
	}
	for _, i := range order[2] {
		_, _, err := list(dirs[i], names)
		keep(err)
	}
	for _, i := range order[3] {
		var err error
		fd, err = syscall.Open(files[i], syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
		keep(err)
		_, err = syscall.Read(fd, got)
		keep(err)
		keep(syscall.Close(fd))
	}
	for _, i := range order[4] {
		keep(syscall.Chmod(files[i], 0o600))
	}
	for _, i := range order[5] {
		keep(syscall.Rename(files[i], renamed[i]))
	}
	for _, i := range order[6] {
		keep(syscall.Symlink(base[i], links[i]))
	}
	for _, i := range order[7] {
		if i < t.Files {
			keep(syscall.Unlink(renamed[i]))
		} else {
			keep(syscall.Unlink(links[i-t.Files]))
		}
	}
	for _, i := range order[8] {
		keep(syscall.Rmdir(dirs[i]))
	}
	for _, d := range addedDirs {
		keep(syscall.Mkdir(d, 0o755))
	}
	for _, f := range added {
		var err error
		fd, err = syscall.Open(f, syscall.O_CREAT|syscall.O_EXCL|syscall.O_WRONLY|syscall.O_CLOEXEC, 0o644)
		keep(err)
		keep(syscall.Close(fd))
	}
	return time.Since(begun), errs
}
