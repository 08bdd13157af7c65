package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"iotax"
	"iotax/internal/statsim"
	"iotax/internal/store"
)

func (a *app) evaluateCommand() *cobra.Command {
	var o statsim.Options
	var out string
	var smoke bool
	c := &cobra.Command{
		Use:   "evaluate",
		Short: "Simulate how often iotax, and other rules, are right",
		Long: `evaluate simulates rigs that misbehave in known ways, runs studies on them by
the rules of iotax and of others, and counts how often the interval holds the
ratio that was put in. Nothing is measured: it needs no disk and no fio. The
same seed gives the same result on any number of CPUs.

Names of models and policies may be cut short: --models M0,M2 --policies iotax.
Exit status 3 says that the coverage that the method promises was not reached.`,
		Args: cobra.NoArgs,
		Example: `  iotax evaluate --smoke
  iotax evaluate --models M0,M5-one --policies iotax,P0
  iotax evaluate --out docs/evaluation.md`,
		RunE: func(c *cobra.Command, _ []string) error {
			if smoke {
				o = smokeOptions(o, c.Flags().Changed)
			}
			if o.Studies < 1 {
				return usageError{fmt.Errorf("--studies %d: one at least", o.Studies)}
			}
			if err := o.Check(); err != nil {
				return usageError{err}
			}
			show := newProgress(a.err, a.quiet, isTerminal(a.err), width(a.err, 80))
			var mu sync.Mutex
			shown := -1
			r, err := statsim.Run(c.Context(), o, func(share float64) {
				mu.Lock()
				defer mu.Unlock()
				if n := int(100 * share); n > shown && show.live { // elsewhere a hundred lines would say nothing
					shown = n
					show.status(fmt.Sprintf("simulating: %d %%", n))
				}
			})
			show.end()
			if err != nil {
				return err
			}
			switch {
			case a.json:
				err = writeJSON(a.out, struct {
					Version int `json:"version"`
					*statsim.Result
				}{1, r})
			default:
				_, err = fmt.Fprint(a.out, r.Text(min(width(a.out, 80), 120)))
			}
			if err != nil {
				return err
			}
			if out != "" {
				if err := os.WriteFile(out, []byte(r.Markdown()), 0o644); err != nil {
					return &iotax.Error{Op: "write evaluation", On: out, Err: err}
				}
			}
			if slices.ContainsFunc(r.Rows, func(x *statsim.Row) bool { return x.Promised && !x.Met() }) {
				return exitCode(exitGate)
			}
			return nil
		},
	}
	f := c.Flags()
	f.IntVar(&o.Studies, "studies", 40_000, "studies of each model under each policy")
	f.StringSliceVar(&o.Models, "models", nil, "beginnings of names of noise models (default all)")
	f.StringSliceVar(&o.Policies, "policies", nil, "beginnings of names of policies, or their ids (default all)")
	f.Uint64Var(&o.Seed, "seed", 1, "seed of the simulation")
	f.IntVar(&o.Workers, "workers", 0, "goroutines (default one a CPU); the result does not depend on it")
	f.StringVar(&out, "out", "", "also write the page docs/evaluation.md to this file")
	f.BoolVar(&smoke, "smoke", false, "a few models and 2,000 studies, in seconds")
	c.AddCommand(a.replayCommand())
	return c
}

// smokeOptions is a small evaluation; what was asked for by name stays.
func smokeOptions(o statsim.Options, asked func(string) bool) statsim.Options {
	if !asked("studies") {
		o.Studies = 2000
	}
	if !asked("models") {
		o.Models = []string{"M0 σ=2%", "M0 σ=5%", "M2 τ=120s σ=5%", "M3 φ=0.6", "M5-one-arm p=0.2", "M6-shared-step"}
	}
	if !asked("policies") {
		o.Policies = []string{"back-to-back", "interleaved", "peeking", statsim.Ours}
	}
	return o
}

func (a *app) replayCommand() *cobra.Command {
	o := statsim.Options{}
	c := &cobra.Command{
		Use:   "replay [RUN]",
		Short: "Draw studies from the recorded seconds of a saved run",
		Long: `replay takes the one-second series of a saved run's trials, draws studies from
them, and counts how often their intervals hold the ratio of the whole
recording. A study starts at a random block and goes on with those that
followed, so that what the rig did from block to block is kept; of each trial it
sees a random half. "A/A" pairs the baseline's trials with each other: there the
true ratio is 1.

It needs 12 blocks or more, and gets better with 30 and more, of longer trials.`,
		Args: cobra.MaximumNArgs(1),
		Example: `  iotax run dir:/var/tmp dir:/srv --protocol fixed:30x10s
  iotax evaluate replay`,
		RunE: func(c *cobra.Command, args []string) error {
			if o.Studies < 1 {
				return usageError{fmt.Errorf("--studies %d: one at least", o.Studies)}
			}
			return a.withStore(c, func(db *store.Store) error {
				r, err := db.Get(c.Context(), idOrLatest(args))
				if err != nil {
					return err
				}
				trials, err := db.Trials(c.Context(), r.ID)
				if err != nil {
					return err
				}
				rows, err := replay(r, trials, o)
				if err != nil {
					return &iotax.Error{Op: "replay", On: r.ID, Err: err, Hint: "measure more blocks of longer trials: --protocol fixed:30x10s"}
				}
				if a.json {
					return writeJSON(a.out, struct {
						Version int                 `json:"version"`
						Run     string              `json:"run"`
						Seed    uint64              `json:"seed"`
						Rows    []*statsim.Replayed `json:"rows"`
					}{1, r.ID, o.Seed, rows})
				}
				_, err = fmt.Fprint(a.out, statsim.ReplayText(rows))
				return err
			})
		},
	}
	c.Flags().IntVar(&o.Studies, "studies", 10_000, "studies of each recording")
	c.Flags().Uint64Var(&o.Seed, "seed", 1, "seed of the draws")
	return c
}

// replay replays each pair of baseline and target under each workload. It fails only if none can be.
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
		return nil, errors.New(strings.Join(append(failed, "there is nothing to draw from"), "; "))
	}
	return out, nil
}
