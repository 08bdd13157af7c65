// Command iotax-statsim simulates studies to measure how often the intervals of iotax are correct. It generates
// docs/dev/evaluation.md.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"iotax"
	"iotax/internal/statsim"
	"iotax/internal/store"
)

// errShort reports that at least one row does not reach the promised coverage (statsim.Row.Met).
var errShort = errors.New("the promised coverage was not reached")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := command().ExecuteContext(ctx)
	stop()
	switch {
	case errors.Is(err, errShort):
		os.Exit(3)
	case err != nil:
		fmt.Fprintf(os.Stderr, "iotax-statsim: %v\n", err)
		os.Exit(1)
	}
}

func command() *cobra.Command {
	var o statsim.Options
	var out string
	var asJSON bool
	c := &cobra.Command{
		Use:   "iotax-statsim",
		Short: "Simulate how often iotax, and other rules, are right",
		Long: `iotax-statsim simulates setups that misbehave in known ways, runs studies on
them by the rules of iotax and of others, and counts how often the interval
contains the true ratio. It measures nothing and needs neither a disk nor fio.
The same seed gives the same result on any number of CPUs.

Names of models and policies may be prefixes: --models M0,M2 --policies iotax.
Exit status 3 means that the promised coverage was not reached.`,
		Args: cobra.NoArgs,
		Example: `  iotax-statsim --models M0,M5-one --policies iotax,P0 --studies 2000
  iotax-statsim --out docs/dev/evaluation.md`,
		SilenceUsage: true, SilenceErrors: true,
		RunE: func(c *cobra.Command, _ []string) error {
			r, err := statsim.Run(c.Context(), o)
			if err != nil {
				return err
			}
			text := func() string { return r.Text(columns()) }
			if err := write(asJSON, struct {
				Version int `json:"version"`
				*statsim.Result
			}{1, r}, text); err != nil {
				return err
			}
			if out != "" {
				if err := os.WriteFile(out, []byte(r.Markdown()), 0o644); err != nil {
					return err
				}
			}
			if slices.ContainsFunc(r.Rows, func(x *statsim.Row) bool { return x.Promised && !x.Met() }) {
				return errShort
			}
			return nil
		},
	}
	f := c.Flags()
	f.IntVar(&o.Studies, "studies", 40_000, "studies of each model under each policy (a quarter of them for percentiles)")
	f.StringSliceVar(&o.Models, "models", nil, "noise models, by name prefix (default all)")
	f.StringSliceVar(&o.Policies, "policies", nil, "policies, by name prefix or id (default all)")
	f.IntVar(&o.Workers, "workers", 0, "goroutines (default one per CPU); the result does not depend on it")
	f.StringVar(&out, "out", "", "also write the page docs/dev/evaluation.md to this file")
	c.PersistentFlags().Uint64Var(&o.Seed, "seed", 1, "seed of the simulation")
	c.PersistentFlags().BoolVar(&asJSON, "json", false, "print results as JSON")
	c.AddCommand(replayCommand(&o.Seed, &asJSON), restartsCommand(&o.Seed, &asJSON))
	return c
}

