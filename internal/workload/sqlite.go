package workload

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"iotax"
	"iotax/internal/generate"
	"iotax/internal/metric"
	"iotax/internal/plan"
	"iotax/internal/workload/support"
)

// SQLite is the spec of `sqlite:`. The workload runs transactions in a SQLite database, one after the other.
type SQLite struct {
	Accounts    int    `yaml:"accounts" doc:"number of accounts, 110 bytes each"`
	Transaction string `yaml:"transaction" doc:"tpcb (three updates, a select and an insert, as pgbench), insert, update or select"`
	Journal     string `yaml:"journal" doc:"journal mode of SQLite: wal, delete, truncate or persist"`
	Synchronous string `yaml:"synchronous" doc:"when SQLite flushes: full, normal or extra"`
}

func newSQLite() plan.Spec {
	return &SQLite{Accounts: 100_000, Transaction: generate.SQLTransactions[0], Journal: generate.Journals[0], Synchronous: generate.Synchronous[0]}
}

func (s *SQLite) Traits() plan.Traits {
	return plan.Traits{Scale: s.Scale, Metrics: func() []metric.Metric {
		all := metric.Of(iotax.PerSecond, iotax.Up, "transactions.rate", "transactions per second, one after the other")
		all = append(all, metric.Latency("commit.latency", "time of COMMIT")...)
		return append(all, metric.Latency("transaction.latency", "time of a transaction from BEGIN to the end of COMMIT")...)
	}}
}

// Scale multiplies the number of accounts by a factor.
func (s *SQLite) Scale(by float64) { s.Accounts = max(1, int(float64(s.Accounts)*by)) }

// Validate checks every field.
func (s *SQLite) Validate() error {
	return errors.Join(within("accounts", s.Accounts, 1, 1e8), oneOf("transaction", s.Transaction, generate.SQLTransactions),
		oneOf("journal", s.Journal, generate.Journals), oneOf("synchronous", s.Synchronous, generate.Synchronous))
}

func oneOf(field, v string, all []string) error {
	if !slices.Contains(all, v) {
		return &plan.FieldError{Field: field, Msg: fmt.Sprintf("%q is not one of %s", v, strings.Join(all, ", "))}
	}
	return nil
}

func openSQLite(w plan.Workload, s *SQLite, env support.Env) (iotax.Workload, error) {
	work := generate.SQLite{Accounts: s.Accounts, Transaction: s.Transaction, Journal: s.Journal, Synchronous: s.Synchronous}
	in := func(t *iotax.Target, out *iotax.Trial) generate.SQLite {
		q := work
		q.Dir, q.Seed, q.Ramp, q.Length = generatedDir(t), out.Seed, out.Ramp, out.Length
		return q
	}
	return staged(&generated{
		name: w.Name, env: env, metrics: []string{"transactions.rate"}, space: work.Space(),
		try: func(ctx context.Context, t *iotax.Target) (hint string, err error) {
			if _, err = generate.TrySQLite.On(ctx, t.Machine, in(t, &iotax.Trial{})); err != nil {
				err = fmt.Errorf("SQLite cannot open a database there with journal %s: %w", s.Journal, iotax.Cause(err))
			}
			return "journal: delete, which needs no memory that processes share; or leave the target out with at:", err
		},
	}, in, generate.MakeSQLite, generate.DoSQLite), s.Validate()
}
