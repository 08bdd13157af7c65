package guest

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/klauspost/compress/zstd"

	"iotax"
	"iotax/internal/agent"
)

// Limits of the cache for files from other hosts. It keeps the most recently used files, carriedFiles in number, and
// all files that were used within carriedDay.
const (
	carriedFiles = 6
	carriedDay   = 24 * time.Hour
)

func carriedFile(sum string) string {
	return filepath.Join(iotax.CacheDir(), "guest", fmt.Sprintf("carried-%.64s", filepath.Base(sum)))
}

var (
	// carried returns the path of the file with this SHA-256 sum, or "" if it is missing.
	carried = agent.New("guest carried", func(_ context.Context, sum string) (string, error) {
		path, now := carriedFile(sum), time.Now()
		if os.Chtimes(path, now, now) != nil { // prune reads this as the time of the last use
			return "", nil
		}
		return path, nil
	})
	// carry decompresses a zstd stream into the file with this SHA-256 sum and returns its path. It returns an error if
	// the sum differs.
	carry = agent.NewTaker("guest carry", func(_ context.Context, sum string, from io.Reader) (string, error) {
		path, h := carriedFile(sum), sha256.New()
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return "", err
		}
		err := iotax.WriteWhole(path, 0o600, func(w io.Writer) error {
			z, err := zstd.NewReader(from, zstd.WithDecoderConcurrency(1))
			if err != nil {
				return err
			}
			defer z.Close()
			_, err = io.Copy(io.MultiWriter(w, h), z)
			if is := fmt.Sprintf("%x", h.Sum(nil)); err == nil && is != sum {
				err = fmt.Errorf("its SHA-256 is %.16s… instead of %.16s…", is, sum)
			}
			return err
		})
		prune(filepath.Dir(path), "carried-*", carriedFiles, carriedDay)
		return path, err
	})
)

// Carry copies files of this host to m's cache unless m already has them. It returns the paths of all files on m, in
// the same order.
func Carry(ctx context.Context, m iotax.Machine, log Log, files ...string) ([]string, error) {
	fail := func(err error) ([]string, error) {
		return nil, &iotax.Error{Op: "copy what guests are started from to", On: m.String(), Err: err,
			Hint: "make room there, or name a directory with more in XDG_CACHE_HOME"}
	}
	paths := make([]string, len(files))
	for i, file := range files {
		h := sha256.New()
		if err := read(file, h); err != nil {
			return fail(err)
		}
		sum := fmt.Sprintf("%x", h.Sum(nil))
		var err error
		if paths[i], err = carried.On(ctx, m, sum); err != nil {
			return fail(err)
		}
		if paths[i] != "" {
			continue
		}
		st, err := os.Stat(file)
		if err != nil {
			return fail(err)
		}
		log.printf("copying %s for guests to %s (%d MiB, once)", filepath.Base(file), m, st.Size()>>20)
		r, w := io.Pipe()
		go func() {
			z, err := zstd.NewWriter(w, zstd.WithEncoderLevel(zstd.SpeedFastest))
			if err == nil {
				err = errors.Join(read(file, z), z.Close())
			}
			_ = w.CloseWithError(err)
		}()
		paths[i], err = carry.On(ctx, m, sum, r)
		_ = r.Close() // ends the writer if carry returned early
		if err != nil {
			return fail(fmt.Errorf("%s: %w", filepath.Base(file), err))
		}
	}
	return paths, nil
}

func read(file string, to io.Writer) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(to, f)
	return err
}
