package volume

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
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

// magics are the signatures that are looked for where no wipefs or blkid can be asked, and beside them
// everywhere: what is old over there need not know what is on a new disk. The offsets and values are
// those of the formats' own documentation.
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
			found = appendSign(found, m.name)
		}
	}
	// The superblock of RAID 1.0 lies 8 KiB before the end and that of 0.90 in the last whole 64 KiB but one,
	// each at a multiple of its unit.
	for _, offset := range []int64{(size/512 - 16) &^ 7 * 512, size&^(64<<10-1) - 64<<10} {
		if offset > 0 && bytes.Equal(at(offset, 4), []byte("\xfc\x4e\x2b\xa9")) {
			found = appendSign(found, "Linux RAID")
		}
	}
	// ZFS keeps four labels of 256 KiB, two at each end; the upper half of each is a ring of uberblocks.
	for _, label := range []int64{0, 256 << 10, size&^(256<<10-1) - 512<<10, size&^(256<<10-1) - 256<<10} {
		for i := int64(0); label >= 0 && i < 128; i++ {
			b := at(label+128<<10+i<<10, 8)
			if len(b) == 8 && (binary.LittleEndian.Uint64(b) == 0x00bab10c || binary.BigEndian.Uint64(b) == 0x00bab10c) {
				found = appendSign(found, "ZFS")
			}
		}
	}
	// A master boot record: its mark, and an entry that is plausible. Boot sectors of FAT and NTFS have the mark too.
	if b := at(510, 2); bytes.Equal(b, []byte("\x55\xaa")) {
		for i := range int64(4) {
			e := at(446+16*i, 16)
			if (e[0] == 0 || e[0] == 0x80) && e[4] != 0 && binary.LittleEndian.Uint32(e[12:]) > 0 {
				found = appendSign(found, "a partition table (DOS)")
			}
		}
	}
	return found
}

// readEnds prints the first ($1 = head) or last MiBs of the device $2 of $3 bytes.
const readEnds = `
if [ "$1" = head ]; then exec dd if="$2" bs=1048576 count=3 2>/dev/null; fi
skip=$(($3 / 512 - 3 * 2048))
[ $skip -gt 0 ] || skip=0
whole=$(((skip + 2047) / 2048)) # in MiB, because dd seeks in blocks of its own size
dd if="$2" bs=512 skip=$skip count=$((whole * 2048 - skip)) 2>/dev/null || exit
exec dd if="$2" bs=1048576 skip=$whole 2>/dev/null
`

// ownLook reads both ends of the device and adds what is there.
func (b *blockDevice) ownLook(ctx context.Context, m iotax.Machine) error {
	fail := func(err error) error {
		return &iotax.Error{Op: "look for signatures on", On: b.path, Err: said(err), Hint: "what is on it must be readable before it is overwritten"}
	}
	size := strconv.FormatInt(b.size, 10)
	head, err := root(ctx, m, quick, readEnds, "head", b.path, size)
	if err != nil {
		return fail(err)
	}
	tail, err := root(ctx, m, quick, readEnds, "tail", b.path, size)
	if err != nil {
		return fail(err)
	}
	if int64(len(head)) != min(signatureSpan, b.size) || int64(len(tail)) != min(signatureSpan, b.size) {
		return fail(errors.New("it could not be read to its ends"))
	}
	places := copyPlaces(b.size)
	args := []string{b.path}
	for _, at := range places {
		args = append(args, strconv.FormatInt(at/sampleSize, 10))
	}
	samples, err := root(ctx, m, quick, readSamples, args...)
	if err != nil {
		return fail(err)
	}
	if len(samples) != len(places)*sampleSize {
		return fail(errors.New("the places of backup superblocks could not be read"))
	}
	b.traces = traces([]byte(head), 0, b.size)
	for i, at := range places {
		b.traces = append(b.traces, traces([]byte(samples[i*sampleSize:][:sampleSize]), at, b.size)...)
	}
	b.traces = append(b.traces, traces([]byte(tail), b.size-int64(len(tail)), b.size)...)
	slices.SortFunc(b.traces, func(a, b trace) int { return cmp.Compare(a.at, b.at) })
	b.traces = slices.Compact(b.traces)
	if len(b.onIt) == 0 { // the tools' names are the better known ones
		b.onIt = signatures([]byte(head), []byte(tail), b.size)
	}
	return nil
}

// A trace is a sector of a device that belonged to a file system, a volume manager or a partition table whose main signature may have gone.
type trace struct {
	at   int64 // bytes
	name string
}

// sector is the unit in which traces are found and erased.
const sector = 512

// traces names what is in the sectors of data, which begins at a device's byte from, outside of the places of magics. All signatures are
// longer than four bytes, so that random data, as a run leaves, has none.
func traces(data []byte, from, size int64) (found []trace) {
	for ; len(data) >= sector; data, from = data[sector:], from+sector {
		name := traceIn(data[:sector])
		if name != "" && !slices.ContainsFunc(magics, func(m magic) bool {
			at := m.offset
			if at < 0 {
				at += size
			}
			return at >= 0 && at/sector*sector == from && bytes.HasPrefix(data[at-from:], []byte(m.bytes))
		}) {
			found = append(found, trace{from, name})
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

// readSamples prints the blocks $2… of the device $1, of sampleSize each.
const readSamples = `p=$1; shift
for n; do dd if="$p" bs=4096 skip="$n" count=1 2>/dev/null || exit; done
`

// traceTexts names the first place of each kind of trace.
func traceTexts(all []trace) (texts []string) {
	places := map[string][]string{}
	var names []string
	for _, t := range all {
		if places[t.name] == nil {
			names = append(names, t.name)
		}
		place := strconv.FormatInt(t.at, 10) + " bytes"
		if t.at%1024 == 0 {
			place = strconv.FormatInt(t.at/1024, 10) + " KiB"
		}
		places[t.name] = append(places[t.name], place)
	}
	for _, name := range names {
		text := name + " at " + places[name][0]
		if more := len(places[name]) - 1; more > 0 {
			text += fmt.Sprintf(" and %d more", more)
		}
		texts = append(texts, text)
	}
	return texts
}

// eraseTraces is a command that overwrites the traces.
func eraseTraces(path string, all []trace) string {
	c := "for s in"
	for _, t := range all {
		c += " " + strconv.FormatInt(t.at/sector, 10)
	}
	return c + "; do dd if=/dev/zero of=" + iotax.Quote(path) + " bs=512 seek=$s count=1; done"
}
