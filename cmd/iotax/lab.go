package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"iotax"
	"iotax/internal/lab"
	"iotax/internal/plan"
	"iotax/internal/report/format"
)

func (a *app) labCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "lab",
		Short: "Make virtual hosts on this machine, to try out plans for clusters",
		Long: `A lab is a set of nodes on this machine: network namespaces on their own bridge,
each with a shaped link and a directory. A plan names one as {node: node04}. The
same plan runs on real machines with {ssh: …} instead. up and down need root.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	var name string
	c.PersistentFlags().StringVar(&name, "name", lab.DefaultName, "name of the lab, of which there may be several")
	c.AddCommand(a.labUp(&name), a.labDown(&name), a.labStatus(&name), a.labExec(&name))
	return c
}

func (a *app) labUp(name *string) *cobra.Command {
	var nodes int
	var rate, dir string
	var size plan.Size
	c := &cobra.Command{
		Use:   "up",
		Short: "Make the nodes, or keep existing ones",
		Long: `lab up makes the nodes of a lab, or keeps an existing lab. It makes a broken lab
again, also after a reboot, and removes the files of its nodes.`,
		Example: `  sudo iotax lab up --nodes 5 --rate 384mbit
  sudo iotax lab exec node04 -- ping -c 1 10.77.0.1
  sudo iotax lab down`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			config := lab.Config{Name: *name, Nodes: nodes, Dir: dir, Size: int64(size)}
			var err error
			if config.Rate, err = lab.ParseRate(rate); err != nil {
				return iotax.Usage(fmt.Errorf("--rate: %w", err))
			}
			if nodes < 1 {
				return iotax.Usage(fmt.Errorf("--nodes: %d is not a number of nodes", nodes))
			}
			mustUndo()
			l, err := lab.Up(c.Context(), config)
			if err != nil {
				return err
			}
			return a.printLabs([]*lab.Lab{l})
		},
	}
	f := c.Flags()
	f.IntVar(&nodes, "nodes", lab.DefaultNodes, "number of nodes")
	f.StringVar(&rate, "rate", "384mbit", "rate of every link in each direction, as in 1gbit; none leaves links unshaped")
	f.StringVar(&dir, "dir", "/var/tmp", "directory for the nodes' directories")
	typedFlag(c, &size, "size", "give each node an ext4 of this size on a loop device, as in 4GiB, instead of a directory", plan.ParseSize)
	return c
}

func (a *app) labDown(name *string) *cobra.Command {
	return &cobra.Command{
		Use:   "down",
		Short: "Remove the nodes and their files, also after a crash",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			mustUndo()
			ctx, cancel := context.WithTimeout(context.WithoutCancel(c.Context()), time.Minute)
			defer cancel()
			return lab.Down(ctx, *name)
		},
	}
}

func (a *app) labStatus(name *string) *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "List the nodes and the processes on them",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if c.Flags().Changed("name") {
				l, err := lab.Get(*name)
				if err != nil {
					return err
				}
				return a.printLabs([]*lab.Lab{l})
			}
			labs, err := lab.List()
			if err != nil {
				return err
			}
			return a.printLabs(labs)
		},
	}
}

// nodeStatus is a node in the JSON output.
type nodeStatus struct {
	lab.Node
	Processes []int `json:"processes"`
}

// labStatus is a lab in the JSON output.
type labStatus struct {
	Name    string       `json:"name"`
	Rate    lab.Rate     `json:"rate"`
	Dir     string       `json:"dir"`
	Created time.Time    `json:"created"`
	Broken  string       `json:"broken,omitempty"` // why the lab is incomplete; empty if it is complete
	Nodes   []nodeStatus `json:"nodes"`
}

func (a *app) printLabs(labs []*lab.Lab) error {
	out := []labStatus{}
	for _, l := range labs {
		s := labStatus{Name: l.Name, Rate: l.Rate, Dir: l.Dir, Created: l.Created}
		if err := lab.Look(l); err != nil {
			s.Broken = err.Error()
		}
		pids := lab.Processes(l)
		for _, n := range l.Nodes {
			s.Nodes = append(s.Nodes, nodeStatus{n, pids[n.Name]})
		}
		out = append(out, s)
	}
	if a.json {
		return writeJSON(a.out, out)
	}
	if len(out) == 0 {
		_, err := fmt.Fprintln(a.out, "no lab is up; make one: sudo iotax lab up")
		return err
	}
	for _, s := range out {
		rate := "links of " + s.Rate.String() + " each way"
		if s.Rate == 0 {
			rate = "links that are not shaped"
		}
		fmt.Fprintf(a.out, "lab %s: %s, %s\n", s.Name, format.Plural(len(s.Nodes), "node"), rate)
		w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
		for _, n := range s.Nodes {
			runs := ""
			switch k := len(n.Processes); k {
			case 0:
			case 1:
				runs = "1 process"
			default:
				runs = fmt.Sprintf("%d processes", k)
			}
			fmt.Fprintln(w, strings.TrimRight(fmt.Sprintf("  %s\t%s\t%s\t%s", n.Name, n.Address, n.Dir, runs), "\t"))
		}
		if err := w.Flush(); err != nil {
			return err
		}
		if s.Broken != "" {
			fmt.Fprintf(a.out, "  broken: %s\n  hint: iotax lab down --name %s, then up\n", s.Broken, s.Name)
		}
	}
	return nil
}

func (a *app) labExec(name *string) *cobra.Command {
	return &cobra.Command{
		Use:   "exec NODE -- COMMAND…",
		Short: "Run a command on a node: with its network, in its directory",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) < 2 || c.ArgsLenAtDash() > 1 {
				return iotax.Usage(errors.New("write a node and a command: iotax lab exec node04 -- ip addr"))
			}
			return nil
		},
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if l, err := lab.Get(*name); err == nil && len(args) == 0 {
				return l.Names(), cobra.ShellCompDirectiveNoFileComp
			}
			return nil, cobra.ShellCompDirectiveDefault
		},
		RunE: func(c *cobra.Command, args []string) error {
			l, err := lab.Get(*name)
			if err != nil {
				return err
			}
			n, ok := l.Node(args[0])
			if !ok {
				return iotax.Usage(&iotax.Error{Op: "run on node", On: args[0], Err: fmt.Errorf("lab %s has no such node", l.Name), Hint: "its nodes are " + strings.Join(l.Names(), ", ")})
			}
			line, err := lab.Enter(n, args[1:])
			if err != nil {
				return err
			}
			mustUndo()
			cmd := exec.CommandContext(c.Context(), line[0], line[1:]...)
			cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.Dir = a.in, a.out, a.err, n.Dir
			cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
			cmd.WaitDelay = 5 * time.Second
			err = cmd.Run()
			var exit *exec.ExitError
			if errors.As(err, &exit) {
				if code := exit.ExitCode(); code > 0 {
					return exitCode(code)
				}
			}
			if err != nil {
				return &iotax.Error{Op: "run on node", On: n.Name, Err: err}
			}
			return nil
		},
	}
}
