//go:build unix

package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Until iotax has made something that it must remove, the first signal ends the process at once, even while the process
// waits for input or reads input.
func TestFirstSignal(t *testing.T) {
	t.Parallel()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"plan"}, {"lint"}, {"import"}, {"run"}, {"import", "-"}} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			fifo := filepath.Join(dir, "p.yaml")
			if err := syscall.Mkfifo(fifo, 0o600); err != nil {
				t.Fatal(err)
			}
			if len(args) == 1 {
				args = append(args, fifo)
			}
			var said bytes.Buffer
			cmd := exec.Command(exe)
			cmd.Args = append([]string{"iotax-signal", "--store", filepath.Join(dir, "store")}, args...)
			cmd.Stderr = &said
			stdin, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			defer cmd.Process.Kill()
			if args[1] == "-" { // write more than the pipe holds, so that iotax is already reading
				if _, err := stdin.Write(bytes.Repeat([]byte("hello\n"), 1<<20)); err != nil {
					t.Fatal(err)
				}
			} else { // OpenFile blocks until iotax opens the FIFO
				f, err := os.OpenFile(fifo, os.O_WRONLY, 0)
				if err != nil {
					t.Fatal(err)
				}
				defer f.Close()
			}
			begin := time.Now()
			if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait()
			if code, d := cmd.ProcessState.ExitCode(), time.Since(begin); code != exitInterrupted || d > 5*time.Second {
				t.Errorf("status %d after %v: %s", code, d, &said)
			}
			if said.String() != "iotax: interrupted\n" {
				t.Errorf("it printed %q", &said)
			}
		})
	}
}

// Files that iotax reads into memory in full have a size limit, which also applies to devices.
func TestInputLimits(t *testing.T) {
	t.Parallel()
	zeros := filepath.Join(t.TempDir(), "zeros.yaml")
	if err := os.Symlink("/dev/zero", zeros); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"plan", zeros}, {"lint", zeros}, {"run", zeros}, {"report", "--reference-map", zeros}} {
		var out, errs bytes.Buffer
		args = append([]string{"--store", filepath.Join(t.TempDir(), "store")}, args...)
		code := Main(t.Context(), args, nil, &out, &errs)
		if code == exitOK || !strings.Contains(errs.String(), zeros+": it is larger than ") || !strings.Contains(errs.String(), "hint: ") {
			t.Errorf("%q: status %d, %s", args, code, &errs)
		}
	}
}
