//go:build unix

package volume

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// blocks returns the allocated size of a file, in bytes.
func blocks(st fs.FileInfo) int64 { return int64(st.Sys().(*syscall.Stat_t).Blocks) * 512 }

// preallocation determines whether the blocks of an image are allocated. The image of a disk without a file system
// contains random data.
func TestImages(t *testing.T) {
	of := hostDir(t)
	for _, c := range []struct {
		name  string
		spec  *DiskSpec
		used  bool // its blocks are allocated
		bytes bool // the blocks contain random data
	}{
		{"falloc", diskSpec(func(s *DiskSpec) {}), true, false},
		{"off", diskSpec(func(s *DiskSpec) { s.Preallocation = "off" }), false, false},
		{"full", diskSpec(func(s *DiskSpec) { s.Preallocation = "full" }), true, false},
		{"bare", diskSpec(func(s *DiskSpec) { s.Filesystem = "none" }), true, true},
		{"qcow2, off", diskSpec(func(s *DiskSpec) { s.Format, s.Preallocation = "qcow2", "off" }), false, false},
		{"qcow2, metadata", diskSpec(func(s *DiskSpec) { s.Format, s.Preallocation = "qcow2", "metadata" }), false, false},
		{"qcow2, falloc", diskSpec(func(s *DiskSpec) { s.Format = "qcow2" }), true, false},
		{"qcow2, bare", diskSpec(func(s *DiskSpec) { s.Format, s.Filesystem = "qcow2", "none" }), true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.spec.Size = 16 << 20
			v, err := prepare(t, "disk", c.spec, Env{Of: of, Need: 1 << 20})
			if err != nil {
				t.Fatal(err)
			}
			path := v.Caps().Devices[0].Disk.Path
			st, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			if used := blocks(st) >= 16<<20; used != c.used || c.spec.Format == "raw" && st.Size() != 16<<20 {
				t.Errorf("size %d, allocated %d", st.Size(), blocks(st))
			}
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if c.spec.Format == "qcow2" { // convert it to the data that the guest sees
				raw := filepath.Join(t.TempDir(), "raw")
				if out, err := exec.Command("qemu-img", "convert", "-O", "raw", path, raw).CombinedOutput(); err != nil {
					t.Fatalf("qemu-img: %s", out)
				}
				if b, err = os.ReadFile(raw); err != nil {
					t.Fatal(err)
				}
			}
			zeroes := 0
			for _, x := range b {
				if x == 0 {
					zeroes++
				}
			}
			if random := zeroes < len(b)/100; random != c.bytes {
				t.Errorf("%d of %d bytes are zero", zeroes, len(b))
			}
			if err := v.Close(t.Context()); err != nil {
				t.Error(err)
			}
			if _, err := os.Stat(path); !os.IsNotExist(err) {
				t.Errorf("%s is still there", path)
			}
		})
	}
}
