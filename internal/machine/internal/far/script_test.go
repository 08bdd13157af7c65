//go:build unix

package far

import (
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"iotax"
)

// TestEndWithoutProc runs the script that ends a command as on a system that has no /proc. There
// ps tells the processes, and a child that left the group is known by its descent.
func TestEndWithoutProc(t *testing.T) {
	for _, tool := range []string{"ps", "awk", "setsid"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip("needs " + tool)
		}
	}
	cmd := exec.Command("sh", "-c", "setsid sh -c 'sleep 1009 & echo $!; wait' & sleep 1009 & echo $!; wait")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer unix.Kill(-cmd.Process.Pid, unix.SIGKILL)
	var said string
	for buf := make([]byte, 100); strings.Count(said, "\n") < 2; {
		n, err := out.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		said += string(buf[:n])
	}

	script := EndScript(cmd.Process.Pid, "0123456789")
	for _, file := range []string{"/proc/self/stat", "/proc/uptime"} {
		if !strings.Contains(script, file) {
			t.Fatalf("the script does not look at %s", file)
		}
		script = strings.ReplaceAll(script, file, "/no/such/file")
	}
	sh := exec.Command("sh", "-c", script)
	begin := time.Now()
	got, err := sh.CombinedOutput()
	if left := strings.TrimSpace(string(got)); err != nil || left != "left:" {
		t.Errorf("the script says %q (%v), want that nothing is left", left, err)
	}
	if d := time.Since(begin); d > time.Minute {
		t.Errorf("it took %v", d)
	}
	for _, pid := range strings.Fields(said) {
		// One that has ended may wait for ever to be reaped, where process 1 does not do that.
		state, _ := exec.Command("ps", "-o", "stat=", "-p", pid).Output()
		if s := strings.TrimSpace(string(state)); s != "" && s[0] != 'Z' {
			t.Errorf("process %s is left in state %s", pid, s)
			n, _ := strconv.Atoi(pid)
			unix.Kill(n, unix.SIGKILL)
		}
	}
}

// The line must stay one line, or read would take a part of it for the whole.
func TestPrologueIsOneLine(t *testing.T) {
	c := &iotax.Cmd{Args: []string{"a\nb", "\n"}, Env: []string{"X=\n1\n"}, Dir: "d\ne"}
	for _, p := range []string{Prologue(c, "tag"), Exec(c.Args)} {
		if strings.Count(p, "\n") != 1 || p[len(p)-1] != '\n' {
			t.Errorf("got %q", p)
		}
	}
}
