package check

import (
	"strings"
	"testing"
	"time"

	"iotax"
)

// A hint omits the settings that the job or the run already has.
func TestHintsAreNotFollowedYet(t *testing.T) {
	served := func(t *iotax.Trial) { set(t, "device.read.bytes", 1); set(t, "machine.device.read.bytes", 1) }
	blocks := func(t *iotax.Trial) {
		set(t, "read.latency.submission.mean", 1e-3)
		set(t, "read.latency.completion.mean", 1e-4)
	}
	busy := func(t *iotax.Trial) { set(t, "cpu.client", 10) }
	late := func(t *iotax.Trial) { set(t, "duration", 10.5) }
	short := func(t *iotax.Trial) { set(t, "duration", 5) }
	engine := func(name string) func(*iotax.Trial, *iotax.Target) {
		return func(t *iotax.Trial, _ *iotax.Target) { t.Facts[iotax.FactIOEngine] = name }
	}
	cache := func(mode string) func(*iotax.Trial, *iotax.Target) {
		return func(_ *iotax.Trial, tgt *iotax.Target) { tgt.Facts = map[string]string{"disk.cache": mode} }
	}
	command := func(text string) func(*iotax.Trial, *iotax.Target) {
		return func(t *iotax.Trial, _ *iotax.Target) { t.Facts[iotax.FactCommand] = text }
	}
	over := func(t *iotax.Trial) { t.Facts[iotax.FactLineRate] = "1000"; t.Cold = false }
	for _, c := range []struct {
		rule, word string
		fault      func(*iotax.Trial)
		done, not  func(*iotax.Trial, *iotax.Target)
	}{
		{"blocking-submit", "io_uring", blocks, engine("io_uring"), engine("libaio")},
		{"generator-bound", "io_uring", busy, engine("io_uring"), engine("libaio")},
		{"cache-served", "cache: none", served, cache("none"), cache("writeback")},
		{"cache-served", "--warm", served, func(t *iotax.Trial, _ *iotax.Target) { t.Cold = false }, cache("none")},
		{"write-absorbed", "fsync", func(t *iotax.Trial) {
			written(t)
			set(t, "device.write.bytes", 1)
			set(t, "machine.device.write.bytes", 1)
		},
			command("fio --end_fsync=1"), command("fio --rw=randwrite")},
		{"line-rate-exceeded", "direct: 1", over, command(""), func(t *iotax.Trial, _ *iotax.Target) { t.Facts[iotax.FactDirect] = "0" }},
		{"write-absorbed", "cache: none", func(t *iotax.Trial) {
			written(t)
			set(t, "device.write.bytes", 1)
			set(t, "machine.device.write.bytes", 1)
		}, cache("directsync"), cache("writeback")},
		{"short-window", "time_based", short, command("fio --time_based"), command("fio")},
		{"short-trial", "--trial", func(t *iotax.Trial) { shrink(t, 0.3) }, func(t *iotax.Trial, _ *iotax.Target) { t.Length = 0 }, command("fio")},
		{"drain-counted", "iodepth", late, func(t *iotax.Trial, _ *iotax.Target) {
			t.Facts[iotax.FactIODepth] = "1"
			set(t, "read.latency.mean", 1/get(t, "read.iops"))
		}, command("fio")},
	} {
		for _, followed := range []bool{true, false} {
			trial, tgt := clean()
			trial.Length = 10 * time.Second
			c.fault(trial)
			if followed {
				c.done(trial, tgt)
			} else {
				c.not(trial, tgt)
			}
			found, discarded := Trial(trial, tgt)
			var hint string
			seen := false
			for _, f := range found {
				if f.Rule == c.rule {
					hint, seen = f.Hint, true
				}
			}
			if !seen || hint == "" && !followed || strings.Contains(hint, c.word) == followed {
				t.Errorf("%s, followed %v: the hint is %q (%v %s)", c.rule, followed, hint, ids(found), discarded)
			}
		}
	}
	for _, r := range []*iotax.Calibration{nil, {}} {
		run, trials := cleanRun()
		run.Calibration = r
		each(trials, "guest", func(t *iotax.Trial) { scale(t, 1-0.02*float64(t.Round)) })
		if found := Run(run, trials); len(found) != 1 || strings.Contains(found[0].Hint, "calibrate") == (r != nil) {
			t.Errorf("calibrated %v: %+v", r != nil, found)
		}
	}
}
