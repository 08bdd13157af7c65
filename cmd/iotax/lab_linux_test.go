package main

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"iotax/internal/testenv/long"
)

// A user's session with iotax lab: two nodes come up, run commands, and are removed with their processes and files.
func TestLabCommand(t *testing.T) {
	long.Test(t)
	needsRoot(t)
	s := newStage(t)
	const name = "tcli"
	dir := s.mkdir("lab")
	lab := func(args ...string) result { return s.iotax(append([]string{"lab", "--name", name}, args...)...) }
	traces := func() (found []string) {
		for _, pattern := range []string{"/run/netns/iotax-" + name + "-*", "/run/iotax-lab/" + name + ".json", dir + "/*"} {
			at, err := filepath.Glob(pattern)
			if err != nil {
				t.Fatal(err)
			}
			found = append(found, at...)
		}
		return found
	}
	links := func() string { // names only, because the state of other links may change
		found, err := net.Interfaces()
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, i := range found {
			names = append(names, i.Name)
		}
		return strings.Join(names, "\n")
	}
	t.Cleanup(func() { lab("down") })
	before := links()

	// Before the lab is up, commands that need it fail with a hint, and wrong flags make nothing.
	lab("status").refuses(t, 1, "find lab "+name+": it is not up", "hint: iotax lab up --name "+name)
	lab("exec", "node01", "--", "true").refuses(t, 1, "find lab "+name+": it is not up", "hint: iotax lab up --name "+name)
	for _, c := range [][]string{{"up", "--rate", "fast"}, {"up", "--nodes", "0"}, {"up", "--size", "much"}, {"up", "--nodes", "100"}, {"exec", "node01"}} {
		if r := lab(c...); r.code == 0 || r.code == 1 && !slices.Contains(c, "100") || len(traces()) > 0 {
			t.Errorf("%v, and it made %q", r, traces())
		}
	}
	t.Run("not root", func(t *testing.T) {
		if _, err := exec.LookPath("setpriv"); err != nil {
			t.Fatal("setpriv is not there: apt install util-linux")
		}
		// Copy the program to a directory that other users can read: the test runs it as uid 65534.
		there, err := os.MkdirTemp("/tmp", "iotax-nobody-")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(there)
		program, err := exec.LookPath("iotax")
		if err == nil {
			var b []byte
			if b, err = os.ReadFile(program); err == nil {
				err = os.WriteFile(there+"/iotax", b, 0o755)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(there, 0o755); err != nil {
			t.Fatal(err)
		}
		for _, args := range [][]string{{"up"}, {"down"}} {
			c := exec.Command("setpriv", append([]string{"--reuid=65534", "--regid=65534", "--clear-groups", there + "/iotax", "lab", "--name", name}, args...)...)
			c.Dir, c.Env = "/", []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "NO_COLOR=1"}
			out, err := c.CombinedOutput()
			if err == nil || c.ProcessState.ExitCode() != 1 || !strings.Contains(string(out), "network namespaces need root") || !strings.Contains(string(out), "hint: sudo iotax") || len(traces()) > 0 {
				t.Errorf("%s as another user: %v, %s, and it made %q", args, err, out, traces())
			}
		}
	})

	up := []string{"up", "--nodes", "2", "--rate", "80mbit", "--dir", dir}
	home := dir + "/iotax-lab-" + name
	lab(up...).works(t, 0, "lab "+name+": 2 nodes, links of 80mbit each way", "node01  10.77.0.1  "+home+"/node01", "node02  10.77.0.2  ")
	if after := links(); after != before {
		t.Errorf("this machine's own links were\n%sand are\n%s", before, after)
	}

	// exec passes on the input, output and exit status of the command.
	there := func(in, node string, args ...string) (stdout, stderr string, code int) {
		t.Helper()
		c := exec.Command("iotax", append([]string{"lab", "exec", "--name", name, node, "--"}, args...)...)
		var out, errs strings.Builder
		c.Stdin, c.Stdout, c.Stderr, c.Dir = strings.NewReader(in), &out, &errs, s.dir
		c.Env = append(os.Environ(), "HOME="+s.env["HOME"], "XDG_STATE_HOME="+s.env["XDG_STATE_HOME"], "NO_COLOR=1")
		_ = c.Run()
		return out.String(), errs.String(), c.ProcessState.ExitCode()
	}
	if out, errs, code := there("two\nwords", "node01", "sh", "-c", `cat; echo "$0" "$1" >&2; exit 7`, "-a b", "--c"); out != "two\nwords" || errs != "-a b --c\n" || code != 7 {
		t.Errorf("%q, %q, exit %d", out, errs, code)
	}
	if out, errs, code := there("", "node02", "sh", "-c", "pwd; ip -4 -o addr show eth0; touch mine"); code != 0 || !strings.HasPrefix(out, home+"/node02\n") || !strings.Contains(out, " 10.77.0.2/24 ") {
		t.Errorf("%q, %q, exit %d", out, errs, code)
	}
	if _, errs, code := there("", "node01", "no-such-program"); code == 0 || !strings.Contains(errs, "no-such-program") {
		t.Errorf("%q, exit %d", errs, code)
	}
	if _, errs, code := there("", "node03", "true"); code != exitUsage || !strings.Contains(errs, "lab "+name+" has no such node") || !strings.Contains(errs, "its nodes are node01, node02") {
		t.Errorf("%q, exit %d", errs, code)
	}

	// In both directions, traffic reaches 85 to 105 % of the configured rate. A busy machine may need several tries.
	server := s.start(nil, "lab", "--name", name, "exec", "node02", "--", "iperf3", "--server", "--bind", "10.77.0.2")
	t.Cleanup(func() { lab("down") }) // removes the lab before another cleanup waits for the server to end
	for _, way := range []string{"there", "back"} {
		args := []string{"iperf3", "--client", "10.77.0.2", "--json", "--connect-timeout", "5000", "--time", "2", "--omit", "1"} // --omit skips the initial burst
		if way == "back" {
			args = append(args, "--reverse")
		}
		var share float64
		var said string
		for end := time.Now().Add(4 * time.Minute); share < .85 && time.Now().Before(end); {
			out, errs, code := there("", "node01", args...)
			var r struct {
				End struct {
					Received struct {
						Bits float64 `json:"bits_per_second"`
					} `json:"sum_received"`
				}
			}
			said = out + errs
			if err := json.Unmarshal([]byte(out), &r); err != nil || code != 0 {
				time.Sleep(50 * time.Millisecond) // the server does not listen yet
				continue
			}
			if share = r.End.Received.Bits / 80e6; share > 1.05 {
				break
			}
		}
		if share < .85 || share > 1.05 {
			t.Errorf("%s: %.3f of the rate came over: %s", way, share, said)
		}
	}

	// A second `up` keeps the lab with its files and processes. iotax refuses an `up` with another configuration.
	var st []struct {
		Name, Rate, Dir, Broken string
		Nodes                   []struct {
			Name, Address, Dir string
			Processes          []int
		}
	}
	s.parse(lab(append(up, "--json")...), &st)
	if _, err := os.Stat(home + "/node02/mine"); err != nil || len(st) != 1 || st[0].Name != name || st[0].Rate != "80mbit" || st[0].Broken != "" || len(st[0].Nodes) != 2 ||
		st[0].Nodes[0].Address != "10.77.0.1" || st[0].Nodes[1].Dir != home+"/node02" || len(st[0].Nodes[0].Processes) != 0 || len(st[0].Nodes[1].Processes) != 1 {
		t.Errorf("up again: %v, %+v", err, st)
	}
	lab("status").works(t, 0, "lab "+name+": 2 nodes", "1 process")
	s.iotax("lab", "status").works(t, 0, "lab "+name+": 2 nodes")
	lab("up", "--nodes", "2", "--rate", "1gbit", "--dir", dir).refuses(t, 1, "it is up with 2 nodes, rate 80mbit", "hint: iotax lab down --name "+name)
	if out, err := exec.Command("ip", "netns", "del", "iotax-"+name+"-node01").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	lab("status").works(t, 0, "broken: namespace iotax-"+name+"-node01", "hint: iotax lab down --name "+name)

	lab("down").works(t, 0)
	if r := server.wait(); r.code == 0 {
		t.Errorf("what ran on a node ended by itself: %v", r)
	}
	lab("down").works(t, 0)
	if found := traces(); len(found) > 0 {
		t.Errorf("left behind: %q", found)
	}
	if after := links(); after != before {
		t.Errorf("this machine's own links were\n%sand are\n%s", before, after)
	}
	lab("status").refuses(t, 1, "it is not up")
	if found := s.processes("iperf3"); len(found) > 0 {
		t.Error(fmt.Sprint("still runs: ", found))
	}
}
