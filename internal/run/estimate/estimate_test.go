package estimate

import (
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"iotax"
	"iotax/internal/calibrate"
	"iotax/internal/kinds"
	"iotax/internal/plan"
	"iotax/internal/plan/schedule"
	"iotax/internal/run/saved"
	"iotax/internal/store"
	"iotax/internal/workload/fiojob"
)

// The estimate for a plan that was measured before is close to the measured time. A run of another plan, on another
// host, or with damaged data is not used.
func TestEstimateFromRuns(t *testing.T) {
	ctx := t.Context()
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "iotax.db")
	words := func(size string) *plan.Plan {
		m := plan.Defaults()
		m.Trial, m.Ramp, m.Rounds, m.Budget = plan.Duration(time.Second), plan.Duration(200*time.Millisecond), plan.Rounds{Min: 6, Max: 6}, 0
		p, err := plan.FromWords([]string{"dir:/var/tmp/a", "dir:/var/tmp/b"}, []string{"randread-4k", "command:true"}, m, kinds.All())
		if err == nil {
			err = p.Workloads[0].Traits().Options.Set("size", size)
		}
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	p := words("64MiB")
	assumed := Assumed(p)
	if assumed.Open <= 0 || len(assumed.Around) != 4 {
		t.Fatalf("assumed: %+v", assumed)
	}
	db, err := store.Open(ctx, file)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if c, from, err := Costs(ctx, db, p, calibrate.Never, t.Logf); err != nil || from != "" || c.Open != assumed.Open {
		t.Errorf("of an empty store: %+v from %q, %v", c, from, err)
	}
	text, err := p.YAML()
	if err != nil {
		t.Fatal(err)
	}
	start := time.Date(2026, 3, 14, 9, 0, 0, 0, time.UTC)
	r := &iotax.Run{ID: "r", Name: p.Name, Plan: text, Start: start, Status: iotax.Done, Baseline: p.Baseline,
		Targets: []iotax.TargetInfo{{Name: "dir:/var/tmp/a"}, {Name: "dir:/var/tmp/b"}}, Workloads: []iotax.WorkloadInfo{{Name: "randread-4k"}, {Name: "command:true"}}}
	if err := db.Create(ctx, r); err != nil {
		t.Fatal(err)
	}
	at := start.Add(40 * time.Second) // time to open
	for round := range 6 {
		for _, w := range p.Workloads {
			for i, target := range r.Targets {
				x := &iotax.Trial{Run: "r", Target: target.Name, Workload: w.Name, Round: round, Seq: round*4 + i, Start: at, Facts: map[string]string{}}
				if x.Took = 700 * time.Millisecond; w.Assumed == 0 {
					x.Ramp, x.Length = 200*time.Millisecond, time.Second
					x.Took = time.Duration(3+5*i) * time.Second
				} else {
					x.Seq += 2
				}
				if err := db.Append(ctx, x); err != nil {
					t.Fatal(err)
				}
				at = at.Add(x.Took)
			}
		}
	}
	r.End = at.Add(3 * time.Second)
	r.Environment = map[string]string{iotax.FactSetupTime: "43s", "hostname": host}
	if err := db.Update(ctx, r); err != nil {
		t.Fatal(err)
	}
	c, from, err := Costs(ctx, db, p, calibrate.Never, t.Logf)
	if err != nil || from != "r" {
		t.Fatalf("%+v from %q, %v", c, from, err)
	}
	c.Before = 14 * time.Second
	if lines := Lines(p, c, from); !strings.HasSuffix(lines[0], "(as in run r)") || !slices.Contains(lines, "14s to measure the noise floor, once a week (--calibrate=no leaves that out)") {
		t.Errorf("%q", lines)
	}
	c.Before = 0
	if least, most, _ := schedule.Estimate(p, c); least != most || most < r.End.Sub(start)*3/4 || most > r.End.Sub(start)*5/4 {
		t.Errorf("estimated at %v, it took %v: %+v", most, r.End.Sub(start), c)
	}
	// The setup time includes neither a calibration nor the pause before a resume. Opening a trial's own machine counts
	// for that trial.
	moved := *r
	moved.Start = r.Start.Add(-time.Hour)
	trials, err := saved.Trials(ctx, db, "r")
	if err != nil {
		t.Fatal(err)
	}
	if done := Done(p, trials[1:]); done["randread-4k"] != 5 || done["command:true"] != 6 {
		t.Errorf("six rounds without their first trial: %v", done)
	}
	for _, x := range trials {
		x.Facts = map[string]string{iotax.FactMachineOpened: "10s"}
	}
	cell := schedule.Cell{Workload: "randread-4k", Target: "dir:/var/tmp/a"}
	if own := Assumed(p); !took(&own, p, p, &moved, trials) || own.Open != 43*time.Second || own.Around[cell] != c.Around[cell]+10*time.Second {
		t.Errorf("of a resumed run with a machine for each trial: %+v, want %+v and 10 s around each trial", own, c)
	}
	r.Environment["hostname"] = "elsewhere.invalid"
	if err := db.Update(ctx, r); err != nil {
		t.Fatal(err)
	}
	if c, from, err := Costs(ctx, db, words("64MiB"), calibrate.Never, t.Logf); err != nil || from != "" {
		t.Errorf("of another host: %+v from %q, %v", c, from, err)
	}
	r.Environment["hostname"] = host
	if err := db.Update(ctx, r); err != nil {
		t.Fatal(err)
	}
	if c, from, err := Costs(ctx, db, words("128MiB"), calibrate.Never, t.Logf); err != nil || from != "" {
		t.Errorf("of another size: %+v from %q, %v", c, from, err)
	}
	// The newest run is damaged. The estimate uses the run before it and prints a note.
	damaged := *r
	damaged.ID, damaged.Start = "torn", r.Start.Add(time.Hour)
	if err := db.Create(ctx, &damaged); err != nil {
		t.Fatal(err)
	}
	raw, err := sql.Open("sqlite", file)
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	if _, err := raw.Exec("UPDATE runs SET findings = '{{' WHERE id = 'torn'"); err != nil {
		t.Fatal(err)
	}
	var noted []string
	note := func(format string, args ...any) { noted = append(noted, fmt.Sprintf(format, args...)) }
	if _, from, err := Costs(ctx, db, words("64MiB"), calibrate.Never, note); err != nil || from != "r" || len(noted) != 1 || !strings.Contains(noted[0], "the estimate does not use run torn: ") {
		t.Errorf("beside a damaged run: from %q, %v, %q", from, err, noted)
	}
	if _, err := raw.Exec("UPDATE runs SET started = 'xyz' WHERE id = 'torn'"); err != nil {
		t.Fatal(err)
	}
	noted = nil
	if _, _, err := Costs(ctx, db, words("64MiB"), calibrate.Never, note); err != nil || len(noted) == 0 || !strings.Contains(noted[0], "the estimate does not use ") {
		t.Errorf("beside a run without a start: %v, %q", err, noted)
	}
}

