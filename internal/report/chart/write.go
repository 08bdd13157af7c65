package chart

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"html"
	"html/template"
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

	"iotax/internal/report/format"
)

//go:embed colours.css
var colours string

// light maps the names of colours to their values in the light theme.
var light = func() map[string]string {
	root, _, _ := strings.Cut(colours, "@media")
	out := map[string]string{}
	for _, m := range regexp.MustCompile(`--(\w+): (#\w+);`).FindAllStringSubmatch(root, -1) {
		out[m[1]] = m[2]
	}
	return out
}()

// A style describes the shapes of a class. The colour "own" means the shape's tone.
type style struct {
	fill, stroke string
	width        float64 // of the stroke
	opacity      float64 // 0 means opaque
	dash         string
	text, bold   bool
}

// letters returns the style of text. An outline in the background's colour separates the letters from lines.
func letters(fill string, bold bool) style {
	return style{fill: fill, stroke: "card", width: 3, text: true, bold: bold}
}

var styles = map[string]style{
	"tick": letters("soft", false), "note": letters("soft", false), "label": letters("ink", false), "word": letters("own",
		true), "head": letters("ink", true), "warn": letters("unsure", true),
	"grid": {stroke: "line"}, "frame": {stroke: "soft"}, "band": {fill: "band"}, "joint": {stroke: "soft",
		dash: "2 2"}, "rule": {stroke: "own", width: 1.5, dash: "4 3"},
	"curve": {stroke: "own", width: 2}, "second": {stroke: "own", width: 1.25}, "thin": {stroke: "own", width: 1.25,
		opacity: .6}, "odd": {stroke: "worse", width: 1.25, opacity: .9},
	"mark": {fill: "own"}, "bar": {fill: "own"}, "hollow": {fill: "card", stroke: "own", width: 2}, "cross": {stroke: "own",
		width: 2.5}, "interval": {stroke: "own", width: 3},
	"whisker": {stroke: "ink", width: 2}, "range": {fill: "accent", opacity: .17}, "level": {stroke: "ink", width: 2},
	"dot": {fill: "accent", stroke: "card", width: .75}, "toned": {fill: "own", stroke: "card", width: .75},
	"heat1": {fill: "own", opacity: .16}, "heat2": {fill: "own", opacity: .32}, "heat3": {fill: "own", opacity: .5},
	"heat4": {fill: "own", opacity: .72}, "heat5": {fill: "own"},
	"gone": {fill: "bg", stroke: "soft", width: 1.25, dash: "2 1.5"},
}

// properties returns the properties that CSS and SVG share. colour returns the value for the name of a colour.
func (s style) properties(colour func(string) string) (out [][2]string) {
	add := func(k, v string) { out = append(out, [2]string{k, v}) }
	paint := func(k, name string) {
		if name == "" {
			add(k, "none")
		} else {
			add(k, colour(name))
		}
	}
	paint("fill", s.fill)
	paint("stroke", s.stroke)
	if s.width > 0 {
		add("stroke-width", num(s.width))
	}
	if s.opacity > 0 {
		add("opacity", num(s.opacity))
	}
	if s.dash != "" {
		add("stroke-dasharray", s.dash)
	}
	if s.text {
		add("paint-order", "stroke")
	}
	if s.bold {
		add("font-weight", "600")
	}
	return out
}

// CSS returns the colours of a page and the styles of its drawings.
func CSS() string {
	var b strings.Builder
	b.WriteString(colours)
	for _, class := range slices.Sorted(maps.Keys(styles)) {
		b.WriteString(".chart ." + class + " {")
		for _, p := range styles[class].properties(func(name string) string {
			if name == "own" {
				return "currentColor"
			}
			return "var(--" + name + ")"
		}) {
			b.WriteString(" " + p[0] + ": " + p[1] + ";")
		}
		b.WriteString(" }\n")
	}
	for _, tone := range slices.Sorted(maps.Keys(light)) {
		fmt.Fprintf(&b, ".chart .%s, .key .%[1]s { color: var(--%[1]s); }\n", tone)
	}
	return b.String() + ".chart text { font-size: 12px; stroke-linejoin: round; }\n"
}

