// Package node opens the nodes of labs: network namespaces on this host.
package node

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"iotax"
	"iotax/internal/lab"
	"iotax/internal/leftover"
	"iotax/internal/machine/host"
	"iotax/internal/machine/kind"
	"iotax/internal/plan"
)

// Spec is the spec of kind node: a node of a lab on this host. For real machines, a plan uses `ssh:` instead.
type Spec struct {
	Name string   `yaml:"name" doc:"node of the lab, as in node04"`
	Lab  string   `yaml:"lab" doc:"name of a lab that is up (iotax lab up); if it does not exist, one is made for the run and removed afterwards"`
	Rate lab.Rate `yaml:"rate" doc:"link rate of a lab made for the run, as in 384mbit; none does not shape the links"`
}

// SetScalar sets the name of the node, as in `node: node04`.
func (s *Spec) SetScalar(v string) error { s.Name = v; return nil }

func (s *Spec) Traits() plan.Traits { return plan.Traits{Tools: []string{"ip", "tc", "nsenter"}} }

// defaultRate is the link rate of the published study in bits per second.
const defaultRate = 384e6

// Kind defines the machine kind node.
var Kind = kind.Of("node", "a node of a lab: a network namespace of this host with its own link and directory; needs root",
	Spec{Lab: lab.DefaultName, Rate: defaultRate}, open).WithoutDevices()

// index returns the number in s.Name, or 0 if s.Name is not a valid name of a node.
func (s *Spec) index() int {
	n, err := strconv.Atoi(strings.TrimPrefix(s.Name, "node"))
	if err != nil || n < 1 || lab.NodeName(n) != s.Name {
		return 0
	}
	return n
}

// Validate returns an error if s.Name is not a valid name of a node.
func (s *Spec) Validate() error {
	if s.index() == 0 {
		return &plan.FieldError{Field: "name", Msg: fmt.Sprintf("%q is not a name of a node", s.Name), Hint: "node01, node02, … node99"}
	}
	return nil
}

// borrowed holds the labs that this process made for runs. The keys of both maps are the names of these labs. users
// contains the number of open nodes of a lab, and plan contains the name that the plan gives the lab.
var borrowed = struct {
	sync.Mutex
	users map[string]int
	plan  map[string]string
}{users: map[string]int{}, plan: map[string]string{}}

// suits returns an error if the link rate of l differs from the rate in the plan.
func (s *Spec) suits(l *lab.Lab, o kind.Options) error {
	if l.Rate == s.Rate {
		return nil
	}
	return &iotax.Error{Op: "open machine", On: o.Name, Err: fmt.Errorf("the links of the lab %s have the rate %v, and not %v", l.Name, l.Rate, s.Rate),
		Hint: "give all nodes of the plan the rate of the lab"}
}

// findLab returns the lab with the spec's name if it is up. Otherwise, it returns the lab of the run, and ours is true.
// The first call that needs the lab of the run makes it.
func findLab(ctx context.Context, s *Spec, o kind.Options) (l *lab.Lab, ours bool, err error) {
	l, err = lab.Get(s.Lab)
	if err == nil && s.Rate != defaultRate {
		err = s.suits(l, o)
	}
	if err == nil {
		return l, false, lab.Look(l)
	}
	if !errors.Is(err, lab.ErrDown) {
		return nil, false, err
	}
	// A run makes at most one lab, for all nodes whose lab is not up. The lab is named after the run's working
	// directory, which is unique.
	name := "r" + strings.TrimPrefix(filepath.Base(o.WorkDir), "iotax-")
	if borrowed.users[name] > 0 {
		if made := borrowed.plan[name]; made != s.Lab {
			return nil, false, &iotax.Error{Op: "open machine", On: o.Name, Err: fmt.Errorf("the lab %s is not up, and this run made its lab for the name %s", s.Lab, made),
				Hint: "iotax lab up --name " + s.Lab + ", or use one lab in the plan"}
		}
		if l, err = lab.Get(name); err == nil {
			err = s.suits(l, o)
		}
		return l, err == nil, err
	}
	o.Logf("making a lab for the run (%s)", name)
	l, err = lab.Up(ctx, lab.Config{Name: name, Nodes: max(lab.DefaultNodes, s.index()), Rate: s.Rate, Label: leftover.Current()})
	return l, true, err
}

