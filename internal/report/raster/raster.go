// Package raster draws pictures of SVG as pixels, for what takes no SVG: chats, slides.
package raster

import (
	"cmp"
	"encoding/xml"
	"errors"
	"fmt"
	"image/color"
	"io"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"codeberg.org/go-fonts/liberation/liberationsansbold"
	"codeberg.org/go-fonts/liberation/liberationsansregular"
	"git.sr.ht/~sbinet/gg"
	"golang.org/x/image/font"
	"golang.org/x/image/font/opentype"
)

// PNG draws a picture of SVG with scale pixels for each of its own. Its font has Latin, Greek and Cyrillic letters; others
// show as boxes.
func PNG(w io.Writer, svg io.Reader, scale float64) error {
	c, err := draw(svg, scale)
	if err != nil {
		return err
	}
	return c.EncodePNG(w)
}

// draw knows of SVG what reports are drawn with: rect, line, circle, polygon, text, and paths of straight lines, in
// flat colours, styled by a style element of simple rules. What it does not know is an error, so that a
// picture is never short of something.
func draw(svg io.Reader, scale float64) (*gg.Context, error) {
	p := painter{scale: scale, faces: map[faceKey]font.Face{}}
	d := xml.NewDecoder(svg)
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			if p.dc == nil {
				return nil, errors.New("no picture in it")
			}
			return p.dc, nil
		}
		if err != nil {
			return nil, err
		}
		switch t := token.(type) {
		case xml.StartElement:
			if err := p.start(d, t); err != nil {
				return nil, fmt.Errorf("%s: %w", t.Name.Local, err)
			}
		case xml.EndElement:
			p.open = p.open[:len(p.open)-1]
		}
	}
}

type painter struct {
	dc    *gg.Context
	scale float64
	rules []cssRule
	open  []element
	faces map[faceKey]font.Face
}

// An element is one that was opened, with what it hands down.
type element struct {
	tag     string
	classes []string
	attr    map[string]string
	style   map[string]string
}

// start opens an element and draws it. Those whose text it reads are closed as well.
func (p *painter) start(d *xml.Decoder, t xml.StartElement) error {
	e := element{tag: t.Name.Local, attr: map[string]string{}, style: map[string]string{"fill": "#000000", "stroke": "none", "stroke-width": "1", "font-size": "16px"}}
	if n := len(p.open); n > 0 {
		e.style = maps.Clone(p.open[n-1].style)
	}
	for _, a := range t.Attr {
		e.attr[a.Name.Local] = a.Value
		switch a.Name.Local {
		case "fill", "stroke", "stroke-width", "text-anchor":
			e.style[a.Name.Local] = a.Value
		}
	}
	e.classes = strings.Fields(e.attr["class"])
	p.open = append(p.open, e)
	for _, r := range p.rules {
		if r.applies(p.open) {
			maps.Copy(e.style, r.style)
		}
	}
	if p.dc == nil && e.tag != "svg" {
		return errors.New("outside of a picture")
	}
	num := func(name string) float64 { return p.length(e.attr[name], name) }
	switch e.tag {
	case "svg":
		w, h := parseFloat(e.attr["width"]), parseFloat(e.attr["height"])
		if !(w > 0 && h > 0 && w*p.scale <= 1<<14 && h*p.scale <= 1<<16) {
			return fmt.Errorf("a picture of %v × %v pixels", w, h)
		}
		p.dc = gg.NewContext(int(math.Ceil(w*p.scale)), int(math.Ceil(h*p.scale)))
		p.dc.SetLineCap(gg.LineCapButt)
		return nil
	case "g":
		return nil
	case "title", "desc", "style", "text":
		var text strings.Builder
		if err := p.content(d, &text); err != nil {
			return err
		}
		var err error
		switch e.tag {
		case "style":
			p.rules, err = parseCSS(text.String())
		case "text":
			err = p.text(e, text.String())
		}
		return err
	case "rect":
		p.dc.DrawRectangle(num("x"), num("y"), num("width"), num("height"))
	case "line":
		p.dc.DrawLine(num("x1"), num("y1"), num("x2"), num("y2"))
	case "circle":
		p.dc.DrawCircle(num("cx"), num("cy"), num("r"))
	case "polygon":
		if err := p.path("M" + e.attr["points"] + "z"); err != nil {
			return err
		}
	case "path":
		if err := p.path(e.attr["d"]); err != nil {
			return err
		}
	default:
		return errors.New("not an element that is drawn")
	}
	return p.ink(e)
}

