// Command openmetrics reads OpenMetrics text from standard input with the parser of Prometheus, which is independent of
// iotax's writer. It prints the labels, value and timestamp of each sample. It fails if two samples have the same
// labels and timestamp. It is a separate module, because Prometheus is large.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	text, err := io.ReadAll(os.Stdin)
	if err != nil {
		return err
	}
	p := textparse.NewOpenMetricsParser(text, labels.NewSymbolTable())
	seen := map[string]bool{}
	for {
		entry, err := p.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if entry != textparse.EntrySeries {
			continue
		}
		var l labels.Labels
		p.Labels(&l)
		_, at, v := p.Series()
		key := l.String()
		if at != nil {
			key += fmt.Sprint(" ", *at)
		}
		if seen[key] {
			return fmt.Errorf("twice: %s", key)
		}
		seen[key] = true
		fmt.Printf("%s %v%s\n", l, v, key[len(l.String()):])
	}
}
