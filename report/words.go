package report

import "iotax/stat"

// What other pages that show results share with the report, so that a number looks the same everywhere.

// CSS is the style of the HTML report: colours for light, dark and print, tables, notes, verdicts.
func CSS() string { return pageCSS }

// Value prints a value with its bounds in a base unit: "310 [300, 318] MiB/s".
func Value(i stat.Interval, unit string) string { return bounds(i, unit) }

// Number prints the estimate of a value alone, with as many digits as its bounds allow: "310 MiB/s".
func Number(i stat.Interval, unit string) string { return number(i, unit) }

// Ratio prints a ratio with its bounds: "0.47× [0.45, 0.50]".
func Ratio(i stat.Interval) string { return formatRatio(i) }

// Percent prints a share: "12 %".
func Percent(x float64) string { return percent(x) }

// VerdictWord is a verdict for people, and VerdictClass the class of the page's style that colours it.
func VerdictWord(v stat.Verdict) string  { return verdictWord(v, false) }
func VerdictClass(v stat.Verdict) string { return verdictClass(v) }

// Clean makes text of a target safe to print: without control characters and what reorders text.
func Clean(s string) string { return clean(s) }