// content reads an element's text up to its end.
func (p *painter) content(d *xml.Decoder, to *strings.Builder) error {
	for {
		token, err := d.Token()
		if err != nil {
			return err
		}
		switch t := token.(type) {
		case xml.CharData:
			to.Write(t)
		case xml.EndElement:
			p.open = p.open[:len(p.open)-1]
			return nil
		case xml.StartElement:
			return fmt.Errorf("%s inside", t.Name.Local)
		}
	}
}

// length is a number of the picture in pixels; a share is of its width or height.
func (p *painter) length(s, of string) float64 {
	if share, ok := strings.CutSuffix(s, "%"); ok {
		whole := p.dc.Width()
		if strings.HasPrefix(of, "y") || of == "height" {
			whole = p.dc.Height()
		}
		return parseFloat(share) / 100 * float64(whole)
	}
	return parseFloat(s) * p.scale
}

// parseFloat is 0 for what is not a number, as in a browser.
func parseFloat(s string) float64 {
	v, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(s), "px"), 64)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
		return 0
	}
	return v
}

// ink fills and strokes the path at hand.
func (p *painter) ink(e element) error {
	fill, err := colour(e.style, "fill")
	if err != nil {
		return err
	}
	stroke, err := colour(e.style, "stroke")
	if err != nil {
		return err
	}
	if fill != nil {
		p.dc.SetColor(fill)
		p.dc.FillPreserve()
	}
	if stroke != nil {
		p.dc.SetColor(stroke)
		p.dc.SetLineWidth(parseFloat(e.style["stroke-width"]) * p.scale)
		p.dc.StrokePreserve()
	}
	p.dc.ClearPath()
	return nil
}

// colour is nil for none.
func colour(style map[string]string, key string) (color.Color, error) {
	v := style[key]
	if v == "currentColor" {
		v = cmp.Or(style["color"], "#000000")
	}
	if v == "none" {
		return nil, nil
	}
	var r, g, b uint8
	if n, err := fmt.Sscanf(v, "#%02x%02x%02x", &r, &g, &b); n != 3 || err != nil {
		return nil, fmt.Errorf("%s is %q: not a colour that is drawn", key, v)
	}
	return color.NRGBA{r, g, b, 255}, nil
}

var pathWord = regexp.MustCompile(`[A-Za-z]|-?[0-9.]+`)

// path adds straight lines: M, m, L, l, z.
func (p *painter) path(d string) error {
	words := pathWord.FindAllString(d, -1)
	var command byte
	var x, y float64
	for len(words) > 0 {
		if c := words[0][0]; c >= 'A' {
			words = words[1:]
			if c == 'z' || c == 'Z' {
				p.dc.ClosePath()
				continue
			}
			command = c
		}
		if len(words) < 2 {
			return fmt.Errorf("path %q: a point has two numbers", d)
		}
		dx, dy := parseFloat(words[0])*p.scale, parseFloat(words[1])*p.scale
		words = words[2:]
		if command == 'm' || command == 'l' {
			dx, dy = x+dx, y+dy
		}
		x, y = dx, dy
		switch command {
		case 'M', 'm':
			p.dc.MoveTo(x, y)
			command-- // to L and l: the points that follow are lines
		case 'L', 'l':
			p.dc.LineTo(x, y)
		default:
			return fmt.Errorf("path %q: %c is not drawn", d, command)
		}
	}
	return nil
}

type faceKey struct {
	bold bool
	size float64
}

