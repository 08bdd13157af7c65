package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"iotax"
)

// A typed flag stores the result of parse in *to.
type typed[T any] struct {
	to    *T
	text  string
	parse func(string) (T, error)
}

func (v *typed[T]) String() string { return v.text }
func (v *typed[T]) Type() string   { return "string" }

func (v *typed[T]) Set(s string) (err error) {
	if v.text = s; s == "" {
		return nil // refuseEmpty reports the empty value
	}
	if *v.to, err = v.parse(s); err != nil {
		return iotax.Usage(err) // meantFlag adds the name of the flag
	}
	return nil
}

// typedFlag defines a flag of c that stores the result of parse in *to.
func typedFlag[T any](c *cobra.Command, to *T, name, usage string, parse func(string) (T, error)) {
	c.Flags().Var(&typed[T]{to: to, parse: parse}, name, usage)
}

// choiceFlag defines a flag of c that accepts only the given words, and completes them in the shell. *to is the
// default.
func choiceFlag[T ~string](c *cobra.Command, to *T, name, usage string, words ...T) {
	all := texts(words)
	c.Flags().Var(&typed[T]{to, string(*to), func(s string) (T, error) {
		if !slices.Contains(all, s) {
			return *to, fmt.Errorf("%q is not one of %s", s, strings.Join(all, ", "))
		}
		return T(s), nil
	}}, name, usage)
	complete(c, name, all...)
}
