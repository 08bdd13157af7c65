package workload

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"iotax"
	"iotax/internal/leftover"
	"iotax/internal/metric"
	"iotax/internal/plan"
	"iotax/internal/workload/support"
	"iotax/internal/workload/task"
)

// Materialise is the spec of `materialise: {…}`. The workload copies the volume behind an NBD export to the node that
// uses it, either in full before the volume is read, or lazily while it is read.
type Materialise struct {
	Tool string    `yaml:"tool" doc:"program that copies" enum:"nbdcopy,qemu-img"`
	Lazy bool      `yaml:"lazy" doc:"use the volume at once, through a copy-on-read overlay, and read all of it"`
	Size plan.Size `yaml:"size" doc:"minimum size of an export made for the run"`
	Path string    `yaml:"path" doc:"directory on the node for the copy; empty means /var/tmp, or the directory of a lab's node"`

	Network bool `yaml:"network" doc:"allow a path inside a network file system; without this key only its mount point is accepted"`
	Create  bool `yaml:"create" doc:"make path if it does not exist, and remove it at the end"`

	Stall plan.Duration `yaml:"stall" doc:"time without new data after which the copy fails"`
}

// copyTools lists the programs that the workload needs, each with the package that contains it.
var copyTools = map[string]string{"nbdcopy": "libnbd-bin", "qemu-img": "qemu-utils", "qemu-nbd": "qemu-utils", "qemu-io": "qemu-utils", "nbdinfo": "libnbd-bin"}

func (s *Materialise) Traits() plan.Traits {
	return plan.Traits{Tools: slices.Sorted(maps.Keys(copyTools)), Directories: []*string{&s.Path}, Scale: s.Scale, Metrics: s.metrics}
}

func (s *Materialise) metrics() []metric.Metric {
	return slices.Concat(metric.Of(iotax.Seconds, iotax.Down, iotax.ValueDuration, "time until the volume is on the node", iotax.ValueFirstIO, "time until it answers"),
		metric.Of(iotax.BytesPerSecond, iotax.Up, iotax.ValueBandwidth, "bytes of the volume per second", "steady.read.bandwidth", "bytes per second, read from the volume on the node"))
}

func newMaterialise() plan.Spec {
	return &Materialise{Tool: "nbdcopy", Size: 128 << 20, Stall: plan.Duration(30 * time.Second)}
}

// Scale multiplies the size of the volume by a factor.
func (s *Materialise) Scale(by float64) {
	s.Size = plan.Size(support.ScaledSize(int64(s.Size), by, 1<<20))
}

