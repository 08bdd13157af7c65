package calibrate

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"iotax"
)

// A Setup identifies the hardware and software that a calibration is valid for.
type Setup struct {
	Facts map[string]string `json:"facts"`
}

// Facts of the host and of the baseline's place that identify a setup.
var (
	hostFacts  = []string{"hostname", "kernel", "arch", iotax.FactCPUModel, iotax.FactCPUCount, iotax.FactCPULimit, iotax.FactCPUGovernor, "hypervisor", "memory"}
	placeFacts = []string{iotax.FactDeviceName, iotax.FactDeviceModel, "filesystem", iotax.FactFilesystemSource, iotax.FactFilesystemOptions, iotax.FactQueueScheduler,
		"fio", "accel", "qemu", "kernel", iotax.FactMachineHostname, iotax.FactMachineKernel, iotax.FactMachineCPUModel, "machine.cpu.count"}
)

// SetupOf returns the setup of the baseline of r. Call it after the workloads have been checked on the baseline,
// because these checks add facts.
func SetupOf(r *iotax.Run) Setup {
	facts := map[string]string{}
	add := func(prefix string, from map[string]string, keys []string) {
		for _, k := range keys {
			if v := from[k]; v != "" {
				facts[prefix+k] = v
			}
		}
	}
	add("", r.Environment, hostFacts)
	for _, t := range r.Targets {
		if t.Name == r.Baseline {
			add("place.", t.Facts, placeFacts)
			facts["machine"] = t.Machine
			if t.Machine != "host" {
				// The labels contain the settings of a guest's disk. The facts "device.*" contain them, too, but with
				// names of temporary files.
				for k, v := range t.Labels {
					facts["label."+k] = v
				}
			}
		}
	}
	return Setup{facts}
}

// Key returns a short key that is equal for equal setups.
func (r Setup) Key() string {
	h := sha256.New()
	for _, k := range slices.Sorted(maps.Keys(r.Facts)) {
		fmt.Fprintf(h, "%q=%q\n", k, r.Facts[k])
	}
	return fmt.Sprintf("%x", h.Sum(nil)[:8])
}

// A Cache stores calibrations as files in a directory, one for each setup.
type Cache struct{ Dir string }

// An entry is the content of a cache file. Of the facts in Setup, iotax reads only machine and hostname.
type entry struct {
	Version     int               `json:"version"`
	Setup       map[string]string `json:"setup"`
	Calibration iotax.Calibration `json:"calibration"`
}

const entryVersion = 1

// Path returns the path of the calibration file of a setup.
func (c Cache) Path(r Setup) string { return filepath.Join(c.Dir, r.Key()+".json") }

// Get returns the calibration of r, and false if the cache has none that is valid at time now. An unreadable file
// counts as missing.
func (c Cache) Get(r Setup, now time.Time) (*iotax.Calibration, bool) {
	e, ok := read(c.Path(r), now)
	return &e.Calibration, ok
}

// `here` reports whether the cache has a calibration of a place on this host that is valid at time now. If full is
// true, brief calibrations do not count.
func (c Cache) here(full bool, now time.Time) bool {
	name, _ := os.Hostname()
	files, _ := os.ReadDir(c.Dir)
	return slices.ContainsFunc(files, func(f os.DirEntry) bool {
		e, ok := read(filepath.Join(c.Dir, f.Name()), now)
		return ok && e.Setup["machine"] == "host" && e.Setup["hostname"] == name && !(full && e.Calibration.Brief)
	})
}

// read returns the entry in a file. It returns false if the file cannot be read or the entry is not valid at time now.
func read(file string, now time.Time) (e entry, ok bool) {
	text, err := iotax.ReadFile(file, iotax.MaxOutput)
	if err != nil || json.Unmarshal(text, &e) != nil || e.Version != entryVersion {
		return e, false
	}
	age := now.Sub(e.Calibration.At)
	return e, e.Calibration.Rounds >= 1 && age >= -time.Hour && age <= MaxAge
}

// Put saves the calibration of r.
func (c Cache) Put(r Setup, cal *iotax.Calibration) error {
	fail := func(err error) error {
		hint := ""
		if errors.Is(err, fs.ErrPermission) || strings.Contains(err.Error(), "read-only") {
			hint = "set XDG_CACHE_HOME to a directory that can be written"
		}
		return &iotax.Error{Op: "keep calibration", On: c.Path(r), Err: err, Hint: hint}
	}
	text, err := json.MarshalIndent(entry{entryVersion, r.Facts, *cal}, "", "  ")
	if err != nil {
		return fail(err)
	}
	if err := os.MkdirAll(c.Dir, 0o700); err != nil {
		return fail(err)
	}
	err = iotax.WriteWhole(c.Path(r), 0o600, func(w io.Writer) error { // replace the file atomically, because another run may read it at the same time
		_, err := w.Write(append(text, '\n'))
		return err
	})
	if err != nil {
		return fail(err)
	}
	return nil
}
