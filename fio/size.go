package fio

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// A MisreadError reports that fio silently reads a value as a different value.
type MisreadError struct {
	Value string
	As    string // fio's interpretation: "1 byte"
	Why   string
}

func (e *MisreadError) Error() string {
	return fmt.Sprintf("fio reads %q as %s: %s", e.Value, e.As, e.Why)
}

// ParseSize reads a number of bytes as fio does. `kbBase` is fio's option kb_base. With the default, 1024, the units k,
// kB, Ki, m, MB, Mi… are powers of 1024, and KiB, MiB… are powers of 1000, the reverse of the standard. With 1000, the
// two bases are swapped. A number may be hexadecimal (0x1000). A value in parentheses is arithmetic.
//
// If fio misreads the value (it reads 1.5g as one byte and 4x as four), ParseSize returns fio's number and a
// *MisreadError.
func ParseSize(s string, kbBase int) (int64, error) {
	if strings.HasPrefix(s, "(") {
		return evaluate(s, kbBase)
	}
	p := expression{s: s, kbBase: kbBase}
	n, err := p.number()
	if err != nil {
		return 0, err
	}
	why := ""
	switch bare := strings.Trim(s, " \t"); {
	case bare != strings.TrimRight(s, " \t") && strings.Trim(bare, decimals) != "":
		// fio searches for a unit only if the value starts with a digit.
		p = expression{s: bare, bc: true}
		if n, err = p.number(); err != nil {
			return 0, err
		}
		why = "it ignores the unit if a space is before the number"
	case p.s == "":
		return n, nil
	case p.s[0] == '.':
		why = "it does not support fractions"
	default:
		why = "it ignores the rest"
	}
	as := fmt.Sprintf("%d bytes", n)
	if n == 1 {
		as = "1 byte"
	}
	return n, &MisreadError{Value: s, As: as, Why: why}
}

// ParseShare reads a size, a percentage ("10%") or a number of zones ("4z"). unit is 0 for bytes, '%' for a
// percentage or 'z' for zones.
func ParseShare(s string, kbBase int) (n int64, unit byte, err error) {
	if s != "" && (s[len(s)-1] == '%' || s[len(s)-1] == 'z') {
		digits := s[:len(s)-1]
		if digits != "" && strings.Trim(digits, decimals) == "" {
			n, err = ParseSize(digits, kbBase)
			return n, s[len(s)-1], err
		}
	}
	n, err = ParseSize(s, kbBase)
	return n, 0, err
}

// PerDirection splits the value of an option that takes a number for each of read, write and trim, such as
// bs=4k,8k,16k. A missing number at the end repeats the previous one. "" means fio's default. A colon or a dash
// also separates numbers: bs=4k-8k is 4k for reads and 8k for writes (bsrange takes ranges).
func PerDirection(value string) (read, write, trim string) {
	var parts []string
	for rest := strings.TrimSuffix(value, ","); ; {
		i := strings.IndexByte(rest, ',')
		for _, sep := range []byte{':', '-'} {
			if i < 0 {
				i = strings.IndexByte(rest, sep)
			}
		}
		if i < 0 {
			parts = append(parts, rest)
			break
		}
		// Before a comma, a number ends at the first colon or dash.
		head, _, _ := strings.Cut(strings.ReplaceAll(rest[:i], ":", "-"), "-")
		parts = append(parts, head)
		rest = rest[i+1:]
	}
	at := func(i int) string { return strings.TrimSpace(parts[min(i, len(parts)-1)]) }
	return at(0), at(1), at(2)
}

var times = map[string]time.Duration{"us": time.Microsecond, "usec": time.Microsecond, "ms": time.Millisecond, "msec": time.Millisecond,
	"s": time.Second, "m": time.Minute, "h": time.Hour, "d": 24 * time.Hour}

// ParseTime reads a duration as fio does: a whole number and one of us, ms, s, m, h and d. unit applies to a number
// without a unit: seconds for runtime, ramp_time, startdelay and most other options, microseconds for thinktime and
// latencies. ParseTime does not support arithmetic.
//
// If fio misreads the value, ParseTime returns fio's value and a *MisreadError. For example, fio treats an unknown unit
// as microseconds (10sec is 10 µs) and drops fractions (0.4 is 0).
func ParseTime(s string, unit time.Duration) (time.Duration, error) {
	spaced := strings.TrimLeft(s, " \t") != s
	s = strings.Trim(s, " \t")
	i := len(s) - len(strings.TrimLeft(s, decimals))
	if i == 0 {
		return 0, fmt.Errorf("%q is not a time", s)
	}
	n, err := strconv.ParseInt(s[:i], 10, 64)
	if err != nil {
		return 0, errRange
	}
	name := strings.ToLower(s[i:])
	u, known := times[name]
	why := ""
	switch {
	case name == "":
		u = unit
	case spaced:
		if u, why = unit, "it ignores the unit if a space is before the number"; times[name] == unit {
			why = ""
		}
	case known:
	case name[0] < 'a' || name[0] > 'z':
		u, why = unit, "it ignores the rest"
		if name[0] == '.' {
			why = "it does not support fractions"
		}
	default:
		// fio accepts words that begin with us or ms, such as "usecs".
		switch u, why = time.Microsecond, fmt.Sprintf("it has no unit %q", s[i:]); name[:min(2, len(name))] {
		case "us":
			why = ""
		case "ms":
			u, why = time.Millisecond, ""
		}
	}
	if n > math.MaxInt64/int64(u) {
		return 0, errRange
	}
	d := time.Duration(n) * u
	if why != "" {
		return d, &MisreadError{Value: s, As: d.String(), Why: why}
	}
	return d, nil
}

