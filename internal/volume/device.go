package volume

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"iotax"
	"iotax/internal/guard"
	"iotax/internal/plan"
	"iotax/internal/probe"
)

// DeviceSpec is `device: PATH`: an existing block device. iotax only reads it unless --destroy names it. A plan cannot
// permit writes.
type DeviceSpec struct {
	Path string `yaml:"path" doc:"block device, as in /dev/nvme0n1; iotax only reads it unless run --destroy names it"`
}

// SetScalar fills the spec from `device: PATH`.
func (s *DeviceSpec) SetScalar(v string) error { s.Path = v; return nil }

func (s *DeviceSpec) Traits() plan.Traits { return plan.Traits{Device: s.Path} }

// Validate returns an error for a path that cannot be used; see checkPath.
func (s *DeviceSpec) Validate() error { return checkPath("block device", s.Path) }

func prepareDevice(_ context.Context, s *DeviceSpec, e Env) (iotax.Volume, error) {
	return &device{path: s.Path, destroy: slices.Contains(e.Destroy, s.Path), note: e.Note}, nil
}

type device struct {
	path    string
	destroy bool
	note    func(format string, args ...any)
	held    string // path of the device that this volume has opened exclusively; "" if none
}

// holds contains the devices of this host that this process has opened exclusively, and the number of volumes that use
// each device, both by path. The volumes share the open file, because the kernel refuses a second exclusive open even
// by the same process.
var holds = struct {
	mu    sync.Mutex
	files map[string]*os.File
	users map[string]int
}{files: map[string]*os.File{}, users: map[string]int{}}

func isHeld(path string) bool {
	holds.mu.Lock()
	defer holds.mu.Unlock()
	return holds.users[path] > 0
}

func hold(path string) error {
	holds.mu.Lock()
	defer holds.mu.Unlock()
	if holds.users[path] == 0 {
		f, err := guard.Hold(path)
		if err != nil {
			return err
		}
		holds.files[path] = f
	}
	holds.users[path]++
	return nil
}

func letGo(path string) error {
	holds.mu.Lock()
	defer holds.mu.Unlock()
	if holds.users[path]--; holds.users[path] > 0 {
		return nil
	}
	err := holds.files[path].Close()
	delete(holds.files, path)
	delete(holds.users, path)
	return err
}

func (d *device) Caps() iotax.VolumeCaps { return iotax.VolumeCaps{} }

// Attach checks the device and does not write to it. The place is read-only unless --destroy names the device.
func (d *device) Attach(ctx context.Context, m iotax.Machine) (iotax.Place, error) {
	var none iotax.Place
	if !filepath.IsAbs(d.path) && !strings.HasPrefix(d.path, "/") {
		return none, &iotax.Error{Op: "use block device", On: d.path, Err: errors.New("the path is relative"), Hint: "write it in full, as in /dev/nvme0n1"}
	}
	looking, cancel := context.WithTimeout(ctx, quick)
	defer cancel()
	found, err := guard.Survey.On(looking, m, guard.SurveyQuery{Path: d.path, Trust: d.destroy && !alone(m)})
	if err != nil {
		return none, err
	}
	p := iotax.Place{Kind: iotax.PlaceDevice, Path: found.Path, ReadOnly: true, Facts: facts(ctx, m, found.Path)}
	p.Facts[iotax.FactDeviceSize] = strconv.FormatInt(found.Size, 10)
	if found.MountedOn != "" {
		p.Facts["device.mounted"] = found.MountedOn
	}
	p.Durability = iotax.Weakest(ownDurability(m, p.Path, probe.Mount{Source: p.Path}, "Linux"), deviceDurability(p.Facts))
	if iotax.IsLocal(m) {
		p.Backing = found.Path
	}
	if d.destroy {
		if err := d.giveUp(ctx, m, &p); err != nil {
			return none, err
		}
	}
	return p, nil
}

// giveUp makes p writable. It returns an error if the device is in use or contains signatures. On this host, it opens
// the device exclusively.
func (d *device) giveUp(ctx context.Context, m iotax.Machine, p *iotax.Place) error {
	local := iotax.IsLocal(m)
	b, err := inspect(ctx, m, guard.Query{Path: p.Path, Held: local && isHeld(p.Path), Read: true})
	if err == nil && b.Path != p.Path { // the path leads to another device now
		err = replaced(p.Path, "it has become another: %s", deviceName(b))
	}
	if err == nil {
		err = refusal(b)
	}
	if err != nil {
		return err
	}
	if local {
		if err := hold(b.Path); err != nil {
			return &iotax.Error{Op: "overwrite block device", On: b.Path, Err: err, Hint: "name a device that nothing uses; iotax takes nothing out of use"}
		}
		d.held = b.Path
	}
	name := deviceName(b)
	if d.note != nil {
		d.note("everything on %s of %v will be overwritten, as --destroy allows", name, m)
	}
	p.ReadOnly = false
	p.Facts["device.destroyed"] = name
	p.Guard = func(ctx context.Context) error {
		now, err := inspect(ctx, m, guard.Query{Path: b.Path, Held: local})
		if err != nil {
			return err
		}
		if now.Number != b.Number || now.Size != b.Size || now.Serial != b.Serial {
			return replaced(b.Path, "it has become another: %s, and it was %s", deviceName(now), name)
		}
		return refusal(now)
	}
	return nil
}

func replaced(path, format string, args ...any) error {
	return &iotax.Error{Op: "overwrite block device", On: path, Err: fmt.Errorf(format, args...), Hint: "find out what changed it, and start again"}
}

func (d *device) Detach(context.Context) error {
	if d.held == "" {
		return nil
	}
	err := letGo(d.held)
	d.held = ""
	return err
}

func (d *device) Close(ctx context.Context) error { return d.Detach(ctx) }
