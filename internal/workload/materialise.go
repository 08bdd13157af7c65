package workload

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"iotax"
	"iotax/internal/plan"
)

// Materialise is `materialise: {…}`: the volume behind an NBD export is brought onto the node that uses it, in one go or as it is
// read.
type Materialise struct {
	Tool string    `yaml:"tool" doc:"what copies" enum:"nbdcopy,qemu-img"`
	Lazy bool      `yaml:"lazy" doc:"use it at once, through an overlay that keeps what is read (copy-on-read), and read it through"`
	Size plan.Size `yaml:"size" doc:"what an export that is made for the run holds at least"`
	Path string    `yaml:"path" doc:"directory on the node for the copy; empty is the node's own"`

	Network bool `yaml:"network" doc:"path is meant to lie on a network file system; without this it is refused there"`
	Create  bool `yaml:"create" doc:"make path if it does not exist, and remove it at the end"`

	Stall plan.Duration `yaml:"stall" doc:"how long nothing may come over before the copy is given up"`
}

// copyTools are what copies a volume out of an export, with their packages.
var copyTools = map[string]string{"nbdcopy": "libnbd-bin", "qemu-img": "qemu-utils", "qemu-nbd": "qemu-utils", "qemu-io": "qemu-utils", "nbdinfo": "libnbd-bin"}

func (s *Materialise) Traits() plan.Traits {
	return plan.Traits{Tools: slices.Sorted(maps.Keys(copyTools)), Directories: []*string{&s.Path}, Scale: s.Scale}
}

func newMaterialise() plan.Spec {
	return &Materialise{Tool: "nbdcopy", Size: 128 << 20, Stall: plan.Duration(30 * time.Second)}
}

// Scale makes the volume smaller or larger.
func (s *Materialise) Scale(by float64) { s.Size = plan.Size(scaledSize(int64(s.Size), by, 1<<20)) }

// Validate refuses tools that are not known.
func (s *Materialise) Validate() error {
	if s.Tool != "nbdcopy" && s.Tool != "qemu-img" {
		return &plan.FieldError{Field: "tool", Msg: fmt.Sprintf("%q is not known", s.Tool), Hint: "nbdcopy or qemu-img"}
	}
	if s.Size < 0 {
		return &plan.FieldError{Field: "size", Msg: "is negative"}
	}
	if s.Stall < plan.Duration(time.Second) {
		return &plan.FieldError{Field: "stall", Msg: "is too short", Hint: "1s or more"}
	}
	if s.Path != "" && !strings.HasPrefix(s.Path, "/") {
		return &plan.FieldError{Field: "path", Msg: fmt.Sprintf("%q is not a full path", s.Path), Hint: "as in /var/tmp"}
	}
	if s.Path != "" && path.Clean(s.Path) == "/" {
		return &plan.FieldError{Field: "path", Msg: "/ itself is never used", Hint: "as in /var/tmp"}
	}
	return nil
}

func openMaterialise(w plan.Workload, s *Materialise, e Env) (iotax.Workload, error) {
	return &materialise{name: w.Name, spec: *s, env: e, verified: map[*iotax.Target]bool{}}, nil
}

type materialise struct {
	name     string
	spec     Materialise
	env      Env
	verified map[*iotax.Target]bool
}

func (w *materialise) Metrics() []string {
	return []string{"duration", iotax.ValueFirstIO, "steady.read.bandwidth"}
}

// assumed is the size of an export that nobody told, for the time limit.
const assumed = 4 << 30

func (w *materialise) Caps() iotax.WorkloadCaps {
	return iotax.WorkloadCaps{Space: func() int64 { return int64(w.spec.Size) }, Limit: 2 * longest(assumed)}
}

