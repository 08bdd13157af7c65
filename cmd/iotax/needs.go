package main

import (
	"context"
	"errors"
	"slices"

	"iotax"
	"iotax/internal/doctor"
	"iotax/internal/machine/host"
	"iotax/internal/machine/qemu"
	"iotax/internal/plan"
	"iotax/internal/volume"
)

// needs checks that this host has the programs that p runs on it.
func needs(ctx context.Context, p *plan.Plan) doctor.Check {
	var tools []doctor.Tool
	for _, name := range p.Tools(func(m plan.Machine) bool { return m.Kind == plan.Host || m.Kind == "node" }) {
		t := doctor.Tool{Name: name, Get: volume.BuildStore(name)}
		switch {
		case t.Get != "":
			t.Find = func(ctx context.Context) error {
				_, err := volume.FindStore(ctx, host.Local(), name)
				return err
			}
		case name == "virtiofsd":
			t.Find = func(ctx context.Context) error {
				_, err := qemu.FindVirtiofsd(ctx, "")
				return err
			}
		}
		tools = append(tools, t)
	}
	c := doctor.Lacking(ctx, tools)
	c.Name = p.Name
	return c
}

// needsCheck reports whether a machine that p uses needs the component that this check of doctor examines.
func needsCheck(p *plan.Plan, check string) bool {
	used := p.Used()
	return slices.ContainsFunc(p.Machines, func(m plan.Machine) bool {
		needs := map[string]string{"docker": "docker", "podman": "podman", "k8s": "kubernetes"}[m.Kind]
		if m.Kind == "qemu" && m.Value("image")+m.Value("kernel") == "" {
			needs = "guest kernel"
		}
		return used[m.Name] && needs == check
	})
}

// lacks returns an error if this host lacks programs that p needs.
func lacks(ctx context.Context, p *plan.Plan) error {
	c := needs(ctx, p)
	if c.Status == doctor.OK {
		return nil
	}
	return &iotax.Error{Op: "run", On: p.Name, Err: errors.New(c.Detail), Hint: c.Hint}
}
