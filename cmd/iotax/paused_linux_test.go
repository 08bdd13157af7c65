package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"iotax"
)

// A trial in which iotax was stopped is discarded and its round runs again, because iotax cannot detect whether fio was
// stopped at the same time. A stopped fio alone is not a pause (TestFindsStall).
func TestPausedInATrial(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name       string
		iotax, fio bool
	}{{"iotax and fio", true, true}, {"iotax alone", true, false}, {"fio alone", false, true}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			r := s.start(nil, "run", "--calibrate=no", "dir:a", "dir:b", "-w", "randread-4k", "--size", "8MiB", "--ramp", "0s", "--protocol", "fixed:1x1s")
			pids := r.awaitFio()
			time.Sleep(300 * time.Millisecond)
			both := func(iotax, fio syscall.Signal) {
				if c.iotax {
					r.send(iotax)
				}
				if c.fio {
					s.signalAll(pids, fio)
				}
			}
			both(syscall.SIGSTOP, syscall.SIGSTOP)
			time.Sleep(2 * time.Second)
			both(syscall.SIGCONT, syscall.SIGCONT)
			if got := r.wait(); got.code != 0 && got.code != 4 {
				t.Fatal(got)
			}
			_, trials := s.trials()
			var discarded []*iotax.Trial
			for _, x := range trials {
				if strings.HasPrefix(x.Discarded, "host-paused: in the trial iotax did not run for ") {
					discarded = append(discarded, x)
				}
			}
			report := s.iotax("report", "--details").stdout
			if !c.iotax {
				if len(trials) != 2 || len(discarded) > 0 || strings.Contains(report, "host-paused") {
					t.Errorf("%d trials, %d discarded\n%s", len(trials), len(discarded), report)
				}
				return
			}
			if len(trials) != 4 || len(discarded) != 1 || discarded[0] != trials[0] {
				t.Fatalf("%d trials, %d discarded; want the first of four", len(trials), len(discarded))
			}
			i := slices.IndexFunc(discarded[0].Values, func(v iotax.Value) bool { return v.Name == "paused" })
			if i < 0 || discarded[0].Values[i].Value < 1.5 || discarded[0].Values[i].Value > 3 {
				t.Errorf("paused for %+v, want 2 s", discarded[0].Values)
			}
			if !strings.Contains(report, "host-paused") || !strings.Contains(report, "iotax did not run for ") {
				t.Errorf("the report does not say it: %s", report)
			}
		})
	}
}

// A run reports another run that measures on this host at the same time, even if that run uses another store.
func TestAnnouncesOtherRun(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	first := s.start(nil, "run", "--calibrate=no", "dir:a", "dir:b", "-w", "randread-4k", "--size", "8MiB", "--ramp", "0s", "--protocol", "fixed:60x1s")
	first.awaitFio()
	second := s.iotax("run", "--store", "other.db", "--calibrate=no", "dir:a", "dir:b", "-w", "randread-4k", "--size", "8MiB", "--ramp", "0s", "--protocol", "fixed:1x1s")
	if want := fmt.Sprintf(" (process %d) is measured on this host at the same time", first.cmd.Process.Pid); !strings.Contains(second.stderr, want) {
		t.Errorf("no %q: %v", want, second)
	}
	first.send(os.Interrupt)
	if r := first.wait(); strings.Contains(r.stderr, "at the same time") || !strings.Contains(r.stderr, "takes about ") {
		t.Errorf("the first run: %v", r)
	}
}
