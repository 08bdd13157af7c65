package reporttest

import (
	"strings"
	"testing"

	xhtml "golang.org/x/net/html"
)

// Elements calls f with each element of a page.
func Elements(t *testing.T, page string, f func(*xhtml.Node)) {
	t.Helper()
	doc, err := xhtml.Parse(strings.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	for n := range doc.Descendants() {
		if n.Type == xhtml.ElementNode {
			f(n)
		}
	}
}