func replayCommand(seed *uint64, asJSON *bool) *cobra.Command {
	var studies int
	var url string
	c := &cobra.Command{
		Use:   "replay [RUN]",
		Short: "Draw studies from the recorded seconds of a saved run",
		Long: `replay draws studies from the one-second series of a saved run's trials, and
counts how often their intervals contain the ratio of the whole recording. A
study starts at a random round and continues with those that followed, which
keeps what the setup did from round to round. Of each trial it uses a random
half. "A/A" pairs the baseline's trials with each other: the true ratio is 1.

The run needs at least 12 rounds. 30 rounds or more, of longer trials, give a
better result.`,
		Args: cobra.MaximumNArgs(1),
		Example: `  iotax run dir:/var/tmp dir:/srv --protocol fixed:30x10s
  iotax-statsim replay`,
		RunE: func(c *cobra.Command, args []string) error {
			db, err := store.OpenExisting(c.Context(), cmp.Or(url, os.Getenv("IOTAX_STORE")))
			if err != nil {
				return err
			}
			defer db.Close()
			r, err := db.Get(c.Context(), append(args, "latest")[0])
			if err != nil {
				return err
			}
			trials, err := db.Trials(c.Context(), r.ID)
			if err != nil {
				return err
			}
			rows, err := replay(r, trials, statsim.Options{Studies: studies, Seed: *seed})
			if err != nil {
				return &iotax.Error{Op: "replay", On: r.ID, Err: err, Hint: "measure more rounds of longer trials: --protocol fixed:30x10s"}
			}
			return write(*asJSON, struct {
				Version int                 `json:"version"`
				Run     string              `json:"run"`
				Seed    uint64              `json:"seed"`
				Rows    []*statsim.Replayed `json:"rows"`
			}{1, r.ID, *seed, rows}, func() string { return statsim.ReplayText(rows) })
		},
	}
	c.Flags().IntVar(&studies, "studies", 10_000, "studies of each recording")
	c.Flags().StringVar(&url, "store", "", "where runs are kept (default: $IOTAX_STORE, or the user's state directory)")
	return c
}

func restartsCommand(seed *uint64, asJSON *bool) *cobra.Command {
	var o statsim.Options
	var out string
	c := &cobra.Command{
		Use:   "restarts",
		Short: "Simulate studies whose rounds are divided between starts",
		Long: `restarts simulates studies of 30 rounds that are divided between starts. Each
start draws the modes of the setup anew. It counts how often the interval
contains the true ratio.`,
		Args:    cobra.NoArgs,
		Example: `  iotax-statsim restarts --models M5-both --studies 2000`,
		RunE: func(c *cobra.Command, _ []string) error {
			o.Seed = *seed
			rows, err := statsim.Restarts(c.Context(), o)
			if err != nil {
				return err
			}
			page := statsim.RestartsMarkdown(rows, o.Seed)
			if out != "" {
				if err := os.WriteFile(out, []byte(page), 0o644); err != nil {
					return err
				}
			}
			return write(*asJSON, struct {
				Version int                  `json:"version"`
				Seed    uint64               `json:"seed"`
				Rows    []*statsim.Restarted `json:"rows"`
			}{1, o.Seed, rows}, func() string { return page })
		},
	}
	f := c.Flags()
	f.IntVar(&o.Studies, "studies", 10_000, "studies of each model with each number of starts")
	f.StringSliceVar(&o.Models, "models", nil, "noise models, by name prefix (default those with modes and some without)")
	f.IntVar(&o.Workers, "workers", 0, "goroutines (default one per CPU); the result does not depend on it")
	f.StringVar(&out, "out", "", "also write the page docs/dev/evaluation-restarts.md to this file")
	return c
}

// replay replays each pair of baseline and target under each workload. It returns an error only if no pair can be
// replayed.
func replay(r *iotax.Run, trials []*iotax.Trial, o statsim.Options) ([]*statsim.Replayed, error) {
	var out []*statsim.Replayed
	var failed []string
	for _, w := range r.Workloads {
		if len(w.Metrics) == 0 {
			continue
		}
		for _, t := range r.Targets {
			if t.Name == r.Baseline {
				continue
			}
			rec, err := statsim.Record(trials, w.Name, w.Metrics[0], r.Baseline, t.Name)
			if err != nil {
				failed = append(failed, err.Error())
				continue
			}
			rows, err := statsim.Replay(rec, o)
			if err != nil {
				failed = append(failed, err.Error())
				continue
			}
			out = append(out, rows...)
		}
	}
	if len(out) == 0 {
		return nil, errors.New(strings.Join(append(failed, "the run has no series to draw from"), "; "))
	}
	return out, nil
}

func write(asJSON bool, v any, text func() string) error {
	if !asJSON {
		_, err := io.WriteString(os.Stdout, text())
		return err
	}
	e := json.NewEncoder(os.Stdout)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// columns returns the width of the terminal, at most 120, or 80 without a terminal.
func columns() int {
	if n, _, err := term.GetSize(int(os.Stdout.Fd())); err == nil && n > 0 {
		return min(n, 120)
	}
	return 80
}
