package workload

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"math"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/therootcompany/xz"

	"iotax"
)

// content describes an archive.
type content struct {
	write       func(io.Writer) error // writes the archive, with the same bytes each time
	packed      int64                 // size of the archive in bytes
	files, dirs int                   // files include hard links; dirs exclude the root and include directories that only occur in file names
	others      int                   // symbolic links, devices and FIFOs
	bytes       int64                 // total size of the files
	id          string                // start of the SHA-256 of the archive's bytes, in hexadecimal
	sum         string                // SHA-256 of the contents of all files, concatenated in the order of their names
}

// describeTar describes the archive that `write` produces. `write` must produce the same bytes each time.
func describeTar(ctx context.Context, write func(io.Writer) error) (*content, error) {
	r, w := io.Pipe()
	stop := context.AfterFunc(ctx, func() { r.CloseWithError(context.Cause(ctx)) })
	defer stop()
	count := &counter{sum: sha256.New()}
	done := make(chan error, 1)
	go func() {
		err := write(io.MultiWriter(w, count))
		w.CloseWithError(err)
		done <- err
	}()
	c, err := readTar(r)
	if err == nil {
		_, err = io.Copy(io.Discard, r) // padding after the end
	}
	_ = r.CloseWithError(io.ErrClosedPipe)
	if werr := <-done; err == nil {
		err = werr
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		return nil, err
	}
	c.write, c.packed, c.id = write, count.n, fmt.Sprintf("%x", count.sum.Sum(nil)[:6])
	return c, nil
}

type counter struct {
	sum hash.Hash
	n   int64
}

func (c *counter) Write(p []byte) (int, error) {
	c.n += int64(len(p))
	return c.sum.Write(p)
}

// maxUnpacked limits the total size of an archive's files, in bytes, because describeTar keeps them in memory.
// maxEntries limits the number of its entries.
var (
	maxUnpacked int64 = 4 << 30
	maxEntries        = 1_100_000
)

func readTar(r io.Reader) (*content, error) {
	plain, err := unpacked(bufio.NewReader(r))
	if err != nil {
		return nil, err
	}
	t := tar.NewReader(plain)
	dirs, others := map[string]bool{}, map[string]bool{}
	c := &content{}
	bodies := map[string][]byte{} // by name, because the sum needs them in the order of their names
	left := maxUnpacked
	for {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		name := path.Clean("./" + h.Name)
		for d := path.Dir(name); d != "." && d != "/"; d = path.Dir(d) {
			dirs[d] = true
		}
		switch h.Typeflag {
		case tar.TypeDir:
			if name != "." {
				dirs[name] = true
			}
		case tar.TypeSymlink, tar.TypeChar, tar.TypeBlock, tar.TypeFifo:
			others[name] = true
		case tar.TypeLink:
			if to := path.Clean("./" + h.Linkname); others[to] {
				others[name] = true
			} else {
				bodies[name] = bodies[to]
			}
		case tar.TypeReg, tar.TypeGNUSparse:
			b, err := iotax.ReadAll(t, left)
			if errors.As(err, new(*iotax.LimitError)) {
				err = fmt.Errorf("what it holds: %w", &iotax.LimitError{Limit: maxUnpacked})
			}
			if err != nil {
				return nil, err
			}
			left -= int64(len(b))
			bodies[name] = b
		}
		if len(bodies)+len(dirs)+len(others) > maxEntries {
			return nil, fmt.Errorf("it has more than %d files and directories", maxEntries)
		}
	}
	if len(bodies) == 0 {
		return nil, errors.New("it holds no files")
	}
	var names []string
	for n, body := range bodies {
		names = append(names, "./"+n)
		c.bytes += int64(len(body))
	}
	slices.Sort(names)
	h := sha256.New()
	for _, n := range names {
		h.Write(bodies[strings.TrimPrefix(n, "./")])
	}
	c.files, c.dirs, c.others, c.sum = len(names), len(dirs), len(others), fmt.Sprintf("%x", h.Sum(nil))
	return c, nil
}

// unpacked returns a reader that decompresses gzip, xz or zstd, or r itself for any other data.
func unpacked(r *bufio.Reader) (io.Reader, error) {
	magic, _ := r.Peek(6)
	switch {
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}):
		return gzip.NewReader(r)
	case bytes.HasPrefix(magic, []byte("\xfd7zXZ")):
		return xz.NewReader(r, 0)
	case bytes.HasPrefix(magic, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		return zstd.NewReader(r, zstd.WithDecoderMaxWindow(512<<20))
	}
	return r, nil
}

// writeTree writes a tar archive with the given number of files, directories and bytes, the same each time. Sizes are
// log-normal, as in source trees (Downey, "The structural cause of file size distributions", 2001). The contents are
// words, which compress like text.
func writeTree(w io.Writer, files, dirs int, size int64) error {
	rnd := rand.New(rand.NewPCG(1, uint64(files)<<32|uint64(dirs)))
	b := bufio.NewWriterSize(w, 1<<16)
	t := tar.NewWriter(b)
	stamp := time.Unix(1700000000, 0)
	names := []string{""}
	for i := range dirs {
		parent := names[rnd.IntN(len(names))]
		if strings.Count(parent, "/") > 6 {
			parent = ""
		}
		name := fmt.Sprintf("%sd%03d/", parent, i)
		names = append(names, name)
		if err := t.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: name, Mode: 0o755, Uid: 1000, Gid: 1000, ModTime: stamp}); err != nil {
			return err
		}
	}
	text := words(rnd, 1<<20)
	for i, n := range fileShares(rnd, files, size) {
		name := fmt.Sprintf("%sf%05d.txt", names[rnd.IntN(len(names))], i)
		if err := t.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: n, Mode: 0o644, Uid: 1000, Gid: 1000, ModTime: stamp}); err != nil {
			return err
		}
		for at := rnd.IntN(len(text)); n > 0; at = 0 {
			part := text[at:min(int64(len(text)), int64(at)+n)]
			if _, err := t.Write(part); err != nil {
				return err
			}
			n -= int64(len(part))
		}
	}
	return errors.Join(t.Close(), b.Flush())
}

// fileShares divides size into n shares with a log-normal distribution. Each share is at least one byte.
func fileShares(rnd *rand.Rand, n int, size int64) []int64 {
	weights := make([]float64, n)
	sum := 0.0
	for i := range weights {
		weights[i] = math.Exp(1.6 * rnd.NormFloat64())
		sum += weights[i]
	}
	shares := make([]int64, n)
	left := size - int64(n)
	for i := range shares {
		part := min(int64(weights[i]/sum*float64(size-int64(n))), left)
		shares[i], left = 1+part, left-part
	}
	shares[n-1] += left
	return shares
}

// words returns n bytes of random words.
func words(rnd *rand.Rand, n int) []byte {
	var vocabulary []string
	for range 2000 {
		word := make([]byte, 2+rnd.IntN(9))
		for i := range word {
			word[i] = byte('a' + rnd.IntN(26))
		}
		vocabulary = append(vocabulary, string(word))
	}
	var b bytes.Buffer
	for b.Len() < n {
		b.WriteString(vocabulary[int(float64(len(vocabulary))*rnd.Float64()*rnd.Float64())])
		b.WriteByte(" \n"[min(1, rnd.IntN(12)/11)])
	}
	return b.Bytes()[:n]
}
