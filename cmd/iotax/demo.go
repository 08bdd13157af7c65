package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"iotax/internal/calibrate"
	"iotax/internal/report/output"
)

const demoSuite = "quick"

func (a *app) demoCommand() *cobra.Command {
	out := &outlet{also: true, files: []string{"report.html"}}
	c := &cobra.Command{
		Use:   "demo",
		Short: "Measure what a VM's disk and shared folders cost on this host",
		Long: `demo runs the suite "` + demoSuite + `": it compares a disk and two shared folders of a
small virtual machine with the directory /var/tmp of this host. It takes about
five minutes, needs no root, and removes what it made. If this host's own kernel
cannot be read, demo first downloads one into the cache.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := out.check(a, c); err != nil {
				return err
			}
			fl := runFlags{planFlags: planFlags{scale: 1}, again: "iotax run " + demoSuite, out: out, calibrate: calibrate.Auto}
			p, err := fl.load([]string{demoSuite}, a.in)
			if err != nil {
				return err
			}
			if err := lacks(c.Context(), p); err != nil {
				return err
			}
			if _, err := a.kernel(c.Context(), true); err != nil {
				return err
			}
			if err := a.run(c.Context(), &fl, []string{demoSuite}); err != nil || !out.writes("txt") {
				return err
			}
			_, err = fmt.Fprintln(a.out, "Yours    "+program()+" run quick DIR1 DIR2") // aligned with the report's last lines
			return err
		},
	}
	out.add(c, output.Formats(), "text")
	return c
}
