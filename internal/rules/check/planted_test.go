package check

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"iotax/internal/rules"
)

var update = flag.Bool("update", false, "write docs/dev/planted.md")

// plantedElsewhere lists the faults that tests of other packages plant. The tests in cmd/iotax plant them in real
// components (fio, loop devices, guests).
var plantedElsewhere = []struct{ rule, fault, dir, test string }{
	{"clock-insane", "a guest that was told a wrong rate of its time stamp counter, and trusts it", "cmd/iotax", "TestFindsWrongClock"},
	{"cache-served", "direct reads of a loop device whose file is in the page cache, beside the disk itself", "cmd/iotax", "TestFindsCacheServed"},
	{"cache-served", "a guest's disk with `cache: unsafe`, beside one with `cache: none`", "cmd/iotax", "TestFindsTheHostsCache"},
	{"write-absorbed", "writes to a guest's disk with `cache: unsafe`, beside one with `cache: none`", "cmd/iotax", "TestFindsTheHostsCache"},
	{"device-did-less", "buffered reads of such a disk, the host's cache warm", "cmd/iotax", "TestFindsTheHostsCache"},
	{"foreign-io", "a second fio reads from a device that nobody else uses", "cmd/iotax", "TestFindsForeignIO"},
	{"host-paused", "iotax stopped by a signal for 2 s, with fio and alone; fio alone", "cmd/iotax", "TestPausedInATrial"},
	{"stall", "fio stopped by a signal for 2.5 s in one round of two", "cmd/iotax", "TestFindsStall"},
	{"throttle-step", "a disk that the kernel limits to 300 reads a second and halfway to 120; one that stays limited to 200", "cmd/iotax", "TestFindsThrottledDisk"},
	{"warm-up", "a disk whose limit rises for two thirds of the window", "cmd/iotax", "TestFindsThrottledDisk"},
	{"not-steady", "a disk whose limit goes up and down", "cmd/iotax", "TestFindsThrottledDisk"},
	{"generator-bound", "fio's null engine, beside 1000 I/Os a second", "cmd/iotax", "TestFindsGeneratorBound"},
	{"blocking-submit", "libaio on a buffered file, beside direct io_uring", "cmd/iotax", "TestFindsBlockingSubmit"},
	{"durability-differs", "a guest's disk with `cache: unsafe` against the host's disk", "cmd/iotax", "TestFindsTheHostsCache"},
	{"trial-discarded", "a guest whose clock is wrong: its rounds are run again, and counted", "cmd/iotax", "TestFindsWrongClock"},
	{"one-of-many", "24 comparisons, one of which is worse by a little; the same one alone", "internal/report/output", "TestHolmIsTold"},
	{"cpu-bound", "more than half of the null-engine ceiling, for one thread and several, here and elsewhere", "internal/report", "TestCPUBound"},
	{"trial-discarded", "one trial of six that a cache served, and two", "internal/report", "TestOneErrorIsLeftOut"},
	{"too-many-discarded", "two trials of six discarded, on either side", "internal/report", "TestVerdictRules"},
	{"aa-not-one", "an A/A study in which one arm is 5 % faster", "internal/calibrate", "TestArmsThatDiffer"},
	{"not-calibrated", "a place that refuses the A/A study", "internal/run/wired", "TestCalibrationThatFails"},
	{"arrivals-late", "an open loop with a tenth of its sources busy", "internal/workload/fiojob", "TestLoadIsJudged"},
	{"load-not-reached", "an open loop of which 90 % was done", "internal/workload/fiojob", "TestLoadIsJudged"},
	{"http-errors", "a web server that answers one request of four with 503, and one that answers all", "internal/workload", "TestHTTPErrors"},
	{"load-not-reached", "1000 requests a second offered to a server that carries 80, and 20", "internal/workload", "TestHTTPOpenLoop"},
	{"start-dominates", "an empty command on a machine that answers after 50 ms", "internal/workload/command", "TestStartDominates"},
	{"trial-failed", "a place that loses a file, a directory or a byte of an extracted archive", "internal/workload", "TestArchiveThatLosesData"},
	{"no-governor", "CPUs without cpufreq, and with other governors", "internal/probe", "TestGovernorThatIsNotThere"},
	{"clone-not-fast", "a VM manager that copies the second volume too; qemu-img, which makes an overlay", "internal/workload", "TestImage"},
	{"server-died", "an NBD export that is killed; one that is ended", "internal/volume", "TestNBD"},
	{"another-run", "a run of another process that is active during a trial; one that has ended", "internal/run/wired", "TestAnotherRun"},
	{"left-behind", "a share that hangs, a guest that dies", "internal/run", "TestHungShareDoesNotHoldUpTheRest"},
}

func plantedPage() string {
	var b strings.Builder
	b.WriteString(`# Planted faults

Each fault below is planted by a test, next to a clean twin in which the rule must be silent. ` + "`go test ./internal/rules/check -update`" + `
makes this page.

## In real parts

| rule | fault | test |
|---|---|---|
`)
	other := func(real bool) {
		for _, p := range plantedElsewhere {
			if (p.dir == "cmd/iotax") == real {
				fmt.Fprintf(&b, "| [%s](../reference/rules/%s.md) | %s | `%s` `%s` |\n", p.rule, p.rule, p.fault, p.dir, p.test)
			}
		}
	}
	other(true)
	b.WriteString(`
## In readings

The readings of a clean trial (10 s of 4 KiB random reads on a disk of a guest) or run (eight rounds of it and of the host's
disk), changed in one thing. Some faults need hardware that no test has (a neighbour that steals CPU time, a clock that
drifts by half a percent); of the others the edges are tried here.

| rule | fault | test |
|---|---|---|
`)
	row := func(test, rule, name string) {
		fmt.Fprintf(&b, "| [%s](../reference/rules/%s.md) | %s | `check` `%s` |\n", rule, rule, name, test)
	}
	for _, p := range planted {
		row("TestPlanted", p.rule, p.name)
	}
	for _, p := range plantedRuns {
		row("TestPlantedRuns", p.rule, p.name)
	}
	other(false)
	return b.String()
}

func TestPlantedPage(t *testing.T) {
	const file = "../../../docs/dev/planted.md"
	if *update {
		if err := os.WriteFile(file, []byte(plantedPage()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != plantedPage() {
		t.Errorf("docs/dev/planted.md differs from the tests; run go test ./internal/rules/check -update (%v)", err)
	}
	for _, p := range plantedElsewhere {
		if _, ok := rules.Explain(p.rule); !ok {
			t.Errorf("no rule %s", p.rule)
		}
		files, _ := filepath.Glob("../../../" + p.dir + "/*_test.go")
		found := false
		for _, f := range files {
			text, err := os.ReadFile(f)
			found = found || err == nil && strings.Contains(string(text), "\nfunc "+p.test+"(")
		}
		if !found {
			t.Errorf("%s has no test %s", p.dir, p.test)
		}
	}
}

// Every rule about trials or runs has a planted fault.
func TestEveryCheckIsPlanted(t *testing.T) {
	page := plantedPage()
	checks := 0
	for _, r := range rules.All() {
		if r.In&(rules.Trial|rules.Run) == 0 {
			continue
		}
		checks++
		if !strings.Contains(page, "| ["+r.ID+"](") {
			t.Errorf("no test plants %s", r.ID)
		}
	}
	if checks < 20 {
		t.Errorf("%d checks", checks)
	}
}
