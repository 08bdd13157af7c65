package fio

import (
	"errors"
	"fmt"
	"math"
	"strings"
)

// ParseSize reads a number of bytes as fio does. kbBase is fio's option kb_base: with 1024, fio's
// default, k, kB, Ki, m, MB, Mi… are powers of 1024, and KiB, MiB… powers of 1000, the reverse of the
// standard; with 1000 the two change places. A value in parentheses is arithmetic.
func ParseSize(s string, kbBase int) (int64, error) {
	s = strings.TrimSpace(s)
	if strings.HasPrefix(s, "(") {
		return evaluate(s, kbBase)
	}
	p := expression{s: s, kbBase: kbBase}
	n, err := p.number()
	if err == nil && p.s != "" {
		err = fmt.Errorf("%q is no size", s)
	}
	return n, err
}

var powers = map[byte]int{'k': 1, 'm': 2, 'g': 3, 't': 4, 'p': 5}

// An expression is what is left to read of + - * / % and parentheses over sizes, in whole numbers as
// bc and fio's own parser calculate them.
type expression struct {
	s      string
	kbBase int
	depth  int
}

var errRange = errors.New("the number is out of range")

func evaluate(s string, kbBase int) (int64, error) {
	p := expression{s: strings.TrimSpace(s), kbBase: kbBase}
	n, err := p.sum()
	if err == nil && p.s != "" {
		err = fmt.Errorf("%q does not fit here", p.s)
	}
	if err != nil {
		return 0, fmt.Errorf("%q: %w", s, err)
	}
	return n, nil
}

func (p *expression) op(ops string) byte {
	p.s = strings.TrimLeft(p.s, " \t")
	if p.s == "" || strings.IndexByte(ops, p.s[0]) < 0 {
		return 0
	}
	c := p.s[0]
	p.s = p.s[1:]
	return c
}

func (p *expression) sum() (int64, error) {
	a, err := p.product()
	for err == nil {
		op := p.op("+-")
		if op == 0 {
			break
		}
		var b int64
		if b, err = p.product(); err != nil {
			break
		}
		if op == '-' {
			b = -b
		}
		if (b > 0 && a > math.MaxInt64-b) || (b < 0 && a < math.MinInt64-b) {
			return 0, errRange
		}
		a += b
	}
	return a, err
}

func (p *expression) product() (int64, error) {
	a, err := p.factor()
	for err == nil {
		op := p.op("*/%")
		if op == 0 {
			break
		}
		var b int64
		if b, err = p.factor(); err != nil {
			break
		}
		switch {
		case op == '*' && a != 0 && (a*b/a != b || a == -1 && b == math.MinInt64):
			return 0, errRange
		case op == '*':
			a *= b
		case b == 0:
			return 0, errors.New("division by zero")
		case op == '/':
			a /= b
		default:
			a %= b
		}
	}
	return a, err
}

func (p *expression) factor() (int64, error) {
	if p.depth++; p.depth > 100 {
		return 0, errors.New("nested too deeply")
	}
	defer func() { p.depth-- }()
	switch p.op("(-+") {
	case '(':
		n, err := p.sum()
		if err == nil && p.op(")") == 0 {
			err = errors.New("a ) is missing")
		}
		return n, err
	case '-':
		n, err := p.factor()
		return -n, err
	case '+':
		return p.factor()
	}
	return p.number()
}

func (p *expression) number() (int64, error) {
	s := strings.TrimLeft(p.s, " \t")
	i := 0
	var n int64
	for ; i < len(s) && s[i] >= '0' && s[i] <= '9'; i++ {
		if n > (math.MaxInt64-9)/10 {
			return 0, errRange
		}
		n = n*10 + int64(s[i]-'0')
	}
	if i == 0 {
		return 0, fmt.Errorf("%q is no number", s)
	}
	s = s[i:]
	if s != "" {
		if power := powers[s[0]|0x20]; power > 0 {
			s = s[1:]
			// Only "KiB" in full is the other base; "Ki" is "K" to fio.
			iec := len(s) > 1 && s[0]|0x20 == 'i' && s[1]|0x20 == 'b'
			if s != "" && s[0]|0x20 == 'i' {
				s = s[1:]
			}
			base := int64(1024)
			if iec == (p.kbBase != 1000) {
				base = 1000
			}
			for range power {
				if n > math.MaxInt64/base {
					return 0, errRange
				}
				n *= base
			}
		}
		if s != "" && s[0]|0x20 == 'b' {
			s = s[1:]
		}
	}
	p.s = strings.TrimLeft(s, " \t")
	return n, nil
}
