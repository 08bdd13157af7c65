package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Before it opens a target, run lists all programs that this host lacks for a suite, with a command that installs them.
// doctor lists them, too.
func TestLacks(t *testing.T) {
	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "apt-get"), []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin)
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("XDG_STATE_HOME", home)
	t.Setenv("TMPDIR", home)
	t.Setenv("DOCKER_HOST", "unix://"+filepath.Join(home, "no.sock"))
	write := func(name, target string) string {
		path := filepath.Join(home, name)
		text := "machines: {box: {docker: {image: x}}}\ntargets: {a: {" + target + "}}\nworkloads: {w: {command: 'true'}}\n"
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	here, inContainer := write("here.yaml", "dir: /var/tmp"), write("container.yaml", "on: box, dir: /var/tmp")
	for _, c := range []struct {
		args []string
		code int
		want []string
	}{
		{[]string{"run", "quick", "--store", filepath.Join(home, "db")}, exitError, []string{"run quick: this host lacks fio, qemu-system-", "hint: apt-get install fio qemu-system-"}},
		{[]string{"doctor", "cluster"}, exitError, []string{"lacks fio, iperf3, nbdcopy, ", "qemu-storage-daemon, ", "apt-get install fio ", "iperf3 libnbd-bin qemu-", "go install github.com/versity/versitygw/cmd/versitygw@"}},
		{[]string{"doctor", here}, exitOK, nil},
		{[]string{"doctor", inContainer}, exitError, []string{"missing docker"}},
		{[]string{"doctor", inContainer, "--json"}, exitError, []string{`"name": "docker", "status": "missing"`}},
		{[]string{"doctor", "no-such-suite"}, exitUsage, []string{"no-such-suite"}},
	} {
		var out, stderr bytes.Buffer
		code := Main(t.Context(), c.args, strings.NewReader(""), &out, &stderr)
		text := strings.Join(strings.Fields(out.String()+stderr.String()), " ")
		if code != c.code {
			t.Errorf("%v: exit status %d", c.args, code)
		}
		for _, w := range c.want {
			if !strings.Contains(text, w) {
				t.Errorf("%v: no %q in %s", c.args, w, text)
			}
		}
		if strings.Contains(text, "opening") {
			t.Errorf("%v opened a target: %s", c.args, text)
		}
	}
}
