package fio

import (
	"fmt"
	"maps"
	"math/bits"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A form is the type of an option's value (FIO_OPT_… in fio's parse.h).
type form struct {
	Kind    string
	Time    bool     // the number is a duration
	Seconds bool     // a number without a unit is in seconds
	Pow2    bool     // the number must be a power of two
	Any     bool     // a function in fio parses the value, and fio does not list the accepted words
	Length  int      // maximum number of list elements, or of string bytes including the final NUL; 0 for no limit
	Values  []string // words that a build of 3.33 or later accepts
}

// form returns the form of the option, and whether the tables contain one.
func (o Option) form() (form, bool) {
	key := o.Name
	if o.Engine != "" {
		key = engineFile(o.Engine) + "/" + key
	}
	f, ok := tables().Forms[key]
	return f, ok
}

// engineFile returns the name, without .c, of the file in fio's engines/ that defines the engine's options. It
// returns an unknown engine unchanged.
func engineFile(engine string) string {
	file, ok := tables().Engines[engine]
	switch {
	case !ok:
		return engine
	case strings.HasPrefix(file, "glusterfs_"):
		return "glusterfs"
	case strings.HasPrefix(file, "librpma_"):
		return "librpma_fio"
	}
	return file
}

// NewEngines lists the engines that were added after 3.42. The tables do not contain their options.
var NewEngines = []string{"libhipfile", "page_fault"}

// Engines returns the names of the engines of all versions of fio, in no particular order.
func Engines() []string {
	t := tables()
	all := slices.AppendSeq(slices.Clone(NewEngines), maps.Keys(t.Engines))
	for _, v := range t.Forms["ioengine"].Values {
		if v != "external" && t.Engines[v] == "" {
			all = append(all, v)
		}
	}
	return all
}

// EngineName returns the canonical name of an engine: libaio for a value that starts with one of its aliases, aio and
// linuxaio. It returns all other values of ioengine unchanged.
func EngineName(value string) string {
	if strings.HasPrefix(value, "linuxaio") || strings.HasPrefix(value, "aio") {
		return "libaio"
	}
	return value
}

// Synchronous reports whether the engine completes each I/O before it starts the next one, whatever the iodepth
// (see ioengine in fio's HOWTO).
func Synchronous(engine string) bool { return slices.Contains(synchronous, engine) }

var synchronous = []string{
	"sync", "psync", "vsync", "pvsync", "pvsync2", "mmap", "splice", "cpuio", "falloc", "e4defrag", "ftruncate",
	"filecreate", "filestat", "filedelete", "http", "net", "netsplice", "libpmem", "dev-dax", "pmemblk", "mtd",
	"gfapi", "libhdfs", "libcufile", "libhipfile", "libzbc", "libiscsi", "exec", "dircreate", "dirstat", "dirdelete",
}

// ExternalEngine reports whether the value of ioengine is the file of an external engine.
func ExternalEngine(value string) bool {
	return strings.HasPrefix(value, "external:") || strings.ContainsAny(value, "/") || strings.HasSuffix(value, ".so")
}

// EngineOption returns the engine's option with this name or alias, and whether it exists.
func EngineOption(engine, name string) (Option, bool) {
	file, t := engineFile(engine), tables()
	for _, o := range slices.Concat(t.Options, t.Elsewhere) {
		if (o.Name == name || o.Alias == name) && o.Engine != "" && (o.Engine == engine || o.Engine == file) {
			o.Since = t.Since[name]
			return o, true
		}
	}
	// Debian's build may lack the engine. t.Elsewhere omits an option of such an engine if the build has another
	// option with the same name.
	built, _ := LookupOption("ioengine")
	if _, ok := t.Forms[file+"/"+name]; ok && !slices.Contains(built.Values, engine) {
		return Option{Name: name, Engine: engine, Since: t.Since[name]}, true
	}
	return Option{}, false
}

// A RefusedError reports that fio rejects a value.
type RefusedError struct {
	Msg  string   // such as "it takes a number from 1"
	Want []string // the accepted words
	// Elsewhere reports that another version or build of fio accepts the value.
	Elsewhere bool
}

func (e *RefusedError) Error() string { return e.Msg }

func refused(format string, args ...any) error {
	return &RefusedError{Msg: fmt.Sprintf(format, args...)}
}

