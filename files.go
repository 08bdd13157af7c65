package iotax

import (
	"bytes"
	"context"
	"io"
	"strings"
)

// Output runs args on m and returns what they printed on standard output.
func Output(ctx context.Context, m Machine, args ...string) ([]byte, error) {
	var out bytes.Buffer
	c := Command(args...)
	c.Stdout = &out
	err := m.Run(ctx, c)
	return out.Bytes(), err
}

// Put writes r to the file path on m with the given permissions ("755"), through a temporary name,
// so that a broken transfer leaves no half file under the real one.
func Put(ctx context.Context, m Machine, r io.Reader, path, mode string) error {
	q := Quote(path)
	script := "umask 077; t=" + q + ".part$$; trap 'rm -f \"$t\"' EXIT; cat >\"$t\" && chmod " + Quote(mode) + " \"$t\" && mv -f \"$t\" " + q
	return m.Run(ctx, &Cmd{Args: []string{"sh", "-c", script}, Stdin: r})
}

// Get copies the file path of m to w.
func Get(ctx context.Context, m Machine, path string, w io.Writer) error {
	return m.Run(ctx, &Cmd{Args: []string{"cat", "--", path}, Stdout: w})
}

// Quote quotes s for a POSIX shell; a plain word stays as it is.
func Quote(s string) string {
	if s != "" && strings.IndexFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:=,+@%", r))
	}) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// QuoteAll quotes every argument and joins them with spaces.
func QuoteAll(args []string) string {
	q := make([]string, len(args))
	for i, a := range args {
		q[i] = Quote(a)
	}
	return strings.Join(q, " ")
}
