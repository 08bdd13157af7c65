package probe

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gofrs/flock"

	"iotax"
	"iotax/internal/leftover"
	"iotax/internal/rules"
)

// SetGovernor sets the frequency governor of the CPUs of this host. It returns a finding for CPUs without this
// governor, or if this host has no cpufreq. It fails while another run has set the governor. `undo` restores the
// governors of the changed CPUs. If `undo` is not nil, the caller must call it, even after an error. Until then, a note
// in the working directory `dir` contains the earlier governors, for Leftovers.
func SetGovernor(want, dir string) (undo func() error, found []iotax.Finding, err error) {
	return thisHost.setGovernor(want, dir)
}

func (fs system) setGovernor(want, dir string) (undo func() error, found []iotax.Finding, err error) {
	missing := func(why string) []iotax.Finding {
		return []iotax.Finding{rules.NoGovernor.Found(iotax.AboutRun(), "%s", why)}
	}
	policies, _ := filepath.Glob(filepath.Join(fs.cpufreq(), "policy*"))
	if len(policies) == 0 {
		return nil, missing(want + " was asked for, and this machine has no cpufreq"), nil
	}
	// Without the lock, a second run would take the governor of the first run for the earlier one, and restore it at
	// its end.
	lock, err := fs.lockGovernor()
	if err != nil {
		return nil, nil, err
	}
	before, changed := map[string]string{}, map[string]string{} // governors by file
	forget := func() error { return nil }
	undo = func() error {
		var errs []error
		for file, was := range changed {
			errs = append(errs, writeGovernor(file, was))
		}
		err := errors.Join(errs...)
		if err == nil {
			err = forget()
		}
		return errors.Join(err, lock.Close())
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
	}
	if len(before) == 0 {
		return undo, found, nil
	}
	how := []string{want}
	for file, was := range before {
		how = append(how, filepath.Base(filepath.Dir(file)), was)
	}
	if forget, err = leftover.Note(dir, governorNote, "iotax-governor", how...); err != nil {
		forget = func() error { return nil }
		return undo, found, err
	}
	for file, was := range before {
		if err := writeGovernor(file, want); err != nil {
			return undo, found, err
		}
		changed[file] = was
	}
	return undo, found, nil
}

// governorNote is the kind of the notes about governors (leftover.Note). They contain the governor that the run has
// set, and the name and the earlier governor of each policy of cpufreq.
const governorNote = "governor"

func (fs system) cpufreq() string { return filepath.Join(fs.sys, "devices/system/cpu/cpufreq") }

// lockGovernor locks cpufreq against other runs that set a governor on this host.
func (fs system) lockGovernor() (*flock.Flock, error) {
	lock := flock.New(fs.cpufreq(), flock.SetFlag(os.O_RDONLY))
	if alone, err := lock.TryLock(); err != nil {
		return nil, governorError(fs.cpufreq(), err)
	} else if !alone {
		return nil, &iotax.Error{Op: "set the frequency governor", Err: errors.New("another run has set it"), Hint: "wait until that run ends, or leave --governor out"}
	}
	return lock, nil
}

// Leftovers returns a finder for the governors that crashed runs have set on this host.
func Leftovers() []leftover.Finder {
	return []leftover.Finder{{Kind: "frequency governor", Plural: "frequency governors", Find: thisHost.governorLeft}}
}

func (fs system) governorLeft(_ context.Context, p leftover.Place) (items []leftover.Item, err error) {
	if !iotax.IsLocal(p.Machine) {
		return nil, nil
	}
	notes, err := leftover.Notes(p.Dirs, governorNote)
	for _, n := range notes {
		items = append(items, leftover.Item{Name: n.Name, Label: n.Label, End: func(context.Context) error { return fs.restoreGovernor(n) }})
	}
	return items, err
}

// restoreGovernor restores the governors in a note, except where another program has changed them since.
func (fs system) restoreGovernor(n leftover.Noted) error {
	if len(n.How)%2 == 0 || len(n.How) < 3 {
		return &iotax.Error{Op: "read", On: n.File, Err: errors.New("it does not contain the earlier governors"), Hint: "set the governor by hand, and then remove the file"}
	}
	lock, err := fs.lockGovernor()
	if err != nil {
		return err
	}
	defer lock.Close()
	for policy := range slices.Chunk(n.How[1:], 2) {
		file := filepath.Join(fs.cpufreq(), filepath.Base(policy[0]), "scaling_governor") // Base: other users may write the note
		now, err := os.ReadFile(file)
		if err != nil {
			return governorError(file, err)
		}
		if strings.TrimSpace(string(now)) == n.How[0] {
			if err := writeGovernor(file, policy[1]); err != nil {
				return err
			}
		}
	}
	return n.Forget()
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
