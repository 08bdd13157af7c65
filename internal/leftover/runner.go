// Package leftover labels the resources that a run creates, finds the leftovers of crashed runs, and removes them. It
// never touches the resources of a live run.
package leftover

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"iotax"
	"iotax/internal/guard"
	"iotax/internal/leftover/proctable"
)

// A run sets these environment variables for its processes, including those over SSH. Child processes inherit them.
const (
	RunVariable    = "IOTAX_RUN"    // id of the run
	RunnerVariable = "IOTAX_RUNNER" // the process that executes the run, as Runner.String formats it
)

// A Runner identifies one process of one boot of one host. The system reuses process ids, but not with the same start
// time in the same boot.
type Runner struct {
	PID     int
	Start   uint64 // on Linux, clock ticks since the boot; on other systems, milliseconds since 1970; 0 if unknown
	Boot    string // on Linux, the boot id without dashes; on other systems, "epoch"; "" if unknown
	Space   string // namespaces in which PID and Start are valid; "" if the system has none or an older iotax wrote the runner
	Machine string // id of the installation, which survives a reboot; "" if there is none
	Host    string // name of the host
}

// Self returns the runner of this process.
func Self() Runner {
	r := Runner{PID: os.Getpid(), Boot: here.boot(), Space: here.space(), Machine: here.machine()}
	r.Start, _ = here.start(r.PID)
	r.Host, _ = os.Hostname()
	return r
}

// String formats r as one word: "4711.823641.5e1f…-4026531836-9c20…@db1".
func (r Runner) String() string {
	boot := r.Boot
	if r.Space != "" || r.Machine != "" {
		boot += "-" + r.Space + "-" + r.Machine
	}
	return fmt.Sprintf("%d.%d.%s@%s", r.PID, r.Start, boot, r.Host)
}

// ParseRunner parses the output of String.
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

// State is the state of a runner or of an Item.
type State string

const (
	Alive   State = "alive"
	Dead    State = "dead"
	Unknown State = "unknown" // cannot be determined here, for example because the runner is on another host
	Foreign State = "foreign" // another user made the item, so its marker does not count
)

// State returns the state of r, according to the processes of this host. Different hosts may have the same name
// (debian, localhost), and a container may have the name and the boot id of its host. A runner that may belong to
// another installation or namespace is Unknown, because it may be alive.
func (r Runner) State() State {
	s, _ := r.look()
	return s
}

// look returns the state of r, as State does, and the reason if the state is Unknown.
func (r Runner) look() (s State, why string) {
	self := Self()
	switch {
	case r.Host != self.Host:
		return Unknown, "it is of another host"
	case self.Boot == "" || self.Start == 0:
		return Unknown, "this system does not report when processes started"
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
		return Dead, "" // the host has rebooted since
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
		return Dead, "" // another process has the id now
	}
	return Alive, ""
}

// A Label marks the resources of a run with the run's id and its runner.
type Label struct {
	Run    string
	Runner Runner
}

// Begin puts the label of run into the environment of this process. The commands that it starts inherit the label.
func Begin(run string) (Label, error) {
	l := Label{Run: run, Runner: Self()}
	return l, errors.Join(os.Setenv(RunVariable, l.Run), os.Setenv(RunnerVariable, l.Runner.String()))
}

// String formats l as one line for marker files: "run=ID runner=RUNNER". It returns "" if l is empty.
func (l Label) String() string {
	if l.Run == "" {
		return ""
	}
	return "run=" + l.Run + " runner=" + l.Runner.String()
}

// ParseLabel finds a label in the text of a marker file.
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

// Current returns the label that Begin put into the environment of this process, or that the process inherited. The
// label's Run is "" if the environment contains no label.
func Current() Label {
	l := Label{Run: os.Getenv(RunVariable)}
	r, err := ParseRunner(os.Getenv(RunnerVariable))
	if err != nil {
		return Label{}
	}
	l.Runner = r
	return l
}

// Environ returns the label of this process as environment variables, for a command that does not inherit them.
func Environ() (env []string) {
	for _, name := range []string{RunVariable, RunnerVariable} {
		if v := os.Getenv(name); v != "" {
			env = append(env, name+"="+v)
		}
	}
	return env
}

// Mark writes the marker of this run into a directory that the run made. If the run cannot remove the directory, the
// marker shows which run made it.
func Mark(dir string) error {
	return os.WriteFile(filepath.Join(dir, Marker), []byte(Current().String()+"\n"), 0o600)
}

// MkdirTemp creates a directory of a run, as os.MkdirTemp does. Its name starts with iotax-, and it contains the
// marker. Its path is absolute and has no links, like the paths in the kernel's list of mounts, even if TMPDIR is
// relative or a link. Root makes no directory that another user could replace, unless iotax.AloneVariable is set.
func MkdirTemp(in string) (string, error) {
	in, err := filepath.Abs(cmp.Or(in, os.TempDir()))
	if err == nil {
		in, err = filepath.EvalSymlinks(in)
	}
	if err != nil {
		return "", err
	}
	if err := guard.Distrust(in); err != nil && os.Getenv(iotax.AloneVariable) == "" {
		return "", fmt.Errorf("another user could redirect what root writes there: %w", err)
	}
	dir, err := os.MkdirTemp(in, "iotax-")
	if err != nil {
		return "", err
	}
	if err := Mark(dir); err != nil {
		return "", errors.Join(err, os.RemoveAll(dir))
	}
	return dir, nil
}

// Marker is the name of a file in every directory that a run makes for itself. The first line of the file contains the
// label.
const Marker = ".iotax"
