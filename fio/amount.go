package fio

import (
	"math"
	"strings"
)

// An amount is a number that fio's text output prints, such as "34.8MiB" or "611058KB", with its precision.
type amount struct {
	value    float64 // in base units
	scale    float64 // base units per printed unit
	power    int     // exponent of the unit: 2 for mega
	decimals int
	whole    bool // decimals were printed, and all of them are 0
	old      bool // printed by fio before 2.17, where K means 1024
}

// sizeOf parses a number of bytes or bits, and converts it to bytes. If `old` is set, the text is from fio before 2.17,
// whose units are powers of 1024 without an i. Those versions also have no unit T, so they print 1024 GB as 1 PB.
func sizeOf(s string, old bool) amount {
	s = strings.TrimSpace(s)
	end := len(s) - len(strings.TrimLeft(s, decimals+"."))
	a := amount{value: number(s[:end]), scale: 1, old: old}
	if i := strings.IndexByte(s[:end], '.'); i >= 0 {
		a.decimals = end - i - 1
		a.whole = strings.Trim(s[i+1:end], "0") == ""
	}
	unit := s[end:]
	if unit != "" {
		a.power = strings.IndexByte("?kmgtpe", unit[0]|0x20)
	}
	if a.power <= 0 {
		a.power = 0
	} else {
		unit = unit[1:]
		if old && a.power >= 5 {
			a.power--
		}
	}
	base := 1000.0
	if strings.HasPrefix(unit, "i") {
		base, a.old, unit = 1024, false, unit[1:]
	} else if old {
		base = 1024
	}
	a.scale = math.Pow(base, float64(a.power))
	if strings.HasPrefix(unit, "b") { // with unit_base=1, fio prints bits, as in "Mibit"
		a.scale /= 8
	}
	a.value *= a.scale
	return a
}

// amountOf parses a number that is not a size, such as "8910" or "37.6k".
func amountOf(s string) amount { return sizeOf(s, false) }

// margin returns the maximum rounding error in base units. `wild` means that the decimals are meaningless. Decimals of
// 0 are not trusted either: until 3.25, fio could print 34.96 as 34.0.
func (a amount) margin(wild bool) float64 {
	if a.decimals > 0 && (wild || a.whole) {
		return a.scale
	}
	if a.scale == 1 && a.decimals == 0 {
		return 0.5
	}
	return a.scale * math.Pow10(-a.decimals)
}

// decimal returns the value of an amount whose units are powers of 1024, with the units read as powers of 1000.
func (a amount) decimal() float64 { return a.value * math.Pow(1000.0/1024, float64(a.power)) }

// field returns the text between `key` and the next comma, without surrounding spaces. It searches for `key` as `after`
// does.
func field(s, key string) string {
	v, _, _ := strings.Cut(after(s, key), ",")
	return strings.TrimSpace(v)
}

// after returns the text after the first key at the start of a word, or "" if s does not contain such a key. A key that
// begins with a colon may be inside a word.
func after(s, key string) string {
	for from := 0; ; {
		i := strings.Index(s[from:], key)
		if i < 0 {
			return ""
		}
		i += from
		if i == 0 || key[0] == ':' || strings.IndexByte(" ,(\t", s[i-1]) >= 0 {
			return s[i+len(key):]
		}
		from = i + len(key)
	}
}

func percentOf(s, key string) float64 { return number(strings.TrimSuffix(field(s, key), "%")) / 100 }

func setOption(j *Job, key, value string) {
	if j.Options == nil {
		j.Options = map[string]string{}
	}
	j.Options[key] = valid(value)
}
