// Package output writes reports and comparisons in all formats.
package output

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"iotax/internal/report"
	"iotax/internal/report/chart"
	"iotax/internal/report/compare"
	"iotax/internal/report/document"
	"iotax/internal/report/export"
	"iotax/internal/report/html"
	"iotax/internal/report/text"
)

// TextWidth is the width in columns of a text report that is written to a file.
const TextWidth = 100

var formats = map[string]func(io.Writer, *report.Report, bool) error{
	"txt": func(w io.Writer, r *report.Report, details bool) error {
		return Text(w, r, details, text.Options{Width: TextWidth})
	},
	"md": func(w io.Writer, r *report.Report, details bool) error {
		if details {
			return text.Markdown(w, document.Of(r))
		}
		return text.Markdown(w, document.Folded(r))
	},
	"html":     whole(HTML),
	"svg":      whole(picture(chart.WriteSVG)),
	"png":      whole(picture(chart.WritePNG)),
	"json":     whole(export.JSON),
	"benchfmt": whole(export.Benchfmt),
	"xml":      whole(export.JUnit),
	"github":   whole(export.GitHub),
}

// whole adapts a function for a format to which `details` does not apply.
func whole(write func(io.Writer, *report.Report) error) func(io.Writer, *report.Report, bool) error {
	return func(w io.Writer, r *report.Report, _ bool) error { return write(w, r) }
}

// HTML writes a report as an HTML page.
func HTML(w io.Writer, r *report.Report) error {
	d, err := document.Page(r, nil)
	if err != nil {
		return err
	}
	return html.Write(w, d, html.Frame{})
}

// Profiles writes the CPU profiles of a report in the given format.
func Profiles(w io.Writer, r *report.Report, format string, o text.Options) error {
	d := document.Profiles(r)
	switch format {
	case "txt":
		return text.Write(w, d, o)
	case "md":
		return text.Markdown(w, d)
	case "html":
		return html.Write(w, d, html.Frame{})
	case "svg":
		return chart.WriteSVG(w, document.Flames(r))
	case "png":
		return chart.WritePNG(w, document.Flames(r))
	}
	return fmt.Errorf("write profiles: no format %q; there are html, md, png, svg, txt", format)
}

// picture adapts a function that writes the plot of all ratios.
func picture(write func(io.Writer, chart.File) error) func(io.Writer, *report.Report) error {
	return func(w io.Writer, r *report.Report) error {
		f, err := document.Picture(r)
		if err != nil {
			return err
		}
		return write(w, f)
	}
}

var comparisons = map[string]func(io.Writer, *compare.Comparison) error{
	"md": func(w io.Writer, c *compare.Comparison) error {
		return text.Markdown(w, document.Comparison([]*compare.Comparison{c}, document.ComparisonOptions{Folded: true}))
	},
	"html": func(w io.Writer, c *compare.Comparison) error {
		return html.Write(w, document.Comparison([]*compare.Comparison{c}, document.ComparisonOptions{}), html.Frame{})
	},
	"json": export.JSONComparison,
}

// Formats returns the formats of a report. They are also file extensions.
func Formats() []string { return slices.Sorted(maps.Keys(formats)) }

// ComparisonFormats returns the formats of a comparison, except text.
func ComparisonFormats() []string { return slices.Sorted(maps.Keys(comparisons)) }

// Write writes a report in one of the formats that Formats returns. details applies only to text and Markdown.
func Write(w io.Writer, r *report.Report, format string, details bool) error {
	write, ok := formats[format]
	if !ok {
		return fmt.Errorf("write report: no format %q; there are %s", format, strings.Join(Formats(), ", "))
	}
	return write(w, r, details)
}

// screen is the number of lines on a screen, without the line that "iotax demo" adds.
const screen = 23

// Text writes a report for a terminal. Without details, it writes the short document, in its tight form if only that
// fits on one screen.
func Text(w io.Writer, r *report.Report, details bool, o text.Options) error {
	if details {
		return text.Write(w, document.Of(r), o)
	}
	var usual, tight bytes.Buffer
	if err := text.Write(&usual, document.Short(r, false), o); err != nil {
		return err
	}
	if lines(usual) > screen {
		if err := text.Write(&tight, document.Short(r, true), o); err != nil {
			return err
		}
		if lines(tight) <= screen {
			usual = tight
		}
	}
	_, err := usual.WriteTo(w)
	return err
}

func lines(b bytes.Buffer) int { return bytes.Count(b.Bytes(), []byte("\n")) }

// Comparison writes a comparison in one of the formats that ComparisonFormats returns.
func Comparison(w io.Writer, c *compare.Comparison, format string) error {
	write, ok := comparisons[format]
	if !ok {
		return fmt.Errorf("write comparison: no format %q; there are %s", format, strings.Join(ComparisonFormats(), ", "))
	}
	return write(w, c)
}

// ComparisonText writes a comparison for a terminal. If details is not "", ComparisonText omits the details and prints
// the command `details`, which shows them.
func ComparisonText(w io.Writer, c *compare.Comparison, details string, o text.Options) error {
	return text.Write(w, document.Comparison([]*compare.Comparison{c}, document.ComparisonOptions{Short: details}), o)
}
