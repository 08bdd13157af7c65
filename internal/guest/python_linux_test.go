package guest

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The root contains everything that its application needs: the application answers in a chroot.
func TestPython(t *testing.T) {
	cache := t.TempDir()
	root, err := Python(t.Context(), cache)
	if err != nil {
		t.Fatal(err)
	}
	again, err := Python(t.Context(), cache)
	if err != nil || again != root {
		t.Errorf("made again: %s, %v", again, err)
	}
	if left, _ := filepath.Glob(filepath.Join(cache, "guest", ".python-*")); len(left) > 0 {
		t.Errorf("%v is left behind", left)
	}
	if os.Getuid() != 0 {
		t.Skip("chroot takes root")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	l.Close()
	words := append(strings.Fields(strings.TrimSuffix(PythonApp, "{port}")), strconv.Itoa(port))
	cmd := exec.Command(words[0], words[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root}
	cmd.Dir = "/"
	var said strings.Builder
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	defer func() { _ = cmd.Process.Kill(); <-done }()
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		r, err := http.Get("http://127.0.0.1:" + strconv.Itoa(port) + "/?a=b")
		if err != nil {
			select {
			case err := <-done:
				done <- err
				t.Fatalf("it ended: %v: %s", err, said.String())
			default:
			}
			if time.Now().After(end) {
				t.Fatalf("no answer: %v: %s", err, said.String())
			}
			continue
		}
		body, err := io.ReadAll(r.Body)
		_ = r.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		var told struct{ Python string }
		if err := json.Unmarshal(body, &told); err != nil || !strings.HasPrefix(told.Python, "3.") {
			t.Errorf("it says %q, %v", body, err)
		}
		return
	}
}
