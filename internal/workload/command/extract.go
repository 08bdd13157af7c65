package command

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/ohler55/ojg/jp"
	"github.com/ohler55/ojg/oj"

	"iotax"
	"iotax/internal/plan"
)

// A unitOf is a unit that a program may print, with the factor that converts it to a base unit.
type unitOf struct {
	unit   string
	factor float64
	better iotax.Better
}

// units contains the units that a command's output may have, by name. Rates have two spellings, because the name of a
// group in a regular expression cannot contain a slash.
var units = func() map[string]unitOf {
	all := map[string]unitOf{"count": {iotax.Count, 1, iotax.Neither}, "1": {iotax.Count, 1, iotax.Neither},
		"ratio": {iotax.RatioUnit, 1, iotax.Neither}, "percent": {iotax.RatioUnit, 0.01, iotax.Neither}}
	for name, f := range map[string]float64{"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1, "min": 60, "h": 3600} {
		all[name] = unitOf{iotax.Seconds, f, iotax.Down}
	}
	for name, f := range map[string]float64{"B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30} {
		all[name] = unitOf{iotax.Bytes, f, iotax.Neither}
		for _, per := range []string{"_per_s", "/s"} {
			all[name+per] = unitOf{iotax.BytesPerSecond, f, iotax.Up}
		}
	}
	for name, f := range map[string]float64{"per_s": 1, "1/s": 1, "per_min": 1. / 60, "1/min": 1. / 60} {
		all[name] = unitOf{iotax.PerSecond, f, iotax.Up}
	}
	return all
}()

// An extract takes one value from the output of a command.
type extract struct {
	name    string
	unit    unitOf
	pattern *regexp.Regexp // its only named group matches the number
	group   int
	path    jp.Expr
}

var valueName = regexp.MustCompile(`^[a-z][a-z0-9_.-]{0,63}$`)

// parseExtract parses a regular expression with one named group, whose name is the unit, or a JSON path followed by a
// unit. Its error is a *plan.ValueError.
func parseExtract(name, text string) (extract, error) {
	bad := func(hint, format string, args ...any) (extract, error) {
		return extract{}, &plan.ValueError{Msg: fmt.Sprintf(format, args...), Hint: hint}
	}
	x := extract{name: name}
	switch {
	case !valueName.MatchString(name):
		return bad("lower case letters, digits, dots, - and _, as in commit.latency", "%q is not a name for a value", name)
	case slices.Contains([]string{"duration", "operations", "start"}, name):
		return bad("another name", "iotax measures %s itself", name)
	}
	unitHint := "the unit is one of " + strings.Join(slices.Sorted(maps.Keys(units)), ", ")
	if strings.HasPrefix(text, "$") {
		i := strings.LastIndexByte(text, ' ')
		if i < 0 {
			return bad("as in '$.tps 1/s'", "a JSON path needs a unit behind it")
		}
		var ok bool
		if x.unit, ok = units[text[i+1:]]; !ok {
			return bad(unitHint, "%q is not a unit", text[i+1:])
		}
		var err error
		if x.path, err = jp.ParseString(strings.TrimSpace(text[:i])); err != nil {
			return bad("as in $.jobs[0].tps", "this is not a JSON path: %v", err)
		}
		return x, nil
	}
	p, err := regexp.Compile("(?m)" + text)
	if err != nil {
		return bad("the syntax is that of RE2", "%v", err)
	}
	for i, g := range p.SubexpNames() {
		if g == "" {
			continue
		}
		if x.group != 0 {
			return bad("make the others (?:…)", "it has two named groups, and one is the number")
		}
		var ok bool
		if x.unit, ok = units[g]; !ok {
			return bad(unitHint, "the group is called %q, which is not a unit", g)
		}
		x.group = i
	}
	if x.group == 0 {
		return bad("put (?<per_s>…), (?<ms>…) or another unit around the number", "it has no named group around the number")
	}
	x.pattern = p
	return x, nil
}

// take returns the value from standard output. If a pattern does not match there, take searches standard error. The
// last match counts, because programs print progress first and totals last.
func (x extract) take(stdout, stderr []byte) (iotax.Value, error) {
	var n float64
	var err error
	if x.path != nil {
		n, err = x.fromJSON(stdout)
	} else if n, err = x.fromText(stdout); errors.Is(err, errNotFound) {
		n, err = x.fromText(stderr)
	}
	if err != nil {
		return iotax.Value{}, err
	}
	n *= x.unit.factor
	if math.IsNaN(n) || math.IsInf(n, 0) {
		return iotax.Value{}, fmt.Errorf("%g is not a measurement", n)
	}
	return iotax.Value{Name: x.name, Value: n, Unit: x.unit.unit, Better: x.unit.better}, nil
}

var errNotFound = errors.New("the pattern is not found")

func (x extract) fromText(text []byte) (float64, error) {
	all := x.pattern.FindAllSubmatch(text, -1)
	if len(all) == 0 {
		return 0, fmt.Errorf("%w: %s", errNotFound, strings.TrimPrefix(x.pattern.String(), "(?m)"))
	}
	return parseNumber(string(all[len(all)-1][x.group]))
}

func parseNumber(s string) (float64, error) {
	n, err := strconv.ParseFloat(strings.ReplaceAll(strings.TrimSpace(s), ",", ""), 64)
	if err != nil {
		return 0, fmt.Errorf("%q is not a number", s)
	}
	return n, nil
}

func (x extract) fromJSON(text []byte) (float64, error) {
	// Some tools print notes before their JSON.
	if i := bytes.IndexAny(text, "{["); i > 0 {
		text = text[i:]
	}
	doc, err := oj.Parse(text)
	if err != nil {
		return 0, fmt.Errorf("the output is not JSON: %w", err)
	}
	switch got := x.path.Get(doc); {
	case len(got) == 0:
		return 0, fmt.Errorf("nothing is at %s", x.path)
	case len(got) > 1:
		return 0, fmt.Errorf("%d values are at %s", len(got), x.path)
	default:
		switch v := got[0].(type) {
		case int64:
			return float64(v), nil
		case float64:
			return v, nil
		case string:
			return parseNumber(v)
		}
		return 0, fmt.Errorf("the value at %s is %v, which is not a number", x.path, got[0])
	}
}
