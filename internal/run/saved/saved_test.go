package saved

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"iotax"
	"iotax/internal/leftover"
	"iotax/internal/run"
	"iotax/internal/store"
)

// A process on another host that has not reported for longer than silentTime counts as dead. After a restart, the new
// process of a shard is not mistaken for the one that died.
func TestSettleShards(t *testing.T) {
	name := func(pid int) string {
		return leftover.Runner{PID: pid, Start: 1, Boot: "b", Host: "elsewhere.invalid"}.String()
	}
	for _, c := range []struct {
		what string
		open map[int]int // process ids by shard; 0 is unknown, and the others below 100 have not reported for an hour
		want iotax.Status
		says []string // shards with a finding
	}{
		{"all at work", map[int]int{3: 103, 4: 104, 17: 117}, iotax.Running, nil},
		{"one has died", map[int]int{3: 103, 5: 5, 17: 117}, iotax.Running, []string{"5/20"}},
		{"all but one that has not said who it is", map[int]int{3: 3, 4: 4, 17: 0}, iotax.Running, []string{"3/20", "4/20"}},
		{"all have died", map[int]int{4: 4, 3: 3}, iotax.Interrupted, []string{"3/20", "4/20"}},
		{"one was started again", map[int]int{3: 203, 4: 4}, iotax.Running, []string{"4/20"}},
		{"those that began have ended", nil, iotax.Running, nil},
	} {
		heard := store.Pulse{Silent: store.Silence{}, Open: map[int]string{}}
		for i, pid := range c.open {
			heard.Silent[name(i)] = time.Hour // the first process of each shard has died
			if heard.Open[i] = ""; pid > 0 {
				heard.Open[i] = name(pid)
			}
			if pid >= 100 {
				heard.Silent[name(pid)] = 10 * time.Second
			}
		}
		r := &iotax.Run{ID: "many", Status: iotax.Running, Environment: map[string]string{run.ShardsKey: "20"}}
		settle(r, heard)
		if r.Status != c.want || len(r.Findings) != len(c.says) {
			t.Errorf("%s: it is %s, and %+v", c.what, r.Status, r.Findings)
			continue
		}
		for i, shard := range c.says {
			if f := r.Findings[i]; f.Rule != "runner-died" || !strings.Contains(f.Evidence, "shard "+shard) || !strings.Contains(f.Hint, "--shard "+shard+" --id many") {
				t.Errorf("%s: %+v", c.what, f)
			}
		}
	}
}

// iotax does not take over a run while its process is alive on this host, or if its process on another host has
// reported recently.
func TestStillRuns(t *testing.T) {
	self, far := leftover.Self(), leftover.Runner{PID: 7, Start: 1, Boot: "b", Host: "elsewhere.invalid"}
	for _, c := range []struct {
		what   string
		who    leftover.Runner
		silent store.Silence
		want   string
	}{
		{"heard of", far, store.Silence{far.String(): 20 * time.Second}, "process 7 on elsewhere.invalid, which last reported 20s ago"},
		{"silent", far, store.Silence{far.String(): silentTime + time.Second}, ""},
		{"never heard of", far, store.Silence{self.String(): 0}, ""},
		{"this one", self, nil, map[leftover.State]string{leftover.Alive: fmt.Sprint("process ", self.PID), leftover.Unknown: ""}[self.State()]},
	} {
		what, hint := stillRuns(c.who, store.Pulse{Silent: c.silent})
		if c.want == "" && what != "" || !strings.Contains(what, c.want) || (what == "") != (hint == "") {
			t.Errorf("%s: %q (%q), want %q", c.what, what, hint, c.want)
		}
	}
}

// If two processes try to resume the same interrupted run, only one succeeds.
func TestResumedOnce(t *testing.T) {
	db, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "iotax.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	r := &iotax.Run{ID: "a1", Status: iotax.Interrupted, Start: time.Now(), Environment: map[string]string{run.RunnerKey: leftover.Self().String()},
		Plan: []byte("targets: {a: {dir: /var/tmp}, b: {dir: /var/tmp}}\nworkloads: {w: {fio: {rw: randread, bs: 4k}}}\n")}
	if err := db.Create(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	t.Setenv(leftover.RunVariable, "")
	t.Setenv(leftover.RunnerVariable, "")
	if _, err := leftover.Begin("a1"); err != nil {
		t.Fatal(err)
	}
	var both [2]run.Options
	for i := range both {
		if _, err := Resume(t.Context(), db, "latest", &both[i]); err != nil {
			t.Fatal(err)
		}
	}
	if err := TakeOver(t.Context(), db, &both[0]); err != nil {
		t.Error(err)
	}
	if err := TakeOver(t.Context(), db, &both[1]); err == nil || !strings.Contains(err.Error(), "it still runs") {
		t.Errorf("the second: %v", err)
	}
	if _, err := Resume(t.Context(), db, "a1", &both[1]); err == nil || !strings.Contains(err.Error(), "it still runs") {
		t.Errorf("a third: %v", err)
	}
}
