package calibrate

import (
	"fmt"
	"slices"
	"time"

	"iotax"
	"iotax/internal/plan"
)

// Options configure an A/A study.
type Options struct {
	Measure  plan.Measure
	Workload string // workload name, such as randread-4k
	Size     string // size of the test file; "" uses the workload's default
}

// Workload is the default workload of a calibration.
const Workload = "randread-4k"

// Full returns the options of a complete calibration of about four minutes.
func Full() Options {
	m := plan.Defaults()
	m.Trial, m.Ramp, m.Rounds, m.Budget = plan.Duration(5*time.Second), plan.Duration(500*time.Millisecond), plan.Rounds{Min: 20, Max: 20}, 0
	return Options{Measure: m, Workload: Workload, Size: "256MiB"}
}

// Brief returns the options of a calibration of about 15 seconds. It measures the noise floor, but not φ or the
// trial length.
func Brief() Options {
	o := Full()
	o.Measure.Trial, o.Measure.Ramp = plan.Duration(500*time.Millisecond), plan.Duration(100*time.Millisecond)
	o.Measure.Rounds = plan.Rounds{Min: 6, Max: 6}
	o.Size = "64MiB"
	return o
}

// AA returns the plan of an A/A study of a target of p. The plan contains the target twice, each time with its own
// files.
func AA(p *plan.Plan, target string, o Options, k plan.Kinds) (*plan.Plan, error) {
	a, ok := p.Target(target)
	if !ok {
		return nil, &iotax.Error{Op: "calibrate", On: target, Err: fmt.Errorf("the plan has no such target")}
	}
	b := a
	b.Name += " again"
	works, err := workloads(o, k)
	if err != nil {
		return nil, err
	}
	out := &plan.Plan{Name: "A/A of " + target, File: p.File, Baseline: a.Name, Machines: p.Machines, Targets: []plan.Target{a, b}, Workloads: works, Measure: o.Measure}
	// The targets that the calibrated target is based on come last. The study measures them, too.
	for at := a; ; {
		of := at.Traits().Of
		is := func(t plan.Target) bool { return of != nil && t.Name == *of }
		i := slices.IndexFunc(p.Targets, is)
		if i < 0 || slices.ContainsFunc(out.Targets, is) {
			break
		}
		at = p.Targets[i]
		out.Targets = append(out.Targets, at)
	}
	return out, out.Measure.Check()
}

// Null returns the plan of a study of the load generator without I/O. Its targets are the first arm of aa and the
// targets that the arm is based on.
func Null(aa *plan.Plan, k plan.Kinds) (*plan.Plan, error) {
	works, err := parse("null engine: {fio: {rw: randread, bs: 4k, iodepth: 32, size: 1GiB, ioengine: 'null', direct: 0}}", k)
	if err != nil {
		return nil, err
	}
	out := *aa
	out.Name, out.Workloads = "null engine", works
	out.Targets = append([]plan.Target{aa.Targets[0]}, aa.Targets[2:]...)
	out.Measure.Trial, out.Measure.Ramp, out.Measure.Cold = plan.Duration(300*time.Millisecond), plan.Duration(50*time.Millisecond), false
	out.Measure.Rounds = plan.Rounds{Min: 3, Max: 3}
	return &out, out.Measure.Check()
}

func workloads(o Options, k plan.Kinds) ([]plan.Workload, error) {
	p, err := plan.FromWords([]string{"dir:/var/tmp"}, []string{o.Workload}, o.Measure, k)
	if err != nil {
		return nil, err
	}
	for _, w := range p.Workloads {
		if takes := w.Traits().Options; takes != nil && o.Size != "" {
			if err := takes.Set("size", o.Size); err != nil {
				return nil, err
			}
		}
	}
	return p.Workloads, nil
}

func parse(entry string, k plan.Kinds) ([]plan.Workload, error) {
	p, err := plan.Parse("calibration", []byte("targets: {here: {dir: /var/tmp}}\nworkloads:\n  "+entry+"\n"), k)
	if err != nil {
		return nil, err
	}
	return p.Workloads, nil
}