func open(ctx context.Context, s *Spec, o kind.Options) (iotax.Machine, error) {
	fail := func(err error, hint string) error {
		return &iotax.Error{Op: "open machine", On: o.Name, Err: err, Hint: hint}
	}
	borrowed.Lock()
	defer borrowed.Unlock()
	l, ours, err := findLab(ctx, s, o)
	if err != nil {
		var e *iotax.Error
		if errors.As(err, &e) {
			return nil, err
		}
		return nil, fail(fmt.Errorf("the lab %s is broken: %w", s.Lab, err), "iotax lab down; iotax lab up")
	}
	if ours {
		borrowed.users[l.Name]++
		borrowed.plan[l.Name] = s.Lab
	}
	m := &node{lab: l, ours: ours, name: o.Name}
	var there bool
	if m.node, there = l.Node(s.Name); !there {
		err = fail(fmt.Errorf("the lab %s has no %s: it has %s", l.Name, s.Name, strings.Join(l.Names(), ", ")), "iotax lab up --nodes "+strconv.Itoa(s.index()))
	} else if _, eerr := lab.Enter(m.node, nil); eerr != nil {
		err = eerr
	}
	if err != nil {
		return nil, errors.Join(err, m.leave(context.WithoutCancel(ctx)))
	}
	return m, nil
}

// A node is a machine that runs commands in the network namespace of a lab's node, with the files of this host.
type node struct {
	node lab.Node
	lab  *lab.Lab
	ours bool
	name string
}

func (n *node) String() string {
	if n.name == "" {
		return n.node.Name
	}
	return n.name
}

// Caps returns the capabilities of this host with the node's address, link rate, directory and facts.
func (n *node) Caps() iotax.MachineCaps {
	c := host.Local().Caps()
	c.Address, c.LinkRate, c.Home = n.node.Address, n.lab.Rate.BytesPerSecond(), n.node.Dir
	c.Facts = map[string]string{"node": n.node.Name, "node.namespace": n.node.Namespace, "node.address": n.node.Address,
		"node.link": n.lab.Rate.String()}
	return c
}

// Run runs the command through nsenter(1). nsenter replaces itself with the command, so the exit status, signals and
// process group are those of the command.
func (n *node) Run(ctx context.Context, cmd *iotax.Cmd) error {
	if cmd == nil || len(cmd.Args) == 0 || cmd.Args[0] == "" {
		return host.Local().Run(ctx, cmd) // this host's Run returns the error
	}
	args, err := lab.Enter(n.node, cmd.Args)
	if err != nil {
		return err
	}
	c := *cmd
	c.Args = args
	err = host.Local().Run(ctx, &c)
	var exit *iotax.ExitError
	if errors.As(err, &exit) {
		exit.Args = cmd.Args
	}
	return err
}

func (n *node) Close(ctx context.Context) error {
	borrowed.Lock()
	defer borrowed.Unlock()
	return n.leave(ctx)
}

// leave removes the run's lab when its last node closes.
func (n *node) leave(ctx context.Context) error {
	if !n.ours {
		return nil
	}
	if borrowed.users[n.lab.Name]--; borrowed.users[n.lab.Name] > 0 {
		return nil
	}
	delete(borrowed.users, n.lab.Name)
	delete(borrowed.plan, n.lab.Name)
	return lab.Down(ctx, n.lab.Name)
}

// Leftovers returns a finder for the labs of crashed runs. Removing a lab removes its namespaces, links, mounts and
// directories.
func Leftovers() []leftover.Finder {
	return []leftover.Finder{{Kind: "lab", Plural: "labs", Find: findLabs}}
}

func findLabs(_ context.Context, p leftover.Place) ([]leftover.Item, error) {
	if !iotax.IsLocal(p.Machine) {
		return nil, nil
	}
	labs, err := lab.List()
	var items []leftover.Item
	for _, l := range labs {
		if label, ok := leftover.ParseLabel(l.Label); ok {
			items = append(items, leftover.Item{Name: l.Name, Detail: fmt.Sprintf("%d network namespaces, %s", len(l.Nodes)+1, l.Dir), Label: label,
				End: func(ctx context.Context) error { return lab.Down(ctx, l.Name) }})
		}
	}
	return items, err
}
