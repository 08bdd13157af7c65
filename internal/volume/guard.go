package volume

import (
	"context"
	"errors"
	"strings"

	"iotax"
	"iotax/internal/guard"
)

// deviceName describes a block device so that its owner can recognize it.
func deviceName(f *guard.Facts) string {
	s := f.Path + ", " + bytesText(f.Size)
	if f.Model != "" {
		s += ", " + f.Model
	}
	if f.Serial != "" {
		return s + ", serial " + f.Serial
	}
	return s + ", without a serial number"
}

// refusal returns an error with the reasons against overwriting the device, or nil if there are no reasons.
func refusal(f *guard.Facts) error {
	v := f.Judge()
	all := v.Reasons()
	if len(all) == 0 {
		return nil
	}
	e := &iotax.Error{Op: "overwrite block device", On: f.Path, Err: errors.New(strings.Join(all, "; "))}
	if v.Used() {
		e.Hint = "name a device that nothing uses; iotax takes nothing out of use"
		return e
	}
	var erase []string
	if len(v.OnIt) > 0 {
		erase = append(erase, "wipefs --all "+iotax.Quote(f.Path))
	}
	if len(v.Traces) > 0 {
		erase = append(erase, guard.Erase(f.Path, v.Traces))
	}
	e.Hint = "name an empty device; if nothing on this one is needed, remove the signatures yourself: " + strings.Join(erase, "; ")
	return e
}

// inspect collects the facts of a device on m as root.
func inspect(ctx context.Context, m iotax.Machine, q guard.Query) (*guard.Facts, error) {
	ctx, cancel := context.WithTimeout(ctx, quick)
	defer cancel()
	return guard.Inspect.AsRoot(ctx, m, q)
}
