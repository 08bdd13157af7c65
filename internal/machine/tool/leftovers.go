package tool

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"iotax"
	"iotax/internal/leftover"
)

// A keeper is a program that keeps virtual machines in a directory and cannot label them. Before iotax makes such a
// machine, it records the program and that directory in the run's working directory. With another directory, the
// program would not list the machine.
type keeper struct {
	kind     string   // kind of its records
	variable string   // environment variable with the directory
	home     string   // default directory, relative to the user's home
	remove   []string // command that removes a machine
}

var (
	limas = keeper{"lima", "LIMA_HOME", ".lima", []string{"delete", "--force"}}
	tarts = keeper{"tart", "TART_HOME", ".tart", []string{"delete"}}
)

// note records in dir that t will make a machine with this name. forget removes the record.
func (k keeper) note(dir string, t tool, name string) (forget func() error, err error) {
	program, err := exec.LookPath(t.program)
	if err == nil {
		program, err = filepath.Abs(program)
	}
	home := os.Getenv(k.variable)
	if err == nil && home == "" {
		home, err = os.UserHomeDir()
		home = filepath.Join(home, k.home)
	}
	if err == nil {
		home, err = filepath.Abs(home)
	}
	if err != nil {
		return nil, &iotax.Error{Op: "note " + name, On: t.program, Err: err}
	}
	return leftover.Note(dir, k.kind, name, program, home)
}

// Leftovers returns finders for machines that crashed runs made with Lima and Tart.
func Leftovers() []leftover.Finder {
	return []leftover.Finder{
		{Kind: "Lima instance", Plural: "Lima instances", Find: limas.find},
		{Kind: "Tart machine", Plural: "Tart machines", Find: tarts.find},
	}
}

func (k keeper) find(_ context.Context, p leftover.Place) (items []leftover.Item, err error) {
	if !iotax.IsLocal(p.Machine) {
		return nil, nil
	}
	notes, err := leftover.Notes(p.Dirs, k.kind)
	for _, n := range notes {
		items = append(items, leftover.Item{Name: n.Name, Label: n.Label, End: func(ctx context.Context) error { return k.end(ctx, n) }})
	}
	return items, err
}

// end removes the recorded machine. It removes the record when the program has removed the machine or does not list
// it.
func (k keeper) end(ctx context.Context, n leftover.Noted) error {
	if len(n.How) != 2 {
		return &iotax.Error{Op: "read", On: n.File, Err: errors.New("it does not name the program that made it, and the directory"),
			Hint: fmt.Sprintf("remove %s by hand, if it is there, and then %s", n.Name, n.File)}
	}
	program, home := n.How[0], n.How[1]
	t := tool{program: program, env: []string{k.variable + "=" + home}}
	hand := fmt.Sprintf("%s=%s %s %s; if it is gone for good, remove %s", k.variable, iotax.Quote(home), iotax.QuoteAll(append([]string{program}, k.remove...)), n.Name, n.File)
	// If the directory's file system is not mounted, the program lists no machines, and end must not remove the record.
	for _, needed := range n.How {
		if _, err := os.Stat(needed); err != nil {
			return &iotax.Error{Op: "find", On: n.Name, Err: err, Hint: hand}
		}
	}
	names, err := t.run(ctx, toolQuick, "list", "--quiet")
	if err == nil && slices.Contains(strings.Fields(names), n.Name) {
		_, err = t.run(ctx, toolSlow, append(slices.Clone(k.remove), n.Name)...)
	}
	if err != nil {
		return &iotax.Error{Op: "remove", On: n.Name, Err: err, Hint: hand}
	}
	return n.Forget()
}
