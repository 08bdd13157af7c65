package serving

import (
	"bytes"
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func needsRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root to load eBPF programs")
	}
}

// begin starts the command and then measures its process.
func begin(t *testing.T, cmd *exec.Cmd, by Protocol) (stop func() (Times, error)) {
	t.Helper()
	needsRoot(t)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stop, err := Start(func() []int { return []int{cmd.Process.Pid} }, by)
	if err != nil {
		cmd.Process.Kill()
		cmd.Wait()
		t.Fatal(err)
	}
	return stop
}

// measured returns the number of I/Os in fio's output, and the sum of their latencies in s.
func measured(t *testing.T, out []byte) (ios, sum float64) {
	t.Helper()
	type direction struct {
		TotalIOs float64                `json:"total_ios"`
		Clat     struct{ Mean float64 } `json:"clat_ns"`
	}
	var r struct {
		Jobs []struct{ Read, Write direction }
	}
	if err := json.Unmarshal(out, &r); err != nil || len(r.Jobs) == 0 {
		t.Fatalf("%v: %s", err, out)
	}
	for _, job := range r.Jobs {
		for _, d := range []direction{job.Read, job.Write} {
			ios, sum = ios+d.TotalIOs, sum+d.TotalIOs*d.Clat.Mean/1e9
		}
	}
	return ios, sum
}

// The measured time and number of calls on files agree with fio's own measurements.
func TestCalls(t *testing.T) {
	dir := t.TempDir()
	var out strings.Builder
	// fio uses threads, so that the measured process does the I/O itself. The start delay lets the measurement begin
	// first.
	cmd := exec.Command("fio", "--name=x", "--thread", "--startdelay=1", "--filename="+filepath.Join(dir, "x"), "--size=16m", "--rw=randrw", "--bs=4k", "--ioengine=psync", "--direct=1",
		"--time_based", "--runtime=2", "--output-format=json")
	cmd.Stdout = &out
	stop := begin(t, cmd, Threads)
	if err := cmd.Wait(); err != nil {
		t.Fatal(err, out.String())
	}
	got, err := stop()
	if err != nil {
		t.Fatal(err)
	}
	n, want := measured(t, []byte(out.String()))
	t.Logf("%.3f s in %.0f calls; fio has %.3f s in %.0f I/Os; busy %.3f s", got.Calls, got.Count, want, n, got.Busy)
	if share := got.Calls / want; share < .8 || share > 1.05 || got.Count < n || got.Count > 1.2*n+100 || got.Busy < got.Calls {
		t.Error("they differ")
	}
}

// Each NBD request counts once, from its receipt to its reply, even while no thread of the server works on it, and even
// with several clients and requests at the same time.
func TestNBD(t *testing.T) {
	dir, err := os.MkdirTemp("/var/tmp", "nbd-") // on a disk; short, because paths of sockets are limited
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	image := filepath.Join(dir, "image")
	if err := os.WriteFile(image, make([]byte, 8<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{ // both servers take at least 5 ms for a read
		{"nbdkit", "--foreground", "--filter=delay", "file", image, "rdelay=5ms", "--unix"},
		{"qemu-nbd", "--persistent", "--shared=8", "--object=throttle-group,id=g,x-iops-total=200", "--image-opts",
			"driver=throttle,throttle-group=g,file.driver=file,file.aio=native,file.cache.direct=on,file.filename=" + image, "--socket"},
	} {
		t.Run(args[0], func(t *testing.T) {
			socket := filepath.Join(dir, args[0])
			server := exec.Command(args[0], append(args[1:], socket)...)
			stop := begin(t, server, NBD)
			defer func() { server.Process.Kill(); server.Wait() }()
			for end := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
				if c, err := net.Dial("unix", socket); err == nil {
					c.Close()
					break
				} else if time.Now().After(end) {
					t.Fatal(err)
				}
			}
			out, err := exec.Command("fio", "--name=x", "--ioengine=nbd", "--uri=nbd+unix:///?socket="+socket, "--rw=randread", "--bs=4k", "--iodepth=4", "--numjobs=2", "--thread",
				"--size=8m", "--time_based", "--runtime=1", "--output-format=json").Output()
			if err != nil {
				t.Fatal(err)
			}
			got, err := stop()
			if err != nil {
				t.Fatal(err)
			}
			ios, total := measured(t, out[bytes.IndexByte(out, '{'):]) // fio reports the connection first
			t.Logf("%.3f s in %.0f requests; fio has %.3f s in %.0f I/Os; %.3f s in %.0f calls", got.Busy, got.Requests, total, ios, got.Calls, got.Count)
			if got.Requests != ios || got.Busy < .005*ios || got.Busy > 1.05*total {
				t.Error("they differ")
			}
		})
	}
}

// With SFTP, a call of read is a call on a file, unless it reads the standard input. With Threads, a call of read never
// counts as a call on a file.
func TestSFTP(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x")
	if err := os.WriteFile(file, make([]byte, 4<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	// The dynamic linker makes a few calls of each kind.
	for _, x := range []struct {
		by       Protocol
		command  string
		from, to float64
	}{
		{SFTP, "sleep .5; exec cksum " + file, 64, 4096},
		{SFTP, "sleep .5; exec dd status=none bs=4k if=" + file + " of=/dev/null", 0, 16}, // dd opens both files as its standard input and output
		{Threads, "sleep .5; exec cksum " + file, 0, 16},
	} {
		cmd := exec.Command("sh", "-c", x.command)
		stop := begin(t, cmd, x.by)
		if err := cmd.Wait(); err != nil {
			t.Fatal(err)
		}
		if got, err := stop(); err != nil || got.Count < x.from || got.Count > x.to || got.Calls > got.Busy {
			t.Errorf("%q, %s: %+v, %v", x.by, x.command, got, err)
		}
	}
}

// A process that computes is busy, and a process that sleeps is not. Other processes do not count.
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
		stop := begin(t, cmd, Threads)
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

// A process that starts during the measurement counts too. Without a process, `stop` returns an error.
func TestLateProcess(t *testing.T) {
	needsRoot(t)
	pids := make(chan int, 1)
	var known []int
	stop, err := Start(func() []int {
		select {
		case pid := <-pids:
			known = append(known, pid)
		default:
		}
		return known
	}, Threads)
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
	stop, err = Start(func() []int { return []int{1 << 22} }, Threads)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := stop(); err == nil {
		t.Errorf("%+v of no process", got)
	}
}

// BenchmarkOverhead measures the time of a system call without a measurement, while another process is measured, and
// while the calling process is measured.
func BenchmarkOverhead(b *testing.B) {
	for _, of := range []string{"none", "other", "self"} {
		b.Run(of, func(b *testing.B) {
			if pid := map[string]int{"other": 1, "self": os.Getpid()}[of]; pid > 0 {
				stop, err := Start(func() []int { return []int{pid} }, Threads)
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

// In a PID namespace, as in a container, processes are found by their numbers there.
func TestInNamespace(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root for a PID namespace")
	}
	out, err := exec.Command("unshare", "--pid", "--fork", "--mount", "--mount-proc", os.Args[0], "-test.v", "-test.run=^(TestCalls|TestProfile)$").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: TestCalls") || !strings.Contains(string(out), "--- PASS: TestProfile") {
		t.Errorf("%v: %s", err, out)
	}
}