// SVG returns a drawing to embed in a page that includes CSS. It returns "" if there is nothing to draw.
func SVG(d Drawing) template.HTML {
	c := d.draw()
	if c == nil {
		return ""
	}
	label, role := c.title, "img"
	if c.desc != "" {
		label += ". " + c.desc
	}
	if c.linked {
		role = "group"
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg class="chart" viewBox="0 0 %s %s" role="%s" aria-label="%s">`, num(c.width), num(c.height), role,
		html.EscapeString(format.Clean(label)))
	tone := ""
	for _, s := range c.shapes {
		if s.tone != tone {
			if tone != "" {
				b.WriteString("</g>")
			}
			if tone = s.tone; tone != "" {
				b.WriteString(`<g class="` + html.EscapeString(tone) + `">`)
			}
		}
		s.svg(&b, fmt.Sprintf(` class="%s%s"`, s.class, []string{"", " v1", " v2"}[s.view]))
	}
	if tone != "" {
		b.WriteString("</g>")
	}
	b.WriteString("</svg>")
	return template.HTML(b.String()) // all text is escaped
}

// A File is a drawing that is written to a file, with lines of text above and below it.
type File struct {
	Drawing
	Head, Foot []string
}

const (
	fileMargin = 12.0
	fileLine   = 18.0
)

// draw adds the text lines and a margin to the drawing. It keeps only the first view.
func (f File) draw() *canvas {
	inner := f.Drawing.draw()
	if inner == nil {
		return nil
	}
	top := fileMargin + fileLine*float64(len(f.Head))
	c := &canvas{title: inner.title, desc: inner.desc, width: inner.width + 2*fileMargin,
		height: top + inner.height + fileLine*float64(len(f.Foot)) + fileMargin}
	for i, s := range f.Head {
		c.text(fileMargin, fileMargin+12+fileLine*float64(i), "head", "", s)
	}
	for _, s := range inner.shapes {
		if s.view == 2 {
			continue
		}
		s.x, s.y, s.path = s.x+fileMargin, s.y+top, slices.Clone(s.path)
		for i := range s.path {
			s.path[i].x, s.path[i].y = s.path[i].x+fileMargin, s.path[i].y+top
		}
		c.shapes = append(c.shapes, s)
	}
	for i, s := range f.Foot {
		c.text(fileMargin, top+inner.height+12+fileLine*float64(i), "head", "", s)
	}
	return c
}

// ErrNothing reports that there is nothing to draw.
var ErrNothing = errors.New("nothing to draw")

// hex returns a function that maps the name of a colour to its value in a file, for a shape with the given tone.
func hex(tone string) func(string) string {
	return func(name string) string {
		if name == "own" {
			name = tone
		}
		if c := light[name]; c != "" {
			return c
		}
		return light["ink"]
	}
}

// WriteSVG writes a self-contained SVG file. It returns ErrNothing if there is nothing to draw.
func WriteSVG(w io.Writer, f File) error {
	c := f.draw()
	if c == nil {
		return ErrNothing
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%s" height="%[2]s" viewBox="0 0 %[1]s %[2]s" role="img" font-family="Helvetica Neue, Noto Sans, Liberation Sans, Arial, sans-serif" font-size="12">
<title>%[3]s</title><desc>%[4]s</desc>
<rect width="100%%" height="100%%" fill="%[5]s"/>
`, num(c.width), num(c.height), html.EscapeString(format.Clean(c.title)), html.EscapeString(format.Clean(c.desc)), light["card"])
	for _, s := range c.shapes {
		var attributes strings.Builder
		for _, p := range styles[s.class].properties(hex(s.tone)) {
			fmt.Fprintf(&attributes, ` %s="%s"`, p[0], p[1])
		}
		var one strings.Builder
		s.href = ""
		s.svg(&one, attributes.String())
		b.WriteString(one.String() + "\n")
	}
	b.WriteString("</svg>\n")
	_, err := w.Write(b.Bytes())
	return err
}

// svg writes the shape as an SVG element with the given attributes.
func (s shape) svg(b *strings.Builder, attributes string) {
	if s.href != "" {
		fmt.Fprintf(b, `<a href="%s" aria-label="%s">`, html.EscapeString(s.href), html.EscapeString(s.title))
	}
	name := "path"
	switch {
	case s.text != "":
		name = "text"
		if s.anchor != "" {
			attributes += ` text-anchor="` + s.anchor + `"`
		}
		attributes += fmt.Sprintf(` x="%s" y="%s"`, px(s.x), px(s.y))
	case s.path == nil:
		name = "circle"
		attributes += fmt.Sprintf(` cx="%s" cy="%s" r="%s"`, px(s.x), px(s.y), num(s.r))
	default:
		if s.dash != "" {
			attributes += ` stroke-dasharray="` + s.dash + `"`
		}
		attributes += ` d="` + s.d() + `"`
	}
	b.WriteString("<" + name + attributes)
	switch {
	case s.title+s.text == "":
		b.WriteString("/>")
	case s.title != "":
		b.WriteString("><title>" + html.EscapeString(s.title) + "</title>" + html.EscapeString(s.text) + "</" + name + ">")
	default:
		b.WriteString(">" + html.EscapeString(s.text) + "</" + name + ">")
	}
	if s.href != "" {
		b.WriteString("</a>")
	}
}

