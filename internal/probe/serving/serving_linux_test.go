package serving

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// begin starts the command and then measures its process.
func begin(t *testing.T, cmd *exec.Cmd) (stop func() (Times, error)) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root to load eBPF programs")
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stop, err := Start(func() []int { return []int{cmd.Process.Pid} })
	if err != nil {
		cmd.Process.Kill()
		cmd.Wait()
		t.Fatal(err)
	}
	return stop
}

// The time and the number of calls on files agree with those that fio measures itself.
func TestCalls(t *testing.T) {
	dir := t.TempDir()
	var out strings.Builder
	// fio uses threads, so that the measured process does the I/O itself. The start delay lets the measurement begin first.
	cmd := exec.Command("fio", "--name=x", "--thread", "--startdelay=1", "--filename="+filepath.Join(dir, "x"), "--size=16m", "--rw=randrw", "--bs=4k", "--ioengine=psync", "--direct=1",
		"--time_based", "--runtime=2", "--output-format=json")
	cmd.Stdout = &out
	stop := begin(t, cmd)
	if err := cmd.Wait(); err != nil {
		t.Fatal(err, out.String())
	}
	got, err := stop()
	if err != nil {
		t.Fatal(err)
	}
	type direction struct {
		TotalIOs float64                `json:"total_ios"`
		Clat     struct{ Mean float64 } `json:"clat_ns"`
	}
	var r struct {
		Jobs []struct{ Read, Write direction }
	}
	if err := json.Unmarshal([]byte(out.String()), &r); err != nil || len(r.Jobs) == 0 {
		t.Fatal(err, out.String())
	}
	job := r.Jobs[0]
	n := job.Read.TotalIOs + job.Write.TotalIOs
	want := (job.Read.TotalIOs*job.Read.Clat.Mean + job.Write.TotalIOs*job.Write.Clat.Mean) / 1e9
	t.Logf("%.3f s in %.0f calls; fio has %.3f s in %.0f I/Os; busy %.3f s", got.Calls, got.Count, want, n, got.Busy)
	if share := got.Calls / want; share < .8 || share > 1.05 || got.Count < n || got.Count > 1.2*n+100 || got.Busy > 2 {
		t.Error("they differ")
	}
}

// A process that computes is always busy, and a process that sleeps is not. Other processes do not count.
func TestStates(t *testing.T) {
	other := exec.Command("sh", "-c", "while :; do :; done")
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { other.Process.Kill(); other.Wait() }()
	for _, x := range []struct {
		command  string
		from, to float64
	}{
		{"while :; do kill -0 $$; done", .8, 1.1},
		{"exec sleep 9", 0, .1},
	} {
		cmd := exec.Command("sh", "-c", x.command)
		stop := begin(t, cmd)
		begun := time.Now()
		time.Sleep(500 * time.Millisecond)
		if x.to < .2 { // a process that is stopped while it waits is not busy either
			cmd.Process.Signal(syscall.SIGSTOP)
			time.Sleep(500 * time.Millisecond)
			cmd.Process.Signal(syscall.SIGCONT)
		}
		time.Sleep(500 * time.Millisecond)
		got, err := stop()
		took := time.Since(begun).Seconds()
		cmd.Process.Kill()
		cmd.Wait()
		if err != nil {
			t.Fatal(err)
		}
		if share := got.Busy / took; share < x.from || share > x.to || got.Calls > .01 {
			t.Errorf("%s: %+v in %.2f s", x.command, got, took)
		}
	}
}

// A process that starts during the measurement counts too. Without a process, stop returns an error.
func TestLateProcess(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root to load eBPF programs")
	}
	pids := make(chan int, 1)
	var known []int
	stop, err := Start(func() []int {
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
	cmd := exec.Command("sh", "-c", "while :; do kill -0 $$; done")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { cmd.Process.Kill(); cmd.Wait() }()
	pids <- cmd.Process.Pid
	time.Sleep(refresh + 500*time.Millisecond)
	if got, err := stop(); err != nil || got.Busy < .2 {
		t.Errorf("%+v, %v", got, err)
	}
	stop, err = Start(func() []int { return []int{1 << 22} })
	if err != nil {
		t.Fatal(err)
	}
	if got, err := stop(); err == nil {
		t.Errorf("%+v of no process", got)
	}
}

// BenchmarkOverhead measures what the measurement adds to a system call of the measured process and of another process.
func BenchmarkOverhead(b *testing.B) {
	for _, of := range []string{"none", "other", "self"} {
		b.Run(of, func(b *testing.B) {
			if pid := map[string]int{"other": 1, "self": os.Getpid()}[of]; pid > 0 {
				stop, err := Start(func() []int { return []int{pid} })
				if err != nil {
					b.Skip(err)
				}
				defer stop()
			}
			for b.Loop() {
				syscall.Getppid()
			}
		})
	}
}
