package main

import (
	"context"

	"iotax/internal/guest"
	"iotax/internal/workload"
	"iotax/internal/workload/nested"
)

// guestKit is what a machine lacks to start guests, from this host.
func guestKit(ctx context.Context, cache string, log guest.Log, lacks nested.Lacks, kernel string, root int64) (*workload.GuestKit, error) {
	var k *guest.Kernel
	var disk string
	var err error
	if lacks.Kernel != "" {
		if k, err = guest.HaveKernel(ctx, cache, kernel, log); err != nil {
			return nil, err
		}
	}
	if len(lacks.Programs) > 0 {
		if disk, err = guest.RootDisk(ctx, cache, root); err != nil {
			return nil, err
		}
	}
	kit, err := guest.NewKit(ctx, k, disk)
	if err != nil {
		return nil, err
	}
	return &workload.GuestKit{Sum: kit.Sum, Size: kit.Size, Send: kit.Send}, nil
}
