package fiojob

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"iotax"
	"iotax/fio"
	"iotax/internal/machine/host"
	"iotax/internal/testenv/worktest"
)

func TestFairness(t *testing.T) {
	for _, c := range []struct {
		rates        []float64
		minMax, jain float64
	}{
		{[]float64{5}, 1, 1},
		{[]float64{5, 5, 5}, 1, 1},
		{[]float64{0, 0, 0, 8}, 0, .25}, // one client gets everything
		{[]float64{1, 3}, 1. / 3, 16. / 20},
		{[]float64{0, 0}, 1, 1},
	} {
		if m, j := Fairness(c.rates); math.Abs(m-c.minMax) > 1e-12 || math.Abs(j-c.jain) > 1e-12 {
			t.Errorf("%v: %v and %v, want %v and %v", c.rates, m, j, c.minMax, c.jain)
		}
	}
}

func TestServersSaid(t *testing.T) {
	notes := []string{"<vm> iotax.w: (g=0): rw=randread, bs=(R) 4096B-4096B", "<vm> Starting 1 process", "<vm> iotax.w: Laying out IO file (1 file / 16MiB)",
		"<vm> fio: no such file", "<vm>"}
	if got := serversStderr(notes); got != "fio: no such file" {
		t.Errorf("%q", got)
	}
}

// The job file for fio's client contains the name and the options of the job.
func TestJobFileOfClients(t *testing.T) {
	text := jobFile([]fio.JobSpec{{Name: "iotax.a", Settings: []fio.Setting{{Key: "rw", Value: "randread"}, {Key: "size", Value: "1m", KBBase: 1000}, {Key: "fsync_on_close", Bare: true}}}})
	f, err := fio.ParseJob(text)
	if err != nil {
		t.Fatal(err)
	}
	jobs := f.Jobs()
	if len(jobs) != 1 || jobs[0].Name != "iotax.a" || !jobs[0].On("fsync_on_close") {
		t.Fatalf("%+v of\n%s", jobs, text)
	}
	if s, _ := jobs[0].Get("size"); s.Value != "1m" || s.KBBase != 1000 {
		t.Errorf("size: %+v", s)
	}
}