// Validate returns an error for an unknown tool, or a field that is out of range.
func (s *Materialise) Validate() error {
	if s.Tool != "nbdcopy" && s.Tool != "qemu-img" {
		return &plan.FieldError{Field: "tool", Msg: fmt.Sprintf("%q is not known", s.Tool), Hint: "nbdcopy or qemu-img"}
	}
	if s.Lazy && s.Tool != newMaterialise().(*Materialise).Tool {
		return &plan.FieldError{Field: "tool", Msg: "does not apply to a lazy copy, which QEMU's overlay makes", Hint: "leave tool or lazy out"}
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

func openMaterialise(w plan.Workload, s *Materialise, e support.Env) (iotax.Workload, error) {
	return &materialise{name: w.Name, spec: *s, env: e, verified: map[*iotax.Target]bool{}}, nil
}

type materialise struct {
	name     string
	spec     Materialise
	env      support.Env
	verified map[*iotax.Target]bool
}

func (w *materialise) Metrics() []string {
	return []string{"duration", iotax.ValueFirstIO, "steady.read.bandwidth"}
}

// assumed is the size in bytes on which the time limit is based, because the size of the export is not known yet.
const assumed = 4 << 30

func (w *materialise) Caps() iotax.WorkloadCaps {
	return iotax.WorkloadCaps{Space: func() int64 { return int64(w.spec.Size) }, Limit: 2 * support.Longest(assumed)}
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

// Check returns an error if the place is not an NBD export, the directory cannot be used, or a tool is missing.
func (w *materialise) Check(ctx context.Context, t *iotax.Target) error {
	if !support.IsNBD(t.Place) {
		return &iotax.Error{Op: "check " + w.name + " on", On: t.Name, Err: fmt.Errorf("%s is not an NBD export", t.Place.Path), Hint: "a target {nbd: …}, and at: its name"}
	}
	// Before the first trial, detect a directory that must not be used.
	s, err := support.NewScratch(ctx, w.env, t.Machine, support.Lodging{In: w.spec.Path, Need: 1, Network: w.spec.Network, Create: w.spec.Create}) // the size is not known yet
	if err == nil {
		clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		err = s.Remove(clean)
	}
	if err != nil {
		return w.fail(t, err, "")
	}
	return support.MissingTool(ctx, t.Machine, copyTools)
}

func (w *materialise) Prepare(context.Context, *iotax.Target) error { return nil }
func (w *materialise) Cleanup(context.Context, *iotax.Target) error { return nil }

// Run copies the volume once. The node measures the times.
func (w *materialise) Run(ctx context.Context, t *iotax.Target, out *iotax.Trial) (err error) {
	printed, err := support.Bounded(ctx, t.Machine, time.Duration(w.spec.Stall), iotax.Command("nbdinfo", "--size", t.Place.Path))
	if err != nil {
		return w.fail(t, err, "")
	}
	size, err := strconv.ParseInt(strings.TrimSpace(printed), 10, 64)
	if err != nil || size <= 0 {
		return w.fail(t, fmt.Errorf("the export's size is %q", strings.TrimSpace(printed)), "")
	}
	s, err := support.NewScratch(ctx, w.env, t.Machine, support.Lodging{In: w.spec.Path, Need: size, Network: w.spec.Network, Create: w.spec.Create})
	if err != nil {
		return w.fail(t, err, "")
	}
	defer func() {
		clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		if rerr := s.Remove(clean); err == nil && rerr != nil {
			err = w.fail(t, rerr, "")
		}
	}()
	tool := w.spec.Tool
	if w.spec.Lazy {
		tool = "qemu-nbd, copy-on-read"
	}
	out.Facts[iotax.FactLazy] = map[bool]string{true: "yes", false: "no"}[w.spec.Lazy]
	out.Facts["tool"], out.Facts["size"] = tool, strconv.FormatInt(size, 10)
	var at task.Arrival
	err = support.Limited(ctx, 2*support.Longest(size), func(ctx context.Context) error {
		at, err = task.Bring.On(ctx, t.Machine, task.CopyIn{URL: t.Place.Path, Dir: s.Path, Tool: w.spec.Tool, Lazy: w.spec.Lazy,
			Stall: time.Duration(w.spec.Stall), Env: leftover.Environ()})
		return err
	})
	if err != nil {
		return w.fail(t, err, "")
	}
	if out.Raw, err = json.Marshal(at); err != nil {
		return err
	}
	if !w.spec.Lazy && !w.verified[t] { // once, and not timed
		if _, err := s.Run(ctx, 2*support.Longest(size), nil, "qemu-img", "compare", "-q", "-f", "raw", "-F", "raw", t.Place.Path, "copy.raw"); err != nil {
			return w.fail(t, fmt.Errorf("the copy is not what was copied: %w", err), "")
		}
		w.verified[t] = true
	}
	read := at.Steady - at.Local
	if !w.spec.Lazy {
		read = at.Steady - at.First
	}
	if at.Local <= 0 || read <= 0 {
		return w.fail(t, errors.New("the node's clock did not advance"), "")
	}
	out.Values = append(out.Values,
		iotax.Value{Name: iotax.ValueOperations, Value: 1, Unit: iotax.Count},
		iotax.Value{Name: iotax.ValueDuration, Value: at.Local.Seconds(), Unit: iotax.Seconds, Better: iotax.Down},
		iotax.Value{Name: iotax.ValueFirstIO, Value: at.First.Seconds(), Unit: iotax.Seconds, Better: iotax.Down},
		iotax.Value{Name: iotax.ValueBandwidth, Value: float64(size) / at.Local.Seconds(), Unit: iotax.BytesPerSecond, Better: iotax.Up},
		iotax.Value{Name: "steady.read.bandwidth", Value: float64(size) / read.Seconds(), Unit: iotax.BytesPerSecond, Better: iotax.Up},
	)
	return nil
}
