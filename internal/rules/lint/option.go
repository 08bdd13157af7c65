package lint

import (
	"cmp"
	"errors"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/agext/levenshtein"

	"iotax"
	"iotax/fio"
	"iotax/internal/plan"
	"iotax/internal/rules"
)

// optionRules detect options that fio rejects or misreads.
var optionRules = []rule{
	{Rule: rules.UnknownOption, sect: unknownOption},
	{Rule: rules.BadValue, sect: badValue},
	{Rule: rules.OptionsRefused, job: refusedTogether},
	{Rule: rules.MisreadValue, sect: misread},
}

// profileOptions lists the options of fio's built-in profiles (tiobench, act). fio accepts them in every job, but
// they have no effect there. The value is the option that the user probably intended, or "".
var profileOptions = map[string]string{
	"threads": "thread", "block": "bs", "dir": "directory", "numruns": "loops", "load": "", "prep": "",
	"device-names": "filename", "test-duration": "runtime",
}

// slipped reports whether `key` looks like a misspelling of `near`. It returns false if `near` belongs to one engine.
func slipped(key, near string) bool {
	o, ok := fio.LookupOption(near)
	return ok && o.Engine == "" && len(key) >= 6 && levenshtein.Distance(key, near, nil) <= 2
}

// lastListed is the newest fio version in the option tables.
const lastListed = "3.42"

func unknownOption(j *job, r *report) {
	engine := j.sectionEngine(r.facts)
	if j.command { // an engine applies only to the options after it
		engine = cmp.Or(j.inherited, defaultEngine(r.facts))
	}
	for _, s := range j.order {
		if s.key == "ioengine" {
			engine = fio.EngineName(s.value)
		}
		o, known := fio.LookupOption(s.key)
		slip, profile := profileOptions[s.key]
		ofEngine := known && o.Engine != ""
		if mine, ok := fio.EngineOption(engine, s.key); ok && ofEngine {
			o, ofEngine = mine, false
		}
		own := slices.Contains(fio.Engines(), engine) && !slices.Contains(fio.NewEngines, engine)
		switch {
		case profile:
			r.as(iotax.Warning, j, s, "%s is an option of fio's own test profiles: in a job it is taken and does nothing", s.key)
			r.hint("leave it out")
			if slip != "" {
				r.hint("did you mean %q?", slip)
			}
		case slices.Contains(r.facts.Options, s.key) || s.key == "" || open(s.key):
		case ofEngine && !own:
		case ofEngine:
			r.at(j, s, "%s is not an option of the engine %s", s.key, engine)
			r.hint("leave it out, or set ioengine=%s in the same section", o.Engine)
			if j.command {
				r.hint("leave it out, or write --ioengine=%s before it", o.Engine)
			}
		case known && o.NewerThan(r.facts.Version):
			r.at(j, s, "%s came with fio %s, and what will run is %s", s.key, o.Since, r.facts.Version)
			r.hint("install a newer fio there, or leave the option out")
		case known && !ofEngine && o.Engine == "" && !o.Hidden && r.facts.Options != nil && !slices.Contains(r.facts.Options, o.Name):
			r.at(j, s, "the fio here does not have the option %s", s.key)
			r.hint("install a fio that was built with it, or leave the option out")
		case known:
		default:
			near := plan.Nearest(s.key, fio.OptionNames())
			slip := slipped(s.key, near)
			later := fio.Option{Since: lastListed}
			switch {
			case !own && !slip: // an engine that is not part of fio may have this option
				continue
			case slip || r.facts.Options != nil || later.NewerThan(r.facts.Version) || r.facts.Version == "fio-"+lastListed:
				r.at(j, s, "fio has no option %s", s.key)
			default:
				r.as(iotax.Info, j, s, "no version of fio up to %s has an option %s", lastListed, s.key)
			}
			if near != "" {
				r.hint("did you mean %q?", near)
			}
		}
	}
}

// open reports whether a value contains a variable.
func open(value string) bool {
	return strings.Contains(value, "${") || slices.ContainsFunc([]string{"$ncpus", "$mb_memory", "$pagesize"}, func(k string) bool { return strings.Contains(value, k) })
}

var (
	errNone  = errors.New("it takes a number from 1")
	errZero  = errors.New("the number is below 1")
	errShare = errors.New("a share is at most 100%")
)

// belowOne describes how fio behaves with a number below 1 that it accepts.
var belowOne = map[string]string{"numjobs": "makes copies of the job until it reaches its maximum", "nrfiles": "does no I/O"}