// Check returns a *RefusedError if fio 3.33 rejects the value. It accepts every value of an unknown option. Of the
// options that have their own parse function in fio, it checks only some (see `own`). As in fio (handle_option in
// parse.c), a list is valid if one of its elements is valid. The caller must have replaced all variables. `bare` means
// that the option has no value. `kbBase` is the kb_base in effect, 1000 or 1024.
func (o Option) Check(value string, bare bool, kbBase int) error {
	f, ok := o.form()
	if !ok {
		return nil
	}
	if bare {
		log := strings.HasPrefix(o.Name, "write_") // other options with a parse function crash fio if they have no value
		if f.Kind == "STR_SET" || f.Kind == "STR" && f.Any && log {
			return nil
		}
		return refused("it needs a value")
	}
	seps := ",:-"
	switch f.Kind {
	case "STR", "STR_ULL", "STR_STORE", "DEPRECATED", "SOFT_DEPRECATED":
		seps = ""
	case "STR_MULTI", "RANGE":
		seps = ","
	case "FLOAT_LIST":
		seps = ":"
	}
	var first error
	for n, rest := 0, value; ; n++ {
		cut := -1
		for _, sep := range []byte(seps) {
			if cut = strings.IndexByte(rest, sep); cut >= 0 {
				if sep == ',' && cut == len(rest)-1 {
					rest = rest[:cut]
				}
				break
			}
		}
		err := o.part(f, rest, n, kbBase)
		if n == 0 {
			first = err
		}
		if err == nil {
			return nil
		}
		if cut < 0 || cut >= len(rest) {
			return first
		}
		rest = rest[cut+1:]
	}
}

// part checks element n (from 0) of a list. s is the list from this element on.
func (o Option) part(f form, s string, n, kbBase int) error {
	switch f.Kind {
	case "STR", "STR_ULL", "STR_MULTI":
		return o.word(f, s, kbBase)
	case "INT", "ULL", "STR_VAL", "STR_VAL_TIME", "STR_VAL_ZONE":
		return o.number(f, s, kbBase)
	case "BOOL", "STR_SET":
		if v, ok := scan(s); !ok || f.Kind == "BOOL" && int32(v) > 1 { // fio parses the value with sscanf, as %u or %x
			return refused("it takes 0 or 1")
		}
	case "FLOAT_LIST":
		s, _, _ = strings.Cut(s, ":")
		v, ok := scanFloat(s)
		switch {
		case f.Length > 0 && n >= f.Length:
			return refused("the list is longer than %d", f.Length)
		case !ok:
			return refused("%q is not a number", s)
		case (o.Min != 0 || o.Max != 0) && (v > o.Max || v < o.Min):
			return refused("it takes numbers from %g to %g", o.Min, o.Max)
		}
	case "STR_STORE":
		switch {
		case s == "":
			return refused("it needs a value")
		case f.Length > 0 && len(s) > f.Length-1:
			return refused("it is longer than %d characters", f.Length-1)
		}
		return o.own(s, kbBase)
	case "RANGE":
		s, _, _ = strings.Cut(s, ",")
		low, high, ok := strings.Cut(s, "-")
		if !ok {
			low, high, ok = strings.Cut(s, ":")
		}
		_, _, okLow := toDecimal(low, kbBase, false)
		if _, _, okHigh := toDecimal(high, kbBase, false); !ok || !okLow || !okHigh {
			return refused("it takes a range, as in 4k-64k")
		}
	case "DEPRECATED":
		return refused("fio has removed it")
	}
	return nil
}

// word checks the value of an option that takes one of a list of words.
func (o Option) word(f form, s string, kbBase int) error {
	if len(o.Values) == 0 && len(f.Values) == 0 {
		if f.Any {
			return o.own(s, kbBase)
		}
		return refused("it takes no value")
	}
	head, _, comma := strings.Cut(s, ",")
	if !comma {
		head, _, _ = strings.Cut(s, ":")
	}
	length := len(head)
	matches := func(v string) bool { return head == v || len(s) > len(v) && length < len(v) && s[:len(v)] == v }
	switch {
	case slices.ContainsFunc(o.Values, matches):
		return o.own(s, kbBase)
	case slices.ContainsFunc(f.Values, matches):
		if len(o.Values) == 0 {
			return o.own(s, kbBase)
		}
		return &RefusedError{Msg: "another build or version of fio takes it", Want: o.Values, Elsewhere: true}
	}
	want := o.Values
	if len(want) == 0 {
		want = f.Values
	}
	return &RefusedError{Msg: "it takes " + oneOf(want), Want: want}
}

// fewWords is the maximum number of accepted words that an error message lists.
const fewWords = 12

func oneOf(words []string) string {
	if len(words) > fewWords {
		return "one of " + strings.Join(words[:fewWords], ", ") + "…"
	}
	return "one of " + strings.Join(words, ", ")
}

