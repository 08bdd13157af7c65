package guard

import (
	"bytes"
	"cmp"
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"iotax"
)

// A magic is a byte sequence that identifies the content of a device. A negative offset counts from the device's end.
type magic struct {
	name   string
	offset int64
	bytes  string
}

//go:embed magics.txt
var magicsText string

// `magics` contains signatures at fixed offsets. `scattered` contains signatures that are distinctive enough to be
// searched for in every sector. Their offsets are from the start of the sector.
var magics, scattered = readMagics(magicsText)

func readMagics(text string) (fixed, anywhere []magic) {
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		offset, err := strconv.ParseInt(f[1], 0, 64)
		sign, err2 := strconv.Unquote(f[2])
		if err = errors.Join(err, err2); err != nil {
			panic(fmt.Sprintf("magics.txt: %q: %v", line, err))
		}
		if m := (magic{f[3], offset, sign}); f[0] == "at" {
			fixed = append(fixed, m)
		} else {
			anywhere = append(anywhere, m)
		}
	}
	return fixed, anywhere
}

// signatureSpan is the number of bytes that are read at each end of a device.
const signatureSpan = 3 << 20

// signatures returns the names of the signatures on a device of `size` bytes. head and tail are its first and last
// signatureSpan bytes, or the whole device if it is smaller.
func signatures(head, tail []byte, size int64) []string {
	var found []string
	at := func(offset int64, n int) []byte {
		if offset < 0 {
			offset += size
		}
		switch tailStart := size - int64(len(tail)); {
		case offset >= 0 && offset+int64(n) <= int64(len(head)):
			return head[offset : offset+int64(n)]
		case offset >= tailStart && offset+int64(n) <= size:
			return tail[offset-tailStart : offset-tailStart+int64(n)]
		}
		return nil
	}
	for _, m := range magics {
		if bytes.Equal(at(m.offset, len(m.bytes)), []byte(m.bytes)) {
			found = appendNew(found, m.name)
		}
	}
	// The RAID 1.0 superblock is 8 KiB before the end of the device, rounded down to a multiple of 4 KiB. The RAID 0.90
	// superblock is 64 KiB before the end, where the end is rounded down to a multiple of 64 KiB.
	for _, offset := range []int64{(size/512 - 16) &^ 7 * 512, size&^(64<<10-1) - 64<<10} {
		if offset > 0 && bytes.Equal(at(offset, 4), []byte("\xfc\x4e\x2b\xa9")) {
			found = appendNew(found, "Linux RAID")
		}
	}
	// ZFS has four labels of 256 KiB, two at each end. The second half of each label is a ring of uberblocks.
	for _, label := range []int64{0, 256 << 10, size&^(256<<10-1) - 512<<10, size&^(256<<10-1) - 256<<10} {
		for i := int64(0); label >= 0 && i < 128; i++ {
			b := at(label+128<<10+i<<10, 8)
			if len(b) == 8 && (binary.LittleEndian.Uint64(b) == 0x00bab10c || binary.BigEndian.Uint64(b) == 0x00bab10c) {
				found = appendNew(found, "ZFS")
			}
		}
	}
	// A master boot record has the boot signature and a plausible partition entry. The boot signature alone is not
	// enough, because FAT and NTFS boot sectors also have it.
	if b := at(510, 2); bytes.Equal(b, []byte("\x55\xaa")) {
		for i := range int64(4) {
			e := at(446+16*i, 16)
			if (e[0] == 0 || e[0] == 0x80) && e[4] != 0 && binary.LittleEndian.Uint32(e[12:]) > 0 {
				found = appendNew(found, "a partition table (DOS)")
			}
		}
	}
	return found
}

// readSignatures searches both ends of the device and the positions of backup superblocks. It sets f.Traces and, unless
// f already has signatures, f.Signs.
func (f *Facts) readSignatures(device io.ReaderAt) error {
	ends := min(signatureSpan, f.Size)
	head, tail, sample := make([]byte, ends), make([]byte, ends), make([]byte, sampleSize)
	if err := errors.Join(readAt(device, head, 0), readAt(device, tail, f.Size-ends)); err != nil {
		return err
	}
	all := traces(head, 0, f.Size)
	for _, at := range copyPlaces(f.Size) {
		if err := readAt(device, sample, at); err != nil {
			return err
		}
		all = append(all, traces(sample, at, f.Size)...)
	}
	all = append(all, traces(tail, f.Size-ends, f.Size)...)
	slices.SortFunc(all, func(a, b Trace) int { return cmp.Compare(a.At, b.At) })
	f.Traces = slices.Compact(all)
	if len(f.Signs) == 0 { // the names from wipefs and blkid are better known
		f.Signs = signatures(head, tail, f.Size)
	}
	return nil
}

