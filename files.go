package iotax

import (
	"context"
	"io"
)

// Output runs args on m and returns what they printed on standard output.
func Output(ctx context.Context, m Machine, args ...string) ([]byte, error) {
	var out Capture
	c := Command(args...)
	c.Stdout = &out
	err := m.Run(ctx, c)
	return out.Bytes(), err
}

// Reserve is how many bytes are left free on a file system of size bytes: one that is filled to the brim slows down, and
// breaks whoever else writes to it.
func Reserve(size int64) int64 { return size / 20 }

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
