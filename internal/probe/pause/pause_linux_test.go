package pause

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	if os.Getenv("WATCHED_PAUSES") == "" {
		os.Exit(m.Run())
	}
	w := Watch()
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		fmt.Println(len(w.Take()))
	}
}

// After a stopped process continues, its first call of Take returns the pause if it was longer than Least.
func TestStoppedProcess(t *testing.T) {
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), "WATCHED_PAUSES=1")
	in, _ := c.StdinPipe()
	out, _ := c.StdoutPipe()
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		in.Close()
		c.Wait()
	}()
	answers := bufio.NewScanner(out)
	ask := func() string {
		fmt.Fprintln(in, "?")
		answers.Scan()
		return answers.Text()
	}
	for i, stopped := range []time.Duration{0, 2 * time.Second, 300 * time.Millisecond} {
		before := ask()
		time.Sleep(200 * time.Millisecond)
		c.Process.Signal(syscall.SIGSTOP)
		time.Sleep(stopped)
		c.Process.Signal(syscall.SIGCONT)
		want := "0"
		if stopped > Least {
			want = "1"
		}
		if got := ask(); before != "0" || got != want {
			t.Errorf("%d: stopped for %v: %s pauses before, then %s", i, stopped, before, got)
		}
	}
}
