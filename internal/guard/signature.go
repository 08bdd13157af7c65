package guard

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"slices"
	"strconv"

	"iotax"
)

// A magic is bytes that say what is on a device. An offset below zero counts from the device's end.
type magic struct {
	name   string
	offset int64
	bytes  string
}

// magics are the signatures that iotax looks for itself, also where wipefs and blkid are installed: an old tool need not recognise a
// new format. The offsets and values are those of the formats' own documentation.
var magics = []magic{
	{"ext2/3/4", 0x438, "\x53\xef"},
	{"XFS", 0, "XFSB"},
	{"btrfs", 0x10040, "_BHRfS_M"},
	{"LUKS", 0, "LUKS\xba\xbe"},
	{"LUKS", 0x4000, "SKUL\xba\xbe"},
	{"LVM", 0, "LABELONE"}, {"LVM", 512, "LABELONE"}, {"LVM", 1024, "LABELONE"}, {"LVM", 1536, "LABELONE"},
	{"Linux RAID", 0, "\xfc\x4e\x2b\xa9"},
	{"Linux RAID", 4096, "\xfc\x4e\x2b\xa9"},
	{"swap", 4086, "SWAPSPACE2"}, {"swap", 4086, "SWAP-SPACE"},
	{"swap", 16374, "SWAPSPACE2"}, {"swap", 65526, "SWAPSPACE2"},
	{"hibernation", 4086, "S1SUSPEND"}, {"hibernation", 4086, "S2SUSPEND"}, {"hibernation", 4086, "LINHIB0001"},
	{"GPT", 512, "EFI PART"}, {"GPT", 4096, "EFI PART"}, {"GPT", -512, "EFI PART"}, {"GPT", -4096, "EFI PART"},
	{"Ceph BlueStore", 0, "bluestore block device"},
	{"bcache", 4096 + 24, "\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81"},
	{"bcachefs", 4096 + 24, "\xc6\x85\x73\xf6\x66\xce\x90\xa9\xd9\x6a\x60\xcf\x80\x3d\xf7\xef"},
	{"NTFS", 3, "NTFS    "},
	{"exFAT", 3, "EXFAT   "},
	{"FAT", 0x36, "FAT1"}, {"FAT", 0x52, "FAT32"},
	{"ISO 9660", 0x8001, "CD001"},
	{"UDF", 0x8001, "BEA01"},
	{"SquashFS", 0, "hsqs"},
	{"EROFS", 1024, "\xe2\xe1\xf5\xe0"},
	{"F2FS", 1024, "\x10\x20\xf5\xf2"},
	{"JFS", 0x8000, "JFS1"},
	{"ReiserFS", 0x10034, "ReIsEr"},
	{"NILFS", 1024 + 6, "\x34\x34"},
	{"OCFS2", 0x1000, "OCFSV2"}, {"OCFS2", 0x800, "OCFSV2"}, {"OCFS2", 0x400, "OCFSV2"},
	{"GFS2", 0x10000, "\x01\x16\x19\x70"},
	{"DRBD", -4096 + 0x3c, "\x83\x74\x02\x6b"}, {"DRBD", -4096 + 0x3c, "\x83\x74\x02\x67"},
	{"VMFS", 0x200000, "\x5e\xf1\xab\x2f"}, {"VMware", 0x100000, "\x0d\xd0\x01\xc0"},
	{"BitLocker", 3, "-FVE-FS-"},
	{"APFS", 32, "NXSB"}, {"HFS+", 1024, "H+"}, {"HFS", 1024, "BD"},
	{"Oracle ASM", 32, "ORCLDISK"},
	{"stratis", 512 + 4, "!Stra0tis\x86\xff\x02^\x41rh"},
	{"VDO", 0, "dmvdo001"},
	{"dm-integrity", 0, "integrt"},
	{"dm-verity", 0, "verity\x00\x00"},
	{"DDF RAID", -512, "\xde\x11\xde\x11"},
	{"Intel RAID", -1024, "Intel Raid ISM Cfg Sig. "},
	{"qcow2 image", 0, "QFI\xfb"}, {"VMDK image", 0, "KDMV"},
}

// signatureSpan is how much of each end of a device is looked at.
const signatureSpan = 3 << 20

