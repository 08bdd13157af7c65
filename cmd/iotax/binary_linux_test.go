package main

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"iotax/internal/machine/qemu"
	"iotax/internal/testenv/long"
)

// wrapper writes a script that records its name and process id, unless called with --version, and then runs the
// program. It returns the script's path and hash.
func (s *stage) wrapper(name, program string) (path, hash string) {
	s.t.Helper()
	text := fmt.Sprintf("#!/bin/sh\n[ \"$1\" = --version ] || echo %s $$ >>%s\nexec %s \"$@\"\n", name, s.path("started"), program)
	path = s.write(name, text)
	if err := os.Chmod(path, 0o700); err != nil {
		s.t.Fatal(err)
	}
	return path, fmt.Sprintf("%x", sha256.Sum256([]byte(text)))
}

// Two binaries of QEMU and two of fio alternate in one run. iotax starts the programs that the `binary` keys name, and
// records their versions and hashes as facts.
func TestBinaries(t *testing.T) {
	long.Test(t)
	t.Parallel()
	s := newStage(t)
	daemon, err := qemu.FindVirtiofsd(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	find := func(name string) string {
		path, err := exec.LookPath(name)
		if err != nil {
			t.Fatal(err)
		}
		return path
	}
	hashes := map[string]string{}
	for name, program := range map[string]string{"qemu-a": find(qemu.Binary()), "qemu-b": find(qemu.Binary()), "daemon": daemon.Path, "nbd": find("qemu-nbd"), "fio-a": find("fio"), "fio-b": find("fio")} {
		_, hashes[name] = s.wrapper(name, program)
	}
	s.write("binaries.yaml", fmt.Sprintf(`
baseline: host fio=%[1]s/fio-a
machines: {guest: {qemu: {memory: 512MiB, binary: [./qemu-a, ./qemu-b]}}}
targets:
  host: {dir: a, labels: {fio: [%[1]s/fio-a, %[1]s/fio-b]}}
  share: {on: guest, share: {of: host fio=%[1]s/fio-a, binary: ./daemon}, labels: {fio: fio}}
  export: {nbd: {binary: %[1]s/nbd, size: 16MiB, path: b}, labels: {fio: fio}}
workloads: {read: {fio: {rw: randread, bs: 4k, size: 8MiB, binary: "{fio}"}}}
measure: {trial: 300ms, ramp: 50ms, rounds: 1, cold: false}
`, s.dir))
	s.iotax("run", "binaries.yaml", "-q", "--calibrate=no").works(t, exitOK)
	run, trials := s.trials()
	for _, trial := range trials {
		if trial.Err != "" {
			t.Errorf("%s: %s", trial.Target, trial.Err)
		}
	}
	if len(trials) != 5 {
		t.Errorf("%d trials", len(trials))
	}
	want := map[string]map[string]string{ // by target
		"host fio=" + s.path("fio-a"): {"fio.sha256": hashes["fio-a"], "fio.path": s.path("fio-a")},
		"host fio=" + s.path("fio-b"): {"fio.sha256": hashes["fio-b"]},
		"share binary=./qemu-a":       {"qemu.sha256": hashes["qemu-a"], "qemu.path": s.path("qemu-a"), "virtiofsd.sha256": hashes["daemon"], "virtiofsd": daemon.String()},
		"share binary=./qemu-b":       {"qemu.sha256": hashes["qemu-b"], "virtiofsd.path": s.path("daemon")},
		"export":                      {"nbd.sha256": hashes["nbd"], "nbd.path": s.path("nbd")},
	}
	for _, info := range run.Targets {
		if file := info.Facts["kernel.file"]; strings.HasPrefix(info.Name, "share") {
			if text, err := os.ReadFile(file); err != nil || info.Facts["kernel.sha256"] != fmt.Sprintf("%x", sha256.Sum256(text)) {
				t.Errorf("%s: kernel %s has hash %q (%v)", info.Name, file, info.Facts["kernel.sha256"], err)
			}
		}
		for key, value := range want[info.Name] {
			if info.Facts[key] != value {
				t.Errorf("%s: %s is %q, want %q", info.Name, key, info.Facts[key], value)
			}
		}
		if strings.HasPrefix(info.Name, "share") && info.Facts["qemu"] == "" || info.Name == "export" && !strings.Contains(info.Facts["nbd.version"], "qemu-nbd ") || info.Facts["fio"] == "" {
			t.Errorf("%s has no version: %v", info.Name, info.Facts)
		}
		delete(want, info.Name)
	}
	if len(want) > 0 {
		t.Errorf("targets are missing: %v", want)
	}
	started, err := os.ReadFile(s.path("started"))
	if err != nil {
		t.Fatal(err)
	}
	for name := range hashes {
		if !strings.Contains(string(started), name+" ") {
			t.Errorf("%s was not started: %s", name, started)
		}
	}
}

// iotax refuses a binary that does not exist or is a different program, and a binary for a share that has no daemon.
func TestBinaryRefused(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	const plan = `
machines: {guest: {qemu: {memory: 512MiB%s}}}
targets:
  host: {dir: a}
  share: {on: guest, share: {of: host%s}}
workloads: {read: {fio: {rw: randread, bs: 4k, size: 8MiB%s}}}
`
	for want, keys := range map[string][3]string{
		"this host lacks " + s.path("no-qemu"):           {", binary: ./no-qemu", "", ""},
		"this host lacks " + s.path("no-daemon"):         {"", ", binary: ./no-daemon", ""},
		"9p has no daemon":                               {"", ", type: 9p, binary: ./no-daemon", ""},
		"this host lacks no-fio":                         {"", "", ", binary: no-fio"},
		"identify fio on host /bin/true: its version is": {"", "", ", binary: /bin/true"},
	} {
		s.write("plan.yaml", fmt.Sprintf(plan, keys[0], keys[1], keys[2]))
		if r := s.iotax("run", "plan.yaml", "-q", "--calibrate=no"); r.code == exitOK || !strings.Contains(r.stderr, want) || strings.Contains(r.stderr, "apt-get install "+s.dir) || strings.Contains(r.stderr, "apt install "+s.dir) {
			t.Errorf("status %d, want %q: %s", r.code, want, r.stderr)
		}
	}
}

// Before it measures, iotax refuses an option that the share's virtiofsd lacks.
func TestUnknownOption(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	daemon := s.write("virtiofsd", "#!/bin/sh\ncase $1 in --version) echo virtiofsd 1.0.0;; *) echo --cache;; esac\n")
	if err := os.Chmod(daemon, 0o700); err != nil {
		t.Fatal(err)
	}
	s.write("plan.yaml", guestPlan(1, "", "share: {of: host, type: virtiofs, binary: "+daemon+", writeback: true}"))
	s.iotax("run", "plan.yaml", "--calibrate=no").refuses(t, 1, daemon+": version 1.0.0 (rust) has no option --writeback", "binary:")
}
