package rules

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Bytes formats a number of bytes for evidence: "1.5 GiB".
func Bytes[N ~int64 | ~float64](n N) string {
	x, unit := float64(n), []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB"}
	for x >= 1024 && len(unit) > 1 {
		x, unit = x/1024, unit[1:]
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", x), ".0") + " " + unit[0]
}

// Time formats a duration for evidence: "2m0s", "1.5 s", "20 ms", "7.25 µs".
func Time(d time.Duration) string {
	switch {
	case d >= 100*time.Second:
		return d.Round(time.Second).String()
	case d >= time.Second:
		return Number(d.Seconds()) + " s"
	case d >= time.Millisecond:
		return Number(d.Seconds()*1e3) + " ms"
	}
	return Number(d.Seconds()*1e6) + " µs"
}

// Seconds formats a number of seconds like Time.
func Seconds(s float64) string { return Time(time.Duration(s * float64(time.Second))) }

// Percent formats a share for evidence: "12.5 %".
func Percent(share float64) string { return Number(100*share) + " %" }

// Number formats a number for evidence, with three significant digits and without an exponent: "1500", "2.5".
func Number(x float64) string {
	rounded, _ := strconv.ParseFloat(strconv.FormatFloat(x, 'g', 3, 64), 64)
	return strconv.FormatFloat(rounded, 'f', -1, 64)
}
