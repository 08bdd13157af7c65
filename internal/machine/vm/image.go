package vm

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/kdomanski/iso9660"

	"iotax"
	"iotax/internal/agent"
	"iotax/internal/machine/qemu"
	"iotax/internal/probe"
)

// image prepares the boot of a user's image.
func (b *booting) image(ctx context.Context) error {
	s := b.spec
	fail := func(err error, hint string) error {
		return &iotax.Error{Op: "start machine", On: b.name, Err: err, Hint: hint}
	}
	format, err := imageFormat(s.Image)
	if err != nil {
		return fail(err, "image: must be the path of a qcow2 or raw disk image on this host")
	}
	if hint, err := checkChain(ctx, s.Image, format); err != nil {
		return fail(err, hint)
	}
	// The image does not change: writes go to an overlay, which iotax removes after the guest has ended.
	file := filepath.Join(b.dir, "overlay.qcow2")
	if hint, err := overlay(ctx, s.Image, format, file); err != nil {
		return fail(err, hint)
	}
	b.storage = iotax.Weakest(b.storage, probe.Durability(b.dir))
	root := qemu.Disk{ID: "iotax-root", Disk: iotax.Disk{Path: file, Format: "qcow2", Cache: "writeback", AIO: "threads"}}
	b.config.Disks = append([]qemu.Disk{root}, b.config.Disks...)
	b.facts["image"] = s.Image
	b.facts["device.iotax-root"] = root.Line()
	if b.identity = s.Identity; b.identity != "" {
		if _, err := publicKey(ctx, b.identity); err != nil {
			return fail(fmt.Errorf("%s: %w", b.identity, err), "identity: must be a private key without a passphrase")
		}
	} else {
		b.identity = filepath.Join(b.dir, "key")
		_, err := keygen(ctx, "-q", "-t", "ed25519", "-N", "", "-C", "iotax", "-f", b.identity)
		key := ""
		if err == nil {
			key, err = publicKey(ctx, b.identity)
		}
		if err != nil {
			return fail(err, "install the OpenSSH client (package openssh-client or openssh)")
		}
		seed := filepath.Join(b.dir, "seed.iso")
		if err := writeSeed(seed, s.User, key); err != nil {
			return fail(err, "")
		}
		b.config.Disks = append(b.config.Disks, qemu.Disk{ID: "iotax-seed",
			Disk: iotax.Disk{Path: seed, Format: "raw", Cache: "writeback", AIO: "threads", ReadOnly: true}})
	}
	if s.Kernel != "" {
		if b.facts[kernelHash], err = agent.SHA256(s.Kernel); err != nil {
			return fail(err, "kernel: must be the path of a kernel on this host")
		}
		b.config.Kernel, b.config.Initrd = s.Kernel, s.Initrd
		b.config.Append = cmp.Or(s.Append, "root=/dev/vda console=ttyS0")
		b.facts["cmdline"] = b.config.Append
	}
	b.config.Accel = s.Accel
	b.facts[iotax.FactAccelWhy] = "asked for"
	if s.Accel == "auto" {
		// A user's image may take long to boot, so test the accelerator with the micro-guest.
		a, err := b.probeForImage(ctx)
		if err != nil {
			return err
		}
		b.config.Accel, b.facts[iotax.FactAccelWhy] = a.Name, a.Why
	}
	b.facts[iotax.FactAccel] = b.config.Accel
	return nil
}

// overlay creates `file`, a qcow2 overlay for writes to the image `base`. Another guest may use `base` at the same
// time. The overlay replaces QEMU's snapshot=on, which would ignore flushes.
func overlay(ctx context.Context, base, format, file string) (hint string, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if base, err = filepath.Abs(base); err != nil {
		return "", err
	}
	var info struct {
		Size int64 `json:"virtual-size"`
	}
	if hint, err := describeImage(ctx, base, format, &info); err != nil {
		return hint, err
	}
	_, err = agent.Exec(ctx, "qemu-img", "create", "-q", "-u", "-f", "qcow2", "-F", format, "-b", base, file, strconv.FormatInt(info.Size, 10))
	return "", err
}

// describeImage decodes the output of qemu-img info into `info`.
func describeImage(ctx context.Context, image, format string, info any) (hint string, err error) {
	if _, err := agent.Tool("qemu-img"); err != nil {
		return "install it: apt install qemu-utils", err
	}
	out, err := agent.Exec(ctx, "qemu-img", "info", "--force-share", "--output=json", "-f", format, image)
	if err != nil {
		return "", err
	}
	if err := json.Unmarshal([]byte(out), info); err != nil {
		return "", fmt.Errorf("qemu-img info: %w", err)
	}
	return "", nil
}

