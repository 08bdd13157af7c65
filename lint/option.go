package lint

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/agext/levenshtein"

	"iotax"
	"iotax/fio"
	"iotax/plan"
)

// optionRules are about options that fio refuses or misreads.
var optionRules = []Rule{
	{ID: "unknown-option", Severity: iotax.Invalid, Title: "fio has no such option",
		Why: "fio stops at an option that it does not know. Where the fio that will run is known, an option that came with a later version is found as well. " +
			"Options of engines that the list does not cover are left alone unless they look like a slip. " +
			"A few names are taken in every job and do nothing (`threads`: it belongs to a built-in profile); they are warned of.",
		Mend: "see `fio --cmdhelp` for the options of your version",
		Bad:  "[read]\nrw=randread\niodpeth=32\nsize=64g\ndirect=1",
		Good: "[read]\nrw=randread\niodepth=32\nioengine=io_uring\nsize=64g\ndirect=1",
		in:   inFile, job: unknownOption},
	{ID: "bad-value", Severity: iotax.Invalid, Title: "a value that fio does not take",
		Why:  "fio stops at it: a direction that does not exist, a depth of 0, a size that is no number.",
		Mend: "write the value as fio's HOWTO has it",
		Bad:  "[read]\nrw=randraed\nbs=4k\nsize=64g\ndirect=1",
		Good: "[read]\nrw=randread\nbs=4k\nsize=64g\ndirect=1",
		in:   inFile, job: badValue},
	{ID: "misread-value", Severity: iotax.Warning, Title: "fio takes a value for something else",
		Why:  "fio reads numbers up to the first letter that it does not understand and says nothing: `runtime=0.5` is 0 and so no limit at all, `size=1.5g` is a single byte, `runtime=10sec` is 10 µs.",
		Mend: "use whole numbers with a unit that fio knows: `runtime=500ms`, `size=1536m`",
		Bad:  "[read]\nrw=randread\nbs=4k\ndirect=1\nsize=64g\ntime_based\nruntime=7.5",
		Good: "[read]\nrw=randread\nbs=4k\ndirect=1\nsize=64g\ntime_based\nruntime=7500ms",
		in:   inFile, job: misread},
}

// profileOptions are taken by fio in every job, because its built-in profiles (tiobench, act) add them
// to the list of options; with what was meant, where that is clear.
var profileOptions = map[string]string{
	"threads": "thread", "block": "bs", "dir": "directory", "numruns": "loops", "load": "", "prep": "",
	"device-names": "filename", "test-duration": "runtime",
}

// slipped reports whether a name can only be a slip of an option that every job has.
func slipped(key, near string) bool {
	o, ok := fio.LookupOption(near)
	return ok && o.Engine == "" && len(key) >= 6 && levenshtein.Distance(key, near, nil) <= 2
}

func unknownOption(j *job, r *report) {
	for _, s := range j.order {
		o, known := fio.LookupOption(s.key)
		slip, profile := profileOptions[s.key]
		switch {
		case profile:
			r.as(iotax.Warning, j, s, "%s is an option of fio's own test profiles: in a job it is taken and does nothing", s.key)
			r.mend("leave it out")
			if slip != "" {
				r.mend("did you mean %q?", slip)
			}
		case slices.Contains(r.facts.Options, s.key) || s.key == "" || strings.Contains(s.key, "$"):
		case known && o.NewerThan(r.facts.Version):
			r.at(j, s, "%s came with fio %s, and what will run is %s", s.key, o.Since, r.facts.Version)
			r.mend("install a newer fio there, or leave the option out")
		case known:
		default:
			near := plan.Nearest(s.key, fio.OptionNames())
			// An engine that the list does not cover may well have an option of this name.
			if !listedEngine(j.engine(r.facts)) && !slipped(s.key, near) {
				continue
			}
			r.at(j, s, "fio has no option %s", s.key)
			if near != "" {
				r.mend("did you mean %q?", near)
			}
		}
	}
}

func orWord(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// listedEngine reports whether all options of the engine are in fio's list: those that come with
// every fio on Linux.
func listedEngine(engine string) bool {
	return slices.Contains(fileEngines, engine) || slices.Contains([]string{"null", "cpuio", "falloc", "ftruncate", "filecreate", "filestat", "filedelete"}, engine)
}

var directions = []string{"read", "write", "trim", "randread", "randwrite", "randtrim", "rw", "readwrite", "randrw", "trimwrite", "randtrimwrite"}

// readings are the values of an option as fio reads them: what it takes for a number, and what it makes
// of each.
func (s setting) readings() (parts []string, errs []error) {
	v := strings.TrimSpace(s.value)
	if strings.Contains(v, "$") || strings.HasPrefix(v, "[") {
		return nil, nil // a variable, a blank to be filled in
	}
	read := func(v string, err error) { parts, errs = append(parts, v), append(errs, err) }
	switch s.key {
	case "iodepth", "numjobs", "nrfiles":
		n, err := fio.ParseSize(v, s.base)
		if err == nil && n < 1 {
			err = errors.New("it takes a number from 1")
		}
		read(v, err)
	case "size", "io_size", "offset", "offset_increment":
		n, unit, err := fio.ParseShare(v, s.base)
		if err == nil && unit == '%' && n > 100 {
			err = errors.New("a share is at most 100%")
		}
		read(v, err)
	case "filesize":
		for part := range strings.FieldsFuncSeq(v, func(c rune) bool { return strings.ContainsRune("-,:", c) }) {
			_, err := fio.ParseSize(part, s.base)
			read(part, err)
		}
	case "bs":
		r, w, t := fio.PerDirection(v)
		for _, part := range []string{r, w, t} {
			if part != "" && !slices.Contains(parts, part) {
				_, err := fio.ParseSize(part, s.base)
				read(part, err)
			}
		}
	case "runtime", "ramp_time", "startdelay":
		_, err := fio.ParseTime(v, time.Second)
		read(v, err)
	}
	return parts, errs
}

func badValue(j *job, r *report) {
	for _, s := range j.order {
		if s.key == "rw" && !strings.Contains(s.value, "$") {
			mode, _, _ := strings.Cut(s.value, ":")
			if slices.Contains(directions, mode) {
				continue
			}
			r.at(j, s, "%q is no direction", s.value)
			r.mend("it is one of %s", strings.Join(directions, ", "))
			if near := plan.Nearest(mode, directions); near != "" {
				r.mend("did you mean %q?", near)
			}
			continue
		}
		parts, errs := s.readings()
		for i, err := range errs {
			var m *fio.MisreadError
			if err != nil && !errors.As(err, &m) {
				r.at(j, s, "%s=%s: %v", s.key, parts[i], err)
			}
		}
	}
}

func misread(j *job, r *report) {
	for _, s := range j.order {
		_, errs := s.readings()
		for _, err := range errs {
			var m *fio.MisreadError
			if errors.As(err, &m) {
				r.at(j, s, "%s=%s: fio takes it for %s, because %s", s.key, m.Value, m.As, m.Why)
			}
		}
	}
}
