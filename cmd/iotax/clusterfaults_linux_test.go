package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"iotax/internal/lab"
	"iotax/internal/testenv/long"
)

// objectStore starts a real S3 server with the bucket bench, and returns its address and a file with its keys.
func (s *stage) objectStore() (address, keys string) {
	s.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.t.Fatal(err)
	}
	address = l.Addr().String()
	l.Close()
	dir := s.t.TempDir()
	if err := os.Mkdir(dir+"/bench", 0o700); err != nil {
		s.t.Fatal(err)
	}
	c := exec.Command(s.storeProgram(), "--port", address, "--quiet", "--keep-alive", "posix", dir)
	c.Env = append(os.Environ(), "ROOT_ACCESS_KEY=testaccess", "ROOT_SECRET_KEY=testsecret")
	if err := c.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if conn, err := net.Dial("tcp", address); err == nil {
			conn.Close()
			break
		}
		if time.Now().After(end) {
			s.t.Fatal("the store does not serve")
		}
	}
	s.elsewhere = append(s.elsewhere, func() (left census) { // the server stores objects and parts of uploads as files
		filepath.WalkDir(dir+"/bench", func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				left = append(left, "object: "+path)
			}
			return nil
		})
		return left
	})
	return address, s.keys("keys", "testsecret")
}

func (s *stage) keys(name, secret string) string {
	return s.write(name, "[default]\naws_access_key_id = testaccess\naws_secret_access_key = "+secret+"\n")
}

// named returns the ids of the processes with the given name on a node of a lab.
func named(l *lab.Lab, node, name string) (pids []int) {
	for _, p := range lab.Processes(l)[node] {
		if b, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", p)); err == nil && strings.TrimSpace(string(b)) == name {
			pids = append(pids, p)
		}
	}
	return pids
}

// ioOf returns a counter of /proc/PID/io, such as read_bytes, or 0 if the process has ended.
func ioOf(pid int, counter string) (n int64) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		_, _ = fmt.Sscanf(line, counter+": %d", &n)
	}
	return n
}

