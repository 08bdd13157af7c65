package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"iotax"
	"iotax/internal/kinds"
	"iotax/internal/metric"
)

var update = flag.Bool("update", false, "write the pages of docs/reference that are made of the program")

const madeBy = "`go test ./cmd/iotax -run TestReferencePages -update`"

// helpOf returns the help of a command at 80 columns, split into its own part and the flags of all commands.
func helpOf(t *testing.T, args ...string) (own, common string) {
	t.Helper()
	var out strings.Builder
	if code := Main(t.Context(), append(args, "--help"), nil, &out, io.Discard); code != exitOK {
		t.Fatalf("%q: exit status %d", args, code)
	}
	own, common, _ = strings.Cut(out.String(), "\n"+groupGlobal+"\n")
	return strings.TrimRight(own, "\n"), common
}

// cliPage returns the text of docs/reference/cli.md.
func cliPage(t *testing.T) string {
	var b strings.Builder
	own, _ := helpOf(t)
	_, common := helpOf(t, "version")
	common = strings.TrimRight(strings.ReplaceAll(common, "for version", "for the command"), "\n")
	b.WriteString("# Commands\n\nThe help of every command. " + madeBy + " makes this page.\n")
	fmt.Fprintf(&b, "\n```text\n%s\n```\n\n## Flags of all commands\n\n```text\n%s\n```\n", own, common)
	var list func(c *cobra.Command, path ...string)
	list = func(c *cobra.Command, path ...string) {
		for _, s := range c.Commands() {
			if !s.IsAvailableCommand() || s.Name() == "help" || c.Name() == "completion" {
				continue
			}
			at := append(path[:len(path):len(path)], s.Name())
			own, _ := helpOf(t, at...)
			fmt.Fprintf(&b, "\n## %s\n\n```text\n%s\n```\n", strings.Join(at, " "), own)
			list(s, at...)
		}
	}
	root := (&app{}).root()
	root.InitDefaultCompletionCmd()
	list(root)
	return b.String()
}

// environmentPage returns the text of docs/reference/environment.md.
func environmentPage() string {
	var b strings.Builder
	b.WriteString("# Exit status, environment and files\n\n`iotax help exit-status`, `environment` and `files` print this page.\n" +
		madeBy + " makes it.\n")
	for _, topic := range topics {
		fmt.Fprintf(&b, "\n## %s\n\n| | |\n|---|---|\n", topic.title)
		for _, e := range topic.entries {
			fmt.Fprintf(&b, "| `%s` | %s |\n", strings.ReplaceAll(e[0], ", ", "`, `"), strings.ReplaceAll(e[1], "|", `\|`))
		}
	}
	return b.String()
}

// metricsPage returns the text of docs/reference/metrics.md.
func metricsPage(t *testing.T) string {
	var b strings.Builder
	b.WriteString("# Metrics\n\nThe numbers that trials of each kind of workload can have. [Is p99 worse, or is that noise?](../how-to/tails.md) shows how to\n" +
		"compare targets by one of them. " + madeBy + " makes this page.\n\n" +
		"A name may leave out its direction: `latency.p99` (or `p99`) is `read.latency.p99` of a job that only reads, and `mixed.latency.p99`, of all I/Os\n" +
		"together, of a job that does both. A quantile needs 100 I/Os beyond it: p99 needs 10,000 I/Os in a trial, or in all trials of a\n" +
		"target together, p99.9 needs 100,000. Values of a command come from its `values:`.\n")
	better := map[iotax.Better]string{iotax.Up: "more", iotax.Down: "less", iotax.Neither: "–"}
	table := func(title string, all []metric.Metric) {
		fmt.Fprintf(&b, "\n## %s\n\n| metric | unit | better | meaning |\n|---|---|---|---|\n", title)
		for _, m := range all {
			if _, _, ok := iotax.Quantile(m.Name); ok && strings.HasSuffix(m.Name, ".p50") {
				m.Name += "`, `" + strings.Join(metric.Quantiles[1:], "`, `")
				m.Doc = "quantiles" + strings.TrimPrefix(m.Doc, "50 % quantile")
			} else if ok {
				continue // included in the row of p50
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", m.Name, m.Unit, better[m.Better], m.Doc)
		}
	}
	for _, k := range kinds.All().Workloads {
		s := k.New()
		if o := s.Traits().Options; o != nil && k.Name == "fio" { // set options that give the job the metrics of reads, writes and flushes
			for _, set := range [][2]string{{"rw", "randrw"}, {"fdatasync", "1"}} {
				if err := o.Set(set[0], set[1]); err != nil {
					t.Fatal(err)
				}
			}
		}
		table("`"+k.Name+"`", s.Traits().Metrics())
		if k.Name == "fio" {
			b.WriteString("\n`sync` is there if the job flushes while it runs (`fsync`, `fdatasync`), `mixed` if it has several directions. A job that trims has\n" +
				"`trim`. An open loop (`load`, `rate`) has `load.late`, the share of the arrivals that found their source busy. A\n" +
				"search (`find`) has `limit.iops` alone, the highest load that met its condition.\n")
		}
	}
	table("Any workload", metric.Observed)
	return b.String()
}

// The pages on commands, metrics, exit status, environment and files match the program.
func TestReferencePages(t *testing.T) {
	for name, text := range map[string]string{"cli": cliPage(t), "environment": environmentPage(), "metrics": metricsPage(t)} {
		file := "../../docs/reference/" + name + ".md"
		if *update {
			if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := os.ReadFile(file); err != nil || string(got) != text {
			t.Errorf("docs/reference/%s.md differs from the program; run %s (%v)", name, madeBy, err)
		}
	}
}