const chainHint = "make an image in one file: qemu-img convert -O qcow2 IMAGE NEW"

// checkChain returns an error if an image, or an image below it, names a file outside of the directory of the first
// image, or of the file that it links to. The guest could read every file of this host that the author of the image
// named.
func checkChain(ctx context.Context, image, format string) (hint string, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if image, err = filepath.Abs(image); err != nil { // otherwise qemu-img may read the name as a protocol
		return "", err
	}
	dir, err := filepath.EvalSymlinks(filepath.Dir(image))
	if err != nil {
		return "", err
	}
	real, err := filepath.EvalSymlinks(image)
	if err != nil {
		return "", err
	}
	for format == "qcow2" {
		var info struct {
			Backing string `json:"backing-filename"`
			Full    string `json:"full-backing-filename"`
			Format  string `json:"backing-filename-format"`
			Of      struct {
				Data struct {
					File string `json:"data-file"`
				} `json:"data"`
			} `json:"format-specific"`
		}
		if hint, err := describeImage(ctx, image, format, &info); err != nil {
			return hint, err
		}
		backing := cmp.Or(info.Full, info.Backing)
		for _, file := range []string{backing, info.Of.Data.File} {
			path := file
			if !filepath.IsAbs(file) {
				path = filepath.Join(filepath.Dir(image), file)
			}
			path, err := filepath.EvalSymlinks(path)
			in := func(dir string) bool { return strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/") }
			if file != "" && (err != nil || !in(dir) && !in(filepath.Dir(real))) {
				return chainHint, fmt.Errorf("%s uses %s, which is not a file in %s", image, file, dir)
			}
		}
		if backing != "" && info.Format != "raw" && info.Format != "qcow2" { // QEMU would guess the format, and images of other formats name files, too
			return chainHint, fmt.Errorf("%s uses %s, but its format is not recorded as raw or qcow2", image, backing)
		}
		image, format = backing, info.Format
	}
	return "", nil
}

// imageFormat returns "qcow2" if the file begins with the magic number of qcow2, otherwise "raw".
func imageFormat(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	magic := make([]byte, 4)
	if _, err := io.ReadFull(f, magic); err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	if string(magic) == "QFI\xfb" {
		return "qcow2", nil
	}
	return "raw", nil
}

// writeSeed writes the seed disk for cloud-init (data source NoCloud).
func writeSeed(path, user, key string) error {
	w, err := iso9660.NewWriter()
	if err != nil {
		return err
	}
	defer func() { _ = w.Cleanup() }()
	id := make([]byte, 8)
	_, _ = rand.Read(id)
	for name, text := range seedFiles(user, key, hex.EncodeToString(id)) {
		if err := w.AddFile(strings.NewReader(text), name); err != nil {
			return err
		}
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(w.WriteTo(f, "cidata"), f.Close())
}

// seedFiles returns the files of the seed disk. Each boot has a new instance id, because cloud-init runs once per id.
func seedFiles(user, key, instance string) map[string]string {
	var u strings.Builder
	u.WriteString("#cloud-config\n")
	if user == "root" {
		u.WriteString("disable_root: false\nssh_authorized_keys:\n  - " + key + "\n")
	} else {
		fmt.Fprintf(&u, "users:\n  - name: %q\n    sudo: \"ALL=(ALL) NOPASSWD:ALL\"\n    shell: /bin/sh\n    lock_passwd: true\n    ssh_authorized_keys:\n      - %s\n", user, key)
	}
	u.WriteString("ssh_pwauth: false\npackage_update: false\npackage_upgrade: false\n")
	return map[string]string{
		"user-data":      u.String(),
		"meta-data":      "instance-id: iotax-" + instance + "\nlocal-hostname: guest\n",
		"network-config": "version: 2\nethernets:\n  all:\n    match: {name: \"e*\"}\n    dhcp4: true\n",
	}
}

// settle waits until a user's image has finished booting, if the image has cloud-init or systemd. It ignores their
// exit status.
func settle(ctx context.Context, m iotax.Machine) error {
	for _, args := range [][]string{{"cloud-init", "status", "--wait"}, {"systemctl", "is-system-running", "--wait"}} {
		var exit *iotax.ExitError
		if err := m.Run(ctx, iotax.Command(args...)); err != nil && !errors.As(err, &exit) {
			return err
		}
	}
	return nil
}
