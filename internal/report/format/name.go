package format

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"

	"iotax"
)

// Subject joins a workload's name and a metric's label. It omits the words of the label that the name already contains.
func Subject(workload, label string) string {
	return strings.TrimSpace(workload + " " + Remainder(workload, label))
}

// Work is like Subject, but also omits "IOPS", "bandwidth", and a remainder that is part of the name: "4k random read",
// "4k read latency p99".
func Work(workload, label string) string {
	rest := Remainder(workload, label)
	for _, unit := range []string{"IOPS", "bandwidth"} {
		rest = strings.TrimSuffix(strings.TrimSuffix(rest, unit), " ")
	}
	if strings.Contains(strings.ToLower(workload), strings.ToLower(rest)) { // for example "read" in "randread-4k"
		return workload
	}
	return workload + " " + rest
}

// Remainder returns the words of a metric's label that the workload's name does not contain.
func Remainder(workload, label string) string {
	have := strings.Fields(strings.ToLower(workload))
	var rest []string
	for _, w := range strings.Fields(label) {
		if !slices.Contains(have, strings.ToLower(w)) {
			rest = append(rest, w)
		}
	}
	return strings.Join(rest, " ")
}

// Fold returns a name in lower case, with one space for each run of spaces, hyphens and underscores. Names with the
// same folded form count as equal.
func Fold(s string) string {
	return strings.Join(strings.FieldsFunc(strings.ToLower(s), func(r rune) bool { return r == ' ' || r == '-' || r == '_' }), " ")
}

// Label returns a metric's name for readers: "read IOPS", "read latency p99".
func Label(metric string) string {
	switch metric {
	case iotax.ValuePutRate:
		return "PUTs/s"
	case iotax.ValueGetRate:
		return "GETs/s"
	case iotax.ValueHTTPRequests:
		return "HTTP requests/s"
	case iotax.ValueArchiveFiles:
		return "archive files/s"
	case iotax.ValueCPUPerIO:
		return "CPU per I/O"
	case iotax.ValueIOPerCore:
		return "I/Os per core"
	case iotax.ValueCPUClientPerIO:
		return "client CPU per I/O"
	case iotax.ValueCPUServingPerIO:
		return "serving CPU per I/O"
	case iotax.ValueCPUServing:
		return "serving CPU"
	case iotax.ValueCPUHost:
		return "host CPU"
	case iotax.ValueMemoryHostRSS:
		return "host memory"
	case iotax.ValueMemoryHostPeak:
		return "host memory peak"
	case iotax.ValueMemoryHostUSS:
		return "host memory, unique"
	case iotax.ValueMemoryHostPSS:
		return "host memory, proportional"
	}
	words := strings.Split(Clean(metric), ".")
	for i := 0; i < len(words); i++ {
		// Keep "p99.9" as one word.
		if i > 0 && len(words[i-1]) > 1 && words[i-1][0] == 'p' && Digits(words[i-1][1:]) && Digits(words[i]) {
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

// Digits reports whether s consists only of digits.
func Digits(s string) bool {
	return s != "" && strings.IndexFunc(s, func(r rune) bool { return r < '0' || r > '9' }) < 0
}

// Clean makes a string safe to print anywhere. It removes terminal control sequences, control characters, and format
// characters such as those that reorder text. It replaces each run of line breaks, tabs and spaces with one space.
func Clean(s string) string {
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

// Capital returns s with its first letter in upper case.
func Capital(s string) string {
	r, n := utf8.DecodeRuneInString(s)
	if n == 0 {
		return s
	}
	return string(unicode.ToUpper(r)) + s[n:]
}
