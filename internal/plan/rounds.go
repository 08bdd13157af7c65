package plan

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"iotax/internal/plan/syntax"
)

// ParseRounds reads "6" (exactly six) or "6..30".
func ParseRounds(s string) (Rounds, error) {
	low, high, ranged := strings.Cut(strings.TrimSpace(s), "..")
	if !ranged {
		high = low
	}
	lo, err1 := strconv.Atoi(strings.TrimSpace(low))
	hi, err2 := strconv.Atoi(strings.TrimSpace(high))
	if err1 != nil || err2 != nil {
		return Rounds{}, &ValueError{Msg: fmt.Sprintf("%s is not a number of rounds", syntax.Quote(s)), Hint: "write 6, or 6..30 for a least and a most"}
	}
	b := Rounds{Min: lo, Max: hi}
	if bad := b.check(); len(bad) > 0 {
		return Rounds{}, &ValueError{Msg: bad[0].Msg, Hint: bad[0].Hint}
	}
	return b, nil
}

// SetScalar parses `6` or `6..30` (see ParseRounds).
func (b *Rounds) SetScalar(s string) error {
	n, err := ParseRounds(s)
	if err == nil {
		*b = n
	}
	return err
}

func (b Rounds) String() string {
	if b.Min == b.Max {
		return strconv.Itoa(b.Min)
	}
	return fmt.Sprintf("%d..%d", b.Min, b.Max)
}

func (b Rounds) check() []*FieldError {
	var bad []*FieldError
	const why = "an interval needs at least 6 rounds; from 1 to 5 only values are shown"
	if b.Min < 1 {
		bad = append(bad, &FieldError{Field: "min", Msg: fmt.Sprintf("%d rounds measure nothing", b.Min), Hint: why})
	}
	if b.Min >= 1 && b.Max < b.Min {
		bad = append(bad, &FieldError{Field: "max", Msg: fmt.Sprintf("at most %d rounds is less than at least %d", b.Max, b.Min), Hint: "make max at least min"})
	}
	if b.Max > MaxRounds {
		bad = append(bad, &FieldError{Field: "max", Msg: fmt.Sprintf("%d rounds are too many", b.Max), Hint: fmt.Sprintf("at most %d", MaxRounds)})
	}
	return slices.Clip(bad)
}

const MaxRounds = 100000