func (w *materialise) fail(t *iotax.Target, err error, hint string) error {
	text := err.Error()
	var e *iotax.Error
	switch {
	case errors.As(err, &e) && e.Hint != "":
		hint = ""
	case strings.Contains(text, "No space left"):
		hint = "make room on " + t.Machine.String() + ", or copy a smaller volume"
	case strings.Contains(text, "Connection refused"), strings.Contains(text, "Connection reset"), strings.Contains(text, "Transport endpoint"), strings.Contains(text, "nbd_connect"), strings.Contains(text, "shut down"), strings.Contains(text, "no end within"), strings.Contains(text, "nothing came for"):
		hint = "see that the export serves and the network between the machines is up"
	}
	return &iotax.Error{Op: "materialise for " + w.name + " on", On: t.Name, Err: err, Hint: hint}
}

// Check finds the tools.
func (w *materialise) Check(ctx context.Context, t *iotax.Target) error {
	if !isNBD(t.Place) {
		return &iotax.Error{Op: "check " + w.name + " on", On: t.Name, Err: fmt.Errorf("%s is no NBD export", t.Place.Path), Hint: "a target {nbd: …}, and at: its name"}
	}
	// What forbids the directory forbids it before the first trial.
	s, err := newScratch(ctx, w.env, t.Machine, Lodging{In: w.spec.Path, Need: 1, Network: w.spec.Network, Create: w.spec.Create}) // the size is not known yet
	if err == nil {
		clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		err = s.remove(clean)
	}
	if err != nil {
		return w.fail(t, err, "")
	}
	return missingTool(ctx, t.Machine, copyTools)
}

func (w *materialise) Prepare(context.Context, *iotax.Target) error { return nil }
func (w *materialise) Cleanup(context.Context, *iotax.Target) error { return nil }

// clock prints the time in ns since an epoch, by the node's own clock.
const clock = `now() { n=$(date +%s%N); case $n in *N) echo "date knows no nanoseconds here" >&2; exit 40;; esac; echo "$1 $n"; }
`

// carry runs a command that fills the file $1, and ends it when that has not grown for $stall seconds: neither nbdcopy nor
// QEMU gives a connection up by itself.
const carry = `
carry() {
	f=$1; shift
	"$@" & p=$!
	{
		n=0 last=
		while [ "$n" -lt "$stall" ]; do
			sleep 1 >/dev/null 2>&1
			at=$(stat -c %b "$f" 2>/dev/null)
			if [ "$at" = "$last" ]; then n=$((n + 1)); else n=0 last=$at; fi
		done
		echo "nothing came for $stall s" >&2
		kill "$p"
	} & w=$!
	wait "$p"; rc=$?
	kill "$w" 2>/dev/null
	return $rc
}
stall=$3
`

// eager copies $1 by $2 to a file, and then reads one block of that and all of it, past the page cache.
const eager = clock + carry + `
umask 077
now start
case $2 in
nbdcopy) carry copy.raw nbdcopy --flush -- "$1" copy.raw || exit;;
*) carry copy.raw qemu-img convert -q -t none -f raw -O raw "$1" copy.raw || exit;;
esac
now local
dd if=copy.raw of=/dev/null bs=4096 count=1 iflag=direct 2>/dev/null || exit
now first
dd if=copy.raw of=/dev/null bs=1048576 iflag=direct 2>/dev/null || exit
now steady
`

// lazy serves an overlay over $1 that keeps what is read, reads a block, all of it, and all of it again.
const lazy = clock + carry + `
umask 077
end() { # a server whose own server is gone would wait for that
	[ -s pid ] && read -r q <pid && kill "$q" || return
	for i in 1 2 3 4 5 6 7 8 9 10; do kill -0 "$q" || return; sleep 0.2; done
	kill -9 "$q"
	for i in 1 2 3 4 5 6 7 8 9 10; do kill -0 "$q" || return; sleep 0.2; done
}
trap 'end 2>/dev/null' EXIT
trap 'exit 143' HUP INT TERM
now start
qemu-img create -q -f qcow2 -F raw -b "$1" overlay.qcow2 || exit
qemu-nbd --fork --persistent --shared=4 --pid-file="$PWD/pid" --socket="$PWD/s" --image-opts \
	"driver=copy-on-read,file.driver=qcow2,file.file.driver=file,file.file.filename=$PWD/overlay.qcow2,file.file.cache.direct=on" || exit
u="nbd+unix:///?socket=$PWD/s"
carry overlay.qcow2 qemu-io -r -f raw -c 'read -q 0 4k' "$u" || exit
now first
carry overlay.qcow2 nbdcopy -- "$u" null: || exit
now local
nbdcopy -- "$u" null: || exit
now steady
`