// Restart gives each round of a long run its own start if a target is on a guest or a server, a start takes little
// time, and the plan allows it.
func TestRestart(t *testing.T) {
	const guest, export = "b: {on: g, disk: {}}", "b: {nbd: {size: 1GiB}}"
	for _, c := range []struct {
		target, file, measure string
		want                  int
	}{
		{guest, "1MiB", "trial: 60s", 30},
		{guest, "1MiB", "trial: 60s, rounds: 8..20", 20},
		{"b: {dir: /var/tmp/b}", "1MiB", "trial: 60s", 0},
		{"b: {on: fresh, disk: {}}", "1MiB", "trial: 60s", 0},
		{export, "1MiB", "trial: 60s", 30},
		{guest, "1MiB", "trial: 40s", 0},              // 6 rounds take 8 minutes
		{guest, "4GiB", "trial: 60s", 0},              // writing the files takes 55 s
		{guest, "1MiB", "trial: 60s, budget: 13m", 0}, // five rounds fit; without restarts, six fit
		{guest, "1MiB", "trial: 60s, restarts: 1", 1},
		{guest, "1MiB", "trial: 60s, restarts: 6", 6},
		{guest, "1MiB", "trial: 60s, rounds: 6", 0},
		{guest, "1MiB", "protocol: 'fixed:30x60s'", 0},
		{guest, "1MiB", "trial: 60s, drop: worst", 0},
	} {
		p, err := plan.Parse("p.yaml", []byte("machines: {g: {qemu: {}}, fresh: {qemu: {fresh: true}}}\ntargets: {a: {dir: /var/tmp/a}, "+c.target+
			"}\nworkloads: {w: {fio: {rw: read, size: "+c.file+"}}}\nmeasure: {"+c.measure+"}\n"), kinds.All())
		if err != nil {
			t.Fatal(err)
		}
		rounds := p.Measure.Rounds
		if Restart(p); p.Measure.Restarts != c.want || p.Measure.Rounds != rounds || p.Measure.Check() != nil {
			t.Errorf("%+v: %d starts, rounds %v", c, p.Measure.Restarts, p.Measure.Rounds)
		}
	}
}

// For each trial on a machine of its own, the estimate includes a boot and the writing of the test files. It also
// includes the pilot of an open loop, and the files of each member of a combined target. It leaves out machines without
// a target.
func TestAssumedCosts(t *testing.T) {
	costs := func(machines, targets, workload string) schedule.Costs {
		t.Helper()
		p, err := plan.Parse("p.yaml", []byte("machines: {"+machines+"}\ntargets: {a: {dir: /var/tmp/a}, "+targets+"}\nworkloads: {w: {fio: {size: 150MiB, "+workload+"}}}\n"), kinds.All())
		if err != nil {
			t.Fatal(err)
		}
		return Assumed(p)
	}
	cell := schedule.Cell{Workload: "w", Target: "b"}
	local := costs("", "b: {dir: /var/tmp/b}", "rw: read")
	unused := costs("far: {ssh: {host: h}}", "b: {dir: /var/tmp/b}", "rw: read")
	if local.Open != unused.Open {
		t.Errorf("%v to open, %v with a machine that no target uses", local.Open, unused.Open)
	}
	stays, renewed := costs("g: {qemu: {}}", "b: {on: g, disk: {}}", "rw: read"), costs("g: {qemu: {fresh: true}}", "b: {on: g, disk: {}}", "rw: read")
	if more := renewed.Around[cell] - stays.Around[cell]; more < guest.boot+time.Second {
		t.Errorf("a guest for each trial costs only %v more around it", more)
	}
	if more := costs("", "b: {dir: /var/tmp/b}", "rw: randread, load: 50%").Open - local.Open; more != 2*(fiojob.PilotTime+here.around) {
		t.Errorf("an open loop takes %v more to prepare", more)
	}
	together := costs("", "c: {dir: /var/tmp/c}, d: {dir: /var/tmp/d}, b: {group: {of: [c, d]}}", "rw: read")
	if more := together.Open - local.Open; more < 900*time.Millisecond {
		t.Errorf("the files of a target made of two take only %v more", more)
	}
}
