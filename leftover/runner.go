// Package leftover marks what a run makes with who made it, finds what runs that died have left
// behind, and removes it. What belongs to a run that lives is never touched.
package leftover

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// The environment variables that every process of a run carries, also over SSH: a child inherits
// them, whoever starts it.
const (
	RunVariable    = "IOTAX_RUN"    // id of the run
	RunnerVariable = "IOTAX_RUNNER" // the process that carries it out, as Runner.String writes it
)

// A Runner is one process of one boot of one host. A process id alone is used again sooner or later;
// with the time at which it started, and the boot that this time counts from, it is not.
type Runner struct {
	PID     int
	Start   uint64 // clock ticks since the boot, from /proc/PID/stat; 0 where there is no /proc
	Boot    string // /proc/sys/kernel/random/boot_id; "" where there is none
	Space   string // number of the namespace that PID counts in; "" where there is none, and from an iotax that wrote none
	Machine string // of the installation, which a boot leaves as it is; "" where there is none
	Host    string // name of the host, for people
}

// Self is this process.
func Self() Runner {
	r := Runner{PID: os.Getpid(), Boot: bootID(), Space: pidSpace(), Machine: machineID()}
	r.Start, _ = startOf(r.PID)
	r.Host, _ = os.Hostname()
	return r
}

// String writes r as one word: "4711.823641.5e1f…-4026531836-9c20…@db1".
func (r Runner) String() string {
	boot := r.Boot
	if r.Space != "" || r.Machine != "" {
		boot += "-" + r.Space + "-" + r.Machine
	}
	return fmt.Sprintf("%d.%d.%s@%s", r.PID, r.Start, boot, r.Host)
}

// ParseRunner reads what String wrote.
func ParseRunner(s string) (Runner, error) {
	var r Runner
	who, host, ok := strings.Cut(s, "@")
	f := strings.SplitN(who, ".", 3)
	if !ok || len(f) != 3 {
		return r, fmt.Errorf("%q names no runner", s)
	}
	var err1, err2 error
	r.PID, err1 = strconv.Atoi(f[0])
	r.Start, err2 = strconv.ParseUint(f[1], 10, 64)
	r.Boot, r.Host = f[2], host
	if w := strings.Split(f[2], "-"); len(w) == 3 {
		r.Boot, r.Space, r.Machine = w[0], w[1], w[2]
	}
	if err := errors.Join(err1, err2); err != nil {
		return Runner{}, fmt.Errorf("%q names no runner", s)
	}
	return r, nil
}

// State says whether a runner still runs.
type State string

const (
	Alive   State = "alive"
	Dead    State = "dead"
	Unknown State = "unknown" // another host's, or this system cannot tell
)

// State looks r up among the processes of this host. Hosts share names (debian, localhost), and containers the name and the boot of
// their host: who is not known to be of this installation, or counts its processes elsewhere, may live.
func (r Runner) State() State {
	here := Self()
	told := r.Space != "" || r.Machine != "" // an older iotax did not
	switch {
	case r.Host != here.Host || here.Boot == "" || r.Start == 0:
		return Unknown
	case told && r.Machine != here.Machine:
		return Unknown
	case r.Boot != here.Boot:
		if told && r.Machine == "" {
			return Unknown
		}
		return Dead // the host was started anew since
	case told && r.Space != here.Space:
		return Unknown
	}
	start, err := startOf(r.PID)
	switch {
	case errors.Is(err, os.ErrNotExist) || errors.Is(err, errGone):
		return Dead
	case err != nil:
		return Unknown
	case start != r.Start:
		return Dead // the id is another's now
	}
	return Alive
}

func bootID() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.ReplaceAll(strings.TrimSpace(string(b)), "-", "")
}

// pidSpace is the number of this process's PID namespace.
func pidSpace() string {
	s, err := os.Readlink("/proc/self/ns/pid") // pid:[4026531836]
	if err != nil {
		return ""
	}
	return strings.TrimSuffix(strings.TrimPrefix(s, "pid:["), "]")
}

// machineID tells installations apart. The id itself is not for strangers, who may read a label; see machine-id(5).
func machineID() string {
	b, err := os.ReadFile("/etc/machine-id")
	id := strings.TrimSpace(string(b))
	if err != nil || len(id) < 32 { // "" in the images of containers, "uninitialized" while the first boot goes on
		return ""
	}
	sum := sha256.Sum256([]byte("iotax " + id))
	return hex.EncodeToString(sum[:8])
}

var errGone = errors.New("it has ended")

// startOf reads when the process pid started. One that has ended and waits to be reaped counts as gone.
func startOf(pid int) (uint64, error) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, err
	}
	// "pid (name) state ppid …"; the name may hold anything, so count from its end. The start is
	// field 22 of all, 20 behind the name.
	f := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	if len(f) < 20 {
		return 0, fmt.Errorf("/proc/%d/stat is not understood", pid)
	}
	if f[0][0] == 'Z' || f[0][0] == 'X' {
		return 0, errGone
	}
	return strconv.ParseUint(string(f[19]), 10, 64)
}

// A Label is what a run writes on what it makes: its id and its runner.
type Label struct {
	Run    string
	Runner Runner
}

// Begin puts the label of run into the environment of this process, from which every command that is
// started inherits it.
func Begin(run string) (Label, error) {
	l := Label{Run: run, Runner: Self()}
	return l, errors.Join(os.Setenv(RunVariable, l.Run), os.Setenv(RunnerVariable, l.Runner.String()))
}

// String writes l as words of one line, for marker files: "run=ID runner=RUNNER". It is "" for no label.
func (l Label) String() string {
	if l.Run == "" {
		return ""
	}
	return "run=" + l.Run + " runner=" + l.Runner.String()
}

// ParseLabel finds a label among the words of a marker file.
func ParseLabel(text string) (l Label, found bool) {
	for _, w := range strings.Fields(text) {
		if v, ok := strings.CutPrefix(w, "run="); ok {
			l.Run = v
		}
		if v, ok := strings.CutPrefix(w, "runner="); ok {
			r, err := ParseRunner(v)
			l.Runner, found = r, err == nil
		}
	}
	return l, found && l.Run != ""
}

// Current is the label that Begin put into the environment of this process, or that it inherited; its
// Run is "" when there is none.
func Current() Label {
	l := Label{Run: os.Getenv(RunVariable)}
	r, err := ParseRunner(os.Getenv(RunnerVariable))
	if err != nil {
		return Label{}
	}
	l.Runner = r
	return l
}

// Mark writes the marker of this run into a directory that it has made, so that the directory is known
// for what it is when the run cannot remove it.
func Mark(dir string) error {
	return os.WriteFile(filepath.Join(dir, Marker), []byte(Current().String()+"\n"), 0o600)
}

// MkdirTemp is os.MkdirTemp for a directory of a run: its name begins with iotax-, and it is marked.
func MkdirTemp(in string) (string, error) {
	dir, err := os.MkdirTemp(in, "iotax-")
	if err != nil {
		return "", err
	}
	if err := Mark(dir); err != nil {
		return "", errors.Join(err, os.RemoveAll(dir))
	}
	return dir, nil
}

// Marker is the file in every directory that a run makes for itself. Its line ends with the label.
const Marker = ".iotax"
