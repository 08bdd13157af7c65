package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
	"golang.org/x/perf/benchunit"

	"iotax"
	"iotax/stat"
)

const dash = "–"

// A scale is how values of a unit of about one size are printed.
type scale struct {
	factor float64
	prefix string // stands at every number: "k"
	unit   string // stands once: "MiB/s"
}

// scaleOf chooses the prefix for v. Bytes are scaled in powers of 1024 and say so (MiB); everything
// else in powers of 1000, rates and times not beyond their plain unit.
func scaleOf(unit string, v float64) scale {
	v = math.Abs(v)
	switch unit {
	case iotax.BytesPerSecond, iotax.Bytes:
		s := benchunit.CommonScale([]float64{v}, benchunit.Binary)
		return scale{s.Factor, "", s.Prefix + unit}
	case iotax.Seconds:
		s := benchunit.CommonScale([]float64{v}, benchunit.Decimal)
		if v >= 1 || v == 0 {
			return scale{1, "", "s"}
		}
		return scale{s.Factor, "", s.Prefix + "s"}
	case iotax.RatioUnit:
		return scale{.01, "", "%"}
	}
	sc := scale{1, "", ""}
	if v >= 1000 {
		s := benchunit.CommonScale([]float64{v}, benchunit.Decimal)
		sc.factor, sc.prefix = s.Factor, s.Prefix
	}
	switch unit {
	case iotax.PerSecond, iotax.Count, "":
	default:
		sc.unit = clean(unit)
	}
	return sc
}

// places returns the decimal place at which x may be cut when it is uncertain by half: that of the
// uncertainty's first digit, one further when that is a 1. Without an uncertainty (NaN) two digits of x
// are left, and never more than four.
func places(x, half float64) int {
	first := func(v float64) int {
		if v == 0 || math.IsInf(v, 0) || math.IsNaN(v) {
			return 0
		}
		return int(math.Floor(math.Log10(math.Abs(v))))
	}
	top := first(x)
	p := top - 1
	if half > 0 && !math.IsInf(half, 0) {
		p = first(half)
		if half/math.Pow10(p) < 2 {
			p--
		}
	} else if half == 0 {
		p = top - 3
	}
	return min(max(p, top-3), top)
}

// fixed prints x rounded at decimal place p.
func fixed(x float64, p int) string {
	if p > 0 {
		x = math.Round(x/math.Pow10(p)) * math.Pow10(p)
	}
	return strconv.FormatFloat(x, 'f', max(0, -p), 64)
}

// shortest leaves out the zeros that end a decimal fraction.
func shortest(s string) string {
	if strings.Contains(s, ".") {
		s = strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
	}
	return s
}

// finite reports whether the interval has bounds that can be printed.
func finite(i stat.Interval) bool {
	return i.Bounded() && !math.IsInf(i.Lo, 0) && !math.IsInf(i.Hi, 0)
}

func half(i stat.Interval) float64 {
	if !finite(i) {
		return math.NaN()
	}
	return (i.Hi - i.Lo) / 2
}

// number prints the estimate alone: "11.6k", "310 MiB/s".
func number(i stat.Interval, unit string) string {
	if math.IsNaN(i.Estimate) || math.IsInf(i.Estimate, 0) {
		return dash
	}
	sc := scaleOf(unit, i.Estimate)
	if i.Estimate == 0 {
		return withUnit("0", sc.unit)
	}
	x, h := i.Estimate/sc.factor, half(i)/sc.factor
	return withUnit(fixed(x, places(x, h))+sc.prefix, sc.unit)
}

func withUnit(s, unit string) string {
	if unit == "" {
		return s
	}
	return s + " " + unit
}

// spread prints the estimate with its larger half width in per cent: "11.6k ±3 %".
func spread(i stat.Interval, unit string) string {
	s := number(i, unit)
	if !finite(i) || i.Estimate == 0 {
		return s
	}
	return s + " ±" + percent(math.Max(i.Hi-i.Estimate, i.Estimate-i.Lo)/math.Abs(i.Estimate))
}

