package volume

import (
	"context"
	"errors"
	"fmt"

	"iotax"
	"iotax/internal/plan"
)

// GroupSpec is `group: {…}`: several targets that work at the same time, to measure how they share a resource.
type GroupSpec struct {
	OfTargets []string `yaml:"of" doc:"targets that take part, in order; the name of a target with an axis means all of its variants"`
	Clients   int      `yaml:"clients" doc:"number of targets that take part, from the first on; a list makes one target per number; 0 means all"`
}

// Traits returns the first Clients targets, or all of them if Clients is 0.
func (s *GroupSpec) Traits() plan.Traits {
	of := s.OfTargets
	if s.Clients > 0 && s.Clients < len(of) {
		of = of[:s.Clients]
	}
	return plan.Traits{Gather: &plan.Gather{Together: of, SetTogether: s.setTogether}}
}

func (s *GroupSpec) setTogether(targets []string) error {
	if s.Clients > len(targets) {
		return &plan.FieldError{Field: "clients", Msg: fmt.Sprintf("%d clients of %d targets", s.Clients, len(targets)), Hint: "name more targets under of:, or fewer clients"}
	}
	s.OfTargets = targets
	return nil
}

// Validate returns an error if the group has no targets or Clients is negative.
func (s *GroupSpec) Validate() error {
	if len(s.OfTargets) == 0 {
		return &plan.FieldError{Field: "of", Msg: "it is made of no target", Hint: "of: [one, another]"}
	}
	if s.Clients < 0 {
		return &plan.FieldError{Field: "clients", Msg: fmt.Sprintf("%d is not a number of clients", s.Clients), Hint: "clients: [1, 2, 4]"}
	}
	return nil
}

// NeighbourSpec is `neighbours: {…}`: a target that is measured while other targets do other work.
type NeighbourSpec struct {
	Victim string   `yaml:"of" doc:"target to measure"`
	At     []string `yaml:"noise" doc:"targets that do other work at the same time"`
	Doing  string   `yaml:"doing" doc:"workload of the plan that they run; it is measured by itself only on the targets that its at: names"`
}

func (s *NeighbourSpec) Traits() plan.Traits {
	return plan.Traits{Gather: &plan.Gather{
		Together: []string{s.Victim}, SetTogether: s.setTogether,
		Doing: s.Doing, At: s.At, SetAt: func(targets []string) { s.At = targets },
	}}
}

// setTogether sets the target. It returns an error unless the plan's name resolves to one target.
func (s *NeighbourSpec) setTogether(targets []string) error {
	if len(targets) != 1 {
		return &plan.FieldError{Field: "of", Msg: fmt.Sprintf("%q names %d targets", s.Victim, len(targets)), Hint: "name one of them, or measure them as a group"}
	}
	s.Victim = targets[0]
	return nil
}

// Validate returns an error if one of the fields is missing.
func (s *NeighbourSpec) Validate() error {
	for _, f := range []struct {
		key, hint string
		missing   bool
	}{{"of", "of: the target that is measured", s.Victim == ""}, {"noise", "noise: [the other targets]", len(s.At) == 0}, {"doing", "doing: the workload that they do", s.Doing == ""}} {
		if f.missing {
			return &plan.FieldError{Field: f.key, Msg: "it is missing", Hint: f.hint}
		}
	}
	return nil
}

// prepareGathered always returns an error, because a run opens the members of a `group:` or `neighbours:` target
// instead.
func prepareGathered[S any](context.Context, *S, Env) (iotax.Volume, error) {
	return nil, errors.New("a target that is made of others has no volume of its own")
}
