package guest

import (
	"bytes"
	"compress/gzip"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"github.com/therootcompany/xz"
)

// errNoPVH reports that QEMU cannot boot a kernel as an ELF file.
var errNoPVH = errors.New("the kernel has no PVH entry point")

// bzRelease returns the release in the header of a bzImage, such as "6.1.0-56-amd64". For the offsets, see
// Documentation/arch/x86/boot.rst.
func bzRelease(image []byte) (string, error) {
	if len(image) < 0x260 || string(image[0x202:0x206]) != "HdrS" {
		return "", errors.New("not a bzImage")
	}
	at := 0x200 + int(binary.LittleEndian.Uint16(image[0x20e:]))
	if at >= len(image) {
		return "", errors.New("the version string lies outside of the bzImage")
	}
	s := image[at:min(at+256, len(image))]
	if i := bytes.IndexByte(s, 0); i >= 0 {
		s = s[:i]
	}
	f := strings.Fields(string(s))
	if len(f) == 0 {
		return "", errors.New("the bzImage names no version")
	}
	return f[0], nil
}

// extractVmlinux decompresses the ELF kernel in a bzImage and returns it. A guest that boots the result skips the
// kernel's own decompressor, which takes longer than the rest of the boot under emulation.
func extractVmlinux(image []byte) ([]byte, error) {
	if _, err := bzRelease(image); err != nil {
		return nil, err
	}
	sects := int64(image[0x1f1])
	if sects == 0 {
		sects = 4
	}
	start := (sects+1)*512 + int64(binary.LittleEndian.Uint32(image[0x248:]))
	end := start + int64(binary.LittleEndian.Uint32(image[0x24c:]))
	if end > int64(len(image)) || end-start < 16 {
		return nil, errors.New("the bzImage is cut short")
	}
	payload := image[start:end]
	r, err := kernelReader(payload)
	if err != nil {
		return nil, err
	}
	// The last four bytes of the payload are the decompressed size.
	size := binary.LittleEndian.Uint32(payload[len(payload)-4:])
	var out bytes.Buffer
	out.Grow(int(min(int64(size), 16*int64(len(payload))))) // limit the memory if the size is wrong
	// Ignore the error if the size is right: some readers return all data and then an error for the bytes after the
	// stream.
	_, err = io.Copy(&out, io.LimitReader(r, 512<<20))
	if uint32(out.Len()) != size {
		return nil, fmt.Errorf("unpack kernel: %d of %d bytes: %v", out.Len(), size, err)
	}
	if !hasPVH(out.Bytes()) {
		return nil, errNoPVH
	}
	return out.Bytes(), nil
}

func kernelReader(p []byte) (io.Reader, error) {
	r := bytes.NewReader(p)
	switch {
	case bytes.HasPrefix(p, []byte("\xfd7zXZ\x00")):
		// Kernels use xz's x86 filter, which ulikunitz/xz does not support.
		x, err := xz.NewReader(r, 0)
		if err != nil {
			return nil, err
		}
		x.Multistream(false)
		return x, nil
	case bytes.HasPrefix(p, []byte("\x1f\x8b")):
		g, err := gzip.NewReader(r)
		if err != nil {
			return nil, err
		}
		g.Multistream(false)
		return g, nil
	case bytes.HasPrefix(p, []byte("\x28\xb5\x2f\xfd")):
		return zstd.NewReader(bytes.NewReader(p[:len(p)-4]), zstd.WithDecoderMaxWindow(512<<20), zstd.WithDecoderConcurrency(1))
	case bytes.HasPrefix(p, []byte("\x02\x21\x4c\x18")):
		return lz4.NewReader(bytes.NewReader(p[:len(p)-4])), nil
	case bytes.HasPrefix(p, []byte(elf.ELFMAG)):
		return r, nil
	}
	return nil, fmt.Errorf("unknown compression of the kernel (magic % x)", p[:6])
}

// hasPVH reports whether an ELF kernel has the note XEN_ELFNOTE_PHYS32_ENTRY with the entry point for QEMU.
func hasPVH(image []byte) bool {
	f, err := elf.NewFile(bytes.NewReader(image))
	if err != nil {
		return false
	}
	for _, p := range f.Progs {
		if p.Type != elf.PT_NOTE || p.Filesz > 1<<20 {
			continue
		}
		notes := make([]byte, p.Filesz)
		if _, err := p.ReadAt(notes, 0); err != nil {
			continue
		}
		for len(notes) >= 12 {
			name, desc := int64(f.ByteOrder.Uint32(notes)), int64(f.ByteOrder.Uint32(notes[4:]))
			kind := f.ByteOrder.Uint32(notes[8:])
			next := 12 + (name+3)&^3 + (desc+3)&^3
			if next > int64(len(notes)) {
				break
			}
			if kind == 18 && string(notes[12:12+name]) == "Xen\x00" {
				return true
			}
			notes = notes[next:]
		}
	}
	return false
}
