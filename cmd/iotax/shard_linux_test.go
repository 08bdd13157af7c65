package main

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"iotax/internal/leftover"
	"iotax/internal/testenv/long"
	"iotax/internal/testenv/storetest"
)

// structure returns the parts of a report that are the same for every run of a plan.
func structure(t *testing.T, text string) string {
	t.Helper()
	var r struct {
		Run   struct{ Baseline, Status string }
		Cells []struct {
			Target, Workload, Metric, Unit, Better string
			Baseline                               bool
			Value                                  struct{ N int }
			Ratio                                  *struct{ N int }
			Trials                                 struct{ Ran, Failed int }
			Secondary                              []struct{ Name, Unit string }
		}
	}
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		t.Fatal(err)
	}
	out := fmt.Sprintf("%+v\n", r.Run)
	for _, c := range r.Cells {
		pairs := 0
		if c.Ratio != nil {
			pairs = c.Ratio.N
		}
		out += fmt.Sprintf("%s / %s %s %s %s baseline=%t n=%d pairs=%d failed=%d", c.Target, c.Workload, c.Metric, c.Unit, c.Better, c.Baseline, c.Value.N, pairs, c.Trials.Failed)
		for _, s := range c.Secondary { // whether a cell has other secondary values depends on the number of I/Os
			if strings.HasSuffix(s.Name, ".bandwidth") || strings.HasSuffix(s.Name, ".latency.mean") || s.Name == "duration" {
				out += " " + s.Name
			}
		}
		out += "\n"
	}
	return out
}

// postgres starts a server that runs until the test ends, and returns the URL of a new database in it.
func postgres(t *testing.T) (_ *storetest.Server, url string) {
	t.Helper()
	server, err := storetest.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	if url, err = server.Database(); err != nil {
		t.Fatal(err)
	}
	return server, url
}

// Four processes measure a run together, and save it in one PostgreSQL database. The report has the structure of a
// single process's report.
func TestShards(t *testing.T) {
	long.Test(t)
	t.Parallel()
	_, url := postgres(t)
	s := newStage(t)
	s.env[storeVariable] = url
	plan := s.write("plan.yaml", `
baseline: a
targets: {a: {dir: a}, b: {dir: b}}
workloads: {read: {fio: {rw: randread, bs: 4k, size: 1MiB}}, write: {fio: {rw: randwrite, bs: 4k, size: 1MiB}}}
measure: {trial: 500ms, ramp: 20ms, rounds: {min: 2, max: 8}, cold: false}
`)
	args := func(more ...string) []string {
		return append([]string{"run", plan, "--calibrate", "no", "--id", "together"}, more...)
	}
	s.iotax(args("--shard", "4/4")...).refuses(t, exitUsage, "the last 3/4")
	s.iotax("run", plan, "--shard", "0/4").refuses(t, exitUsage, "--id")
	s.iotax(args("--shard", "8/9")...).refuses(t, exitError, "dealt two by two", "--rounds 18")

	var shards []*running
	for i := range 4 {
		shards = append(shards, s.start(nil, args("--shard", fmt.Sprintf("%d/4", i))...))
	}
	var wg sync.WaitGroup
	said := make([]string, len(shards))
	for i, r := range shards {
		wg.Go(func() { said[i] = r.wait().works(t, exitOK).String() })
	}
	wg.Wait()
	if !slices.ContainsFunc(said, func(s string) bool { return strings.Contains(s, "Slower than a") }) {
		t.Errorf("no shard printed the report:\n%s", strings.Join(said, "\n"))
	}
	s.iotax(args("--shard", "2/4")...).works(t, exitOK, "is complete")
	s.iotax(args("--shard", "2/5")...).refuses(t, exitError, "divided into 4 shards")

	together := structure(t, s.iotax("report", "together", "--json").works(t, exitOK).stdout)
	for _, want := range []string{"Status:done", "a / read read.iops", "b / write write.iops", "pairs=8 failed=0"} {
		if !strings.Contains(together, want) {
			t.Errorf("the report of four has no %q:\n%s", want, together)
		}
	}
	alone := s.iotax("run", plan, "--calibrate", "no", "--protocol", "fixed:8x500ms", "--id", "alone", "-q", "--json").works(t, exitOK)
	if one := structure(t, alone.stdout); one != together {
		t.Errorf("one process:\n%s\nfour:\n%s", one, together)
	}

	s.iotax("list").works(t, exitOK, "together", "alone", "done")
	s.iotax("show", "together", "--trial", "6").works(t, exitOK, "shard", "1/4")
	s.iotax("export", "together", "--format", "csv").works(t, exitOK, "read.iops")
	if c := s.iotax("compare", "alone", "together"); c.code != exitOK && c.code != exitGate {
		t.Error(c)
	}
	served(t, s, "together")
	r := s.start(nil, args("--id", "cut", "--trial", "1s", "--rounds", "2")...)
	r.said("round 1/")
	r.send(os.Interrupt)
	r.wait().works(t, exitInterrupted)
	s.iotax("run", "--resume=cut").works(t, exitOK)
	s.iotax("rm", "cut", "--yes").works(t, exitOK)

	// The report names a killed shard. The same command starts that shard again.
	part := func(shard string) []string { return args("--id", "killed", "--rounds", "4", "--shard", shard) }
	r = s.start(nil, part("0/2")...)
	r.said("round 1/")
	r.send(syscall.SIGKILL)
	r.wait()
	s.iotax(part("1/2")...).works(t, exitOK)
	s.iotax("report", "killed", "--details").works(t, exitOK, "runner-died", "shard 0/2, was killed", "--shard 0/2 --id killed")
	s.iotax("list", "--status", "interrupted").works(t, exitOK, "killed")
	s.iotax("run", "--resume=killed").refuses(t, exitUsage, "several processes measure it")
	s.iotax(part("0/2")...).works(t, exitOK)
	s.iotax("report", "killed").works(t, exitOK)
	diedElsewhere(t, s, url, args)
	s.cleans("--yes")
	if strings.Contains(s.iotax("list").stdout, "cut") {
		t.Error("a removed run is listed")
	}
}

