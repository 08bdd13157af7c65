package lint

import (
	"fmt"
	"strings"
	"time"
)

func bytesText(n int64) string {
	x, unit := float64(n), []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB"}
	for x >= 1024 && len(unit) > 1 {
		x, unit = x/1024, unit[1:]
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", x), ".0") + " " + unit[0]
}

func secondsText(d time.Duration) string {
	switch {
	case d >= 100*time.Second:
		return d.Round(time.Second).String()
	case d >= time.Second:
		return fmt.Sprintf("%.3g s", d.Seconds())
	}
	return fmt.Sprintf("%.3g ms", d.Seconds()*1e3)
}
