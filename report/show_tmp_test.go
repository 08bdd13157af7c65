package report

import (
	"os"
	"strconv"
	"testing"
)

func TestShow(t *testing.T) {
	r := New(fixture())
	w, _ := strconv.Atoi(os.Getenv("W"))
	switch os.Getenv("F") {
	case "md":
		r.Markdown(os.Stdout)
	case "json":
		r.JSON(os.Stdout)
	case "html":
		f, _ := os.Create("/tmp/report.html")
		r.HTML(f)
		f.Close()
	default:
		r.Text(os.Stdout, TextOptions{Width: w, Color: os.Getenv("C") != ""})
	}
}