// counted lists options whose number is not a size.
var counted = map[string]bool{"iodepth": true, "numjobs": true, "nrfiles": true}

// readings returns the numbers in an option's value, split as fio splits it, and the parse error of each.
func (s setting) readings() (parts []string, errs []error) {
	v := strings.TrimSpace(s.value)
	if open(v) {
		return nil, nil
	}
	read := func(v string, err error) { parts, errs = append(parts, v), append(errs, err) }
	switch s.key {
	case "iodepth", "numjobs", "nrfiles":
		n, err := fio.ParseSize(v, s.base)
		if err == nil && n < 1 {
			if err = errNone; s.key != "iodepth" {
				err = errZero
			}
		}
		read(v, err)
	case "size", "io_size", "offset", "offset_increment":
		n, unit, err := fio.ParseShare(v, s.base)
		if err == nil && unit == '%' && n > 100 {
			err = errShare
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

// tableVersion is the fio version whose tables fio.Option.Check uses.
const tableVersion = "3.33"

func badValue(j *job, r *report) {
	engine := j.sectionEngine(r.facts)
	var unset []string // variables without which fio refuses the section
	var first setting
	for _, s := range j.order {
		o, ok := fio.LookupOption(s.key)
		if ok && o.Engine != "" {
			o, ok = fio.EngineOption(engine, s.key)
		}
		if ok && !j.command && o.Check(environment.ReplaceAllString(s.value, ""), s.bare, s.base) != nil {
			for _, m := range environment.FindAllStringSubmatch(s.value, -1) {
				if unset == nil {
					first = s
				}
				if !slices.Contains(unset, m[1]) {
					unset = append(unset, m[1])
				}
			}
		}
		if open(s.value) {
			continue
		}
		if s.key == "ioengine" {
			badEngine(j, s, r)
			continue
		}
		if !ok {
			continue
		}
		var no *fio.RefusedError
		if errors.As(o.Check(s.value, s.bare, s.base), &no) {
			table := fio.Option{Since: tableVersion}
			if no.Elsewhere && (r.facts.Version == "" || !table.NewerThan(r.facts.Version) && r.facts.Version != "fio-"+tableVersion) {
				continue
			}
			r.at(j, s, "%s=%s: %s", s.key, s.value, no.Msg)
			if s.bare {
				r.hits[len(r.hits)-1].evidence = s.key + ": " + no.Msg
			}
			word, _, _ := strings.Cut(strings.TrimSpace(s.value), ":")
			near := plan.Nearest(word, no.Want)
			switch {
			case shellVariable.MatchString(s.value):
				r.hint("fio replaces only ${NAME}: write it with braces")
			case strings.TrimLeft(s.value, " \t") != s.value && no.Want != nil:
				r.hint("remove the space after the =: for fio it is a part of the word")
			case no.Want != nil && near != "":
				r.hint("did you mean %q?", near)
			}
			continue
		}
		switch parts, errs := s.readings(); {
		case len(errs) == 1 && errs[0] == errNone:
			r.at(j, s, "%s=%s: %v", s.key, parts[0], errs[0])
		}
		if m := patternFile.FindStringSubmatch(s.value); m != nil && (s.key == "buffer_pattern" || s.key == "verify_pattern") {
			needsFile(j, s, m[1], r)
		}
	}
	if unset != nil {
		r.as(iotax.Info, j, first, unsetPrefix+"%s", strings.Join(unset, ", "))
		r.hint("set the variables in the environment of fio, or write the values")
	}
}

// unsetPrefix begins the evidence of a finding about environment variables.
const unsetPrefix = "fio refuses the job unless its environment sets "

var (
	environment = regexp.MustCompile(`\$\{([^}]*)\}`)
	patternFile = regexp.MustCompile(`^(?:[^'"]|"[^"]*")*'([^']+)'`)
)

// needsFile reports that fio reads a file at its start.
func needsFile(j *job, s setting, file string, r *report) {
	r.as(iotax.Info, j, s, "fio refuses the job if it cannot read the file %s", file)
	r.hint("provide the file where fio runs")
}

var engineName = regexp.MustCompile(`^[A-Za-z0-9_.:-]+$`)

var shellVariable = regexp.MustCompile(`\$[A-Za-z_]`)

// badEngine reports an engine that does not exist, or that the fio of the machine does not have.
func badEngine(j *job, s setting, r *report) {
	name := fio.EngineName(s.value)
	if fio.ExternalEngine(name) {
		needsFile(j, s, strings.TrimPrefix(name, "external:"), r)
		return
	}
	near := plan.Nearest(name, fio.Engines())
	distance := levenshtein.Distance(name, near, nil)
	exists := slices.Contains(fio.Engines(), name)
	switch {
	case slices.Contains(r.facts.Engines, name), exists && r.facts.Engines == nil:
	case exists:
		r.at(j, s, "the fio here does not have the engine %s", name)
		r.hint("install the package with the engine, or a fio that was built with it")
	case !engineName.MatchString(name) || near != "" && distance <= 2 && len(name) >= 4+distance:
		r.at(j, s, "fio has no engine %q", s.value)
		if near != "" {
			r.hint("did you mean %q?", near)
		}
	default:
		severity := iotax.Info
		if r.facts.Engines != nil {
			severity = iotax.Warning
		}
		r.as(severity, j, s, "no version of fio has an engine %s: fio refuses the job unless it was built with that engine or loads it", name)
		r.hint("an engine of another project needs ioengine=external:FILE or LD_PRELOAD")
	}
}

// refusedTogether reports options that fio rejects in combination. It follows fixup_options in fio's init.c.
func refusedTogether(j *job, r *report) {
	positive := func(key string) bool {
		n, ok := j.size(key, 0)
		return ok && n > 0
	}
	if s, ok := j.get("rate_iops"); ok && positive("rate_iops") && positive("rate") {
		r.at(j, s, "rate and rate_iops exclude each other")
	}
	size, ok := j.size("size", 0)
	block, known := j.smallestBlock()
	if s, has := j.get("size"); has && ok && known && size > 0 && size < block {
		r.at(j, s, "size=%s is less than one block of %s", s.value, rules.Bytes(block))
	}
	s, zoned := j.get("zonemode")
	switch zones := positive("zonesize"); {
	case !zoned:
	case s.value == "none" && zones:
		r.at(j, s, "zonemode=none and zonesize exclude each other")
	case s.value == "strided" && !j.has("zonesize"):
		r.at(j, s, "zonemode=strided needs a zonesize")
	case s.value == "zbd" && j.has("create_serialize") && !j.on("create_serialize"):
		r.at(j, s, "zonemode=zbd and create_serialize=0 exclude each other")
	}
	if j.readonly && (j.writes() || j.trims()) {
		r.at(j, j.first("rw"), "rw=%s under --readonly", j.mode())
	}
	sync := slices.Contains([]string{"sync", "psync", "vsync", "pvsync", "pvsync2"}, j.engine(r.facts))
	if j.system(r.facts) == "windows" && sync && j.direct() {
		r.at(j, j.first("direct", "buffered", "atomic"), "direct I/O with the synchronous engine %s", j.engine(r.facts))
		r.hint("use ioengine=windowsaio, with iodepth=1 for one I/O at a time")
	}
}

// smallestBlock returns the smallest block size of the job in any direction, if known.
func (j *job) smallestBlock() (int64, bool) {
	s, ok := j.get("bs")
	if j.has("bsrange", "bssplit") {
		return 0, false
	}
	if !ok {
		return 4096, true
	}
	smallest := int64(0)
	read, write, trim := fio.PerDirection(s.value)
	for _, v := range []string{read, write, trim} {
		n := int64(4096)
		if v != "" {
			var err error
			if n, err = fio.ParseSize(v, s.base); err != nil {
				return 0, false
			}
		}
		if smallest == 0 || n < smallest {
			smallest = n
		}
	}
	return smallest, true
}

func misread(j *job, r *report) {
	for _, s := range j.order {
		parts, errs := s.readings()
		o, _ := fio.LookupOption(s.key)
		for i, err := range errs {
			var m *fio.MisreadError
			switch {
			case err == nil || open(s.value) || o.Check(s.value, s.bare, s.base) != nil:
			case err == errZero:
				r.at(j, s, "%s=%s: fio accepts it, and %s", s.key, parts[i], belowOne[s.key])
				r.hint("write a number from 1")
			case err == errShare:
				r.at(j, s, "%s=%s: fio takes a share of more than 100%% for a number of bytes without end", s.key, parts[i])
				r.hint("write a share of at most 100%%, and loops or io_size for more than one pass")
			case errors.As(err, &m):
				if counted[s.key] {
					m.As = strings.TrimSuffix(strings.TrimSuffix(m.As, " bytes"), " byte")
				}
				r.at(j, s, "%s=%s: fio takes it for %s, because %s", s.key, m.Value, m.As, m.Why)
			case err != errNone: // fio accepts a list if one of its elements is valid
				r.at(j, s, "%s=%s: fio leaves out %q: %v", s.key, s.value, parts[i], err)
			}
		}
	}
}
