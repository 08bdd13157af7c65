package worktest

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"iotax"
	"iotax/internal/machine/host"
)

// AnExport serves a raw image of 16 MiB of random bytes over NBD until the test ends.
func AnExport(t testing.TB) (target *iotax.Target, server *exec.Cmd) {
	t.Helper()
	dir := t.TempDir()
	image, socket, pid := dir+"/disk.raw", dir+"/s", dir+"/pid"
	if out, err := exec.Command("sh", "-c", `head -c 16777216 /dev/urandom >"$0"`, image).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	server = exec.Command("qemu-nbd", "--persistent", "--shared=8", "--format=raw", "--socket="+socket, "--pid-file="+pid, image)
	return Serves(t, server, socket, pid), server
}

// Serves starts a server and waits until it has written its process id to the file `pid`, which means that it accepts
// connections. Serves returns a target for the server's NBD socket, and kills the server when the test ends.
func Serves(t testing.TB, server *exec.Cmd, socket, pid string) *iotax.Target {
	t.Helper()
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Process.Kill(); _ = server.Wait() })
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if b, err := os.ReadFile(pid); err == nil && len(b) > 0 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("%s does not serve", server)
		}
	}
	return &iotax.Target{Name: "export", Machine: host.Local(), Place: iotax.Place{Kind: iotax.PlaceURL, Path: "nbd+unix:///?socket=" + socket}}
}
