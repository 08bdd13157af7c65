package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"iotax"
	"iotax/leftover"
	"iotax/run"
	"iotax/store"
)

// A run of many shards is saved whole only now and then: some that it names have ended since, and some are not named yet.
func TestSettleShards(t *testing.T) {
	const shards, ended = 20, 3
	names := make([]string, shards)
	for i := range names {
		names[i] = leftover.Runner{PID: 100 + i, Start: 1, Boot: "b", Host: "elsewhere.invalid"}.String()
	}
	for _, c := range []struct {
		what  string
		named int          // by the run: the first ones
		dead  []int        // silent for an hour, as those that have ended are
		open  []int        // nil for all but those that have ended
		want  iotax.Status //
		says  []string     // shards of which a finding tells
	}{
		{"all at work", shards, nil, nil, iotax.Running, nil},
		{"some not named yet", 16, nil, nil, iotax.Running, nil},
		{"one has died", 16, []int{5}, nil, iotax.Running, []string{"5/20"}},
		{"all that are named have died", 5, []int{3, 4}, nil, iotax.Running, []string{"3/20", "4/20"}},
		{"all have died", 5, []int{3, 4}, []int{3, 4}, iotax.Interrupted, []string{"3/20", "4/20"}},
		{"those that began have ended", 5, nil, []int{}, iotax.Running, nil},
	} {
		heard := store.Pulse{Silent: store.Silence{}, Open: c.open}
		var words []string
		for i, name := range names {
			heard.Silent[name] = 10 * time.Second
			if i < ended {
				heard.Silent[name] = time.Hour
			} else if c.open == nil {
				heard.Open = append(heard.Open, i)
			}
			if i < c.named {
				words = append(words, run.Shard{Index: i, Count: shards}.String()+"="+name)
			}
		}
		for _, i := range c.dead {
			heard.Silent[names[i]] = time.Hour
		}
		r := &iotax.Run{ID: "many", Status: iotax.Running, Environment: map[string]string{run.ShardsKey: fmt.Sprint(shards), run.RunnersKey: strings.Join(words, " ")}}
		settle(r, heard)
		if r.Status != c.want || len(r.Findings) != len(c.says) {
			t.Errorf("%s: it is %s, and %+v", c.what, r.Status, r.Findings)
			continue
		}
		for i, shard := range c.says {
			if f := r.Findings[i]; f.Rule != "runner-died" || !strings.Contains(f.Evidence, "shard "+shard) || !strings.Contains(f.Mend, "--shard "+shard+" --id many") {
				t.Errorf("%s: %+v", c.what, f)
			}
		}
	}
}

// What runs here, or was heard of a moment ago elsewhere, is not taken over.
func TestStillRuns(t *testing.T) {
	self, far := leftover.Self(), leftover.Runner{PID: 7, Start: 1, Boot: "b", Host: "elsewhere.invalid"}
	for _, c := range []struct {
		what   string
		who    leftover.Runner
		silent store.Silence
		want   string
	}{
		{"heard of", far, store.Silence{far.String(): 20 * time.Second}, "process 7 on elsewhere.invalid, which was heard of 20s ago"},
		{"silent", far, store.Silence{far.String(): silentTime + time.Second}, ""},
		{"never heard of", far, store.Silence{self.String(): 0}, ""},
		{"this one", self, nil, map[leftover.State]string{leftover.Alive: fmt.Sprint("process ", self.PID), leftover.Unknown: ""}[self.State()]},
	} {
		what, mend := stillRuns(c.who, store.Pulse{Silent: c.silent})
		if c.want == "" && what != "" || !strings.Contains(what, c.want) || (what == "") != (mend == "") {
			t.Errorf("%s: %q (%q), want %q", c.what, what, mend, c.want)
		}
	}
}
