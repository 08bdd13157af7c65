package html

import (
	"bytes"
	"fmt"
	"io"

	"iotax/internal/report"
	"iotax/internal/report/raster"
)

// pngScale is how many pixels of a PNG a pixel of the page is: sharp on dense screens, and in print at 15 cm.
const pngScale = 2

// PNG writes the plot of all ratios as a picture for what takes no SVG (chats, slides): the very picture that SVG
// writes, drawn. Its font has Latin, Greek and Cyrillic letters; others show as boxes. A report without a
// ratio has no picture, which is an error.
func PNG(w io.Writer, r *report.Report) error {
	var b bytes.Buffer
	if err := SVG(&b, r); err != nil {
		return fmt.Errorf("draw PNG: %w", err)
	}
	if err := raster.PNG(w, &b, pngScale); err != nil {
		return fmt.Errorf("draw PNG: %w", err)
	}
	return nil
}