// Run reads the client's logs even if the path of the temporary directory looks like a glob pattern.
func TestClientsLogs(t *testing.T) {
	tmp := filepath.Join(t.TempDir(), "[ab]")
	if err := os.Mkdir(tmp, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", tmp)
	j, out := open(t, "rw", "randread", "size", "64k", "direct", "0", "ioengine", "psync"), trial(2*time.Second)
	both := &iotax.Target{Name: "both", Machine: host.Local(), Together: []*iotax.Target{worktest.Target(host.Local(), worktest.OnDisk(t)), worktest.Target(host.Local(), worktest.OnDisk(t))}}
	prepared(t, j, both)
	if err := j.Run(worktest.CtxFor(t), both, out); err != nil || len(out.Series) == 0 {
		t.Errorf("%d series, %v", len(out.Series), err)
	}
}

// This host reaches a fio server on this host and on another machine. If the server ends early, serve returns its
// message. The servers leave no directories behind.
func TestServe(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	for _, m := range []iotax.Machine{host.Local(), &worktest.Elsewhere{Machine: host.Local(), Name: "far"}} {
		j, at, dir := open(t, "size", "1MiB"), worktest.Target(m, t.TempDir()), t.TempDir()
		for name, argv := range map[string][]string{"c0": {"fio"}, "c1": {"fio", "--no-such-option"}} {
			ctx, cancel := context.WithCancelCause(t.Context())
			var done sync.WaitGroup
			err := j.serve(ctx, party{j, at, false}, argv, dir, name, cancel, &done)
			if len(argv) > 1 {
				if err == nil || !errors.Is(err, context.Cause(ctx)) || !strings.Contains(err.Error(), "unrecognized option '--no-such-option'") {
					t.Errorf("%v: a server that ends: %v", m, err)
				}
			} else if err != nil {
				t.Errorf("%v: %v", m, err)
			} else if c, err := net.Dial("unix", filepath.Join(dir, name)); err != nil {
				t.Errorf("%v: %v", m, err)
			} else {
				c.Close()
			}
			cancel(nil)
			done.Wait()
		}
	}
	if left, _ := filepath.Glob(os.TempDir() + "/iotax-log-*"); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// hostile is a fio server that requests the file `want` from its client instead of running a job. It writes the reply
// to the file `want`.stolen. `listen` is the option --server=sock:SOCKET.
func hostile(want, listen string) {
	l, err := net.Listen("unix", strings.TrimPrefix(listen, "--server=sock:"))
	if err != nil {
		panic(err)
	}
	conn, err := l.Accept()
	if err != nil {
		panic(err)
	}
	const sendFile = 21
	header := make([]byte, 24) // version, opcode, flags, tag, length of the payload, CRC of the first 20 bytes, CRC of the payload
	if _, err := io.ReadFull(conn, header); err != nil {
		panic(err)
	}
	payload := make([]byte, 256)
	copy(payload, want)
	reply := binary.LittleEndian.AppendUint16(nil, binary.LittleEndian.Uint16(header)) // the client's version of the protocol
	reply = binary.LittleEndian.AppendUint16(reply, sendFile)
	reply = append(reply, make([]byte, 12)...)
	reply = binary.LittleEndian.AppendUint32(reply, uint32(len(payload)))
	reply = binary.LittleEndian.AppendUint16(reply, crc16(reply))
	reply = append(binary.LittleEndian.AppendUint16(reply, crc16(payload)), payload...)
	if _, err := conn.Write(reply); err != nil {
		panic(err)
	}
	_ = conn.SetReadDeadline(time.Now().Add(time.Second))
	answer, _ := io.ReadAll(conn)
	if err := os.WriteFile(want+".stolen", answer, 0o600); err != nil {
		panic(err)
	}
}

// crc16 returns the CRC-16/ARC of b.
func crc16(b []byte) (crc uint16) {
	for _, x := range b {
		crc ^= uint16(x)
		for range 8 {
			crc = crc>>1 ^ crc&1*0xa001
		}
	}
	return crc
}

// fio's client does not open files of this host that a hostile server requests.
func TestHostileServer(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("of this user"), 0o600); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	j, out := open(t, "rw", "randread", "size", "64k", "direct", "0", "ioengine", "psync"), trial(2*time.Second)
	one := worktest.Target(&worktest.Elsewhere{Machine: host.Local(), Name: "far"}, worktest.OnDisk(t))
	both := &iotax.Target{Name: "both", Machine: one.Machine, Together: []*iotax.Target{one}}
	prepared(t, j, both)
	j.states[one].tool.Argv = []string{self, "hostile", secret}
	err = j.Run(worktest.CtxFor(t), both, out)
	got, rerr := os.ReadFile(secret + ".stolen")
	if err == nil || rerr != nil || len(got) == 0 || strings.Contains(string(got), "of this user") {
		t.Errorf("%v, %v: the server received %d bytes, with the secret: %v", err, rerr, len(got), strings.Contains(string(got), "of this user"))
	}
}

// A fio whose real program is outside of the system directories serves targets of this host. Check refuses it as the
// client of another machine, because it cannot run confined.
func TestClientOutsideSystemDirectories(t *testing.T) {
	real, err := exec.LookPath("fio")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(real)
	if err != nil {
		t.Fatal(err)
	}
	elsewhere, dir := filepath.Join(t.TempDir(), "fio"), t.TempDir()
	if err := errors.Join(os.WriteFile(elsewhere, text, 0o755), os.WriteFile(dir+"/fio", []byte("#!/bin/sh\nexec "+elsewhere+" \"$@\"\n"), 0o755)); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	for _, m := range []iotax.Machine{host.Local(), &worktest.Elsewhere{Machine: host.Local(), Name: "far"}} {
		j, one := open(t, "rw", "randread", "size", "64k", "direct", "0", "ioengine", "psync"), worktest.Target(m, worktest.OnDisk(t))
		both := &iotax.Target{Name: "both", Machine: m, Together: []*iotax.Target{one}}
		if iotax.IsLocal(m) {
			prepared(t, j, both)
			if err := j.Run(worktest.CtxFor(t), both, trial(time.Second)); err != nil {
				t.Errorf("%v: %v", m, err)
			}
		} else if err := j.Check(worktest.CtxFor(t), both); err == nil || !strings.Contains(err.Error(), dir+"/fio cannot run confined") || !strings.Contains(err.Error(), "hint: install fio and its libraries below /usr") {
			t.Errorf("%v: %v", m, err)
		}
	}
}
