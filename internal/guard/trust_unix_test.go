//go:build unix

package guard

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// In a sticky directory, users can replace their own links, but not root's.
func TestDistrustLinks(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root to make a link of another user")
	}
	const other = 65534
	dir, err := os.MkdirTemp("/var/tmp", "iotax-test-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	link := filepath.Join(dir, "link")
	for _, err := range []error{os.Chmod(dir, 0o777|os.ModeSticky), os.Symlink("/dev/null", link), distrustLinks(link), os.Lchown(link, other, other)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := distrustLinks(link); err == nil || !strings.Contains(err.Error(), "user 65534 owns it") {
		t.Errorf("a link of another user: %v", err)
	}
}
