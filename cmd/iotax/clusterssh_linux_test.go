package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"iotax/lab"
	"iotax/suite"
)

// The suite cluster on machines that are reached over SSH, with nothing changed but the lines below machines: nodes
// of a lab with an sshd in each, and iotax on one of them, as an operator would have it. The program for the work at S3
// is brought there.
func TestClusterOverSSH(t *testing.T) {
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
	var known strings.Builder
	for _, n := range l.Nodes {
		args, err := lab.Enter(n, []string{sshd, "-D", "-E", dir + "/log-" + n.Name, "-f", config})
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
	s.mkdir("home/.ssh")
	s.write("known", known.String())
	s.write("home/.ssh/config", "Host *\n\tUser root\n\tIdentityFile "+dir+"/user\n\tIdentitiesOnly yes\n\tGlobalKnownHostsFile /dev/null\n\tUserKnownHostsFile "+s.path("known")+"\n")

	// The program as it is shipped: what is brought over runs under another name.
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
	s.write("plan.yaml", plan)
	args, err := lab.Enter(l.Nodes[4], []string{iotax, "run", "plan.yaml", "--scale", "0.1", "--protocol", "fixed:1x1s", "--calibrate", "no",
		"-w", "network,sequential read,materialize,materialize lazily,32 objects of 4 MiB,image"})
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
	for _, want := range []string{"copying iotax to ssh://10.77.0.4", "network bandwidth", "sequential read bandwidth", "materialize duration", "materialize lazily first io",
		"32 objects of 4 MiB upload bandwidth", "image import duration", "image second duration", "of tcp node04 to node01"} {
		if !strings.Contains(report, want) {
			t.Errorf("it does not say %q", want)
		}
	}
	for _, bad := range []string{"could not be opened", "left out", "left-behind", "has no result", "no value"} {
		if strings.Contains(report, bad) {
			t.Errorf("it says %q", bad)
		}
	}
	if t.Failed() || err != nil {
		t.Errorf("%v\n%s", err, report)
	}
	// Only sshd runs on the nodes in the end: what watches a connection over there goes a moment after that.
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
	for end := time.Now().Add(time.Minute); len(others()) > 0; time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("still on the nodes: %q", others())
		}
	}
}
