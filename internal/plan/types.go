package plan

import (
	"iotax/internal/plan/bind"
	"iotax/internal/plan/syntax"
)

// Aliases of lower-layer types, for the packages of kinds and for readers of a plan.
type (
	Pos    = syntax.Pos
	Mark   = syntax.Mark
	Error  = syntax.Error
	Errors = syntax.Errors

	Size       = syntax.Size
	Duration   = syntax.Duration
	Percent    = syntax.Percent
	ValueError = syntax.ValueError

	Kind       = bind.Kind
	Spec       = bind.Spec
	Plain      = bind.Plain
	Scalar     = bind.Scalar
	FieldError = bind.FieldError
	Traits     = bind.Traits
	Choice     = bind.Choice
	Snippet    = bind.Snippet
	Served     = bind.Served
	Gather     = bind.Gather
	Options    = bind.Options
	Option     = bind.Option
	Part       = bind.Part
	Label      = bind.Label
)

// These functions call the functions of the same name in package syntax.

func ParseSize(s string) (Size, error) { return syntax.ParseSize(s) }

func ParseDuration(s string) (Duration, error) { return syntax.ParseDuration(s) }

func ParsePercent(s string) (Percent, error) { return syntax.ParsePercent(s) }

func ParseRate(s string) (float64, error) { return syntax.ParseRate(s) }

func Nearest(word string, candidates []string) string { return syntax.Nearest(word, candidates) }
