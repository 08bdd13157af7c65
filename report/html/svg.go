package html

import (
	"bytes"
	"errors"
	"fmt"
	"html/template"
	"io"
	"maps"
	"regexp"
	"strings"

	"iotax/report"
)

// SVG writes the plot of all ratios as one picture for documents and slides, in the light colours: the same
// plot that stands in the HTML page. A report without a ratio has none, which is an error.
func SVG(w io.Writer, r *report.Report) error {
	f := forestOf(r, wideForest)
	if f == nil {
		return errors.New("draw SVG: the report has no ratio to draw")
	}
	// The caveat of emulated guests stands below, a sentence or two in a line.
	caveat := ""
	for line := range strings.SplitAfterSeq(strings.Replace(r.Banner(), ". ", ".\n", 1), "\n") {
		if line != "" {
			caveat += fmt.Sprintf(`<text class="head" x="%.0f" y="%.0f">%s</text>`, f.Margin, f.Height+12, template.HTMLEscapeString(strings.TrimSpace(line)))
			f.Height += 20
		}
	}
	var b bytes.Buffer
	if err := pageTemplate.ExecuteTemplate(&b, "forest", f); err != nil {
		return fmt.Errorf("draw SVG: %w", err)
	}
	head := fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" width="%.0f" height="%.0f" `, f.Width, f.Height)
	picture := strings.Replace(strings.TrimSpace(b.String()), "<svg ", head, 1)
	style := fmt.Sprintf("<style>%s</style>\n<rect width=\"100%%\" height=\"100%%\" fill=\"%s\"/>\n", svgStyle, lightColours["--card"])
	at := strings.Index(picture, "<title")
	_, err := io.WriteString(w, picture[:at]+style+strings.TrimSuffix(picture[at:], "</svg>")+caveat+"</svg>\n")
	return err
}

var (
	declared = regexp.MustCompile(`(--[a-z]+): ([^;]+);`)
	used     = regexp.MustCompile(`var\((--[a-z]+)\)`)
)

// lightColours are the page's own variables, as they are in the light.
var lightColours = func() map[string]string {
	root, _, _ := strings.Cut(PageCSS, "@media")
	out := map[string]string{}
	for _, m := range declared.FindAllStringSubmatch(root, -1) {
		out[m[1]] = m[2]
	}
	return out
}()

// svgStyle is what of the page's style is about the plot, with the variables put in: programs that draw
// SVG files without a browser know none.
var svgStyle = func() string {
	light := maps.Clone(lightColours)
	light["--sans"] = strings.ReplaceAll(light["--sans"], "system-ui, ", "")
	var b strings.Builder
	for line := range strings.Lines(PageCSS) {
		for _, about := range []string{"svg ", ".forest ", ".worse ", ".unlike "} {
			if strings.HasPrefix(line, about) && !strings.Contains(line, "width: 100%") {
				b.WriteString(used.ReplaceAllStringFunc(line, func(m string) string { return light[used.FindStringSubmatch(m)[1]] }))
			}
		}
	}
	return b.String()
}()
