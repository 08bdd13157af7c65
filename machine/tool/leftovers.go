package tool

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"iotax"
	"iotax/leftover"
	"iotax/plan"
)

// The kinds of what is noted in a run's working directory before it is made. Neither program keeps a label.
const (
	limaNote = "lima"
	tartNote = "tart"
)

// Leftovers finds the instances that died runs have made with Lima and Tart, by the programs that the plans name.
func Leftovers(plans []plan.Machine) []leftover.Finder {
	limas, tarts := []string{"limactl"}, []string{"tart"}
	for _, m := range plans {
		switch s := m.Spec.(type) {
		case *Lima:
			limas = append(limas, cmp.Or(s.Program, "limactl"))
		case *Tart:
			tarts = append(tarts, cmp.Or(s.Program, "tart"))
		}
	}
	return []leftover.Finder{
		{Kind: "Lima instance", Plural: "Lima instances", Find: noted(limaNote, limas, "limactl delete --force", []string{"list", "--quiet"}, []string{"delete", "--force"})},
		{Kind: "Tart machine", Plural: "Tart machines", Find: noted(tartNote, tarts, "tart delete", []string{"list", "--quiet"}, []string{"delete"})},
	}
}

var errNoProgram = errors.New("it is not installed, or not in the PATH")

// noted finds what is noted as kind. It is removed by the first of the programs that lists it, or forgotten where none does.
func noted(kind string, programs []string, hand string, list, remove []string) func(context.Context, leftover.Place) ([]leftover.Item, error) {
	slices.Sort(programs)
	programs = slices.Compact(programs)
	return func(ctx context.Context, p leftover.Place) (items []leftover.Item, err error) {
		if !iotax.IsLocal(p.Machine) {
			return nil, nil
		}
		notes, err := leftover.Notes(ctx, p, kind)
		for _, n := range notes {
			items = append(items, leftover.Item{Name: n.Name, Label: n.Label, End: func(ctx context.Context) error {
				asked, done := false, false
				for _, program := range programs {
					t := tool{program: program}
					if _, err := t.look(ctx, n.Name); err != nil {
						continue // not the one that made it
					}
					asked = true
					names, err := t.run(ctx, toolQuick, list...)
					if err == nil && slices.Contains(strings.Fields(names), n.Name) {
						_, err = t.run(ctx, toolSlow, append(slices.Clone(remove), n.Name)...)
						done = err == nil
					}
					if err != nil {
						return err
					}
					if done {
						break
					}
				}
				if !asked {
					return &iotax.Error{Op: "find", On: strings.Join(programs, " or "), Err: errNoProgram, Mend: hand + " " + n.Name + ", and then remove " + n.File}
				}
				return n.Forget()
			}})
		}
		return items, err
	}
}