func (o Option) number(f form, s string, kbBase int) error {
	if strings.HasSuffix(s, "z") {
		if f.Kind != "STR_VAL_ZONE" {
			return refused("it does not take a number of zones")
		}
		if !zones.MatchString(s) {
			return refused("%q is not a number of zones", s)
		}
		return nil
	}
	s, _, _ = strings.Cut(s, ",")
	v, percent, ok := toDecimal(s, kbBase, f.Time)
	wide := uint64(v)
	tooLarge, tooSmall := o.Max > 0 && float64(wide) > o.Max, o.Min > 0 && float64(wide) < o.Min
	if f.Kind == "INT" { // fio compares 32-bit numbers
		tooLarge = o.Max > 0 && (int32(v) < 0 && float64(int32(v)) > o.Max || int32(v) >= 0 && float64(uint32(v)) > o.Max)
		tooSmall = o.Min != 0 && float64(int32(v)) < o.Min
	}
	switch {
	case !ok:
		return refused("%q is not a number", s)
	case f.Pow2 && bits.OnesCount64(wide) != 1:
		return refused("it takes a power of two")
	case tooLarge || tooSmall:
		if o.Max > 0 {
			return refused("it takes a number from %.0f to %.0f", o.Min, o.Max)
		}
		return refused("it takes a number from %.0f", o.Min)
	case len(o.Values) > 0 && !percent && !slices.Contains(o.Values, strconv.FormatInt(v, 10)):
		return &RefusedError{Msg: "it takes " + oneOf(o.Values), Want: o.Values}
	case o.Name == "io_size" && percent && -1-v > 100:
		return refused("a share is at most 100%%")
	}
	return nil
}

var (
	zones     = regexp.MustCompile(`^\s*[-+]?\d+z$`)
	unsigned  = regexp.MustCompile(`^\s*[-+]?\d+`)
	hexNumber = regexp.MustCompile(`^\s*[-+]?(?:0[xX])?[0-9a-fA-F]+`)
	floating  = regexp.MustCompile(`^\s*[-+]?(?:0[xX][0-9a-fA-F]+|\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?)`)
)

// scan reads the integer at the start of s: hexadecimal if s contains 0x, otherwise decimal.
func scan(s string) (int64, bool) {
	if strings.Contains(strings.ToLower(s), "0x") {
		m := strings.ToLower(strings.TrimSpace(hexNumber.FindString(s)))
		n, err := strconv.ParseInt(strings.Replace(m, "0x", "", 1), 16, 64)
		return n, m != "" && err == nil
	}
	m := strings.TrimSpace(unsigned.FindString(s))
	n, err := strconv.ParseInt(m, 10, 64)
	return n, m != "" && err == nil
}

func scanFloat(s string) (float64, bool) {
	if strings.HasPrefix(s, "(") {
		n, err := evaluate(s, 1024)
		return float64(n), err == nil
	}
	m := strings.TrimSpace(floating.FindString(s))
	if hex, ok := strings.CutPrefix(strings.ToLower(m), "0x"); ok {
		n, err := strconv.ParseUint(hex, 16, 64)
		return float64(n), err == nil
	}
	v, err := strconv.ParseFloat(m, 64)
	return v, m != "" && err == nil
}

// toDecimal works like fio's str_to_decimal. It ignores units if isTime is set. It returns n percent as -1-n.
func toDecimal(s string, kbBase int, isTime bool) (v int64, percent, ok bool) {
	if strings.HasPrefix(s, "(") {
		if isTime {
			return 1, false, true // fio does not evaluate arithmetic in durations
		}
		n, err := evaluate(s, kbBase)
		return n, false, err == nil
	}
	if v, ok = scan(s); !ok || isTime {
		return v, false, ok
	}
	digits := unsigned.FindString(s)
	if strings.TrimLeft(s, " \t") == s {
		unit := strings.ToLower(s[min(len(digits), len(s)):])
		switch {
		case strings.HasPrefix(unit, "%"):
			return -1 - v, true, true
		case unit != "" && powers[unit[0]] > 0 && !strings.Contains(strings.ToLower(s), "0x"):
			base := int64(1024)
			if (len(unit) > 2 && unit[1:3] == "ib") == (kbBase != 1000) {
				base = 1000
			}
			for range powers[unit[0]] {
				v *= base
			}
		}
	}
	return v, false, true
}

