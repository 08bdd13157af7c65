package report

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/pprof/profile"

	"iotax"
	"iotax/stat"
)

// A Profile shows in which functions the processes on this host use CPU time for one workload. It is computed from
// profiled trials, which the report's ratios do not include.
type Profile struct {
	Workload string     `json:"workload"`
	Per      string     `json:"per"`     // unit of work to which all times refer: "I/O" or "trial"
	Targets  []Profiled `json:"targets"` // the baseline first
}

// Profiled is one target in a Profile. All times are in CPU seconds per unit of work (Profile.Per), and means over the
// rounds.
type Profiled struct {
	Target     string        `json:"target"`
	Against    string        `json:"against,omitempty"` // the target that differences are relative to, or ""
	Unknown    string        `json:"unknown,omitempty"` // why there is no profile
	Trials     []int         `json:"trials,omitempty"`  // numbers of the trials with a profile, from 1
	Total      stat.Interval `json:"total"`
	Difference stat.Interval `json:"difference"` // Total minus Against's Total, paired by round
	Functions  []Function    `json:"functions,omitempty"`
	Speed      stat.Interval `json:"speed"` // ratio of the profiled trials to the other trials in the first metric; higher is faster

	Stacks map[string]*Frame `json:"-"`
	rounds map[int]folded
}

// A Function is one of the functions with the largest differences to the reference or, without a reference, with the
// most CPU time. Times exclude the functions that it calls.
type Function struct {
	Name       string        `json:"name"`
	File       string        `json:"file,omitempty"` // program or library; "[kernel]" for the kernel
	Time       stat.Interval `json:"time"`
	Difference stat.Interval `json:"difference"` // Time minus that of the same function in all processes of Against, paired by round
}

// A Frame is a function on a stack, with the functions that it called, by name.
type Frame struct {
	Time  float64 // including Below
	More  float64 // time of the function on all stacks minus that on the reference target; NaN without a reference
	Below map[string]*Frame
	key   [2]string
}

// mostFunctions is the maximum number of functions of a target in a Profile.
const mostFunctions = 12

// folded is the profile of one trial. Times are in CPU seconds per unit of work (see Profile.Per). Keys are the name
// and the file of a function.
type folded struct {
	start           int
	total           float64
	self, inclusive map[[2]string]float64
}

// fold adds the profile of a trial, and divides its times by ios.
func (p *Profiled) fold(t *Trial, raw []byte, ios float64) error {
	in, err := profile.Parse(bytes.NewReader(raw))
	if err != nil {
		return fmt.Errorf("read the profile of trial %d: %w", t.Seq+1, err)
	}
	f := folded{start: t.StartIndex, self: map[[2]string]float64{}, inclusive: map[[2]string]float64{}}
	for _, x := range in.Sample {
		time := float64(x.Value[len(x.Value)-1]) / 1e9 / ios
		f.total += time
		below, seen := p.Stacks, map[[2]string]bool{}
		var key [2]string
		for _, l := range slices.Backward(x.Location) {
			key = [2]string{l.Line[0].Function.Name, strings.TrimPrefix(filepath.Base(l.Line[0].Function.Filename), ".")}
			at := below[key[0]]
			if at == nil {
				at = &Frame{key: key, Below: map[string]*Frame{}}
				below[key[0]] = at
			}
			at.Time, below = at.Time+time, at.Below
			if !seen[key] {
				seen[key], f.inclusive[key] = true, f.inclusive[key]+time
			}
		}
		f.self[key] += time
	}
	p.rounds[t.Round], p.Trials = f, append(p.Trials, t.Seq+1)
	return nil
}

