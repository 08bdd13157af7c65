//go:build !linux

package guest

import (
	"context"
	"errors"

	"iotax"
)

// RootDisk is made of Tools.
func RootDisk(ctx context.Context, cacheDir, _ string, _ int64) (string, error) {
	return Tools(ctx, cacheDir)
}

// Tools makes the tools disk of a guest out of the host's own programs, which only a Linux host has.
func Tools(context.Context, string) (string, error) {
	return "", &iotax.Error{Op: "build the guest's tools disk", Err: errors.New("this host does not run Linux"),
		Hint: "name an image of your own: {qemu: {image: debian.qcow2}}"}
}

// Python makes a root file system of the host's own Python, which only a Linux host can give to a guest.
func Python(context.Context, string) (string, error) {
	return "", &iotax.Error{Op: "make a root file system of this host's Python", Err: errors.New("this host does not run Linux"),
		Hint: "name a directory that holds one: {boot: {root: /srv/root, run: …}}"}
}
