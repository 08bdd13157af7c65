package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"iotax"
	"iotax/internal/calibrate"
	"iotax/internal/report/output"
)

const (
	demoSuite  = "quick"
	demoReport = "report.html"
)

// overwrites returns an error if the file exists and is not a report of iotax.
func overwrites(file string) error {
	f, err := os.Open(file)
	if err != nil {
		return nil //nolint:nilerr // outlet.check reports a file that cannot be written
	}
	defer f.Close()
	head, err := io.ReadAll(io.LimitReader(f, 4<<10))
	if err == nil && !bytes.Contains(head, []byte(`<meta name="generator" content="iotax `)) {
		err = errors.New("it exists, and is not a report of iotax")
	}
	if err != nil {
		return iotax.Usage(&iotax.Error{Op: "write", On: file, Err: err, Hint: "name another file: iotax demo -o other.html"})
	}
	return nil
}

func (a *app) demoCommand() *cobra.Command {
	out := &outlet{also: true, files: []string{demoReport}}
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
			if !c.Flags().Changed("output") {
				if err := overwrites(demoReport); err != nil {
					return err
				}
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