// profiles computes the profile of each workload with profiled trials.
func (b *builder) profiles() error {
	for _, w := range b.workloads {
		x, valid, targets := Profile{Workload: w.Name, Per: "I/O"}, map[int]*Trial{}, map[string]*Profiled{}
		for _, t := range b.profiled[w.Name] {
			p := targets[t.Target]
			if p == nil {
				p = &Profiled{Target: t.Target, Unknown: "its profiles were not read", Total: none(), Difference: none(), Speed: none(), Stacks: map[string]*Frame{}, rounds: map[int]folded{}}
				targets[t.Target] = p
			}
			switch {
			case t.Err != "":
				p.Unknown = "its profiled trials failed: " + Brief(t.Err)
			case t.Discarded != "":
				p.Unknown = "its profiled trials are discarded: " + t.Discarded
			default:
				p.Unknown = cmp.Or(t.Facts[iotax.FactNoProfile], p.Unknown)
				if valid[t.Seq] = t; iosOf(t) == 0 {
					x.Per = "trial"
				}
			}
		}
		for read, err := range b.source.Profiles(slices.Collect(maps.Keys(valid))) {
			if err != nil {
				return err
			}
			if t, ios := valid[read.Seq], 1.; read.Profile != nil {
				if x.Per == "I/O" {
					ios = iosOf(t)
				}
				if err := targets[t.Target].fold(t, read.Profile, ios); err != nil {
					return err
				}
			}
		}
		for _, t := range b.targets {
			if p := targets[t.Name]; p != nil {
				b.profile(p, targets[t.Reference(b.Run.BaselineOf(w.Name), func(name string) bool { return targets[name] != nil })])
				p.Speed = b.speed(w, t.Name, b.profiled[w.Name])
				x.Targets = append(x.Targets, *p)
			}
		}
		if x.Targets != nil {
			b.Profiles = append(b.Profiles, x)
		}
	}
	return nil
}

func iosOf(t *Trial) (sum float64) {
	for _, d := range []string{"read", "write", "trim"} {
		v, _ := t.Value(d + ".ios")
		sum += v.Value
	}
	return sum
}

// profile computes the times of p and, if base is not nil, their differences to base.
func (b *builder) profile(p, base *Profiled) {
	if len(p.rounds) == 0 {
		return
	}
	p.Unknown = ""
	if base == nil || len(base.rounds) == 0 {
		base = &Profiled{}
	}
	p.Against = base.Target
	rounds, starts, size := slices.Sorted(maps.Keys(p.rounds)), map[int]int{}, map[[2]string]float64{} // size ranks the functions
	for r, f := range p.rounds {
		starts[r] = f.start
	}
	both := slices.DeleteFunc(slices.Clone(rounds), func(r int) bool { _, ok := base.rounds[r]; return !ok })
	// interval returns the mean of a time over the rounds, and the mean of its difference to base.
	interval := func(of func(folded) float64) (time, difference stat.Interval) {
		return b.mean(rounds, starts, func(r int) float64 { return of(p.rounds[r]) }),
			b.mean(both, starts, func(r int) float64 { return of(p.rounds[r]) - of(base.rounds[r]) })
	}
	p.Total, p.Difference = interval(func(f folded) float64 { return f.total })
	for _, all := range []map[int]folded{p.rounds, base.rounds} {
		for _, f := range all {
			for key := range f.self {
				size[key] = 0
			}
		}
	}
	for key := range size {
		time, more := interval(func(f folded) float64 { return f.self[key] })
		if size[key] = time.Estimate; p.Against != "" {
			size[key] = math.Abs(more.Estimate)
		}
	}
	largest := slices.SortedFunc(maps.Keys(size), func(x, y [2]string) int {
		return cmp.Or(cmp.Compare(size[y], size[x]), slices.Compare(x[:], y[:]))
	})
	for _, key := range largest[:min(len(largest), mostFunctions)] {
		f := Function{Name: key[0], File: key[1]}
		f.Time, f.Difference = interval(func(f folded) float64 { return f.self[key] })
		p.Functions = append(p.Functions, f)
	}
	mean := func(of map[int]folded, key [2]string) (sum float64) {
		for _, r := range slices.Sorted(maps.Keys(of)) { // in order, so that the sum is always the same
			sum += of[r].inclusive[key]
		}
		return sum / float64(len(of)) // NaN without a reference
	}
	var finish func(all map[string]*Frame)
	finish = func(all map[string]*Frame) {
		for _, f := range all {
			f.Time, f.More = f.Time/float64(len(p.rounds)), mean(p.rounds, f.key)-mean(base.rounds, f.key)
			finish(f.Below)
		}
	}
	finish(p.Stacks)
}