// bounds prints estimate and bounds: "11.6k [11.2k, 11.9k]", "310 [300, 318] MiB/s".
func bounds(i stat.Interval, unit string) string {
	if !finite(i) {
		return number(i, unit)
	}
	sc := scaleOf(unit, i.Estimate)
	x := i.Estimate / sc.factor
	if i.Lo == i.Hi { // a constant, such as the window's length, or a rate that something holds
		return withUnit(shortest(fixed(x, places(x, 0)))+sc.prefix, sc.unit)
	}
	p := places(x, half(i)/sc.factor)
	return withUnit(fmt.Sprintf("%s [%s, %s]", fixed(x, p)+sc.prefix, fixed(i.Lo/sc.factor, p)+sc.prefix, fixed(i.Hi/sc.factor, p)+sc.prefix), sc.unit)
}

// formatRatio prints "0.47× [0.45, 0.50]".
func formatRatio(i stat.Interval) string {
	if math.IsNaN(i.Estimate) || math.IsInf(i.Estimate, 0) {
		return dash
	}
	p := places(i.Estimate, half(i))
	s := fixed(i.Estimate, p) + "×"
	if finite(i) {
		s += fmt.Sprintf(" [%s, %s]", bound(i.Lo, p), bound(i.Hi, p))
	}
	return s
}

// bound prints an end of a ratio's interval. From two or three noisy blocks it can be absurd, and its
// digits then say nothing.
func bound(x float64, exp int) string {
	const most = 1000
	least := math.Pow(10, float64(exp))
	switch {
	case x > most && x > most*least:
		return fmt.Sprintf(">%d", most)
	case x < least/2:
		return "<" + fixed(least, exp)
	}
	return fixed(x, exp)
}

// percent prints a ratio as "3 %", "0.4 %", "12 %".
func percent(x float64) string {
	x *= 100
	switch {
	case math.IsNaN(x) || math.IsInf(x, 0):
		return "∞ %"
	case x >= 9.5:
		return fmt.Sprintf("%.0f %%", x)
	case x >= .095:
		return strconv.FormatFloat(x, 'g', 1, 64) + " %"
	}
	return "0.1 %"
}

// Label is a metric's name for people: "read IOPS", "read latency p99".
func Label(metric string) string {
	switch metric {
	case "put.rate":
		return "PUTs/s"
	case "get.rate":
		return "GETs/s"
	case "http.requests":
		return "HTTP requests/s"
	case "archive.files":
		return "archive files/s"
	case "cpu.serving.per-io":
		return "serving CPU per I/O"
	case "cpu.serving":
		return "serving CPU"
	case "cpu.host":
		return "host CPU"
	case "memory.host.rss":
		return "host memory"
	case "memory.host.peak":
		return "host memory peak"
	case "memory.host.uss":
		return "host memory, unique"
	case "memory.host.pss":
		return "host memory, proportional"
	}
	words := strings.Split(clean(metric), ".")
	for i := 0; i < len(words); i++ {
		// "p99.9" is one word.
		if i > 0 && len(words[i-1]) > 1 && words[i-1][0] == 'p' && digits(words[i-1][1:]) && digits(words[i]) {
			words[i-1] += "." + words[i]
			words = append(words[:i], words[i+1:]...)
			i--
			continue
		}
		switch words[i] {
		case "iops", "cpu", "ios", "http":
			words[i] = strings.ToUpper(words[i])
		case "mixed":
			words[i] = "total"
		}
	}
	return strings.ReplaceAll(strings.Join(words, " "), "IOS", "I/Os")
}

func digits(s string) bool {
	return s != "" && strings.IndexFunc(s, func(r rune) bool { return r < '0' || r > '9' }) < 0
}

// clean makes a string of a target safe to print anywhere: terminal sequences, control characters
// and the invisible ones that reorder text are removed, line ends and tabs become spaces.
func clean(s string) string {
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, "�")
	}
	s = strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t' || r == '\r':
			return ' '
		case unicode.IsControl(r), unicode.Is(unicode.Cf, r) && r != 0x200d, r == 0x2028, r == 0x2029:
			return -1
		}
		return r
	}, ansi.Strip(s))
	return strings.Join(strings.Fields(s), " ")
}

// upperFirst begins s with a capital letter.
func upperFirst(s string) string {
	r, n := utf8.DecodeRuneInString(s)
	if n == 0 {
		return s
	}
	return string(unicode.ToUpper(r)) + s[n:]
}
