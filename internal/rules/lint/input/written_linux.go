package input

import (
	"os"

	"golang.org/x/sys/unix"
)

// maxExtents is the maximum number of extents to examine, to limit the time for a fragmented file.
const maxExtents = 10_000

// written returns the share of a file's size that is data. Holes do not count. The second result is false if the share
// cannot be determined.
func written(path string) (float64, bool) {
	f, err := os.Open(path)
	if err != nil {
		return 0, false
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil || !st.Mode().IsRegular() || st.Size() == 0 {
		return 0, false
	}
	var data, at int64
	for range maxExtents {
		from, err := unix.Seek(int(f.Fd()), at, unix.SEEK_DATA)
		if err == unix.ENXIO { // no more data
			return float64(data) / float64(st.Size()), true
		}
		if err != nil {
			return 0, false
		}
		to, err := unix.Seek(int(f.Fd()), from, unix.SEEK_HOLE)
		if err != nil || to <= from {
			return 0, false
		}
		data, at = data+to-from, to
	}
	return 0, false
}
