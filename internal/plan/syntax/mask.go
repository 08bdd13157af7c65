package syntax

import (
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// secret matches the password in a URL, so that the password can be hidden.
var secret = regexp.MustCompile(`://[^/?#]*?:([^/?#]*)@`)

// Password matches the password in a URL, so that a plan with a password can be rejected. Blanks and quotes end the
// URL, because the text may be a command.
var Password = regexp.MustCompile(`://[^/?#\s'"]*?:([^/?#\s'"]*)@`)

// secretKey matches the value of a key whose name suggests a secret.
var secretKey = regexp.MustCompile(`(?i)\w*(?:passw|passphrase|_pass|secret|token|_key)\w*['"]?\s*[:=]\s*([^\s,}]+)`)

// mask replaces each character of a secret in the lines of a source, so that other text keeps its column. mask is from
// a private use area of Unicode.
const mask = '\uE5EC'

// Masked returns a line of a plan with each character of its secrets replaced with mask.
func Masked(line string) string {
	for _, re := range []*regexp.Regexp{secret, secretKey} {
		for _, m := range slices.Backward(re.FindAllStringSubmatchIndex(line, -1)) {
			line = line[:m[2]] + strings.Repeat(string(mask), utf8.RuneCountInString(line[m[2]:m[3]])) + line[m[3]:]
		}
	}
	return line
}

// unmasked returns a line from Masked with six dots for each secret, whatever its length, and the position of a token
// in the result.
func unmasked(line string, column, width int) (text string, at, wide int) {
	if !strings.ContainsRune(line, mask) {
		return line, column, width
	}
	const dots = "......"
	var b strings.Builder
	var from, to []int // displayed column range of each character
	col, last := 1, rune(0)
	for _, r := range line {
		switch {
		case r != mask:
			b.WriteRune(r)
			col++
			from, to = append(from, col-1), append(to, col)
		case last != mask:
			b.WriteString(dots)
			col += len(dots)
			fallthrough
		default:
			from, to = append(from, col-len(dots)), append(to, col)
		}
		last = r
	}
	if at = col; column <= len(from) {
		at = from[max(0, column-1)]
	}
	end := min(column+width-1, len(to))
	return b.String(), at, max(1, to[max(0, end-1)]-at)
}
