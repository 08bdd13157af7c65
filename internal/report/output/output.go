// Package output writes reports, and comparisons of them, in the formats that there are: the one door to the packages that
// draw.
package output

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"iotax/internal/report"
	"iotax/internal/report/compare"
	"iotax/internal/report/export"
	"iotax/internal/report/html"
	"iotax/internal/report/text"
)

// TextWidth is how many columns a report has that is written into a file as text.
const TextWidth = 100

var formats = map[string]func(io.Writer, *report.Report) error{
	"txt": func(w io.Writer, r *report.Report) error {
		return text.Write(w, r, text.Options{Width: TextWidth})
	},
	"md":       text.Markdown,
	"html":     html.Write,
	"svg":      html.SVG,
	"png":      html.PNG,
	"json":     export.JSON,
	"benchfmt": export.Benchfmt,
}

var comparisons = map[string]func(io.Writer, *compare.Comparison) error{
	"md":   text.MarkdownComparison,
	"html": html.Comparison,
	"json": export.JSONComparison,
}

// Formats are the names of the formats of a report, which are the endings of files as well.
func Formats() []string { return slices.Sorted(maps.Keys(formats)) }

// ComparisonFormats are the names of the formats of a comparison other than text.
func ComparisonFormats() []string { return slices.Sorted(maps.Keys(comparisons)) }

// Write writes a report in one of Formats.
func Write(w io.Writer, r *report.Report, format string) error {
	write, ok := formats[format]
	if !ok {
		return fmt.Errorf("write report: no format %q; there are %s", format, strings.Join(Formats(), ", "))
	}
	return write(w, r)
}

// Comparison writes a comparison as md, html or json; as text it depends on a terminal, see text.Comparison.
func Comparison(w io.Writer, c *compare.Comparison, format string) error {
	write, ok := comparisons[format]
	if !ok {
		return fmt.Errorf("write comparison: no format %q; there are %s", format, strings.Join(ComparisonFormats(), ", "))
	}
	return write(w, c)
}
