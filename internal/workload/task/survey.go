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

// A Survey is what a fio job needs to know of a machine.
type Survey struct {
	OS, Arch string            // as runtime.GOOS and GOARCH have them
	Key      string            // identifies this boot of this machine for this user
	Fio      string            // path, or ""
	Version  string            // of fio
	Vars     map[string]string // fio's ncpus, pagesize and mb_memory
}

var (
	// Look surveys a machine.
	Look = agent.New("survey", look)
	// Find returns where a program is, or "". It also looks where root finds programs.
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
	if len(key) > 0 { // only Linux tells one boot from another
		key = append(key, valueIn("/proc/self/status", "Seccomp:"), strconv.Itoa(os.Getuid()))
		s.Key = strings.Join(key, " ")
	}
	return s, nil
}

// Vars are the variables of this machine that a fio job may use.
func Vars() map[string]string {
	vars := map[string]string{"ncpus": strconv.Itoa(online()), "pagesize": strconv.Itoa(os.Getpagesize())}
	if kb, err := strconv.ParseInt(strings.TrimSuffix(valueIn("/proc/meminfo", "MemTotal:"), " kB"), 10, 64); err == nil {
		vars["mb_memory"] = strconv.FormatInt(kb/1024, 10)
	}
	return vars
}

// valueIn is what follows the key at the start of a line of a file.
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

// online is the number of CPUs of the machine, as fio counts them: whatever this process may use.
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
	path, _ := agent.Tool(program) // "" where there is none
	return path
}

// toolDirs are the directories that may hold copied tools, best first.
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

// runsPrograms reports whether dir is, or can be made, a directory of this user's own whose programs run.
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
	_, err = agent.Exec(ctx, f.Name()) // an empty file is not a program, but the error is EACCES only where none may run
	return !errors.Is(err, fs.ErrPermission)
}