// diedElsewhere kills a shard and an undivided run on a host with another name. iotax counts both as running until
// several minutes have passed since they last reported to the store.
func diedElsewhere(t *testing.T, s *stage, url string, args func(more ...string) []string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Log("without root no process is on a host of another name")
		return
	}
	db, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for id, more := range map[string][]string{"far-shard": {"--shard", "0/2", "--rounds", "4"}, "far-alone": {"--rounds", "2"}} {
		r := s.start([]string{"unshare", "--uts", "sh", "-c", `hostname elsewhere && exec "$0" "$@"`}, args(append(more, "--id", id, "--trial", "1s")...)...)
		for end := time.Now().Add(4 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
			n := 0
			if err := db.QueryRow(`SELECT count(*) FROM iotax.runners WHERE run = $1 AND runner LIKE '%@elsewhere'`, id).Scan(&n); err != nil {
				t.Fatal(err)
			}
			if n == 1 {
				break
			}
			if time.Now().After(end) {
				t.Fatal("the runner is not heard of")
			}
		}
		r.send(syscall.SIGKILL)
		r.wait()
		if out := s.iotax("list", "--status", "running").works(t, exitOK); !strings.Contains(out.stdout, id) {
			t.Errorf("it was heard of a moment ago: %s", out)
		}
		if id == "far-alone" {
			s.iotax("run", "--resume="+id).refuses(t, exitError, "it still runs, as process", "on elsewhere, which last reported", "if it has died, iotax assumes so in")
		}
		if _, err := db.Exec(`UPDATE iotax.runners SET seen = seen - 1200000 WHERE run = $1`, id); err != nil {
			t.Fatal(err)
		}
		s.iotax("list", "--status", "interrupted").works(t, exitOK, id)
	}
	s.iotax("report", "far-shard", "--details").works(t, exitOK, "on elsewhere, which measured shard 0/2, has not reported for", "--shard 0/2 --id far-shard")
	s.iotax("run", "--resume=far-alone").works(t, exitOK)
	s.iotax("rm", "far-shard", "--yes").works(t, exitOK)
	s.iotax("rm", "far-alone", "--yes").works(t, exitOK)
	// On a real second host, iotax clean on that host would remove these directories.
	left, err := filepath.Glob(s.path("[ab]/iotax-*"))
	if err != nil {
		t.Fatal(err)
	}
	tmp, _ := filepath.Glob(s.path("tmp/iotax-*"))
	for _, dir := range append(left, tmp...) {
		if b, _ := os.ReadFile(filepath.Join(dir, leftover.Marker)); strings.Contains(string(b), "@elsewhere") {
			os.RemoveAll(dir)
		}
	}
}

// served checks that `iotax serve` shows the run, but not the user name in the address of the store.
func served(t *testing.T, s *stage, id string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	r := s.start(nil, "serve", "--listen", address)
	for _, path := range []string{"/", "/runs/" + id} {
		var page []byte
		for end := time.Now().Add(4 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
			res, err := http.Get("http://" + address + path)
			if err == nil {
				page, err = io.ReadAll(res.Body)
				res.Body.Close()
			}
			if err == nil && res.StatusCode == http.StatusOK {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("%s: %v %s", path, err, page)
			}
		}
		if !strings.Contains(string(page), id) || strings.Contains(string(page), "tester@") {
			t.Errorf("%s does not show the run, or shows the user: %s", path, page)
		}
	}
	r.send(os.Interrupt)
	if end := r.wait(); !strings.Contains(end.stdout, "serving postgres://") || strings.Contains(end.stdout, "tester") {
		t.Errorf("serve: %s", end)
	}
}
