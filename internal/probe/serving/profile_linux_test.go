package serving

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/pprof/profile"
)

// burner uses half a second of CPU time, part of it in the kernel. It keeps frame pointers, as all Go programs do.
const burner = `package main

import "syscall"

//go:noinline
func burn() (n int) {
	for n = range 2000 {
		_ = n * n
	}
	return n
}

func main() {
	for used := int64(0); used < 500e6; {
		for range 3 {
			burn()
		}
		var u syscall.Rusage
		syscall.Getrusage(0, &u)
		used = u.Utime.Nano() + u.Stime.Nano()
	}
}
`

// The profile contains the CPU time of a process that has ended, in the functions that used it and in their callers. It
// does not contain other processes.
func TestProfile(t *testing.T) {
	needsRoot(t)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "burner.go"), []byte(burner), 0o600); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "burner")
	if out, err := exec.Command("go", "build", "-o", program, filepath.Join(dir, "burner.go")).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	burning, other := exec.Command(program), exec.Command(program)
	pids := make(chan int, 1)
	var known []int
	stop, err := Profile(func() []int {
		select {
		case pid := <-pids:
			known = append(known, pid)
		default:
		}
		return known
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, cmd := range []*exec.Cmd{burning, other} {
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
	}
	pids <- burning.Process.Pid
	if err := errors.Join(burning.Wait(), other.Wait()); err != nil {
		t.Fatal(err)
	}
	raw, err := stop()
	if err != nil {
		t.Fatal(err)
	}
	p, err := profile.Parse(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	total, of := int64(0), map[string]int64{}
	for _, s := range p.Sample {
		total += s.Value[1]
		seen := map[string]bool{}
		for _, l := range s.Location {
			if name := l.Line[0].Function.Name; !seen[name] {
				seen[name], of[name] = true, of[name]+s.Value[1]
			}
		}
	}
	t.Logf("%v in %d bytes: %v", time.Duration(total), len(raw), of)
	within := func(name string, from, to float64) {
		if share := float64(of[name]) / float64(total); share < from || share > to {
			t.Errorf("%s has %.2f of the time", name, share)
		}
	}
	found := float64(total-of[NoStack]) / float64(total) // samples from before the process was found have no stacks
	within("burner", 1, 1)
	within(NoStack, 0, .6)
	within("runtime.main", .9*found, found) // main.burn has no stack frame, so the profile lacks its caller main.main
	within("main.burn", .4*found, .98*found)
	within("do_syscall_64", .01*found, .6*found)
	used := burning.ProcessState.UserTime() + burning.ProcessState.SystemTime()
	if share := float64(total) / float64(used); share < .7 || share > 1.3 {
		t.Errorf("the profile has %v, and the process used %v", time.Duration(total), used)
	}
}

// If the processes use no CPU time, there is no profile.
func TestProfileNothing(t *testing.T) {
	needsRoot(t)
	stop, err := Profile(func() []int { return []int{1 << 22} })
	if err != nil {
		t.Fatal(err)
	}
	if raw, err := stop(); raw != nil || err != nil {
		t.Errorf("%d bytes, %v", len(raw), err)
	}
}
