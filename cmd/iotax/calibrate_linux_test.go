package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"iotax"
	"iotax/internal/store"
	"iotax/internal/testenv/long"
)

// A long run first calibrates briefly and saves the result, unless the calibration is interrupted.
func TestCalibratesByItself(t *testing.T) {
	long.Test(t)
	s := newStage(t)
	cache := s.mkdir("cache")
	s.env["XDG_CACHE_HOME"] = cache
	long := []string{"run", "dir:" + s.path("a"), "dir:" + s.path("b"), "-w", "randread-4k", "--size", "8MiB", "--trial", "40s", "--rounds", "1"}

	r := s.start(nil, long...)
	r.said("calibrating: ")
	time.Sleep(time.Second)
	r.send(os.Interrupt)
	r.wait().works(t, exitInterrupted, "interrupted before the first trial ended")
	kept := func() []string {
		files, _ := filepath.Glob(cache + "/iotax/calibration/*.json")
		return files
	}
	if k := kept(); len(k) > 0 {
		t.Fatalf("an interrupted calibration was kept: %q", k)
	}

	r = s.start(nil, long...)
	r.said("calibrating: ")
	from := time.Now()
	for len(kept()) == 0 {
		if time.Sleep(20 * time.Millisecond); time.Since(from) > 3*time.Minute {
			t.Fatal("no calibration was kept")
		}
	}
	took := time.Since(from)
	r.send(os.Interrupt)
	r.wait().works(t, exitInterrupted)
	t.Logf("calibrated in %v", took) // about ten seconds on an idle machine
	text, err := os.ReadFile(kept()[0])
	if err != nil || !strings.Contains(string(text), `"brief": true`) || !strings.Contains(string(text), `"null_iops": `) {
		t.Errorf("%v\n%s", err, text)
	}

	// A later run uses the saved calibration.
	short := s.iotax(tiny("run", "--details", "dir:"+s.path("a"), "dir:"+s.path("b"))...)
	short.works(t, exitOK, "Noise floor: A/A ", "6 rounds of 500ms")
	if strings.Contains(short.stderr, "calibrating") {
		t.Error(short)
	}
}

// saved calls f with the store that storeVariable names, and with the newest run in it, with or without trials.
func (s *stage) saved(f func(*store.Store, *iotax.Run)) {
	s.t.Helper()
	db, err := store.Open(s.t.Context(), s.env[storeVariable])
	if err != nil {
		s.t.Fatal(err)
	}
	defer db.Close()
	run, err := db.Get(s.t.Context(), "newest")
	if err != nil {
		s.t.Fatal(err)
	}
	f(db, run)
}
