package fiojob

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"iotax"
	"iotax/internal/machine/host"
	"iotax/internal/plan"
	"iotax/internal/testenv/worktest"
	"iotax/internal/volume"
	"iotax/internal/workload/support"
)

// swap is a shell script that waits in directory $1 until fio runs with a test file of 68 KiB. By then, iotax has made
// its last check. The script then replaces iotax's directory with one that contains links named $3… to file $2.
const swap = `
cd "$1" && victim=$2 && shift 2 && mkdir evil && for f; do ln -s "$victim" "evil/$f"; done
echo ready
until grep -aqs 'filename=.*iotax-68Ki[B]' /proc/[0-9]*/cmdline; do :; done
for d in iotax-*; do mv -T "$d" away && mv -T evil "$d"; done`

// As root, iotax refuses to work in a directory of another user. If it accepted the directory, its owner could replace
// iotax's directory between a check and the start of fio, so that fio overwrites a file of root.
func TestSwappedBetweenCheckAndUse(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("needs root to be the one who is attacked")
	}
	top := worktest.OnDisk(t)
	victim, theirs := filepath.Join(top, "victim"), filepath.Join(top, "theirs")
	secret := bytes.Repeat([]byte("of root\n"), 17<<9) // as long as the test file, because fio would replace a link to a shorter file
	for _, err := range []error{os.Chmod(top, 0o755), os.WriteFile(victim, secret, 0o600), os.Mkdir(theirs, 0o755), os.Chown(theirs, 65534, 65534)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	w := open(t, "rw", "write", "size", "68k", "direct", "0", "ioengine", "psync")
	job, err := w.resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	args := []string{"-c", swap, "sh", theirs, victim}
	for _, n := range job.layout.names() {
		args = append(args, n, n+support.Partial)
	}
	attacker := exec.CommandContext(ctx, "sh", args...)
	attacker.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := attacker.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := attacker.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { cancel(); _ = attacker.Wait() }()
	if _, err := out.Read(make([]byte, 8)); err != nil {
		t.Fatal("the attacker does not start")
	}

	v, err := volume.Prepare(ctx, plan.Target{Name: "theirs", Kind: "dir", Spec: &volume.DirSpec{Path: theirs}}, volume.Env{Host: host.Local(), ID: "t0"})
	if err != nil {
		t.Fatal(err)
	}
	place, err := v.Attach(ctx, host.Local())
	if err != nil {
		if !strings.Contains(err.Error(), "user 65534 owns it") {
			t.Error(err)
		}
		return
	}
	t.Error("root works in a directory of another user")
	tg := &iotax.Target{Name: "theirs", Machine: host.Local(), Place: place, Facts: map[string]string{}}
	_ = w.Check(ctx, tg)
	_ = w.Prepare(ctx, tg)
	_ = w.Cleanup(ctx, tg)
	_ = v.Detach(ctx)
	if now, err := os.ReadFile(victim); err != nil || !bytes.Equal(now, secret) {
		t.Errorf("the file of root was overwritten: %v", err)
	}
}
