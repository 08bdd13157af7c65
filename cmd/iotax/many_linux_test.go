package main

import (
	"context"
	"database/sql"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"iotax/internal/store"
	"iotax/internal/testenv/long"
)

// manyTrials makes a store with one run of cells × rounds trials and returns its path. The trials are complete copies
// of real fio trials of two workloads in two directories.
func manyTrials(tb testing.TB, protocol string, cells, rounds int) string {
	tb.Helper()
	dir := tb.TempDir()
	path := filepath.Join(dir, "many.db")
	var said strings.Builder
	code := Main(context.Background(), []string{"run", "--store", path, "-q", "--calibrate", "no", "--warm",
		"dir:" + tb.TempDir(), "dir:" + tb.TempDir(), "-w", "randread-4k,randwrite-4k", "--size", "8MiB", "--ramp", "50ms", "--protocol", protocol}, strings.NewReader(""), io.Discard, &said)
	if code != exitOK {
		tb.Fatalf("exit status %d: %s", code, said.String())
	}
	multiply(tb, path, cells, rounds)
	return path
}

// multiply replaces the trials of the run in a store with cells × rounds copies. The copies have new targets, workloads
// and rounds.
func multiply(tb testing.TB, path string, cells, rounds int) {
	tb.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		tb.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	targets := cells / 10 // ten workloads
	exec := func(query string, args ...any) {
		tb.Helper()
		if _, err := db.Exec(query, args...); err != nil {
			tb.Fatalf("%v: %s", err, query)
		}
	}
	exec(`PRAGMA synchronous = OFF`)
	exec(`PRAGMA foreign_keys = OFF`)
	exec(`CREATE TEMP TABLE real AS SELECT row_number() OVER (ORDER BY workload, target, round) - 1 AS i, count(*) OVER () AS n, * FROM trials`)
	// Trial s is in round s ÷ cells, in cell s mod cells. A cell only copies trials of one real workload.
	exec(`CREATE TEMP TABLE made AS
		WITH RECURSIVE s(seq) AS (SELECT 0 UNION ALL SELECT seq + 1 FROM s WHERE seq < ?1 * ?2 - 1)
		SELECT seq, seq / ?1 AS round, (seq % ?1) / ?3 AS w, (seq % ?1) % ?3 AS t,
			((seq % ?1) / ?3 % 2) * (SELECT n / 2 FROM real) + (seq / ?1 * 7 + seq % ?1 * 3) % (SELECT n / 2 FROM real) AS i FROM s`, cells, rounds, targets)
	exec(`DELETE FROM trials`)
	exec(`INSERT INTO trials (id, run, seq, round, start_index, target, workload, seed, ramp_ns, length_ns, cold, started, took_ns, labels, facts, findings, err, discarded)
		SELECT 1000000 + m.seq, r.run, m.seq, m.round, r.start_index, printf('t%03d', m.t), printf('w%d', m.w), r.seed, r.ramp_ns, r.length_ns, r.cold, r.started, r.took_ns,
			r.labels, replace(r.facts, '--randseed=', '--randseed=' || m.seq), r.findings, r.err, r.discarded
		FROM made m JOIN real r ON r.i = m.i ORDER BY m.seq`)
	for _, table := range []string{"measured (trial, metrics, vals, histograms) SELECT 1000000 + m.seq, x.metrics, x.vals, x.histograms",
		"blobs (trial, kind, data) SELECT 1000000 + m.seq, x.kind, x.data"} {
		name, _, _ := strings.Cut(table, " ")
		exec(`INSERT INTO ` + table + ` FROM made m JOIN real r ON r.i = m.i JOIN ` + name + ` x ON x.trial = r.id ORDER BY m.seq`)
		exec(`DELETE FROM ` + name + ` WHERE trial < 1000000`)
	}
	exec(`UPDATE runs SET baseline = 't000',
		targets = (SELECT json_group_array(json_object('name', printf('t%03d', t), 'machine', 'host', 'durability', 'durable')) FROM (SELECT DISTINCT t FROM made ORDER BY t)),
		workloads = (SELECT json_group_array(json_object('name', printf('w%d', w), 'kind', 'fio', 'metrics',
			json_array(CASE w % 2 WHEN 0 THEN 'read.iops' ELSE 'write.iops' END))) FROM (SELECT DISTINCT w FROM made ORDER BY w))`)
	exec(`PRAGMA wal_checkpoint(TRUNCATE)`)
}

