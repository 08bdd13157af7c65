package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"

	"iotax/internal/testenv/long"
)

// A pane is a real terminal in tmux that runs iotax.
type pane struct {
	*testing.T
	socket string
}

func (p *pane) tmux(args ...string) string {
	p.Helper()
	out, err := exec.Command("tmux", append([]string{"-L", p.socket, "-f", "/dev/null"}, args...)...).CombinedOutput()
	if err != nil {
		p.Fatalf("tmux %s: %v: %s", args[0], err, out)
	}
	return string(out)
}

// all returns the screen and the lines that scrolled out of it.
func (p *pane) all() string { p.Helper(); return p.tmux("capture-pane", "-p", "-S", "-") }

func (p *pane) until(what string, ok func(screen string) bool) string {
	p.Helper()
	for limit := time.Now().Add(5 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
		screen := p.all()
		if ok(screen) {
			return screen
		}
		if time.Now().After(limit) {
			p.Fatalf("%s: never; the terminal shows:\n%s", what, screen)
		}
	}
}

// A run with -v on terminals of 80 and 120 columns shows bars with rounds, speeds and the time left, in lines that fit.
// After the terminal becomes narrower and lower, the bars fit again, and no part of the old ones remains.
func TestProgressInTmux(t *testing.T) {
	long.Test(t)
	t.Parallel()
	if _, err := exec.LookPath("tmux"); err != nil {
		t.Skip("needs tmux")
	}
	dir := t.TempDir()
	self, err := os.Executable() // if its name is iotax, the test binary acts as iotax
	if err != nil {
		t.Fatal(err)
	}
	iotax := filepath.Join(dir, "iotax")
	if err := os.Symlink(self, iotax); err != nil {
		t.Fatal(err)
	}
	for _, place := range []string{"one", "two"} {
		if err := os.Mkdir(filepath.Join(dir, place), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	workloads := []string{"randread-4k", "randread-8k", "randread-16k", "randread-32k", "randread-64k"}
	// Print lines above the bars, because on an empty screen, tmux would move wrapped lines into its history.
	command := fmt.Sprintf("seq 100 140; cd %s; export TMPDIR=%s; %s run -v --store %s/db dir:%s/one dir:%s/two -w %s --trial 150ms --ramp 20ms --size 2MiB --rounds 30 --protocol adaptive --calibrate=no; echo ended; sleep 600",
		dir, dir, iotax, dir, dir, dir, strings.Join(workloads, ","))
	bars := func(screen, workload string) int {
		n := 0
		for line := range strings.Lines(screen) {
			if strings.HasPrefix(line, workload+" ") && strings.Contains(line, "▕") {
				n++
			}
		}
		return n
	}
	for _, columns := range []int{120, 80} {
		p := &pane{t, fmt.Sprintf("iotax-test-%d-%d", os.Getpid(), columns)}
		p.tmux("new-session", "-d", "-x", fmt.Sprint(columns), "-y", "18", command)
		t.Cleanup(func() { _ = exec.Command("tmux", "-L", p.socket, "kill-server").Run() }) // tmux may have ended already
		screen := p.until("all bars", func(s string) bool {
			return bars(s, workloads[4]) == 1 && strings.Contains(s, "IOPS") && strings.Contains(s, " left")
		})
		for line := range strings.Lines(screen) {
			if w := ansi.StringWidth(strings.TrimRight(line, "\n")); w > columns {
				t.Errorf("%d columns: a line of %d", columns, w)
			}
		}
		for _, w := range workloads {
			if n := bars(screen, w); n != 1 {
				t.Errorf("%d columns: %d bars of %s:\n%s", columns, n, w, screen)
			}
		}
		if !strings.Contains(screen, "/30") || strings.Count(screen, "opening ") != 2 {
			t.Errorf("%d columns:\n%s", columns, screen)
		}
		sound := func(how string) {
			t.Helper()
			for range 15 { // long enough for several updates of the bars
				time.Sleep(100 * time.Millisecond)
				screen = p.all()
				if strings.Count(screen, "opening ") != 2 || strings.Count(screen, "more workloads") > 1 {
					t.Fatalf("from %d columns, %s:\n%s", columns, how, screen)
				}
				for _, w := range workloads {
					if n := bars(screen, w); n > 1 {
						t.Fatalf("from %d columns, %s: %d bars of %s:\n%s", columns, how, n, w, screen)
					}
				}
			}
		}
		p.tmux("resize-window", "-x", "62", "-y", "18")
		p.until("a board that fits", func(s string) bool { return bars(s, workloads[0]) == 1 && !strings.Contains(s, "GiB/s") })
		sound("to 62")
		p.tmux("resize-window", "-x", "62", "-y", "9")
		p.until("a board that fits", func(s string) bool { return strings.Contains(s, "more workloads") })
		sound("to 9 rows")
		p.tmux("resize-window", "-x", "100", "-y", "20")
		p.until("all bars again", func(s string) bool { return bars(s, workloads[0]) == 1 && !strings.Contains(s, "more workloads") })
		p.tmux("send-keys", "C-c")
		if screen = p.until("the end", func(s string) bool { return strings.Contains(s, "ended") }); strings.Contains(screen, "▕") {
			t.Errorf("the board is still there:\n%s", screen)
		}
	}
}
