package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"iotax"
	"iotax/internal/guest"
	"iotax/internal/lab"
	"iotax/internal/suite"
)

// The suite "cluster" runs on machines over SSH. Its plan is unchanged except for the machines and one additional
// target: a guest on a node without QEMU. Only this target is left out. Each node of a lab has an sshd, and iotax runs
// on one of the nodes. It copies itself, fio and the guest's kernel to the nodes that lack them.
func TestClusterOverSSH(t *testing.T) {
	repeats(t, "TestClusterSuite")
	needsRoot(t)
	s := newStage(t)
	l, err := lab.Up(t.Context(), lab.Config{Name: "tssh", Rate: 384e6, Dir: s.mkdir("lab")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := lab.Down(context.WithoutCancel(t.Context()), l.Name); err != nil {
			t.Error(err)
		}
	})
	if err := os.MkdirAll("/run/sshd", 0o755); err != nil {
		t.Fatal(err)
	}
	bin, err := filepath.Abs("../../bin")
	if err != nil {
		t.Fatal(err)
	}
	dir := s.mkdir("sshd")
	host := s.newKey("sshd/host")
	s.write("sshd/authorized", s.newKey("sshd/user"))
	config := s.write("sshd/config", fmt.Sprintf("Port 22\nHostKey %[1]s/host\nAuthorizedKeysFile %[1]s/authorized\nPidFile none\nUsePAM no\nStrictModes no\nPasswordAuthentication no\nMaxStartups 100\nSetEnv SHLVL=1 PATH=%[2]s XDG_CACHE_HOME=%[3]s\n",
		dir, os.Getenv("PATH")+":"+bin, s.mkdir("remote-cache")))
	sshd, err := exec.LookPath("/usr/sbin/sshd")
	if err != nil {
		t.Fatal(err)
	}
	// No node can fetch a kernel, so prepare one in this machine's cache.
	if _, err := guest.HaveKernel(t.Context(), iotax.CacheDir(), "", t.Logf); err != nil {
		t.Fatal(err)
	}
	lacks := map[string]string{"node04": "fio", "node05": "qemu-system-x86_64"}
	if runtime.GOARCH == "arm64" {
		lacks["node05"] = "qemu-system-aarch64"
	}
	const hide = `mount -t tmpfs tmpfs /boot || exit; if [ -n "$1" ]; then mount --bind /dev/null "$(readlink -f "$(command -v "$1")")" || exit; fi; shift; exec "$@"`
	var known strings.Builder
	for _, n := range l.Nodes {
		args, err := lab.Enter(n, []string{"unshare", "--mount", "sh", "-c", hide, "sh", lacks[n.Name], sshd, "-D", "-E", dir + "/log-" + n.Name, "-f", config})
		if err != nil {
			t.Fatal(err)
		}
		c := exec.Command(args[0], args[1:]...)
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Process.Kill(); c.Wait() })
		for end := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
			b, _ := os.ReadFile(dir + "/log-" + n.Name)
			if strings.Contains(string(b), "Server listening") {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("sshd on %s: %s", n.Name, b)
			}
		}
		fmt.Fprintf(&known, "%s %s\n", n.Address, host)
	}
	s.write("known", known.String())
	s.sshConfig("\tUser root\n\tIdentityFile " + dir + "/user\n")

	// Build the real program, which iotax copies to the other machines.
	iotax := s.path("iotax")
	if out, err := exec.Command("go", "build", "-buildvcs=false", "-o", iotax, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	text, ok := suite.Source("cluster")
	if !ok {
		t.Fatal("there is no suite cluster")
	}
	plan := regexp.MustCompile(`(?m)^  (node0(\d)): \{node: node0\d\}$`).ReplaceAllString(string(text), "  $1: {ssh: {host: 10.77.0.$2}}")
	if strings.Count(plan, "{ssh: {host: 10.77.") < 4 || strings.Contains(plan, "{node: node") {
		t.Fatalf("the suite's machines are written in another way:\n%s", plan)
	}
	const at = "  new guest: {on: node04, qemu: {memory: 512MiB, fresh: true}}\n"
	if !strings.Contains(plan, at) {
		t.Fatalf("the suite's guest is written in another way:\n%s", plan)
	}
	plan = strings.Replace(plan, at, at+"  no guest: {on: node05, qemu: {memory: 512MiB}}\n", 1)
	s.write("plan.yaml", strings.Replace(plan, "\ntargets:\n", "\ntargets:\n  no guest: {on: no guest, dir: /tmp}\n", 1))
	args, err := lab.Enter(l.Nodes[4], []string{iotax, "run", "plan.yaml", "--scale", "0.1", "--protocol", "fixed:1x1s", "--calibrate", "no", "--details"})
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), args[0], args[1:]...)
	c.Dir = s.dir
	c.Env = os.Environ()
	for k, v := range s.env {
		c.Env = append(c.Env, k+"="+v)
	}
	out, err := c.CombinedOutput()
	report := string(out)
	for _, want := range []string{"copying the agent to ssh://10.77.0.4", "network bandwidth", "sequential read bandwidth", "materialize duration", "materialize lazily first io",
		"32 objects of 4 MiB upload bandwidth", "image import duration", "image second duration", "of tcp node04 to node01",
		"multipart part=16MiB concurrency=8 upload bandwidth", "s3 on three nodes", "depth-32 write bandwidth",
		"copying fio to ssh://10.77.0.4", "for guests to ssh://10.77.0.4", "guest 4k random read IOPS", "guest root read bandwidth", "boot plugged",
		"no guest could not be opened: ", lacks["node05"], "apt install qemu-system-"} {
		if !strings.Contains(report, want) {
			t.Errorf("it does not say %q", want)
		}
	}
	for _, bad := range []string{"could not be opened", "left out", "left-behind", "has no result", "no value", "fetching"} {
		if n := strings.Count(report, bad); n > 0 && (n > 1 || bad != "could not be opened") {
			t.Errorf("it says %q", bad)
		}
	}
	if c.ProcessState.ExitCode() != exitOK {
		t.Errorf("it ends with %v", err)
	}
	if t.Failed() {
		t.Log(report)
	}
	// At the end, only sshd runs on the nodes, as soon as the watchdogs of the connections have ended.
	others := func() (found []string) {
		for node, pids := range lab.Processes(l) {
			for _, pid := range pids {
				if b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)); len(b) > 0 && !strings.HasPrefix(string(b), "sshd") {
					found = append(found, node+": "+strings.TrimSpace(string(b)))
				}
			}
		}
		return found
	}
	for end := time.Now().Add(4 * time.Minute); len(others()) > 0; time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("still on the nodes: %q", others())
		}
	}
}
