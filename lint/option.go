package lint

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/agext/levenshtein"

	"iotax"
	"iotax/fio"
	"iotax/plan"
)

// optionRules are about options that fio refuses or misreads.
var optionRules = []Rule{
	{ID: "unknown-option", Severity: iotax.Invalid, Title: "fio has no such option",
		Why: "fio stops at an option that it does not know. The list is that of fio 3.33; where the fio that will run is known, its own list decides, so an option that is too new for it is found as well. " +
			"Options of engines that the list does not cover are left alone unless they look like a slip. " +
			"A few names are taken in every job and do nothing (`threads`: it belongs to a built-in profile); they are warned of.",
		Mend: "see `fio --cmdhelp` for the options of your version",
		Bad:  "[read]\nrw=randread\niodpeth=32\nsize=64g\ndirect=1",
		Good: "[read]\nrw=randread\niodepth=32\nioengine=io_uring\nsize=64g\ndirect=1",
		in:   inFile, job: unknownOption},
	{ID: "bad-value", Severity: iotax.Invalid, Title: "a value that fio does not take",
		Why:  "fio stops at it, or takes something else for it: a direction that does not exist, a depth of 0, a size that is no number, a time with an unknown unit.",
		Mend: "write the value as fio's HOWTO has it",
		Bad:  "[read]\nrw=randraed\nbs=4k\nsize=64g\ndirect=1",
		Good: "[read]\nrw=randread\nbs=4k\nsize=64g\ndirect=1",
		in:   inFile, job: badValue},
	{ID: "fraction", Severity: iotax.Warning, Title: "fio reads no fractions here",
		Why:  "Times and sizes are whole numbers to fio: `runtime=0.5` is 0, which is no limit at all, and `size=1.5g` is not one and a half GiB.",
		Mend: "use a smaller unit: `runtime=500ms`, `size=1536m`",
		Bad:  "[read]\nrw=randread\nbs=4k\ndirect=1\nsize=64g\ntime_based\nruntime=7.5",
		Good: "[read]\nrw=randread\nbs=4k\ndirect=1\nsize=64g\ntime_based\nruntime=7500ms",
		in:   inFile, job: fraction},
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
		listed := slices.Contains(r.facts.Options, s.key) || known && (slices.Contains(r.facts.Options, o.Name) || o.Alias != "" && slices.Contains(r.facts.Options, o.Alias))
		slip, profile := profileOptions[s.key]
		switch {
		case profile:
			r.as(iotax.Warning, j, s, "%s is an option of fio's own test profiles: in a job it is taken and does nothing", s.key)
			r.mend("leave it out")
			if slip != "" {
				r.mend("did you mean %q?", slip)
			}
		case s.key == "" || listed || strings.Contains(s.key, "$"):
		case known && (r.facts.Options == nil || o.Engine != ""):
		case known:
			r.at(j, s, "the fio that will run (%s) has no option %s", orWord(r.facts.Version, "version unknown"), s.key)
			r.mend("install a newer fio there, or leave the option out")
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

func badValue(j *job, r *report) {
	for _, s := range j.order {
		v := strings.TrimSpace(s.value)
		if strings.Contains(v, "$") || strings.HasPrefix(v, "[") || fractional.MatchString(v) {
			continue // a variable, a blank to be filled in; fractions are another rule's
		}
		switch s.key {
		case "rw":
			mode, _, _ := strings.Cut(v, ":")
			if slices.Contains(directions, mode) {
				continue
			}
			r.at(j, s, "%q is no direction", v)
			r.mend("it is one of %s", strings.Join(directions, ", "))
			if near := plan.Nearest(mode, directions); near != "" {
				r.mend("did you mean %q?", near)
			}
		case "iodepth", "numjobs", "nrfiles":
			if n, err := fio.ParseSize(v, s.base); err != nil || n < 1 {
				r.at(j, s, "%s=%s: it takes a whole number from 1", s.key, v)
			}
		case "bs", "size", "filesize", "io_size":
			if s.key == "size" || s.key == "io_size" {
				if p, ok := strings.CutSuffix(v, "%"); ok {
					if n, err := strconv.Atoi(p); err != nil || n < 1 || n > 100 {
						r.at(j, s, "%s=%s: a share is from 1%% to 100%%", s.key, v)
					}
					continue
				}
			}
			for _, part := range strings.FieldsFunc(v, func(c rune) bool { return c == ',' || c == '-' && s.key == "filesize" }) {
				if _, err := fio.ParseSize(part, s.base); err != nil {
					r.at(j, s, "%s=%s: %q is no size", s.key, v, part)
				}
			}
			if v == "" {
				r.at(j, s, "%s has no value", s.key)
			}
		case "runtime", "ramp_time":
			if _, ok := parseDuration(v); !ok {
				r.at(j, s, "%s=%s: it is no time", s.key, v)
				r.mend("write seconds, or a number with ms, s, m or h")
			}
		}
	}
}

var fractional = regexp.MustCompile(`\d\.\d`)

func fraction(j *job, r *report) {
	for _, s := range j.order {
		switch s.key {
		case "runtime", "ramp_time", "startdelay", "size", "filesize", "io_size", "bs", "offset", "iodepth", "numjobs":
			if fractional.MatchString(s.value) && !strings.Contains(s.value, "$") {
				r.at(j, s, "%s=%s: fio takes whole numbers", s.key, s.value)
			}
		}
	}
}
