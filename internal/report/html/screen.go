package html

import (
	"fmt"
	"slices"
	"strings"

	"iotax/internal/report/format"
)

// A screen is a window in which a page opens, in pixels and in letters of a line. A page without scripts cannot ask
// the reader's window, so that there are two screens, and the style sheet shows what is made for one of them. Fonts
// differ: the figures are those of a wide one, and what is set in another takes less room.
type screen struct {
	height, top               int // top: above the heading
	heading, headingLine      int // letters in a line of the heading, and its height
	title, text, tile, figure int // letters in a line of the run's name, of a sentence, of a tile and of a tile's figure
	beside                    int // tiles
	tileFrame                 int // a tile's question and what is around it
	brief                     bool
}

var (
	desk  = screen{height: 900, top: 80, heading: 46, headingLine: 38, title: 120, text: 84, tile: 29, figure: 19, beside: 4, tileFrame: 51}
	phone = screen{height: 844, top: 112, heading: 26, headingLine: 24, title: 38, text: 36, tile: 20, figure: 14, beside: 2, tileFrame: 44, brief: true}
)

// Heights that both screens have in common, in pixels of the style sheet.
const (
	saidLine   = 25
	saidGap    = 4
	saidTop    = 18
	goesOn     = 64 // the heading of the rest
	figureLine = 24
	tileLine   = 19
	tileBar    = 19
	tilesTop   = 22
	leadTop    = 12

	briefFigure = 3 // lines of a tile's figure on a brief screen: the style sheet cuts the rest
)

// room is what the heading, the environment and the tiles leave of the screen.
func (s screen) room(v *pageView) int {
	used := s.top + tileLine*(len(format.Break(v.Title, s.title))-1) + s.headingLine*len(format.Break(v.Answer, s.heading)) + tilesTop
	switch {
	case v.Banner != "" && s.brief: // its short form, of one line
		used += leadTop + 2*saidLine
	case v.Banner != "":
		used += leadTop + saidLine*(1+len(format.Break(v.Banner, s.text)))
	}
	if !s.brief && v.Environment != "" {
		used += leadTop + saidLine*len(format.Break(v.Environment, s.text))
	}
	for row := range slices.Chunk(v.Tiles, s.beside) {
		tallest := 0
		for _, t := range row {
			tallest = max(tallest, s.tileHeight(t))
		}
		used += tallest
	}
	return s.height - used
}

func (s screen) tileHeight(t tileView) int {
	figure, small := len(format.Break(t.Big, s.figure)), t.Small
	if s.brief {
		figure, small = min(figure, briefFigure), small[:min(len(small), 1)]
	}
	px := s.tileFrame + figureLine*figure
	if len(t.Parts) > 0 {
		px += tileBar
	}
	var counts, rules []string
	for _, p := range t.Parts {
		counts = append(counts, fmt.Sprint(p.N, " ", p.Word))
	}
	for _, r := range t.Rules {
		rules = append(rules, r.Rule)
	}
	for _, line := range append([]string{strings.Join(counts, ", "), strings.Join(rules, ", ")}, small...) {
		px += tileLine * len(format.Break(line, s.tile))
	}
	return px
}

// fits is how many of the sentences have room, together with the heading of the rest if there is one.
func (s screen) fits(said []sentenceView, room int) int {
	room -= saidTop
	for i, x := range said {
		room -= saidLine*len(format.Break(strings.TrimSpace(x.Text+" "+format.Marks(x.Notes)), s.text)) + saidGap
		if room < 0 || i < len(said)-1 && room < goesOn {
			return i
		}
	}
	return len(said)
}
