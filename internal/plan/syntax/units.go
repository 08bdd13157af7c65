package syntax

import (
	"cmp"
	"fmt"
	"math"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Size is a number of bytes, written as 4096, 4k, 1MiB or 1MB. KiB, MiB, GiB, TiB and fio's k, m, g, t are
// powers of 1024. kB, MB, GB, TB are powers of 1000.
type Size int64

// Duration is a time.Duration, written 10s, 1m30s or 250ms.
type Duration time.Duration

// Percent is a ratio written as a percentage: 5% is 0.05.
type Percent float64

// A ValueError reports why a text is not a valid value.
type ValueError struct {
	Msg  string
	Hint string // "" if there is none
}

func (e *ValueError) Error() string {
	if e.Hint == "" {
		return e.Msg
	}
	return e.Msg + ", " + e.Hint
}

// sizeUnits lists the canonical spelling of each unit first.
var sizeUnits = []struct {
	name  string
	bytes int64
}{
	{"B", 1},
	{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40},
	{"kB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12},
	{"k", 1 << 10}, {"m", 1 << 20}, {"g", 1 << 30}, {"t", 1 << 40},
	{"K", 1 << 10}, {"M", 1 << 20}, {"G", 1 << 30}, {"T", 1 << 40},
}

var durationUnits = []string{"ns", "us", "ms", "s", "m", "h", "µs", "μs"}

// durationWords maps common spellings to time units. Most of them differ too much from the units for Nearest.
var durationWords = map[string]string{
	"sec": "s", "secs": "s", "second": "s", "seconds": "s", "S": "s",
	"min": "m", "mins": "m", "minute": "m", "minutes": "m", "M": "m",
	"hr": "h", "hrs": "h", "hour": "h", "hours": "h", "H": "h",
	"msec": "ms", "msecs": "ms", "millis": "ms", "usec": "us", "usecs": "us", "nsec": "ns", "nsecs": "ns",
}

// numberUnit matches a number and an optional unit. It limits the number of digits, so that parsing never creates a
// huge rational number.
var numberUnit = regexp.MustCompile(`^([0-9]{1,30}(?:\.[0-9]{1,60})?) ?([^0-9.\s]\S*)?$`)

// split splits s into a number and its unit.
func split(s, what, example string) (number, unit string, err error) {
	s = strings.TrimSpace(s)
	if strings.HasPrefix(s, "-") {
		return "", "", &ValueError{Msg: fmt.Sprintf("%s is negative", Quote(s)), Hint: "a " + what + " is 0 or more"}
	}
	m := numberUnit.FindStringSubmatch(s)
	if m == nil {
		return "", "", &ValueError{Msg: fmt.Sprintf("%s is not a %s", Quote(s), what), Hint: "write a number and a unit, as in " + example}
	}
	return m[1], m[2], nil
}

// ParseSize reads a size: a number and a unit. Without a unit it is in bytes. Fractions are allowed if the
// result is a whole number of bytes.
func ParseSize(s string) (Size, error) {
	number, unit, err := split(s, "size", "1GiB")
	if err != nil {
		return 0, err
	}
	factor := int64(0)
	var names []string
	for _, u := range sizeUnits {
		names = append(names, u.name)
		if u.name == cmp.Or(unit, "B") {
			factor = u.bytes
		}
	}
	if factor == 0 {
		return 0, unknownUnit(unit, sizeUnit(unit, names), "B, KiB, MiB, GiB, TiB, kB, MB, GB, TB, or fio's k, m, g, t")
	}
	r, ok := new(big.Rat).SetString(number)
	if !ok {
		return 0, &ValueError{Msg: fmt.Sprintf("%s is not a size", Quote(s)), Hint: "write a number and a unit, as in 1GiB"}
	}
	r.Mul(r, new(big.Rat).SetInt64(factor))
	if !r.IsInt() {
		return 0, &ValueError{Msg: fmt.Sprintf("%s is not a whole number of bytes", Quote(s)), Hint: "use a smaller unit"}
	}
	if !r.Num().IsInt64() {
		return 0, &ValueError{Msg: fmt.Sprintf("%s is too large", Quote(s)), Hint: "the largest size is just under 8388608TiB"}
	}
	return Size(r.Num().Int64()), nil
}

// sizeUnit returns the unit that was probably intended. It ignores a plural s, and then letter case: "GiBs" and "gib"
// become GiB, "mb" becomes MB. If no unit matches, it returns the nearest unit, or "".
func sizeUnit(unit string, names []string) string {
	plain := strings.TrimSuffix(unit, "s")
	for _, same := range []func(a, b string) bool{func(a, b string) bool { return a == b }, strings.EqualFold} {
		if i := slices.IndexFunc(names, func(n string) bool { return same(plain, n) }); i >= 0 {
			return names[i]
		}
	}
	return Nearest(unit, names)
}

// ParseDuration reads numbers with units in any order: 10s, 1m30s, 250ms, 1.5h. 0 needs no unit. The resolution is
// one nanosecond, the range 0 to about 292 years.
func ParseDuration(s string) (Duration, error) {
	t := strings.TrimSpace(s)
	if t == "0" {
		return 0, nil
	}
	number, unit, err := split(t, "duration", "10s")
	if err != nil {
		return 0, err
	}
	if unit == "" {
		return 0, &ValueError{Msg: fmt.Sprintf("%s has no unit", Quote(s)), Hint: fmt.Sprintf("did you mean %q?", number+"s")}
	}
	var sum time.Duration
	for _, part := range durationPart.FindAllStringSubmatch(number+unit, -1) {
		n, u := part[1], part[2]
		switch {
		case u == "":
			return 0, &ValueError{Msg: fmt.Sprintf("%s ends without a unit", Quote(s)), Hint: "write it as in 1m30s"}
		case !slices.Contains(durationUnits, u):
			near := cmp.Or(durationWords[u], durationWords[strings.ToLower(u)], Nearest(u, durationUnits))
			return 0, unknownUnit(u, near, "ns, us, ms, s, m, h")
		case strings.Count(n, ".") > 1 || n == ".":
			return 0, &ValueError{Msg: fmt.Sprintf("%s is not a duration", Quote(s)), Hint: "write it as in 1m30s"}
		}
		d, err := time.ParseDuration(n + u)
		if err != nil || sum > math.MaxInt64-d {
			return 0, &ValueError{Msg: fmt.Sprintf("%s is too long", Quote(s)), Hint: "the longest duration is about 292 years"}
		}
		sum += d
	}
	return Duration(sum), nil
}

var durationPart = regexp.MustCompile(`([0-9.]+)([^0-9.]*)`)

// ParsePercent reads a percentage with its percent sign: 5%, 0.5%, 100%.
func ParsePercent(s string) (Percent, error) {
	number, unit, err := split(s, "percentage", "5%")
	if err != nil {
		return 0, err
	}
	switch unit {
	case "%":
	case "":
		hint := "write " + number + "%"
		if f, err := strconv.ParseFloat(number, 64); err == nil && f > 0 && f < 1 { // the user may have meant either a ratio or a percentage
			hint = fmt.Sprintf("write %s for a ratio of %s, or %s%%", Percent(f), number, number)
		}
		return 0, &ValueError{Msg: fmt.Sprintf("%s has no %% sign", Quote(s)), Hint: hint}
	default:
		return 0, unknownUnit(unit, "%", "%")
	}
	// The exponent shifts the decimal point exactly, so that String returns the original number.
	f, err := strconv.ParseFloat(number+"e-2", 64)
	if err != nil {
		return 0, &ValueError{Msg: fmt.Sprintf("%s is not a percentage", Quote(s)), Hint: "write it as in 5%"}
	}
	return Percent(f), nil
}

// ParseNumber reads a number with up to 15 digits on each side of the decimal point, optionally followed by k
// (thousand) or M (million).
func ParseNumber(s string) (n float64, ok bool) {
	factor := 1.
	for suffix, times := range map[string]float64{"k": 1e3, "M": 1e6} {
		if number, ok := strings.CutSuffix(s, suffix); ok {
			s, factor = number, times
			break
		}
	}
	if !plainNumber.MatchString(s) {
		return 0, false
	}
	n, err := strconv.ParseFloat(s, 64)
	return n * factor, err == nil
}

var plainNumber = regexp.MustCompile(`^[0-9]{1,15}(\.[0-9]{1,15})?$`)

// ParseRate reads operations per second: 5000/s, 12k/s or 1.5M/s.
func ParseRate(s string) (float64, error) {
	number, perSecond := strings.CutSuffix(strings.TrimSpace(s), "/s")
	if n, ok := ParseNumber(strings.TrimSpace(number)); ok && perSecond {
		return n, nil
	}
	return 0, &ValueError{Msg: Quote(s) + " is not a rate", Hint: "write I/Os per second, as in 5000/s, 12k/s or 1.5M/s"}
}

func unknownUnit(unit, near, all string) error {
	e := &ValueError{Msg: fmt.Sprintf("unknown unit %s", Quote(unit)), Hint: "units are " + all}
	if near != "" {
		e.Hint = fmt.Sprintf("did you mean %q?", near)
	}
	return e
}

// String returns the shortest exact form. It prefers binary units among forms of equal length.
func (s Size) String() string {
	best := strconv.FormatInt(int64(s), 10) + "B"
	for _, u := range sizeUnits[1:9] {
		if s != 0 && int64(s)%u.bytes == 0 {
			if t := strconv.FormatInt(int64(s)/u.bytes, 10) + u.name; len(t) < len(best) {
				best = t
			}
		}
	}
	return best
}

// String returns Go's form without trailing zero units: 20m, not 20m0s.
func (d Duration) String() string {
	s := time.Duration(d).String()
	if strings.HasSuffix(s, "m0s") {
		s = s[:len(s)-2]
	}
	if strings.HasSuffix(s, "h0m") {
		s = s[:len(s)-2]
	}
	return s
}

// String returns the shortest decimal that reads back as the same ratio.
func (p Percent) String() string {
	s := strconv.FormatFloat(float64(p), 'f', -1, 64)
	sign := ""
	if strings.HasPrefix(s, "-") {
		sign, s = "-", s[1:]
	}
	if strings.ContainsAny(s, "IN") { // infinity or NaN
		return sign + s + "%"
	}
	whole, frac, _ := strings.Cut(s, ".")
	frac += "00"
	whole = strings.TrimLeft(whole+frac[:2], "0")
	frac = strings.TrimRight(frac[2:], "0")
	if whole == "" {
		whole = "0"
	}
	if frac != "" {
		whole += "." + frac
	}
	return sign + whole + "%"
}

// Duration returns d as a time.Duration.
func (d Duration) Duration() time.Duration { return time.Duration(d) }

// The text forms are used in YAML and JSON.

func (s Size) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

func (p Percent) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

func (s *Size) UnmarshalText(b []byte) (err error) { *s, err = keep(*s, b, ParseSize); return err }

func (d *Duration) UnmarshalText(b []byte) (err error) {
	*d, err = keep(*d, b, ParseDuration)
	return err
}

func (p *Percent) UnmarshalText(b []byte) (err error) {
	*p, err = keep(*p, b, ParsePercent)
	return err
}

// keep returns the result of `parse`, or `old` and the error if `parse` rejects the text.
func keep[T any](old T, b []byte, parse func(string) (T, error)) (T, error) {
	v, err := parse(string(b))
	if err != nil {
		return old, err
	}
	return v, nil
}
