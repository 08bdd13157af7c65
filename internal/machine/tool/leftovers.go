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

// A keeper is a program that keeps machines in a directory without labels. iotax records each machine in the run's working directory
// before it is made, with the program and its directory, because a program with another directory would not list it.
type keeper struct {
	kind     string   // of its records
	variable string   // of the environment, which names the directory
	home     string   // which it is without that, in the user's own
	remove   []string // how a machine is removed
}

var (
	limas = keeper{"lima", "LIMA_HOME", ".lima", []string{"delete", "--force"}}
	tarts = keeper{"tart", "TART_HOME", ".tart", []string{"delete"}}
)

// note records in dir that t will make the machine name.
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

// Leftovers finds the machines that crashed runs made with Lima and Tart.
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

// end removes the recorded machine. It removes the record when the program has removed the machine, or does not list it.
func (k keeper) end(ctx context.Context, n leftover.Noted) error {
	if len(n.How) != 2 {
		return &iotax.Error{Op: "read", On: n.File, Err: errors.New("it does not name the program that made it, and the directory"),
			Hint: fmt.Sprintf("remove %s by hand, if it is there, and then %s", n.Name, n.File)}
	}
	program, home := n.How[0], n.How[1]
	t := tool{program: program, env: []string{k.variable + "=" + home}}
	hand := fmt.Sprintf("%s=%s %s %s; if it is gone for good, remove %s", k.variable, iotax.Quote(home), iotax.QuoteAll(append([]string{program}, k.remove...)), n.Name, n.File)
	for _, needed := range n.How {
		if _, err := os.Stat(needed); err != nil { // an empty directory, where the real one is not mounted, would list nothing
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
