// Package leftover marks what a run makes with who made it, finds what runs that died have left
// behind, and removes it. What belongs to a run that lives is never touched.
package leftover

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"iotax/internal/leftover/proctable"
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
	Start   uint64 // clock ticks since the boot, from /proc/PID/stat; milliseconds since 1970 where there is no /proc
	Boot    string // /proc/sys/kernel/random/boot_id; "epoch" where there is no /proc, "" from an iotax that could not tell
	Space   string // of PID and Start: the namespaces that they count in; "" where there is none, and from an iotax that wrote none
	Machine string // of the installation, which a boot leaves as it is; "" where there is none
	Host    string // name of the host, for people
}

// Self is this process.
func Self() Runner {
	r := Runner{PID: os.Getpid(), Boot: here.boot(), Space: here.space(), Machine: here.machine()}
	r.Start, _ = here.start(r.PID)
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
	Foreign State = "foreign" // what another user made, whose marker proves nothing to this one
)

// State looks r up among the processes of this host. Hosts share names (debian, localhost), and containers the name and the boot of
// their host: who is not known to be of this installation, or counts its processes elsewhere, may live.
func (r Runner) State() State {
	s, _ := r.look()
	return s
}

// look is State, and why it is unknown.
func (r Runner) look() (s State, why string) {
	self := Self()
	switch {
	case r.Host != self.Host:
		return Unknown, "it is of another host"
	case self.Boot == "" || self.Start == 0:
		return Unknown, "this system does not tell when processes began"
	case r.Boot == "" || r.Start == 0:
		return Unknown, "the iotax that made it did not write down when it began"
	case r.Machine != self.Machine:
		return Unknown, "it is of another machine with this host's name"
	case (r.Boot == sinceEpoch) != (self.Boot == sinceEpoch):
		return Unknown, "it is of another system with this host's name"
	case r.Boot == sinceEpoch && r.Machine == "":
		return Unknown, "it is of a machine without an id"
	case r.Boot != self.Boot:
		if r.Machine == "" {
			return Unknown, "it is of an earlier boot, or of another machine without an id"
		}
		return Dead, "" // the host was started anew since
	case r.Space != self.Space:
		return Unknown, "its process counts in another PID or time namespace"
	}
	start, err := here.start(r.PID)
	switch {
	case errors.Is(err, os.ErrNotExist) || errors.Is(err, proctable.ErrGone):
		return Dead, ""
	case err != nil:
		return Unknown, err.Error()
	case start != r.Start:
		return Dead, "" // the id is another's now
	}
	return Alive, ""
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

// Environ is the label of this process as environment variables, for a command that does not inherit them.
func Environ() (env []string) {
	for _, name := range []string{RunVariable, RunnerVariable} {
		if v := os.Getenv(name); v != "" {
			env = append(env, name+"="+v)
		}
	}
	return env
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
