//go:build linux

package vm

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/u-root/u-root/pkg/ldd"
	"golang.org/x/crypto/ssh"

	"iotax"
	"iotax/internal/guest"
	"iotax/internal/plan"
	"iotax/internal/probe"
	"iotax/internal/testenv/guesttest"
	"iotax/internal/testenv/long"
)

// imageInit is the init of the test's image. Like cloud-init with the data source NoCloud, it configures the network
// and the authorized key. Then it runs OpenSSH.
const imageInit = `#!/bin/sh
mkdir -p /run/sshd /dev/pts /dev/shm; mount -t devpts devpts /dev/pts
ip link set lo up; ip addr add 10.0.2.15/24 dev eth0; ip link set eth0 up; ip route add default via 10.0.2.2
for b in /sys/block/vd*; do
	if [ "$(cat $b/serial)" = iotax-seed ]; then
		mount -t iso9660 -o ro /dev/${b##*/} /mnt && ls /mnt
		mkdir -p /root/.ssh
		sed -n 's/^ *- \(ssh-.*\)/\1/p' /mnt/user-data >/root/.ssh/authorized_keys
		umount /mnt
	fi
done
chmod 700 /root/.ssh
/usr/sbin/sshd -D -e
`

// image makes a disk with a small system that consists of this host's programs. A distribution's image would take
// minutes to make, and to boot under emulation.
func image(t *testing.T, key ssh.PublicKey) string {
	t.Helper()
	root := filepath.Join(t.TempDir(), "root")
	put := func(path, text string, mode os.FileMode) {
		p := filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	var programs []string
	for _, n := range []string{"sh", "cat", "ls", "mkdir", "chmod", "mount", "umount", "sed", "ip", "id", "sleep", "sync", "uname", "head", "wc", "mv", "rm", "date", "touch"} {
		p, err := exec.LookPath(n)
		if err != nil {
			t.Fatal(err)
		}
		programs = append(programs, p)
	}
	if _, err := os.Stat("/usr/sbin/sshd"); err != nil {
		t.Skip("needs sshd")
	}
	programs = append(programs, "/usr/sbin/sshd")
	libs, err := ldd.List(programs...)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range append(libs, programs...) {
		b, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		put(p, string(b), 0o755)
	}
	for _, d := range []string{"proc", "sys", "dev", "run", "tmp", "mnt", "root/.ssh"} {
		if err := os.MkdirAll(filepath.Join(root, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Lstat(filepath.Join(root, "bin")); err != nil {
		if err := os.Symlink("usr/bin", filepath.Join(root, "bin")); err != nil {
			t.Fatal(err)
		}
	}
	_, host, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(host, "")
	if err != nil {
		t.Fatal(err)
	}
	put("sbin/init", imageInit, 0o755)
	put("etc/passwd", "root:x:0:0:root:/root:/bin/sh\nsshd:x:100:65534::/run/sshd:/bin/false\n", 0o644)
	put("etc/shadow", "root:*:19000:0:99999:7:::\n", 0o600)
	put("etc/group", "root:x:0:\nnogroup:x:65534:\n", 0o644)
	put("etc/ssh/host", string(pem.EncodeToMemory(block)), 0o600)
	put("etc/ssh/sshd_config", "HostKey /etc/ssh/host\nUsePAM no\nPermitRootLogin prohibit-password\nUseDNS no\n", 0o600)
	if key != nil {
		put("root/.ssh/authorized_keys", string(ssh.MarshalAuthorizedKey(key)), 0o600)
	}
	for _, d := range []string{"root", "root/.ssh"} {
		if err := os.Chmod(filepath.Join(root, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	disk := filepath.Join(filepath.Dir(root), "disk")
	if out, err := exec.Command("mke2fs", "-q", "-t", "ext4", "-E", "root_owner=0:0", "-d", root, disk, "128M").CombinedOutput(); err != nil {
		t.Fatalf("mke2fs: %v: %s", err, out)
	}
	return disk
}

func TestQEMUImage(t *testing.T) {
	long.Test(t)
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	key, err := ssh.NewPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	cache := guesttest.CacheDir(t)
	k, err := guest.FindKernel(t.Context(), cache)
	if err != nil {
		k, err = guest.FetchKernel(t.Context(), cache, t.Logf)
	}
	if err != nil {
		t.Fatal(err)
	}
	initrd, err := guest.Initramfs(t.Context(), cache, k, guesttest.Root(t))
	if err != nil {
		t.Fatal(err)
	}
	direct := func(s *Spec, image string) {
		emulated(s)
		s.Image, s.Kernel, s.Initrd = image, k.Image, initrd
		s.Append = "console=ttyS0 quiet panic=-1 no_timer_check mitigations=off cryptomgr.notests"
		s.Memory = 256 << 20
		s.BootTimeout = plan.Duration(time.Minute)
	}
	use := func(t *testing.T, image string, change func(*Spec)) {
		before, err := os.Stat(image)
		if err != nil {
			t.Fatal(err)
		}
		g := openGuest(t, func(s *Spec) { direct(s, image); change(s) })
		defer closeGuest(t, g)
		if want := probe.Durability(filepath.Dir(g.vm.Config.Disks[0].Path)); g.Weakens("/root", "ext4") != want {
			t.Errorf("its disk is %s, want %s", g.Weakens("/root", "ext4"), want)
		}
		if got := guestOut(t, g, "echo changed >/root/file; sync; id -u; uname -r"); got != "0\n"+k.Release {
			t.Errorf("got %q", got)
		}
		if f := g.facts; f["image"] != image || !strings.Contains(f["device.iotax-root"], "format=qcow2") || f["kernel"] != k.Release {
			t.Errorf("facts are %v", f)
		}
		closeGuest(t, g)
		after, err := os.Stat(image)
		if err != nil || !after.ModTime().Equal(before.ModTime()) {
			t.Errorf("the image was written to: %v, %v", after, err)
		}
		for _, dir := range []string{filepath.Dir(g.vm.Config.QMP), filepath.Dir(g.vm.Config.Disks[0].Path)} { // a generated key is in one of these directories
			if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%s is left: %v", dir, err)
			}
		}
		t.Log(g.boot)
	}
	t.Run("seed", func(t *testing.T) {
		disk := image(t, nil)
		qcow := disk + ".qcow2"
		if out, err := exec.Command("qemu-img", "convert", "-O", "qcow2", disk, qcow).CombinedOutput(); err != nil {
			t.Fatalf("qemu-img: %v: %s", err, out)
		}
		use(t, qcow, func(*Spec) {})
	})
	t.Run("identity", func(t *testing.T) {
		block, err := ssh.MarshalPrivateKey(private, "")
		if err != nil {
			t.Fatal(err)
		}
		id := filepath.Join(t.TempDir(), "id")
		if err := os.WriteFile(id, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
		disk := image(t, key)
		use(t, disk, func(s *Spec) { s.Identity = id })

		// A key with a passphrase is refused.
		locked := filepath.Join(t.TempDir(), "locked")
		if _, err := keygen(t.Context(), "-q", "-t", "ed25519", "-N", "secret", "-f", locked); err != nil {
			t.Fatal(err)
		}
		if m, _, err := tryGuest(t, t.Context(), func(s *Spec) { direct(s, disk); s.Identity = locked }); err == nil {
			m.Close(t.Context())
			t.Error("a key with a passphrase is taken")
		} else if !strings.Contains(err.Error(), "hint: identity: must be a private key without a passphrase") {
			t.Errorf("got %v", err)
		}

		// If the image does not accept the key, Open fails after the boot timeout.
		_, other, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		if block, err = ssh.MarshalPrivateKey(other, ""); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(id, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
		m, work, err := tryGuest(t, context.Background(), func(s *Spec) {
			direct(s, disk)
			s.Identity = id
			s.BootTimeout = plan.Duration(6 * time.Second)
		})
		if err == nil {
			m.Close(context.Background())
			t.Fatal("a wrong key is let in")
		}
		var ie *iotax.Error
		if !errors.As(err, &ie) || !strings.Contains(fmt.Sprint(err), "within 6s") || !strings.Contains(ie.Hint, "identity") {
			t.Errorf("got %v", err)
		}
		empty(t, work)
	})
}

// An image must not name files outside of its directory, because the guest could read them.
func TestImageChain(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	create := func(args ...string) {
		t.Helper()
		c := exec.Command("qemu-img", append([]string{"create", "-q", "-f"}, args...)...)
		c.Dir = dir
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	secret := other + "/secret"
	create("raw", "base.raw", "1M")
	create("raw", secret, "1M")
	if err := os.Symlink(secret, dir+"/link.raw"); err != nil {
		t.Fatal(err)
	}
	create("qcow2", "alone", "1M")
	create("qcow2", "-F", "raw", "-b", "base.raw", "good")
	create("qcow2", "-F", "qcow2", "-b", "good", "deep")
	create("qcow2", "-u", "-F", "raw", "-b", secret, "absolute", "1M")
	create("qcow2", "-u", "-F", "raw", "-b", "link.raw", "linked", "1M")
	create("qcow2", "-u", "-F", "raw", "-b", `json:{"driver":"raw","file.filename":"`+secret+`"}`, "json", "1M")
	create("qcow2", "-u", "-F", "vmdk", "-b", "base.raw", "guessed", "1M")
	create("qcow2", "-F", "qcow2", "-u", "-b", "absolute", "below", "1M")
	create("qcow2", "-o", "data_file="+secret, "data", "1M")
	create("qcow2", "-F", "raw", "-b", dir+"/base.raw", "beside")
	if err := os.Symlink(dir+"/beside", other+"/named"); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"alone": "", "good": "", "deep": "", "base.raw": "", "absolute": secret, "linked": "link.raw", "json": "json:", "guessed": "format", "below": secret, "data": secret} {
		format, err := imageFormat(filepath.Join(dir, name))
		hint := ""
		if err == nil {
			hint, err = checkChain(t.Context(), filepath.Join(dir, name), format)
		}
		if (err != nil) != (want != "") || err != nil && (!strings.Contains(err.Error(), want) || !strings.Contains(hint, "convert")) {
			t.Errorf("%s: %v, hint %q", name, err, hint)
		}
	}
	if _, err := checkChain(t.Context(), other+"/named", "qcow2"); err != nil {
		t.Errorf("an image that is named through a link: %v", err)
	}
	late, cancel := context.WithCancel(t.Context())
	cancel()
	if hint, err := checkChain(late, filepath.Join(dir, "alone"), "qcow2"); err == nil || hint != "" {
		t.Errorf("qemu-img was killed: %v, hint %q", err, hint)
	}
}
