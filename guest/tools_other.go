//go:build !linux

package guest

import (
	"context"
	"errors"

	"iotax"
)

// Tools makes the tools disk of a guest out of the host's own programs, which only a Linux host has.
func Tools(context.Context, string) (string, error) {
	return "", &iotax.Error{Op: "build the guest's tools disk", Err: errors.New("this host does not run Linux"),
		Mend: "name an image of your own: {qemu: {image: debian.qcow2}}"}
}