// TestManyTrials writes reports of a large run in several formats, and checks that the report includes every trial.
func TestManyTrials(t *testing.T) {
	long.Test(t)
	const cells, rounds = 20, 100
	path := manyTrials(t, "fixed:3x300ms", cells, rounds)
	for _, format := range []string{"txt", "md", "html", "json", "csv", "benchfmt"} {
		t.Run(format, func(t *testing.T) {
			command := "report"
			if format == "csv" {
				command = "export"
			}
			var out, said strings.Builder
			if code := Main(t.Context(), []string{command, "--store", path, "--format", format}, strings.NewReader(""), &out, &said); code != exitOK {
				t.Fatalf("exit status %d: %s", code, said.String())
			}
			for _, want := range []string{"t001", "w9"} {
				if !strings.Contains(out.String(), want) {
					t.Errorf("%s is not in it", want)
				}
			}
		})
	}
	db, err := store.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	r, err := db.Get(t.Context(), "latest")
	if err != nil {
		t.Fatal(err)
	}
	rep, err := reportOf(t.Context(), db, r)
	if err != nil {
		t.Fatal(err)
	}
	if len(rep.Trials) != cells*rounds || len(rep.Sections) != 10 {
		t.Fatalf("%d trials in %d sections", len(rep.Trials), len(rep.Sections))
	}
	for _, s := range rep.Sections {
		for _, row := range s.Rows {
			if row.Ran != rounds || row.Ratio == nil && !row.Baseline {
				t.Errorf("%s / %s: %d trials, ratio %v", row.Target, s.Workload, row.Ran, row.Ratio)
			}
			quantiles := 0
			for _, f := range row.Secondary {
				if f.Merged && f.Value.N == row.Ran-row.Discarded-row.Failed {
					quantiles++
				}
			}
			if quantiles == 0 {
				t.Errorf("%s / %s: no quantile of all its histograms", row.Target, s.Workload)
			}
		}
	}
}

// BenchmarkReport100k runs `iotax report` and other commands on a store with 100,000 copies of real fio trials in 100
// cells. Each command is a new process, and the CPU time includes its start. Run it with:
//
//	go test -run xxx -bench Report100k -benchtime 3x ./cmd/iotax
//
// It fails if a report takes more than 2 s of CPU time or 330 MiB of memory. IOTAX_MANY=FILE keeps the store in FILE
// for further benchmarks.
func BenchmarkReport100k(b *testing.B) {
	dir := b.TempDir()
	exe := filepath.Join(dir, "program")
	if out, err := exec.Command("go", "build", "-o", exe, ".").CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	path := os.Getenv("IOTAX_MANY")
	if _, err := os.Stat(path); err != nil {
		made := manyTrials(b, "fixed:6x2s", 100, 1000)
		if path == "" {
			path = made
		} else if err := os.Rename(made, path); err != nil {
			b.Fatal(err)
		}
	}
	for _, args := range [][]string{{"report"}, {"report", "--format", "md"}, {"report", "--format", "json"}, {"report", "--format", "html"},
		{"report", "--metric", "latency.p90"}, {"report", "--metric", "latency.p99.99"},
		{"list"}, {"show", "--trial", "7"}, {"show"}} {
		b.Run(strings.Join(args, " "), func(b *testing.B) {
			var cpu, peak, bytes float64
			for b.Loop() {
				cmd := exec.Command(exe, append(args, "--store", path)...)
				out, err := cmd.Output()
				if err != nil {
					b.Fatal(err)
				}
				use := cmd.ProcessState
				cpu += (use.UserTime() + use.SystemTime()).Seconds()
				peak = max(peak, float64(use.SysUsage().(*syscall.Rusage).Maxrss)/1024)
				bytes = float64(len(out))
			}
			b.ReportMetric(cpu/float64(b.N), "cpu-s/op")
			b.ReportMetric(peak, "MiB")
			b.ReportMetric(bytes/1e6, "MB-out")
			if mean := cpu / float64(b.N); args[0] == "report" && (mean > 2 || peak > 330) {
				b.Errorf("%.2f s of CPU time and %.0f MiB, more than 2 s or 330 MiB", mean, peak)
			}
		})
	}
}
