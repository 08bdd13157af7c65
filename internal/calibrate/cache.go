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

// A Rig identifies the setup of a calibration. If any of its facts changes, another calibration is needed.
type Rig struct {
	Facts map[string]string `json:"facts"`
}

// The facts of the host and of the place that identify a setup.
var (
	hostFacts  = []string{"hostname", "kernel", "arch", iotax.FactCPUModel, iotax.FactCPUCount, iotax.FactCPULimit, iotax.FactCPUGovernor, "hypervisor", "memory"}
	placeFacts = []string{iotax.FactDeviceName, iotax.FactDeviceModel, "filesystem", iotax.FactFilesystemSource, iotax.FactFilesystemOptions, iotax.FactQueueScheduler,
		"fio", "accel", "qemu", "kernel", iotax.FactMachineHostname, iotax.FactMachineKernel, iotax.FactMachineCPUModel, "machine.cpu.count"}
)

// RigOf returns the setup of a run's baseline, from facts that are complete once the workloads were checked there.
func RigOf(r *iotax.Run) Rig {
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
				// The labels have the settings of a guest's disk (cache, bus). Its device line has names of
				// temporary files.
				for k, v := range t.Labels {
					facts["label."+k] = v
				}
			}
		}
	}
	return Rig{facts}
}

// Key returns a short key that is equal for equal setups.
func (r Rig) Key() string {
	h := sha256.New()
	for _, k := range slices.Sorted(maps.Keys(r.Facts)) {
		fmt.Fprintf(h, "%q=%q\n", k, r.Facts[k])
	}
	return fmt.Sprintf("%x", h.Sum(nil)[:8])
}

// A Cache keeps calibrations as files in a directory, one for each setup.
type Cache struct{ Dir string }

// entry is a file of the cache. Its facts are for readers; the name of the file is the key.
type entry struct {
	Version     int               `json:"version"`
	Rig         map[string]string `json:"rig"`
	Calibration iotax.Calibration `json:"calibration"`
}

const entryVersion = 1

// Path returns the file of the calibration of a setup.
func (c Cache) Path(r Rig) string { return filepath.Join(c.Dir, r.Key()+".json") }

// Get returns the calibration of r if there is one younger than MaxAge at now. An unreadable file counts as
// missing, and is replaced.
func (c Cache) Get(r Rig, now time.Time) (*iotax.Calibration, bool) {
	text, err := iotax.ReadFile(c.Path(r), iotax.MaxOutput)
	if err != nil {
		return nil, false
	}
	var e entry
	if json.Unmarshal(text, &e) != nil || e.Version != entryVersion {
		return nil, false
	}
	age := now.Sub(e.Calibration.At)
	if e.Calibration.Rounds < 1 || age < -time.Hour || age > MaxAge {
		return nil, false
	}
	return &e.Calibration, true
}

// Put saves the calibration of r.
func (c Cache) Put(r Rig, cal *iotax.Calibration) error {
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
	err = iotax.WriteWhole(c.Path(r), 0o600, func(w io.Writer) error { // another run may read it meanwhile
		_, err := w.Write(append(text, '\n'))
		return err
	})
	if err != nil {
		return fail(err)
	}
	return nil
}
