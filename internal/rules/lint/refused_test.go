package lint

import (
	"os/exec"
	"strings"
	"testing"
)

// TestRefusedTogether checks that fio rejects a job if and only if lint has a finding of options-refused. It uses an
// engine that does not access files.
func TestRefusedTogether(t *testing.T) {
	if _, err := exec.LookPath("fio"); err != nil {
		t.Skip("needs fio")
	}
	for _, options := range []string{
		"--bs=4m --size=1m", "--bs=4m,4k --size=1m", "--size=1k", "--bs=1m,2m,4m --size=1m", "--size=1m --rate=1g --rate_iops=100000", "--size=1m --rate=1g --rate_iops=0",
		"--size=1m --zonemode=none --zonesize=64k", "--size=1m --zonemode=strided", "--size=1m --zonemode=strided --zonesize=64k",
		"--readonly --size=1m --rw=write", "--readonly --size=1m --rw=read", "--readonly --size=1m --rw=randtrim",
	} {
		command := "fio --name=a --ioengine=null " + options
		cmd := exec.Command("fio", strings.Fields(command)[1:]...)
		cmd.Dir = t.TempDir()
		out, err := cmd.CombinedOutput()
		fs, lintErr := Commands("command", command, nil, Facts{})
		if found := len(about(fs, "options-refused")) > 0; lintErr != nil || found != (err != nil) {
			t.Errorf("%s: found %v, but fio ends with %v (%v): %s", options, found, err, lintErr, out)
		}
	}
}
