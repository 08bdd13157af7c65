package probe

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gofrs/flock"

	"iotax"
	"iotax/internal/rules"
)

// SetGovernor sets the frequency governor of the CPUs of this host. It returns a finding for CPUs without this
// governor, or if this host has no cpufreq. It refuses while another run has set the governor. undo restores the changed
// CPUs. If undo is not nil, the caller must call it, even after an error.
func SetGovernor(want string) (undo func() error, found []iotax.Finding, err error) {
	return thisHost.setGovernor(want)
}

func (fs system) setGovernor(want string) (undo func() error, found []iotax.Finding, err error) {
	missing := func(why string) []iotax.Finding {
		return []iotax.Finding{rules.NoGovernor.Found(iotax.AboutRun(), "%s", why)}
	}
	policies, _ := filepath.Glob(filepath.Join(fs.sys, "devices/system/cpu/cpufreq/policy*"))
	if len(policies) == 0 {
		return nil, missing(want + " was asked for, and this machine has no cpufreq"), nil
	}
	// A second run would take the governor of the first run for the earlier one, and restore it at its end.
	lock := flock.New(filepath.Join(policies[0], "scaling_governor"), flock.SetFlag(os.O_RDONLY))
	if alone, err := lock.TryLock(); err != nil {
		return nil, nil, governorError(lock.Path(), err)
	} else if !alone {
		return nil, nil, &iotax.Error{Op: "set the frequency governor", Err: errors.New("another run has set it"), Hint: "wait until that run ends, or leave --governor out"}
	}
	before := map[string]string{}
	undo = func() error {
		var errs []error
		for file, was := range before {
			errs = append(errs, writeGovernor(file, was))
		}
		return errors.Join(append(errs, lock.Close())...)
	}
	for _, p := range policies {
		has, err := os.ReadFile(filepath.Join(p, "scaling_available_governors"))
		if err == nil && !slices.Contains(strings.Fields(string(has)), want) {
			found = append(found, missing(fmt.Sprintf("%s has no governor %s (%s)", filepath.Base(p), want, strings.TrimSpace(string(has))))...)
			continue
		}
		file := filepath.Join(p, "scaling_governor")
		was, err := os.ReadFile(file)
		if err != nil {
			return undo, found, governorError(file, err)
		}
		old := strings.TrimSpace(string(was))
		if old == want {
			continue
		}
		before[file] = old
		if err := writeGovernor(file, want); err != nil {
			delete(before, file)
			return undo, found, err
		}
	}
	return undo, found, nil
}

func writeGovernor(file, governor string) error {
	if err := os.WriteFile(file, []byte(governor), 0o644); err != nil {
		return governorError(file, err)
	}
	return nil
}

func governorError(file string, err error) error {
	hint := ""
	if errors.Is(err, fs.ErrPermission) {
		hint = "run as root, or leave --governor out"
	}
	var pe *fs.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	return &iotax.Error{Op: "set the frequency governor", On: file, Err: err, Hint: hint}
}
