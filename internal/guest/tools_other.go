//go:build !linux

package guest

import (
	"context"
	"errors"

	"iotax"
)

// RootDisk returns the error of Tools.
func RootDisk(ctx context.Context, cacheDir, _ string, _ int64) (string, error) {
	return Tools(ctx, cacheDir)
}

// Tools returns an error, because the tools disk needs the programs of a Linux host.
func Tools(context.Context, string) (string, error) {
	return "", &iotax.Error{Op: "build the guest's tools disk", Err: errors.New("this host does not run Linux"),
		Hint: "name an image of your own: {qemu: {image: debian.qcow2}}"}
}

// Python returns an error, because the root file system needs the Python of a Linux host.
func Python(context.Context, string) (string, error) {
	return "", &iotax.Error{Op: "make a root file system of this host's Python", Err: errors.New("this host does not run Linux"),
		Hint: "name a directory that holds one: {boot: {root: /srv/root, run: …}}"}
}