// own checks the value s of an option that has its own parse function in fio. It accepts every value of the options
// that it does not list.
func (o Option) own(s string, kbBase int) error {
	word, rest, has := strings.Cut(s, ":")
	word, _, _ = strings.Cut(word, ",")
	rest = strings.TrimSpace(rest)
	switch o.Name {
	case "rw":
		if _, _, ok := toDecimal(rest, kbBase, false); has && rest != "" && !strings.HasPrefix(word, "rand") && !ok {
			return refused("%q is not a number of bytes", rest)
		}
	case "random_distribution", "file_service_type":
		return distribution(o.Name, word, rest, has, kbBase)
	case "bssplit":
		return split(s, kbBase)
	case "steadystate":
		limit, percent := strings.CutSuffix(rest, "%")
		_, float := scanFloat(limit)
		_, _, number := toDecimal(rest, kbBase, false)
		if !has {
			return refused("it needs a limit, as in iops:5%%")
		}
		if i := strings.IndexByte(rest, '%'); i >= 0 && !percent {
			_, float = scanFloat(rest[:i])
			percent = true
		}
		if percent && !float || !percent && strings.HasPrefix(word, "iops") && !float || !percent && strings.HasPrefix(word, "bw") && !number {
			return refused("%q is not a number", rest)
		}
	case "buffer_pattern", "verify_pattern":
		tooLong := slices.ContainsFunc(patternPart.FindAllString(s, -1), func(part string) bool {
			n, err := strconv.ParseInt(strings.TrimSpace(part), 10, 64)
			return err == nil && int64(int32(n)) != n
		})
		if tooLong || !pattern.MatchString(s) || o.Name == "buffer_pattern" && strings.Contains(s, "%o") {
			return refused(`it takes numbers, "text" and 'file'`)
		}
	}
	return nil
}

// pattern matches a value of verify_pattern or buffer_pattern. patternPart matches one part of it.
var (
	patternPart = regexp.MustCompile(`"[^"]+"|'[^']+'|0[xX][0-9a-fA-F]+|\s*[-+]?[0-9]+|%o`)
	pattern     = regexp.MustCompile("^(?:" + patternPart.String() + ")+$")
)

func distribution(option, word, rest string, has bool, kbBase int) error {
	switch word {
	case "zoned", "zoned_abs":
		if !has {
			return refused("it needs shares, as in zoned:60/10:40/90")
		}
		return zoned(rest, word == "zoned_abs", kbBase)
	case "zipf", "pareto", "normal", "gauss":
	default:
		return nil
	}
	value := map[string]float64{"zipf": 1.1, "pareto": 0.2}[word]
	if rest != "" || has {
		first, center, two := strings.Cut(rest, ":")
		v, ok := scanFloat(first)
		c, okCenter := scanFloat(center)
		switch {
		case !ok:
			return refused("%q is not a number", first)
		case two && !okCenter:
			return refused("%q is not a number", center)
		case two && c != -1 && (c < 0 || c > 1):
			return refused("the centre is a number from 0 to 1")
		}
		value = v
	}
	switch {
	case word == "zipf" && value == 1:
		return refused("theta must not be 1")
	case word == "pareto" && (value <= 0 || value >= 1):
		return refused("the parameter of pareto is between 0 and 1")
	case (word == "normal" || word == "gauss") && (value < 0 || value >= 100):
		return refused("the deviation is from 0 to below 100")
	}
	return nil
}

// eachDirection calls `check` for the comma-separated values for reads, writes and trims. The second and the third may
// be empty.
func eachDirection(s string, check func(string) error) error {
	for i, part := range strings.SplitN(s, ",", 3) {
		if err := check(part); err != nil && (i == 0 || part != "") {
			return err
		}
	}
	return nil
}

// split checks the value of bssplit.
func split(s string, kbBase int) error {
	return eachDirection(strings.TrimSpace(s), func(s string) error {
		sum, open := 0, 0
		for entry := range strings.SplitSeq(s, ":") {
			if entry == "" {
				break
			}
			size, share, _ := strings.Cut(entry, "/")
			if _, _, ok := toDecimal(size, kbBase, false); !ok {
				return refused("%q is not a block size", size)
			}
			n, _ := scan(share)
			if n == 0 {
				open++
			}
			sum += int(min(n, 100))
		}
		if sum > 100 && open > 1 {
			return refused("the shares add up to %d%%", sum)
		}
		return nil
	})
}

// zoned checks the shares of a zoned distribution.
func zoned(s string, absolute bool, kbBase int) error {
	return eachDirection(s, func(s string) error {
		access, size, entries := int64(0), int64(0), 0
		for entry := range strings.SplitSeq(s, ":") {
			if entry == "" {
				break
			}
			entries++
			first, second, has := strings.Cut(entry, "/")
			a, _, ok := toDecimal(first, kbBase, false)
			if !ok {
				return refused("%q is not a share", first)
			}
			if access += a; has && !absolute {
				n, _ := scan(second)
				size += min(n, 100)
			} else if _, _, ok := toDecimal(second, kbBase, false); has && !ok {
				return refused("%q is not a size", second)
			}
		}
		switch {
		case entries == 0:
			return nil
		case access != 100:
			return refused("the shares of access add up to %d%%, not 100%%", access)
		case size > 100:
			return refused("the shares of the size add up to %d%%", size)
		}
		return nil
	})
}