func (s shape) d() string {
	var b strings.Builder
	joined := false
	var lastX, lastY string
	for _, p := range s.path {
		if !finite(p.x, p.y) {
			joined = false
			continue
		}
		x, y := px(p.x), px(p.y)
		switch {
		case !joined:
			b.WriteString("M" + x + " " + y)
		case y == lastY:
			b.WriteString("H" + x)
		case x == lastX:
			b.WriteString("V" + y)
		default:
			b.WriteString("L" + x + " " + y)
		}
		joined, lastX, lastY = true, x, y
	}
	if s.closed {
		b.WriteString("z")
	}
	return b.String()
}

// px formats a coordinate to a tenth of a pixel. This keeps pages small.
func px(x float64) string { return strconv.FormatFloat(math.Round(x*10)/10, 'f', -1, 64) }

func num(x float64) string { return strconv.FormatFloat(math.Round(x*100)/100, 'f', -1, 64) }

// PNGScale is the number of PNG pixels per pixel of the drawing.
const PNGScale = 2

// WritePNG writes a drawing as a PNG file. The font contains Latin, Greek and Cyrillic letters. Other characters appear
// as boxes. WritePNG returns ErrNothing if there is nothing to draw.
func WritePNG(w io.Writer, f File) error {
	c := f.draw()
	if c == nil {
		return ErrNothing
	}
	dc := gg.NewContext(int(math.Ceil(c.width*PNGScale)), int(math.Ceil(c.height*PNGScale)))
	dc.SetLineCap(gg.LineCapButt)
	dc.SetHexColor(light["card"])
	dc.Clear()
	faces, err := fontFaces()
	if err != nil {
		return err
	}
	for _, s := range c.shapes {
		s.paint(dc, faces)
	}
	return dc.EncodePNG(w)
}

func fontFaces() (faces [2]font.Face, err error) {
	for i, ttf := range [][]byte{liberationsansregular.TTF, liberationsansbold.TTF} {
		parsed, err := opentype.Parse(ttf)
		if err != nil {
			return faces, err
		}
		if faces[i], err = opentype.NewFace(parsed, &opentype.FaceOptions{Size: 12 * PNGScale, DPI: 72,
			Hinting: font.HintingNone}); err != nil {
			return faces, err
		}
	}
	return faces, nil
}

// paint draws the shape in the colours of the light theme.
func (s shape) paint(dc *gg.Context, faces [2]font.Face) {
	st := styles[s.class]
	colour := func(name string) color.NRGBA {
		c := color.NRGBA{A: 255}
		if _, err := fmt.Sscanf(hex(s.tone)(name), "#%02x%02x%02x", &c.R, &c.G, &c.B); err != nil {
			panic(err) // cannot happen: the colours are compiled in
		}
		if st.opacity > 0 {
			c.A = uint8(math.Round(255 * st.opacity))
		}
		return c
	}
	if s.text != "" {
		face, anchor := faces[0], map[string]float64{"middle": .5, "end": 1}[s.anchor]
		if st.bold {
			face = faces[1]
		}
		dc.SetFontFace(face)
		dc.SetColor(colour(st.stroke))
		for a := range 16 {
			y, x := math.Sincos(float64(a) * math.Pi / 8)
			dc.DrawStringAnchored(s.text, (s.x+st.width/2*x)*PNGScale, (s.y+st.width/2*y)*PNGScale, anchor, 0)
		}
		dc.SetColor(colour(st.fill))
		dc.DrawStringAnchored(s.text, s.x*PNGScale, s.y*PNGScale, anchor, 0)
		return
	}
	if s.path == nil {
		dc.DrawCircle(s.x*PNGScale, s.y*PNGScale, s.r*PNGScale)
	}
	joined := false
	for _, p := range s.path {
		if !finite(p.x, p.y) {
			joined = false
			continue
		}
		if !joined {
			dc.MoveTo(p.x*PNGScale, p.y*PNGScale)
		} else {
			dc.LineTo(p.x*PNGScale, p.y*PNGScale)
		}
		joined = true
	}
	if s.closed {
		dc.ClosePath()
	}
	if st.fill != "" {
		dc.SetColor(colour(st.fill))
		dc.FillPreserve()
	}
	if st.stroke != "" {
		var dashes []float64
		for word := range strings.FieldsSeq(s.dash + " " + st.dash) {
			if v, err := strconv.ParseFloat(word, 64); err == nil {
				dashes = append(dashes, v*PNGScale)
			}
		}
		dc.SetDash(dashes...)
		dc.SetLineWidth(max(1, st.width) * PNGScale)
		dc.SetColor(colour(st.stroke))
		dc.StrokePreserve()
	}
	dc.ClearPath()
}