const (
	decimals     = "0123456789"
	hexadecimals = decimals + "abcdefABCDEF"
)

var powers = map[byte]int{'k': 1, 'm': 2, 'g': 3, 't': 4, 'p': 5}

// An expression is the unread part of an arithmetic expression over sizes, with + - * / % and parentheses. It is
// evaluated in whole numbers, as in bc and fio's own parser.
type expression struct {
	s      string
	kbBase int
	bc     bool // numbers have no units, and ^ is a power
	depth  int
}

var errRange = errors.New("the number is out of range")

func evaluate(s string, kbBase int) (int64, error) {
	p := expression{s: strings.TrimSpace(s), kbBase: kbBase}
	n, err := p.sum()
	if err == nil && p.s != "" {
		err = fmt.Errorf("%q does not fit here", p.s)
	}
	if err != nil {
		return 0, fmt.Errorf("%q: %w", s, err)
	}
	return n, nil
}

func (p *expression) op(ops string) byte {
	p.s = strings.TrimLeft(p.s, " \t")
	if p.s == "" || strings.IndexByte(ops, p.s[0]) < 0 {
		return 0
	}
	c := p.s[0]
	p.s = p.s[1:]
	return c
}

func (p *expression) sum() (int64, error) {
	a, err := p.product()
	for err == nil {
		op := p.op("+-")
		if op == 0 {
			break
		}
		var b int64
		if b, err = p.product(); err != nil {
			break
		}
		if op == '-' {
			b = -b
		}
		if (b > 0 && a > math.MaxInt64-b) || (b < 0 && a < math.MinInt64-b) {
			return 0, errRange
		}
		a += b
	}
	return a, err
}

func (p *expression) product() (int64, error) {
	a, err := p.power()
	for err == nil {
		op := p.op("*/%")
		if op == 0 {
			break
		}
		var b int64
		if b, err = p.power(); err != nil {
			break
		}
		switch {
		case op == '*' && a != 0 && (a*b/a != b || a == -1 && b == math.MinInt64):
			return 0, errRange
		case op == '*':
			a *= b
		case b == 0:
			return 0, errors.New("division by zero")
		case op == '/':
			a /= b
		default:
			a %= b
		}
	}
	return a, err
}

// nested calls `read`, which may call nested again, and limits the depth.
func (p *expression) nested(read func() (int64, error)) (int64, error) {
	if p.depth++; p.depth > 100 {
		return 0, errors.New("nested too deeply")
	}
	defer func() { p.depth-- }()
	return read()
}

func (p *expression) factor() (int64, error) {
	switch p.op("(-+") {
	case '(':
		n, err := p.nested(p.sum)
		if err == nil && p.op(")") == 0 {
			err = errors.New("a ) is missing")
		}
		return n, err
	case '-':
		n, err := p.nested(p.factor)
		return -n, err
	case '+':
		return p.nested(p.factor)
	}
	return p.number()
}

func (p *expression) number() (int64, error) {
	s := strings.TrimLeft(p.s, " \t")
	base, digits := 10, decimals
	if hex, ok := strings.CutPrefix(strings.ToLower(s), "0x"); ok && !p.bc && hex != "" && strings.IndexByte(hexadecimals, hex[0]) >= 0 {
		s, base, digits = s[2:], 16, hexadecimals
	}
	i := len(s) - len(strings.TrimLeft(s, digits))
	if i == 0 {
		return 0, fmt.Errorf("%q is not a number", s)
	}
	n, err := strconv.ParseInt(s[:i], base, 64)
	if err != nil {
		return 0, errRange
	}
	if s = s[i:]; p.bc {
		p.s = strings.TrimLeft(s, " \t")
		return n, nil
	}
	if s != "" && base == 10 { // a hexadecimal number has no unit
		if power := powers[s[0]|0x20]; power > 0 {
			s = s[1:]
			// With kb_base=1000, K is 1000 and KiB is 1024. With kb_base=1024, fio swaps them. "Ki" without B means K.
			iec := len(s) > 1 && s[0]|0x20 == 'i' && s[1]|0x20 == 'b'
			if s != "" && s[0]|0x20 == 'i' {
				s = s[1:]
			}
			base := int64(1024)
			if iec == (p.kbBase != 1000) {
				base = 1000
			}
			for range power {
				if n > math.MaxInt64/base {
					return 0, errRange
				}
				n *= base
			}
		}
		if s != "" && s[0]|0x20 == 'b' {
			s = s[1:]
		}
	}
	p.s = strings.TrimLeft(s, " \t")
	return n, nil
}
