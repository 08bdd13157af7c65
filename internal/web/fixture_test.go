package web

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"iotax"
	"iotax/internal/plan"
	"iotax/internal/store"
)

const (
	hostDisk = "host disk"
	blk      = "guest virtio-blk"
	share    = "guest virtio-fs"
	random   = "4k random read"
	seqRead  = "1M sequential read"
)

var epoch = time.Date(2026, 3, 1, 2, 30, 0, 0, time.UTC)

func open(t testing.TB) (*store.Store, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "iotax.db")
	s, err := store.Open(context.Background(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s, path
}

func newServer(t testing.TB, o Options) *Server {
	t.Helper()
	if o.Store == nil {
		o.Store, _ = open(t)
	}
	if o.Log == nil {
		o.Log = func(format string, args ...any) { t.Errorf("log: "+format, args...) }
	}
	if o.Measure == nil {
		o.Measure = func(*iotax.Run) (plan.Measure, error) { return plan.Defaults(), nil }
	}
	o.Version = "test"
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func serve(t testing.TB, s *Server) string {
	t.Helper()
	server := httptest.NewServer(s.Handler())
	t.Cleanup(func() {
		s.feeds.close()
		server.Close()
	})
	return server.URL
}

// A history describes a series of nightly runs.
type history struct {
	name   string
	runs   int
	rounds int
	seed   uint64
	change func(night int, run *iotax.Run, target string) float64 // returns a factor for the target's speed; may change the run's settings
}

func (h history) id(night int) string { return fmt.Sprintf("%s-%03d", h.name, night) }

func (h history) run(night int) *iotax.Run {
	start := epoch.Add(time.Duration(night) * 24 * time.Hour)
	return &iotax.Run{
		ID: h.id(night), Name: h.name, Version: "0.1.0", Plan: []byte("name: " + h.name + "\n"), Seed: 7, Start: start, End: start.Add(14*time.Minute + 8*time.Second),
		Status: iotax.Done, Baseline: hostDisk, Precision: .05, Margin: .05, Alpha: .028,
		Environment: map[string]string{"kernel": "6.1.0-40-amd64", "hostname": "bench1", "cpu.model": "AMD EPYC 7B13", "os": "Debian GNU/Linux 12 (bookworm)"},
		Targets: []iotax.TargetInfo{
			{Name: hostDisk, Machine: "host", Place: "/var/tmp/iotax-8f3a", Durability: iotax.Durable, Facts: map[string]string{"filesystem": "ext4"}},
			{Name: blk, Machine: "guest", Place: "/dev/vda", Durability: iotax.Durable, Facts: map[string]string{"qemu": "7.2.17"}},
			{Name: share, Machine: "guest", Place: "/mnt/share", Durability: iotax.Durable, Facts: map[string]string{"qemu": "7.2.17"}},
		},
		Workloads: []iotax.WorkloadInfo{{Name: random, Kind: "fio", Metrics: []string{"read.iops"}, Cold: true}, {Name: seqRead, Kind: "fio", Metrics: []string{"read.bandwidth"}, Cold: true}},
	}
}

func (h history) trials(run *iotax.Run, night int) []*iotax.Trial {
	r := rand.New(rand.NewPCG(h.seed, uint64(night)))
	host := math.Exp(.02 * r.NormFloat64()) // varies between nights
	var out []*iotax.Trial
	at := run.Start.Add(10 * time.Second)
	for round := range h.rounds {
		for _, w := range []struct {
			name        string
			iops, bytes float64
		}{{random, 48213, 4096}, {seqRead, 1312, 1 << 20}} {
			mode := host * math.Exp(.03*r.NormFloat64())
			for _, target := range []struct {
				name  string
				share float64
			}{{hostDisk, 1}, {blk, .71}, {share, .31}} {
				f := target.share
				if h.change != nil {
					f *= h.change(night, run, target.name)
				}
				ops := w.iops * f * mode * math.Exp(.015*r.NormFloat64())
				out = append(out, &iotax.Trial{Run: run.ID, Target: target.name, Workload: w.name, Round: round, Seq: len(out), Seed: uint64(round), Ramp: 2 * time.Second, Length: 10 * time.Second,
					Cold: true, Start: at, Took: 12300 * time.Millisecond, Facts: map[string]string{"fio": "fio-3.33", iotax.FactJob: `{"bs":"4096","iodepth":"32","kind":"fio","rw":"randread"}`},
					Values: []iotax.Value{{Name: "read.iops", Value: ops, Unit: iotax.PerSecond, Better: iotax.Up}, {Name: "read.bandwidth", Value: ops * w.bytes, Unit: iotax.BytesPerSecond, Better: iotax.Up},
						{Name: "read.latency.mean", Value: 32 / ops, Unit: iotax.Seconds, Better: iotax.Down}}})
				at = at.Add(13 * time.Second)
			}
		}
	}
	return out
}

func (h history) fill(t testing.TB, s *store.Store) {
	t.Helper()
	ctx := context.Background()
	for night := range h.runs {
		run := h.run(night)
		trials := h.trials(run, night)
		if err := s.Create(ctx, run); err != nil {
			t.Fatal(err)
		}
		for _, x := range trials {
			if err := s.Append(ctx, x); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// nightly returns a history in which virtio-fs becomes 15 % slower at night 18, when the kernel changes.
func nightly(runs int) history {
	return history{name: "nightly", runs: runs, rounds: 6, seed: 1, change: func(night int, run *iotax.Run, target string) float64 {
		if night < 18 {
			return 1
		}
		run.Environment["kernel"] = "6.8.0-2-amd64"
		if target == share {
			return .85
		}
		return 1
	}}
}

// multiply uses SQL to copy the only run of a store, with its trials and values, until the store contains n runs. The
// result resembles a store after years of use.
func multiply(t testing.TB, path string, n int) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(10000)&_pragma=synchronous(OFF)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	columns := func(table string) []string {
		rows, err := db.Query(`SELECT name FROM pragma_table_info('` + table + `')`)
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		var out []string
		for rows.Next() {
			var c string
			if err := rows.Scan(&c); err != nil {
				t.Fatal(err)
			}
			out = append(out, c)
		}
		return out
	}
	replaced := func(table string, with map[string]string) (all, values string) {
		cols := columns(table)
		vals := make([]string, len(cols))
		for i, c := range cols {
			vals[i] = "s." + c
			if w, ok := with[c]; ok {
				vals[i] = w
			}
		}
		return strings.Join(cols, ", "), strings.Join(vals, ", ")
	}
	const count = `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1 - 1) `
	const most = "(SELECT max(id) FROM trials)"
	runCols, runVals := replaced("runs", map[string]string{
		"id": "printf('copy-%05d', n.i)", "name": "printf('plan %d', n.i % 97)",
		"started": "strftime('%Y-%m-%dT%H:%M:%S.000000000Z', s.started, printf('+%d hours', n.i))",
		"ended":   "strftime('%Y-%m-%dT%H:%M:%S.000000000Z', s.started, printf('+%d minutes', n.i * 60 + n.i % 50))",
		"words":   "printf('copy-%05d%splan %d%s%s', n.i, char(10), n.i % 97, char(10), s.words)",
	})
	trialCols, trialVals := replaced("trials", map[string]string{"id": "n.i * " + most + " + s.id", "run": "printf('copy-%05d', n.i)"})
	valueCols, valueVals := replaced("measured", map[string]string{"trial": "n.i * " + most + " + s.trial"})
	tx, err := db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	for _, q := range []string{
		`INSERT INTO measured (` + valueCols + `) ` + count + `SELECT ` + valueVals + ` FROM n, measured s`,
		`INSERT INTO runs (` + runCols + `) ` + count + `SELECT ` + runVals + ` FROM n, runs s`,
		`INSERT INTO trials (` + trialCols + `) ` + count + `SELECT ` + trialVals + ` FROM n, trials s`,
	} {
		if _, err := tx.Exec(q, n); err != nil {
			t.Fatal(err)
		}
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
}
