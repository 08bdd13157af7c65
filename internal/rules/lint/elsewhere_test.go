package lint

import (
	"strings"
	"testing"

	"iotax"
)

// A job for another system, or for another fio than this machine's, is not judged by the facts of this machine.
func TestFactsOfAnotherMachine(t *testing.T) {
	facts := Facts{Memory: 64 << 30, OS: "linux", Version: "fio-3.33", Options: []string{"rw"}, Engines: []string{"psync", "libaio"}}
	for _, command := range []string{
		`fio.exe --name=a --rw=read --size=1g --loops=3 --directory='C\:\x'`,
		`fio --name=a --rw=read --size=1g --loops=3 --filename='\\.\PhysicalDrive1'`,
		"fio --name=a --ioengine=windowsaio --rw=read --size=1g --loops=3",
		"fio --client=host --name=a --ioengine=io_uring --rw=read --size=1g --loops=3",
	} {
		fs, err := Commands("command", command, nil, facts)
		if err != nil || len(about(fs, "file-fits-memory")) != 1 {
			t.Errorf("%s: %+v, %v", command, fs, err)
		}
		for _, f := range fs {
			if strings.Contains(f.Evidence, "and the machine has") || f.Severity == iotax.Invalid {
				t.Errorf("%s: %s", command, f.Evidence)
			}
		}
	}
	// --memory describes the machine that runs the job.
	fs, _ := Commands("command", "fio.exe --name=a --rw=read --size=1g --loops=3", nil, Facts{Memory: 64 << 30})
	if fits := about(fs, "file-fits-memory"); len(fits) != 1 || !strings.Contains(fits[0].Evidence, "the machine has 64 GiB") {
		t.Errorf("%+v", fits)
	}
	for command, judged := range map[string]bool{
		"fio --name=a --size=1g --ioengine=spdk":                      true,
		"/usr/bin/fio --name=a --size=1g --ioengine=spdk":             true,
		"./fio --name=a --size=1g --ioengine=spdk":                    false,
		"LD_PRELOAD=/opt/spdk_nvme fio --name=a --ioengine=spdk":      false,
		"sudo LD_PRELOAD=/opt/spdk_nvme fio --name=a --ioengine=spdk": false,
		"fio --name=a --size=1g --ioengine=libiscsi":                  true,
		"/opt/fio-3.40/fio --name=a --size=1g --ioengine=libiscsi":    false,
	} {
		fs, err := Commands("command", command, nil, facts)
		if bad := about(fs, "bad-value"); err != nil || (len(bad) == 1 && bad[0].Severity != iotax.Info) != judged {
			t.Errorf("%s: %+v, %v", command, bad, err)
		}
	}
}