// signatures names what the first and last bytes of a device of size bytes say is on it. head and tail
// are its first and last signatureSpan bytes, or all of it.
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
	// The superblock of RAID 1.0 lies 8 KiB before the end and that of 0.90 in the last whole 64 KiB but one,
	// each at a multiple of its unit.
	for _, offset := range []int64{(size/512 - 16) &^ 7 * 512, size&^(64<<10-1) - 64<<10} {
		if offset > 0 && bytes.Equal(at(offset, 4), []byte("\xfc\x4e\x2b\xa9")) {
			found = appendNew(found, "Linux RAID")
		}
	}
	// ZFS keeps four labels of 256 KiB, two at each end; the upper half of each is a ring of uberblocks.
	for _, label := range []int64{0, 256 << 10, size&^(256<<10-1) - 512<<10, size&^(256<<10-1) - 256<<10} {
		for i := int64(0); label >= 0 && i < 128; i++ {
			b := at(label+128<<10+i<<10, 8)
			if len(b) == 8 && (binary.LittleEndian.Uint64(b) == 0x00bab10c || binary.BigEndian.Uint64(b) == 0x00bab10c) {
				found = appendNew(found, "ZFS")
			}
		}
	}
	// A master boot record: its mark, and an entry that is plausible. Boot sectors of FAT and NTFS have the mark too.
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

// readSignatures reads both ends of the device, and the places of backup superblocks, and adds what is there.
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
	if len(f.Signs) == 0 { // the names of the tools are better known
		f.Signs = signatures(head, tail, f.Size)
	}
	return nil
}

// readAt fills b from the byte at.
func readAt(device io.ReaderAt, b []byte, at int64) error {
	if n, err := device.ReadAt(b, at); n < len(b) {
		return fmt.Errorf("cannot read %d bytes at %d: %w", len(b), at, err)
	}
	return nil
}

// A Trace is a sector of a device that belonged to a file system, a volume manager or a partition table whose main signature may have gone.
type Trace struct {
	At   int64 // bytes
	Name string
}

// appendNew appends a name that is not there yet.
func appendNew(all []string, name string) []string {
	if slices.Contains(all, name) {
		return all
	}
	return append(all, name)
}

// sector is the unit in which traces are found and erased.
const sector = 512

// traces names what is in the sectors of data, which begins at a device's byte from, outside of the places of magics. All signatures are
// longer than four bytes, so that random data, as a run leaves, has none.
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

// scattered are signatures that are strong enough to be looked for in any sector. Offsets count from its start.
var scattered = []magic{
	{"btrfs superblock", 0x40, "_BHRfS_M"},
	{"LVM label", 0, "LABELONE"}, {"LVM metadata", 4, " LVM2 x[5A%r0N*>"},
	{"LUKS header", 0, "LUKS\xba\xbe"}, {"LUKS header", 0, "SKUL\xba\xbe"},
	{"GPT header", 0, "EFI PART"},
	{"swap header", 502, "SWAPSPACE2"},
	{"Ceph BlueStore label", 0, "bluestore block device"},
	{"bcache superblock", 24, "\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81"},
	{"bcachefs superblock", 24, "\xc6\x85\x73\xf6\x66\xce\x90\xa9\xd9\x6a\x60\xcf\x80\x3d\xf7\xef"},
	{"NTFS boot sector", 3, "NTFS    "}, {"exFAT boot sector", 3, "EXFAT   "}, {"FAT boot sector", 0x52, "FAT32   "},
	{"OCFS2 superblock", 0, "OCFSV2"},
}

const sampleSize = 4096

// copyPlaces are the multiples of sampleSize outside of a device's ends at which file systems keep copies of their superblock. ext2/3/4 does
// so in the block groups 1 and 3, 5, 7 to some power; a group has a power of two of bytes, at least 8 MiB. The places of btrfs (64 MiB, 256 GiB),
// OCFS2 (4 GiB to some power) and Ceph (1, 10, 100, 1000 GiB) are among these. XFS has a copy in each of its allocation groups, 4 on most
// devices and at most 1 TiB long.
func copyPlaces(size int64) (places []int64) {
	for _, group := range []int64{1, 3, 5, 7, 9, 25, 27, 49, 125} {
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

// Erase is a command that overwrites the traces on the device path.
func Erase(path string, all []Trace) string {
	c := "for s in"
	for _, t := range all {
		c += " " + strconv.FormatInt(t.At/sector, 10)
	}
	return c + "; do dd if=/dev/zero of=" + iotax.Quote(path) + " bs=512 seek=$s count=1; done"
}
