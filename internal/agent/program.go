package agent

import (
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"

	"iotax"
	"iotax/internal/agent/agents"
)

// A program is an agent that can be copied to machines of its system.
type program struct {
	system string // "linux/amd64"
	hash   string // SHA-256
	size   int64
	open   func() (io.ReadCloser, error)
}

// unames maps a system to the output of uname -s and uname -m on it, joined with a slash.
var unames = map[string]string{
	"linux/amd64":  "Linux/x86_64",
	"linux/arm64":  "Linux/aarch64",
	"darwin/amd64": "Darwin/x86_64",
	"darwin/arm64": "Darwin/arm64",
}

// carried returns the agents that this program can copy: the embedded agents in a build with the tag agents (see `make
// agents`), otherwise this program itself.
var carried = sync.OnceValues(func() ([]program, error) {
	if all, err := programsOf(agents.Files()); err != nil || len(all) > 0 {
		return all, err
	}
	p, err := self()
	return []program{p}, err
})

// Unpack writes the embedded agent for a system to the file agent-SHA256 in dir, unless that file exists and has the
// right size. It returns the path of the file, or "" if this program has no embedded agents.
func Unpack(dir, system string) (string, error) {
	programs, err := programsOf(agents.Files())
	if err != nil || len(programs) == 0 {
		return "", err
	}
	i := slices.IndexFunc(programs, func(p program) bool { return p.system == system })
	if i < 0 {
		why, _ := lacking(system, programs)
		return "", why
	}
	p := programs[i]
	path := filepath.Join(dir, "agent-"+p.hash)
	if st, err := os.Stat(path); err == nil && st.Size() == p.size {
		return path, nil
	}
	r, err := p.open()
	if err != nil {
		return "", err
	}
	defer r.Close()
	return path, iotax.WriteWhole(path, 0o755, func(w io.Writer) error {
		_, err := io.Copy(w, r)
		return err
	})
}

// programsOf lists the agents in dir. Their files are named as agents.Files says.
func programsOf(dir fs.FS) (all []program, err error) {
	files, err := fs.Glob(dir, "*.gz")
	for _, file := range files {
		words := strings.Split(strings.TrimSuffix(path.Base(file), ".gz"), "-")
		if len(words) != 4 || len(words[2]) != 2*sha256.Size {
			return nil, fmt.Errorf("the embedded file %s is not named as an agent", file)
		}
		size, err := strconv.ParseInt(words[3], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("the embedded file %s: %w", file, err)
		}
		all = append(all, program{words[0] + "/" + words[1], words[2], size, func() (io.ReadCloser, error) {
			f, err := dir.Open(file)
			if err != nil {
				return nil, err
			}
			return gzip.NewReader(f) // f is in memory and need not be closed
		}})
	}
	return all, err
}

func self() (program, error) {
	p := program{system: runtime.GOOS + "/" + runtime.GOARCH}
	if host == nil {
		return p, errors.New("this program cannot be an agent: its main does not call agent.Main")
	}
	file, err := os.Executable()
	if runtime.GOOS == "linux" {
		file, err = "/proc/self/exe", nil // works even if the file was replaced
	}
	if err != nil {
		return p, err
	}
	p.open = func() (io.ReadCloser, error) { return os.Open(file) }
	f, err := p.open()
	if err != nil {
		return p, err
	}
	defer f.Close()
	h := sha256.New()
	p.size, err = io.Copy(h, f)
	p.hash = fmt.Sprintf("%x", h.Sum(nil))
	return p, err
}

// lacking returns the reason why iotax has no agent for a machine with this uname or system, and a hint.
func lacking(uname string, programs []program) (why cannot, hint string) {
	var have []string
	for _, p := range programs {
		have = append(have, p.system)
	}
	hint = "measure with an iotax that was built on a machine of that system"
	for system, u := range unames {
		if u == uname {
			uname, hint = system, "use a release of iotax: it has agents for Linux, macOS and Windows on amd64 and arm64"
		}
	}
	slices.Sort(have)
	return cannot(fmt.Sprintf("it runs %s, and this iotax has agents for %s only", uname, strings.Join(have, ", "))), hint
}
