package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"iotax/doctor"
	"iotax/guest"
	"iotax/machine/qemu"
)

func (a *app) doctorCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "doctor",
		Short: "Tell what this host can measure, and what mends what it cannot",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			checks := doctor.Examine(c.Context(), doctor.Options{
				CacheDir: cacheDir(),
				Kernel: func(ctx context.Context) (string, error) {
					k, err := guest.FindKernel(ctx, cacheDir())
					if err != nil {
						return "", err
					}
					return k.Release, nil
				},
				Accel: func(ctx context.Context) (string, error) {
					return qemu.Accelerator(ctx, cacheDir())
				},
			})
			if a.json {
				return writeJSON(a.out, checks)
			}
			return printChecks(a.out, checks)
		},
	}
}

func printChecks(w io.Writer, checks []doctor.Check) error {
	wide := 0
	for _, c := range checks {
		wide = max(wide, len(c.Name))
	}
	for _, c := range checks {
		if _, err := fmt.Fprintf(w, "%-8s %-*s  %s\n", c.Status, wide, c.Name, clean(c.Detail)); err != nil {
			return err
		}
		if c.Mend != "" {
			fmt.Fprintf(w, "%-8s %-*s  mend: %s\n", "", wide, "", clean(c.Mend))
		}
	}
	return nil
}

func (a *app) kernelCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "kernel",
		Short: "Show or fetch the kernel that guests boot",
		Long: `kernel shows which kernel guests boot: this host's own when it can be read with its
modules, else one in the cache. With --fetch a missing one is downloaded as the
distribution's package and unpacked in the cache; it is not installed.`,
		Args: cobra.NoArgs,
	}
	fetch := c.Flags().Bool("fetch", false, "download the distribution's kernel package into the cache when there is none")
	c.RunE = func(c *cobra.Command, _ []string) error {
		k, err := guest.FindKernel(c.Context(), cacheDir())
		if err != nil && *fetch {
			k, err = guest.FetchKernel(c.Context(), cacheDir(), func(format string, args ...any) {
				if !a.quiet {
					fmt.Fprintln(a.err, strings.TrimSpace(fmt.Sprintf(format, args...)))
				}
			})
		}
		if err != nil {
			return err
		}
		if a.json {
			return writeJSON(a.out, k)
		}
		_, err = fmt.Fprintf(a.out, "%s  %s\n", k.Release, k.Image)
		return err
	}
	return c
}
