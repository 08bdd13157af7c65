package fio

import (
	"errors"
	"fmt"
	"math"
	"strings"
)

// keywords lists fio's own variables, in the order in which fio replaces them.
var keywords = []string{"pagesize", "mb_memory", "ncpus"}

// Expand replaces variables in a value of a job file, as fio does. ${NAME} is an environment variable. $ncpus,
// $mb_memory and $pagesize are fio's own variables. vars returns the value of a variable by its name without $ and
// braces. If a value contains one of fio's own variables and the result contains + - * or / but no single quote, Expand
// calculates the result like fio (with bc), in whole numbers without units.
//
// fio replaces an unset variable with an empty string. Expand returns an error instead.
func Expand(value string, vars func(name string) (string, bool)) (string, error) {
	get := func(name string) (string, error) {
		v, ok := vars(name)
		if !ok {
			return "", fmt.Errorf("the variable %s in %q has no value", name, value)
		}
		return v, nil
	}
	var b strings.Builder
	rest := value
	for {
		i := strings.Index(rest, "${")
		if i < 0 {
			break
		}
		end := strings.IndexByte(rest[i:], '}')
		if end < 0 {
			return "", fmt.Errorf("%q has no closing }", value)
		}
		v, err := get(rest[i+2 : i+end])
		if err != nil {
			return "", err
		}
		b.WriteString(rest[:i])
		b.WriteString(v)
		rest = rest[i+end+1:]
	}
	b.WriteString(rest)
	out := b.String()
	own := false
	for _, k := range keywords {
		if !strings.Contains(out, "$"+k) {
			continue
		}
		v, err := get(k)
		if err != nil {
			return "", err
		}
		out = strings.ReplaceAll(out, "$"+k, v)
		own = true
	}
	if !own || !strings.ContainsAny(out, "+-*/") || strings.ContainsRune(out, '\'') {
		return out, nil
	}
	n, err := calculate(out)
	if err != nil {
		return "", fmt.Errorf("bc cannot calculate %q: %w", out, err)
	}
	return fmt.Sprint(n), nil
}

// calculate evaluates whole-number arithmetic like bc.
func calculate(s string) (int64, error) {
	e := expression{s: s, bc: true}
	n, err := e.sum()
	if err == nil && e.s != "" {
		err = fmt.Errorf("%q does not fit here", e.s)
	}
	return n, err
}

var errPower = errors.New("the power is out of range")

// power reads a factor and, for bc, the ^ operator, which binds tighter than * and is right-associative.
func (p *expression) power() (int64, error) {
	a, err := p.factor()
	if err != nil || !p.bc || p.op("^") == 0 {
		return a, err
	}
	n, err := p.nested(p.power)
	if err != nil {
		return 0, err
	}
	if n < 0 || n > 63 {
		return 0, errPower
	}
	r := int64(1)
	for range n {
		if a != 0 && (r*a/a != r || a == -1 && r == math.MinInt64) {
			return 0, errRange
		}
		r *= a
	}
	return r, nil
}
