package task

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"iotax/internal/agent"
)

// A Survey describes a machine for a fio job.
type Survey struct {
	OS, Arch string            // as in runtime.GOOS and runtime.GOARCH
	Key      string            // identifies this boot of the machine, the agent's seccomp mode and this user; "" if unknown
	Fio      string            // path; "" if fio is not installed or does not start
	Version  string            // of fio
	Vars     map[string]string // fio's ncpus, pagesize and mb_memory
}

var (
	// Look returns the Survey of a machine.
	Look = agent.New("survey", look)
	// Find returns the path of a program, or "". It also searches the sbin directories, like agent.Tool.
	Find = agent.New("find program", func(_ context.Context, program string) (string, error) { return find(program), nil })
)

func look(ctx context.Context, _ struct{}) (Survey, error) {
	s := Survey{OS: runtime.GOOS, Arch: runtime.GOARCH, Vars: Vars()}
	if path, err := exec.LookPath("fio"); err == nil {
		out, err := agent.Exec(ctx, path, "--version")
		if ctx.Err() != nil {
			return s, context.Cause(ctx)
		}
		if err == nil {
			s.Fio, s.Version = path, strings.TrimSpace(out)
		}
	}
	var key []string
	for _, file := range []string{"random/boot_id", "hostname"} {
		if text, err := os.ReadFile("/proc/sys/kernel/" + file); err == nil {
			key = append(key, strings.TrimSpace(string(text)))
		}
	}
	if len(key) > 0 { // only Linux identifies the boot
		key = append(key, valueIn("/proc/self/status", "Seccomp:"), strconv.Itoa(os.Getuid()))
		s.Key = strings.Join(key, " ")
	}
	return s, nil
}

// Vars returns this machine's values of the variables that a fio job may use.
func Vars() map[string]string {
	vars := map[string]string{"ncpus": strconv.Itoa(online()), "pagesize": strconv.Itoa(os.Getpagesize())}
	if kb, err := strconv.ParseInt(strings.TrimSuffix(valueIn("/proc/meminfo", "MemTotal:"), " kB"), 10, 64); err == nil {
		vars["mb_memory"] = strconv.FormatInt(kb/1024, 10)
	}
	return vars
}

// valueIn returns the text after `key` on the first line of `file` that starts with it, or "".
func valueIn(file, key string) string {
	f, err := os.Open(file)
	if err != nil {
		return ""
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if v, ok := strings.CutPrefix(lines.Text(), key); ok {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

// online returns the number of the machine's online CPUs, as fio counts them. It includes CPUs that this process may
// not use.
func online() int {
	text, err := os.ReadFile("/sys/devices/system/cpu/online")
	n := 0
	for part := range strings.SplitSeq(strings.TrimSpace(string(text)), ",") {
		first, last, isRange := strings.Cut(part, "-")
		a, err1 := strconv.Atoi(first)
		if !isRange {
			last = first
		}
		b, err2 := strconv.Atoi(last)
		if err = errors.Join(err, err1, err2); err == nil {
			n += b - a + 1
		}
	}
	if err != nil || n < 1 {
		return runtime.NumCPU()
	}
	return n
}

func find(program string) string {
	path, _ := agent.Tool(program) // "" if it is not installed
	return path
}

// toolDirs returns the directories that may contain copied tools, best first.
func toolDirs() []string {
	cache := os.Getenv("XDG_CACHE_HOME")
	if home := os.Getenv("HOME"); cache == "" && home != "" {
		cache = filepath.Join(home, ".cache")
	}
	var dirs []string
	if cache != "" {
		dirs = append(dirs, filepath.Join(cache, "iotax"))
	}
	for _, d := range []string{"/var/tmp", os.TempDir(), "/run"} {
		dirs = append(dirs, fmt.Sprintf("%s/iotax-tools-%d", d, os.Getuid()))
	}
	return dirs
}

// runsPrograms reports whether `dir` belongs to this user and can run programs. It creates `dir` if it is missing.
func runsPrograms(ctx context.Context, dir string) bool {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return false
	}
	st, err := os.Lstat(dir)
	if err != nil || !st.IsDir() || !ownedByUser(st) {
		return false
	}
	f, err := os.CreateTemp(dir, ".x")
	if err != nil {
		return false
	}
	defer os.Remove(f.Name())
	if err = errors.Join(f.Chmod(0o700), f.Close()); err != nil {
		return false
	}
	_, err = agent.Exec(ctx, f.Name()) // executing an empty file always fails, but with EACCES only if programs in the directory cannot be executed
	return !errors.Is(err, fs.ErrPermission)
}