// A fault in a cluster fails only the cells that it affects, with a cause and a hint. The other cells are measured, and
// nothing is left behind. The faults are a killed export server, a link that is cut during a copy, a full file system,
// and S3 stores that cannot be used.
func TestClusterFaults(t *testing.T) {
	long.Test(t)
	needsRoot(t)
	s := newStage(t)
	l, err := lab.Up(t.Context(), lab.Config{Name: "tfaults", Nodes: 3, Rate: 80e6, Dir: s.mkdir("lab")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := lab.Down(context.WithoutCancel(t.Context()), l.Name); err != nil {
			t.Error(err)
		}
	})
	address, keys := s.objectStore()
	refuses := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/xml")
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprint(w, `<?xml version="1.0"?><Error><Code>RequestTimeTooSkewed</Code><Message>said by a test</Message></Error>`)
	}
	skewed := httptest.NewServer(http.HandlerFunc(refuses))
	defer skewed.Close()
	sealed := httptest.NewUnstartedServer(http.HandlerFunc(refuses))
	sealed.Config.ErrorLog = log.New(io.Discard, "", 0) // clients that hang up are expected
	sealed.StartTLS()
	defer sealed.Close()
	small := s.mount("small", "size=24m")
	bucket := func(url, keys string) string {
		return fmt.Sprintf("{bucket: {url: %q, style: path, credentials: %q}}", url, keys)
	}
	s.write("plan.yaml", strings.NewReplacer(
		"DISK", s.path("a"), "SMALL", small, "GOOD", bucket("http://"+address+"/bench", keys), "KEY", bucket("http://"+address+"/bench", s.keys("wrong", "other")),
		"MISSING", bucket("http://"+address+"/missing", keys), "SKEWED", bucket(skewed.URL+"/bench", keys), "SEALED", bucket(sealed.URL+"/bench", keys),
	).Replace(`
machines:
  user: {node: {name: node02, lab: tfaults}}
  dies: {node: {name: node01, lab: tfaults}}
  cut: {node: {name: node03, lab: tfaults}}
targets:
  disk: {dir: DISK}
  dying export: {on: user, nbd: {from: dies}}
  cut export: {on: user, nbd: {from: cut}}
  own export: {on: user, nbd: {}}
  store: GOOD
  wrong key: KEY
  no bucket: MISSING
  clock: SKEWED
  sealed: SEALED
workloads:
  copy: {at: [cut export], materialise: {size: 64MiB, stall: 2s}}
  copy to a full disk: {at: [own export], materialise: {size: 32MiB, path: SMALL}}
  read: {at: [disk, dying export, own export], fio: {rw: randread, bs: 4k, size: 16MiB}}
  objects: {at: [store, wrong key, no bucket, clock, sealed], object: {size: 1MiB, timeout: 5s}}
measure: {protocol: "fixed:2x1s", ramp: 100ms, keep_going: true}
`))
	r := s.start(nil, "run", "plan.yaml", "--calibrate", "no", "--json")
	wait := func(node, name string) []int {
		t.Helper()
		for end := time.Now().Add(90 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
			if pids := named(l, node, name); len(pids) > 0 {
				return pids
			}
			select {
			case <-r.done:
				t.Fatalf("it ended before %s ran: %v", name, r.wait())
			default:
			}
		}
		t.Fatalf("%s never ran on %s", name, node)
		return nil
	}
	wait("node02", "nbdcopy") // the copy takes more than six seconds on this link
	if out, err := exec.Command("ip", "-n", l.Nodes[2].Namespace, "link", "set", "eth0", "down").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	r.said("cut export / copy: failed: ")
	export := wait("node01", "qemu-nbd")
	if len(export) != 1 {
		t.Fatalf("the export is %d processes", len(export))
	}
	for end := time.Now().Add(90 * time.Second); ioOf(export[0], "read_bytes") < 512<<10; time.Sleep(5 * time.Millisecond) { // only fio reads that much
		if time.Now().After(end) {
			t.Fatalf("fio never read from the export: %v", r.wait())
		}
	}
	if err := syscall.Kill(export[0], syscall.SIGKILL); err != nil {
		t.Error(err)
	}
	out := r.wait()
	out.works(t, exitOK,
		"wrong key is left out of objects: ", "SignatureDoesNotMatch", "check the secret key",
		"no bucket is left out of objects: ", "NoSuchBucket", "make the bucket",
		"clock is left out of objects: ", "RequestTimeTooSkewed", "set the clocks",
		"sealed is left out of objects: ", "authority that is not known", "ca:",
		"nothing came for 2s", "see that the export serves and the network between the machines is up",
		"not enough space: the test needs 48 MiB", "free some space", "server-died")
	var rep struct {
		Cells []struct {
			Target, Workload, Metric string
			Value                    struct{ N int }
		}
	}
	if err := json.Unmarshal([]byte(out.stdout), &rep); err != nil {
		t.Fatal(err)
	}
	counted := map[string]int{}
	for _, c := range rep.Cells {
		counted[c.Target+" / "+c.Workload] = c.Value.N
	}
	for cell, measured := range map[string]bool{"disk / read": true, "own export / read": true, "store / objects": true, "dying export / read": false, "cut export / copy": false, "own export / copy to a full disk": false} {
		if n := counted[cell]; n > 1 != measured || n == 1 {
			t.Errorf("%s counts %d trials", cell, n)
		}
	}
	// Nothing is left: no process, mount, namespace or object, and no file on the nodes.
	for _, left := range s.gone(r, nil) {
		t.Errorf("left behind: %s", left)
	}
	for node, pids := range lab.Processes(l) {
		if len(pids) > 0 {
			t.Errorf("still on %s: %v", node, pids)
		}
	}
	for _, n := range l.Nodes {
		if left, _ := filepath.Glob(n.Dir + "/*"); len(left) > 0 {
			t.Errorf("left behind: %q", left)
		}
	}
	if left, _ := filepath.Glob(small + "/*"); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

// The server of the NBD export that a guest uses as a disk dies while fio writes in the guest. The trial fails soon,
// the other target is measured, and the guest ends.
func TestGuestExportDies(t *testing.T) {
	long.Test(t)
	needsRoot(t)
	t.Parallel()
	s := newStage(t)
	s.write("plan.yaml", strings.NewReplacer("DISK", s.path("a"), "IMAGES", s.path("b")).Replace(`
machines:
  node: {node: node01}
  guest: {on: node, qemu: {memory: 512MiB}}
targets:
  disk: {dir: DISK}
  export: {on: node, nbd: {path: IMAGES, size: 128MiB}}
  guest: {on: guest, disk: {of: export}}
workloads:
  write: {at: [guest], fio: {rw: randwrite, bs: 4k, size: 16MiB}}
  read: {at: [disk], fio: {rw: randread, bs: 4k, size: 16MiB}}
measure: {protocol: "fixed:2x10s", ramp: 100ms, keep_going: true}
`))
	r := s.start(nil, "run", "plan.yaml", "-v", "--calibrate", "no")
	r.said("round 1/2  write  guest")
	export := s.process("qemu-nbd")
	before := ioOf(export, "write_bytes")
	for end := time.Now().Add(time.Minute); ioOf(export, "write_bytes") < before+256<<10; time.Sleep(5 * time.Millisecond) { // only fio writes that much
		if time.Now().After(end) {
			t.Fatalf("fio did not write to the export again: %v", r.wait())
		}
	}
	s.signal("qemu-nbd", syscall.SIGKILL)
	killed := time.Now()
	r.wait().works(t, exitOK, "for write on guest", "a server of a target ended while it was needed", "k IOPS")
	if took := time.Since(killed); took > time.Minute {
		t.Errorf("it went on for %v", took)
	}
	for _, left := range s.gone(r, nil) {
		t.Errorf("left behind: %s", left)
	}
}