// readAt fills b with the device's bytes from offset `at`.
func readAt(device io.ReaderAt, b []byte, at int64) error {
	if n, err := device.ReadAt(b, at); n < len(b) {
		return fmt.Errorf("cannot read %d bytes at %d: %w", len(b), at, err)
	}
	return nil
}

// A Trace is a sector that belonged to a file system, a volume manager or a partition table. The main signature of that
// structure may be gone.
type Trace struct {
	At   int64 // in bytes from the start of the device
	Name string
}

// appendNew appends name unless the slice contains it.
func appendNew(all []string, name string) []string {
	if slices.Contains(all, name) {
		return all
	}
	return append(all, name)
}

// sector is the size, in bytes, of the units in which traces are found and erased.
const sector = 512

// traces returns the traces in the sectors of data, except magics at their fixed offsets. data starts at byte `from` of
// the device. Each test compares more than four bytes, so that random data of a run hardly ever matches.
func traces(data []byte, from, size int64) (found []Trace) {
	for ; len(data) >= sector; data, from = data[sector:], from+sector {
		name := traceIn(data[:sector])
		if name != "" && !slices.ContainsFunc(magics, func(m magic) bool {
			at := m.offset
			if at < 0 {
				at += size
			}
			return at >= 0 && at/sector*sector == from && bytes.HasPrefix(data[at-from:], []byte(m.bytes))
		}) {
			found = append(found, Trace{from, name})
		}
	}
	return found
}

func traceIn(b []byte) string {
	le, be := binary.LittleEndian, binary.BigEndian
	for _, m := range scattered {
		if bytes.HasPrefix(b[m.offset:], []byte(m.bytes)) {
			return m.name
		}
	}
	switch {
	case le.Uint16(b[0x38:]) == 0xef53 && le.Uint32(b[0x18:]) <= 6 && le.Uint32(b[0x4c:]) <= 1: // magic, block size, revision
		if le.Uint16(b[0x5a:]) > 0 { // block group
			return "ext2/3/4 backup superblock"
		}
		return "ext2/3/4 superblock"
	case bytes.HasPrefix(b, []byte("XFSB")) && bits.OnesCount32(be.Uint32(b[4:])) == 1: // block size
		return "XFS superblock"
	case le.Uint32(b) == 0xa92b4efc && le.Uint32(b[4:]) <= 1: // version
		return "Linux RAID superblock"
	}
	return ""
}

const sampleSize = 4096

// copyPlaces returns the offsets at which file systems keep copies of their superblock, without those in the first and
// last signatureSpan bytes. ext2/3/4 has copies in block group 1 and in the groups that are powers of 3, 5 and 7 (here
// up to 125). The size of a group is a power of two, at least 8 MiB. The resulting offsets include those of btrfs (64
// MiB, 256 GiB), OCFS2 (4^n GiB) and Ceph (1, 10, 100, 1000 GiB). XFS has a copy in each allocation group. Most XFS
// file systems have 4 groups, and the size of a group is at most 1 TiB.
func copyPlaces(size int64) (places []int64) {
	for _, group := range []int64{1, 3, 5, 7, 9, 25, 27, 49, 81, 125} {
		for length := int64(8 << 20); group*length < size; length *= 2 {
			places = append(places, group*length)
		}
	}
	blocks := size / sampleSize
	for groups := int64(2); groups <= 64; groups++ {
		places = append(places, min((blocks+groups-1)/groups*sampleSize, 1<<40-sampleSize))
	}
	slices.Sort(places)
	return slices.DeleteFunc(slices.Compact(places), func(at int64) bool { return at < signatureSpan || at+sampleSize > size-signatureSpan })
}

// Erase returns a shell command that overwrites the traces on the device.
func Erase(path string, all []Trace) string {
	c := "for s in"
	for _, t := range all {
		c += " " + strconv.FormatInt(t.At/sector, 10)
	}
	return c + "; do dd if=/dev/zero of=" + iotax.Quote(path) + " bs=512 seek=$s count=1; done"
}