func (p *painter) face(k faceKey) (font.Face, error) {
	if f := p.faces[k]; f != nil {
		return f, nil
	}
	ttf := liberationsansregular.TTF
	if k.bold {
		ttf = liberationsansbold.TTF
	}
	parsed, err := opentype.Parse(ttf)
	if err != nil {
		return nil, err
	}
	f, err := opentype.NewFace(parsed, &opentype.FaceOptions{Size: k.size, DPI: 72, Hinting: font.HintingNone})
	p.faces[k] = f
	return f, err
}

// text draws a line of text with its baseline at y, and before it, where a stroke is painted first, the halo that keeps
// lines behind it from touching the letters.
func (p *painter) text(e element, s string) error {
	face, err := p.face(faceKey{parseFloat(e.style["font-weight"]) >= 550, parseFloat(e.style["font-size"]) * p.scale})
	if err != nil {
		return err
	}
	fill, err := colour(e.style, "fill")
	if err != nil {
		return err
	}
	halo, err := colour(e.style, "stroke")
	if err != nil {
		return err
	}
	p.dc.SetFontFace(face)
	x, y := p.length(e.attr["x"], "x"), p.length(e.attr["y"], "y")
	switch w, _ := p.dc.MeasureString(s); e.style["text-anchor"] {
	case "middle":
		x -= w / 2
	case "end":
		x -= w
	}
	if halo != nil && e.style["paint-order"] == "stroke" {
		r := parseFloat(e.style["stroke-width"]) * p.scale / 2
		p.dc.SetColor(halo)
		for a := range 16 {
			p.dc.DrawString(s, x+r*math.Cos(float64(a)*math.Pi/8), y+r*math.Sin(float64(a)*math.Pi/8))
		}
	}
	if fill != nil {
		p.dc.SetColor(fill)
		p.dc.DrawString(s, x, y)
	}
	return nil
}

// A cssRule is one selector with its declarations: a chain of elements, each inside the one before.
type cssRule struct {
	chain  []element
	style  map[string]string
	weight int
}

var cssBlock = regexp.MustCompile(`([^{}]+)\{([^{}]*)\}`)

// parseCSS reads rules of elements and classes, sorted so that the stronger come later.
func parseCSS(css string) ([]cssRule, error) {
	var rules []cssRule
	for _, m := range cssBlock.FindAllStringSubmatch(css, -1) {
		style := map[string]string{}
		for d := range strings.SplitSeq(m[2], ";") {
			if k, v, ok := strings.Cut(d, ":"); ok {
				style[strings.TrimSpace(k)] = strings.TrimSpace(v)
			}
		}
		for selector := range strings.SplitSeq(m[1], ",") {
			r := cssRule{style: style}
			for _, word := range strings.Fields(selector) {
				if strings.ContainsAny(word, "#:[>+~*") {
					return nil, fmt.Errorf("the selector %q is not read", selector)
				}
				tag, rest, _ := strings.Cut(word, ".")
				e := element{tag: tag}
				if rest != "" {
					e.classes = strings.Split(rest, ".")
				}
				r.chain = append(r.chain, e)
				r.weight += 10 * len(e.classes)
				if tag != "" {
					r.weight++
				}
			}
			rules = append(rules, r)
		}
	}
	slices.SortStableFunc(rules, func(a, b cssRule) int { return cmp.Compare(a.weight, b.weight) })
	return rules, nil
}

// applies reports whether the rule is about the last of the open elements.
func (r *cssRule) applies(open []element) bool {
	is := func(want, e element) bool {
		return (want.tag == "" || want.tag == e.tag) && !slices.ContainsFunc(want.classes, func(c string) bool { return !slices.Contains(e.classes, c) })
	}
	last, chain := len(open)-1, r.chain
	if len(chain) == 0 || !is(chain[len(chain)-1], open[last]) {
		return false
	}
	chain = chain[:len(chain)-1]
	for i := last - 1; i >= 0 && len(chain) > 0; i-- {
		if is(chain[len(chain)-1], open[i]) {
			chain = chain[:len(chain)-1]
		}
	}
	return len(chain) == 0
}
