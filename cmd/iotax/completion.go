package main

import (
	"cmp"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"iotax/internal/kinds"
	"iotax/internal/metric"
	"iotax/internal/plan"
	"iotax/internal/published"
	"iotax/internal/run/saved"
	"iotax/internal/store"
	"iotax/internal/suite"
	"iotax/internal/terminal"
)

// complete offers values for a flag of c.
func complete(c *cobra.Command, flag string, values ...string) {
	completeBy(c, flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}

func completeBy(c *cobra.Command, flag string, by cobra.CompletionFunc) {
	if err := c.RegisterFlagCompletionFunc(flag, by); err != nil {
		panic(err) // the flag does not exist, or has a completion already
	}
}

// completeTargets completes targets: kinds of targets, files and directories. It also completes suites as the first
// argument.
func completeTargets(_ *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
	var out []cobra.Completion
	if len(args) == 0 {
		for _, n := range suite.Names() {
			out = append(out, cobra.CompletionWithDesc(n, suite.Doc(n)))
		}
	}
	if path, ok := strings.CutPrefix(word, "dir:"); ok {
		return directories("dir:", path), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
	if !strings.ContainsAny(word, "/.") {
		out = append(out, plan.Forms(kinds.All())...)
	}
	return out, cobra.ShellCompDirectiveDefault | cobra.ShellCompDirectiveNoSpace
}

// directories returns the directories whose paths begin with path, each with the prefix lead.
func directories(lead, path string) (out []cobra.Completion) {
	at, begin := path[:strings.LastIndexByte(path, '/')+1], path[strings.LastIndexByte(path, '/')+1:]
	in := at
	if in == "" {
		in = "."
	}
	entries, err := os.ReadDir(in)
	if err != nil {
		return nil
	}
	for _, e := range entries {
		if e.IsDir() && strings.HasPrefix(e.Name(), begin) {
			out = append(out, lead+at+e.Name()+"/")
		}
	}
	return out
}

// completePlans completes suites and plan files.
func completePlans(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return suite.Names(), cobra.ShellCompDirectiveDefault
}

// completeWorkloads completes workload words and kinds. It leaves the names of job files to the shell.
func completeWorkloads(_ *cobra.Command, _ []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
	lead := word[:strings.LastIndexByte(word, ',')+1]
	var out []cobra.Completion
	for _, w := range plan.DefaultWorkloads {
		out = append(out, lead+w)
	}
	for _, k := range kinds.All().Workloads {
		if k.Name != "fio" {
			out = append(out, lead+k.Name)
		}
	}
	return out, cobra.ShellCompDirectiveDefault | cobra.ShellCompDirectiveNoSpace
}

// completeMetrics completes the metrics of all kinds of workloads, and metric.Observed.
func completeMetrics(_ *cobra.Command, _ []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
	all := slices.Clone(metric.Observed)
	for _, k := range kinds.All().Workloads {
		if of := k.New().Traits().Metrics; of != nil {
			all = append(all, of()...)
		}
	}
	slices.SortStableFunc(all, func(x, y metric.Metric) int { return cmp.Compare(x.Name, y.Name) })
	lead := word[:strings.LastIndexByte(word, ',')+1]
	var out []cobra.Completion
	for _, m := range slices.CompactFunc(all, func(x, y metric.Metric) bool { return x.Name == y.Name }) {
		out = append(out, cobra.CompletionWithDesc(lead+m.Name, m.Doc))
	}
	return out, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

const maxCompletedRuns = 50

// completeRuns returns a function that completes the latest runs of the store, for the first `most` arguments.
func (a *app) completeRuns(most int) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) >= most {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		url := a.store
		if url == "" {
			url = os.Getenv(storeVariable)
		}
		db, err := saved.Open(c.Context(), url)
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		defer db.Close()
		runs, _, err := db.Find(c.Context(), store.Query{Limit: maxCompletedRuns})
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		out := []cobra.Completion{cobra.CompletionWithDesc("latest", "the newest run with trials")}
		for _, r := range runs {
			out = append(out, cobra.CompletionWithDesc(r.ID, terminal.Clean(r.Name)+", "+string(r.Status)))
		}
		return out, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	}
}

// publishedSets returns the names of the published data sets in the form that --reference takes.
func publishedSets() (out []string) {
	for _, n := range published.Names() {
		out = append(out, publishedWord+n)
	}
	return out
}
