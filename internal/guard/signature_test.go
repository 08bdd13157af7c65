package guard

import (
	"bytes"
	"testing"
)

// readSignatures and traces find each signature in the tables. A device of zeros has no signatures, whatever its size.
func TestSignatures(t *testing.T) {
	const size = 24 << 20
	for _, m := range magics {
		device := make([]byte, size)
		at := m.offset
		if at < 0 {
			at += size
		}
		copy(device[at:], m.bytes)
		f := Facts{Size: size}
		if err := f.readSignatures(bytes.NewReader(device)); err != nil || len(f.Signs) == 0 {
			t.Errorf("%s at %d is not seen: %v", m.name, m.offset, err)
		}
	}
	for _, m := range scattered {
		sectors := make([]byte, 8*sector)
		copy(sectors[5*sector+m.offset:], m.bytes)
		if got := traces(sectors, 1<<20, size); len(got) != 1 || got[0].At != 1<<20+5*sector {
			t.Errorf("%s: %+v", m.name, got)
		}
	}
	for _, size := range []int{0, 512, 4096, 70000, 3<<20 + 512, size} {
		f := Facts{Size: int64(size)}
		if err := f.readSignatures(bytes.NewReader(make([]byte, size))); err != nil || f.Signs != nil || len(f.Traces) > 0 {
			t.Errorf("%d zeroes are %q, %+v, %v", size, f.Signs, f.Traces, err)
		}
		for _, at := range copyPlaces(int64(size)) {
			if at < signatureSpan || at+sampleSize > int64(size)-signatureSpan {
				t.Errorf("%d bytes are read at %d", size, at)
			}
		}
	}
}

// A device that is shorter than its reported size is an error, not an empty device.
func TestSignaturesUnreadable(t *testing.T) {
	for _, short := range []int{0, 1 << 20, 24<<20 - 1} {
		f := Facts{Size: 24 << 20}
		if err := f.readSignatures(bytes.NewReader(make([]byte, short))); err == nil {
			t.Errorf("%d bytes of %d are enough", short, f.Size)
		}
	}
}

// readSignatures keeps the names that wipefs or blkid found, and adds no others.
func TestSignaturesOfTools(t *testing.T) {
	device := make([]byte, 24<<20)
	copy(device[0x438:], "\x53\xef")
	f := Facts{Size: int64(len(device)), Signs: []string{"ext4"}}
	if err := f.readSignatures(bytes.NewReader(device)); err != nil || len(f.Signs) != 1 || f.Signs[0] != "ext4" {
		t.Errorf("%q, %v", f.Signs, err)
	}
}