// Run brings the volume over once. What is timed is timed by the node.
func (w *materialise) Run(ctx context.Context, t *iotax.Target, out *iotax.Trial) (err error) {
	told, err := bounded(ctx, t.Machine, time.Duration(w.spec.Stall), "nbdinfo", "--size", t.Place.Path)
	if err != nil {
		return w.fail(t, err, "")
	}
	size, err := strconv.ParseInt(strings.TrimSpace(told), 10, 64)
	if err != nil || size <= 0 {
		return w.fail(t, fmt.Errorf("the export's size is %q", strings.TrimSpace(told)), "")
	}
	s, err := newScratch(ctx, w.env, t.Machine, Lodging{In: w.spec.Path, Need: size, Network: w.spec.Network, Create: w.spec.Create})
	if err != nil {
		return w.fail(t, err, "")
	}
	defer func() {
		clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		if rerr := s.remove(clean); err == nil && rerr != nil {
			err = w.fail(t, rerr, "")
		}
	}()
	script, tool := eager, w.spec.Tool
	if w.spec.Lazy {
		script, tool = lazy, "qemu-nbd, copy-on-read"
	}
	out.Facts[iotax.FactLazy] = map[bool]string{true: "yes", false: "no"}[w.spec.Lazy]
	out.Facts["tool"], out.Facts["size"] = tool, strconv.FormatInt(size, 10)
	text, err := s.sh(ctx, 2*longest(size), script, t.Place.Path, w.spec.Tool, strconv.Itoa(int(time.Duration(w.spec.Stall)/time.Second)))
	out.Raw = []byte(text)
	if err != nil {
		return w.fail(t, err, "")
	}
	at := map[string]int64{}
	for line := range strings.Lines(text) {
		name, ns, _ := strings.Cut(strings.TrimSpace(line), " ")
		if at[name], err = strconv.ParseInt(ns, 10, 64); err != nil {
			return w.fail(t, fmt.Errorf("the node's clock answered %q", line), "")
		}
	}
	if !w.spec.Lazy && !w.verified[t] { // once, and timed nowhere
		if _, err := s.sh(ctx, 2*longest(size), `qemu-img compare -q -f raw -F raw "$1" copy.raw`, t.Place.Path); err != nil {
			return w.fail(t, fmt.Errorf("the copy is not what was copied: %w", err), "")
		}
		w.verified[t] = true
	}
	since := func(a, b string) float64 { return float64(at[b]-at[a]) / 1e9 }
	last := "local"
	if !w.spec.Lazy {
		last = "first"
	}
	if !(since("start", "local") > 0) || !(since(last, "steady") > 0) {
		return w.fail(t, errors.New("the node's clock stood still"), "")
	}
	out.Values = append(out.Values,
		iotax.Value{Name: iotax.ValueOperations, Value: 1, Unit: iotax.Count},
		iotax.Value{Name: iotax.ValueDuration, Value: since("start", "local"), Unit: iotax.Seconds, Better: iotax.Down},
		iotax.Value{Name: iotax.ValueFirstIO, Value: since("start", "first"), Unit: iotax.Seconds, Better: iotax.Down},
		iotax.Value{Name: iotax.ValueBandwidth, Value: float64(size) / since("start", "local"), Unit: iotax.BytesPerSecond, Better: iotax.Up},
		iotax.Value{Name: "steady.read.bandwidth", Value: float64(size) / since(last, "steady"), Unit: iotax.BytesPerSecond, Better: iotax.Up},
	)
	return nil
}
