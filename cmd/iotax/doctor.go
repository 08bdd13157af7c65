package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"iotax"
	"iotax/internal/clean"
	"iotax/internal/doctor"
	"iotax/internal/guest"
	"iotax/internal/machine"
	"iotax/internal/machine/container"
	"iotax/internal/machine/host"
	"iotax/internal/machine/kube"
	"iotax/internal/machine/qemu"
	"iotax/internal/machine/vm"
	"iotax/internal/plan"
	"iotax/internal/probe/serving"
	"iotax/internal/terminal"
	"iotax/internal/volume"
)

func (a *app) doctorCommand() *cobra.Command {
	return &cobra.Command{
		ValidArgsFunction: completePlans,

		Use:   "doctor [SUITE | PLAN.yaml]",
		Short: "Show what this host can measure, and how to fix what it cannot",
		Long: `doctor checks what this host can measure. For a suite or a plan it first lists
the programs that the plan needs on this host and that are not installed, with
one line that installs them, and exits with status 1 if something that the plan
needs is missing.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			var p *plan.Plan
			if len(args) > 0 {
				var err error
				if p, err = (&planFlags{}).read(args, a.in); err != nil {
					return err
				}
			}
			work, err := beginWork("doctor")
			if err != nil {
				return err
			}
			defer a.endWork(work)
			checks := doctor.Examine(c.Context(), a.doctorOptions(work))
			missing := false
			if p != nil {
				programs := needs(c.Context(), p)
				missing = programs.Status == doctor.Missing || slices.ContainsFunc(checks, func(c doctor.Check) bool {
					return c.Status == doctor.Missing && needsCheck(p, c.Name)
				})
				checks = slices.Insert(checks, 0, programs)
			}
			if a.json {
				err = writeJSON(a.out, checks)
			} else {
				err = printChecks(a.out, checks)
			}
			if err == nil && missing {
				err = exitCode(exitError)
			}
			return err
		},
	}
}

// doctorOptions returns the checks of the components that a run may use.
func (a *app) doctorOptions(work string) doctor.Options {
	return doctor.Options{
		Host: host.Local(), CacheDir: iotax.CacheDir(),
		Kernel: func(ctx context.Context) (string, error) {
			k, err := guest.FindKernel(ctx, iotax.CacheDir())
			if err != nil {
				return "", err
			}
			return k.Release + " from " + k.Source, nil
		},
		Accel: func(ctx context.Context) (string, error) {
			a, err := vm.Accelerator(ctx, machine.Options{CacheDir: iotax.CacheDir(), WorkDir: work})
			return a.Name + ": " + a.Why, err
		},
		Serving: func(context.Context) (string, error) {
			stop, err := serving.Start(func() []int { return []int{os.Getpid()} }, serving.SFTP) // SFTP, because its eBPF program also reads kernel memory
			if err != nil {
				return "", &iotax.Error{Op: "run --explain", On: "servers", Err: err, Hint: "run as root, or with CAP_BPF and CAP_PERFMON; else the stages of virtiofsd and of 9p, NFS, NBD and SFTP servers are not known"}
			}
			if _, err := stop(); err != nil {
				return "", err
			}
			return "eBPF programs can measure virtiofsd and 9p, NFS, NBD and SFTP servers", nil
		},
		Profile: func(context.Context) (string, error) {
			stop, err := serving.Profile(func() []int { return nil })
			if err != nil {
				return "", &iotax.Error{Op: "run --profile", On: "processes", Err: err}
			}
			if _, err := stop(); err != nil {
				return "", err
			}
			if !serving.NamesKernel() {
				return "", &iotax.Error{Op: "run --profile", On: "the kernel", Err: errors.New("its functions have no names"), Hint: "`sysctl kernel.kptr_restrict=1`"}
			}
			return "eBPF programs can profile the processes of this host", nil
		},
		Virtiofsd: func(ctx context.Context) (string, error) {
			v, err := qemu.FindVirtiofsd(ctx, "")
			if err != nil {
				return "", err
			}
			return v.Version + ", " + v.Path, nil
		},
		Store: func(ctx context.Context) (string, error) {
			return volume.FindStore(ctx, host.Local(), volume.DefaultStore)
		},
		Docker: func(ctx context.Context) (string, error) { return container.Version(ctx, "docker") },
		Podman: func(ctx context.Context) (string, error) { return container.Version(ctx, "podman") },
		Kubernetes: func(context.Context) (string, error) {
			c, err := kube.Connect(kube.Config{})
			if err != nil {
				return "", err
			}
			return c.Server + ", namespace " + c.Namespace, nil
		},
		Leftovers: func(ctx context.Context) (here, elsewhere string, err error) { return clean.Leftovers(ctx, a.store) },
	}
}

func printChecks(w io.Writer, checks []doctor.Check) error {
	wide := 0
	for _, c := range checks {
		wide = max(wide, len(c.Name))
	}
	columns := terminal.Width(w, 0)
	for _, c := range checks {
		if _, err := fmt.Fprintln(w, terminal.Hanging(fmt.Sprintf("%-8s %-*s  ", c.Status, wide, c.Name), terminal.Clean(c.Detail), columns)); err != nil {
			return err
		}
		if c.Hint != "" {
			fmt.Fprintln(w, terminal.Hanging(fmt.Sprintf("%-8s %-*s  hint: ", "", wide, ""), terminal.Clean(c.Hint), columns))
		}
	}
	return nil
}

func (a *app) kernelCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "kernel",
		Short: "Show or fetch the kernel that guests boot",
		Long: `kernel shows which kernel guests boot: the kernel of this host if its file and
its modules can be read, else one in the cache. With --fetch, kernel downloads a
missing one as the distribution's package and unpacks it in the cache. It does
not install the package.`,
		Args: cobra.NoArgs,
	}
	fetch := c.Flags().Bool("fetch", false, "download the distribution's kernel package into the cache if there is no kernel")
	c.RunE = func(c *cobra.Command, _ []string) error {
		k, err := a.kernel(c.Context(), *fetch)
		if err != nil {
			return err
		}
		if a.json {
			return writeJSON(a.out, k)
		}
		_, err = fmt.Fprintf(a.out, "%s  %s\n", k.Release, k.Source)
		return err
	}
	return c
}

// kernel returns the kernel that guests boot. If no kernel is found and fetch is true, it downloads one.
func (a *app) kernel(ctx context.Context, fetch bool) (*guest.Kernel, error) {
	k, err := guest.FindKernel(ctx, iotax.CacheDir())
	if err == nil || !fetch {
		return k, err
	}
	mustUndo()
	return guest.FetchKernel(ctx, iotax.CacheDir(), func(format string, args ...any) {
		if !a.quiet {
			fmt.Fprintln(a.err, strings.TrimSpace(fmt.Sprintf(format, args...)))
		}
	})
}
