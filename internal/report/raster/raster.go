// Package raster draws pictures of SVG as pixels, for what takes no SVG: chats, slides.
package raster

import (
	"cmp"
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
	"github.com/andybalholm/cascadia"
	"golang.org/x/image/font"
	"golang.org/x/image/font/opentype"
	"golang.org/x/net/html"
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

// draw supports the SVG that reports use: rect, line, circle, polygon, text, and paths of straight lines, in
// flat colours, styled by a style element. Anything else is an error, so that a picture never lacks a part.
func draw(svg io.Reader, scale float64) (*gg.Context, error) {
	doc, err := html.Parse(svg)
	if err != nil {
		return nil, err
	}
	root := cascadia.Query(doc, cascadia.MustCompile("svg"))
	if root == nil {
		return nil, errors.New("no picture in it")
	}
	p := painter{scale: scale, faces: map[faceKey]font.Face{}}
	for _, n := range cascadia.QueryAll(root, cascadia.MustCompile("style")) {
		if err := p.parseCSS(text(n)); err != nil {
			return nil, err
		}
	}
	err = p.draw(root, map[string]string{"fill": "#000000", "stroke": "none", "stroke-width": "1", "font-size": "16px"})
	return p.dc, err
}

type painter struct {
	dc    *gg.Context
	scale float64
	rules []cssRule
	faces map[faceKey]font.Face
}

// draw draws an element and those in it.
func (p *painter) draw(n *html.Node, inherited map[string]string) error {
	attr, style := map[string]string{}, maps.Clone(inherited)
	for _, a := range n.Attr {
		attr[a.Key] = a.Val
		switch a.Key {
		case "fill", "stroke", "stroke-width", "text-anchor":
			style[a.Key] = a.Val
		}
	}
	for _, r := range p.rules {
		if r.selector.Match(n) {
			maps.Copy(style, r.style)
		}
	}
	num := func(name string) float64 { return p.length(attr[name], name) }
	var err error
	switch n.Data {
	case "svg":
		w, h := parseFloat(attr["width"]), parseFloat(attr["height"])
		if !(w > 0 && h > 0 && w*p.scale <= 1<<14 && h*p.scale <= 1<<16) {
			return fmt.Errorf("a picture of %v × %v pixels", w, h)
		}
		p.dc = gg.NewContext(int(math.Ceil(w*p.scale)), int(math.Ceil(h*p.scale)))
		p.dc.SetLineCap(gg.LineCapButt)
		fallthrough
	case "g":
		for c := range n.ChildNodes() {
			if c.Type == html.ElementNode {
				if err := p.draw(c, style); err != nil {
					return fmt.Errorf("%s: %w", c.Data, err)
				}
			}
		}
		return nil
	case "title", "desc", "style":
		return nil
	case "text":
		if n.FirstChild != n.LastChild {
			return errors.New("elements inside are not drawn")
		}
		return p.text(attr, style, text(n))
	case "rect":
		p.dc.DrawRectangle(num("x"), num("y"), num("width"), num("height"))
	case "line":
		p.dc.DrawLine(num("x1"), num("y1"), num("x2"), num("y2"))
	case "circle":
		p.dc.DrawCircle(num("cx"), num("cy"), num("r"))
	case "polygon":
		err = p.path("M" + attr["points"] + "z")
	case "path":
		err = p.path(attr["d"])
	default:
		return errors.New("this element is not drawn")
	}
	if err != nil {
		return err
	}
	return p.ink(style)
}

// text is the text directly in an element.
func text(n *html.Node) string {
	var b strings.Builder
	for c := range n.ChildNodes() {
		if c.Type == html.TextNode {
			b.WriteString(c.Data)
		}
	}
	return b.String()
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
func (p *painter) ink(style map[string]string) error {
	fill, err := colour(style, "fill")
	if err != nil {
		return err
	}
	stroke, err := colour(style, "stroke")
	if err != nil {
		return err
	}
	if fill != nil {
		p.dc.SetColor(fill)
		p.dc.FillPreserve()
	}
	if stroke != nil {
		p.dc.SetColor(stroke)
		p.dc.SetLineWidth(parseFloat(style["stroke-width"]) * p.scale)
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
func (p *painter) text(attr, style map[string]string, s string) error {
	face, err := p.face(faceKey{parseFloat(style["font-weight"]) >= 550, parseFloat(style["font-size"]) * p.scale})
	if err != nil {
		return err
	}
	fill, err := colour(style, "fill")
	if err != nil {
		return err
	}
	halo, err := colour(style, "stroke")
	if err != nil {
		return err
	}
	p.dc.SetFontFace(face)
	x, y := p.length(attr["x"], "x"), p.length(attr["y"], "y")
	switch w, _ := p.dc.MeasureString(s); style["text-anchor"] {
	case "middle":
		x -= w / 2
	case "end":
		x -= w
	}
	if halo != nil && style["paint-order"] == "stroke" {
		r := parseFloat(style["stroke-width"]) * p.scale / 2
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

type cssRule struct {
	selector cascadia.Sel
	style    map[string]string
}

var cssBlock = regexp.MustCompile(`([^{}]+)\{([^{}]*)\}`)

// parseCSS adds rules, and sorts them so that the more specific come later.
func (p *painter) parseCSS(css string) error {
	for _, m := range cssBlock.FindAllStringSubmatch(css, -1) {
		style := map[string]string{}
		for d := range strings.SplitSeq(m[2], ";") {
			if k, v, ok := strings.Cut(d, ":"); ok {
				style[strings.TrimSpace(k)] = strings.TrimSpace(v)
			}
		}
		selectors, err := cascadia.ParseGroup(m[1])
		if err != nil {
			return fmt.Errorf("the selector %q: %w", m[1], err)
		}
		for _, sel := range selectors {
			p.rules = append(p.rules, cssRule{sel, style})
		}
	}
	slices.SortStableFunc(p.rules, func(a, b cssRule) int {
		x, y := a.selector.Specificity(), b.selector.Specificity()
		return slices.Compare(x[:], y[:])
	})
	return nil
}
