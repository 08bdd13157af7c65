package run

import (
	"fmt"
	"testing"

	"iotax"
	"iotax/internal/plan"
)

func TestShardsCoverEachRoundOnce(t *testing.T) {
	for _, n := range []int{1, 2, 3, 8} {
		for _, rounds := range []int{16, 17, 30} {
			seen, seqs, sum := map[int]int{}, map[int]int{}, 0
			for i := range n {
				s := Shard{i, n}
				share := s.share(rounds)
				sum += share
				for k := range share + 4 { // including rounds that are run again
					b := s.round(k)
					seen[b]++
					seqs[s.seq(k)]++
					if s.local(b) != k || s.localSeq(s.seq(k)) != k {
						t.Errorf("shard %s: round %d is %d and %d there", s, k, b, s.local(b))
					}
					if k%2 == 1 && s.round(k-1) != b-1 {
						t.Errorf("shard %s: rounds %d and %d mirror each other and are apart", s, b-1, b)
					}
				}
			}
			if sum != rounds {
				t.Errorf("%d shards have %d of %d rounds", n, sum, rounds)
			}
			for b := range rounds {
				if seen[b] != 1 {
					t.Errorf("%d shards: round %d is measured %d times", n, b, seen[b])
				}
			}
			for x, k := range seqs {
				if k > 1 {
					t.Errorf("%d shards: %d trials have the number %d", n, k, x)
				}
			}
		}
	}
	for text, want := range map[string]Shard{"0/1": {0, 1}, "2/8": {2, 8}} {
		if got, err := ParseShard(text); err != nil || got != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "1", "4/4", "-1/4", "1/0", "a/b", "1/4/5"} {
		if got, err := ParseShard(text); err == nil {
			t.Errorf("%q is %v", text, got)
		}
	}
}

func TestShardNeedsRounds(t *testing.T) {
	p := &plan.Plan{Measure: plan.Defaults()}
	part, err := Shard{14, 15}.Of(p)
	if err != nil || part.Measure.Rounds != (plan.Rounds{Min: 2, Max: 2}) || !part.Measure.Fixed() || p.Measure.Fixed() {
		t.Errorf("%+v, %v", part, err)
	}
	if _, err := (Shard{15, 16}).Of(p); err == nil {
		t.Error("a shard without a round was taken")
	}
}

func TestMerge(t *testing.T) {
	part := func(status iotax.Status, host string, targetErr string) *iotax.Run {
		return &iotax.Run{ID: "r", Status: status, Environment: map[string]string{"hostname": host, "kernel": "6.1"},
			Targets:  []iotax.TargetInfo{{Name: "t", Err: targetErr, Facts: map[string]string{"fs": "ext4"}}},
			Findings: []iotax.Finding{{Rule: "x"}}}
	}
	a, b := part(iotax.Done, "h1", ""), part(iotax.Done, "h2", "no such directory")
	m := Merge([]*iotax.Run{a, b}, 2)
	if m.Status != iotax.Done || m.Environment["hostname"] != "h1, h2" || m.Environment["kernel"] != "6.1" || m.Environment["shards"] != "2" || len(m.Findings) != 1 {
		t.Errorf("%+v", m)
	}
	if tg := m.Targets[0]; tg.Err != "" || len(tg.Findings) != 1 || tg.Findings[0].Rule != "shards-differ" || tg.Facts["fs"] != "ext4" {
		t.Errorf("%+v", tg)
	}
	for _, c := range []struct {
		parts []*iotax.Run
		count int
		want  iotax.Status
	}{
		{[]*iotax.Run{a}, 2, iotax.Running},
		{[]*iotax.Run{a, part(iotax.Running, "h", "")}, 2, iotax.Running},
		{[]*iotax.Run{a, part(iotax.Incomplete, "h", "")}, 2, iotax.Incomplete},
		{[]*iotax.Run{a, part(iotax.Failed, "h", "")}, 2, iotax.Incomplete},
		{[]*iotax.Run{part(iotax.Failed, "h", "x"), part(iotax.Failed, "h", "x")}, 2, iotax.Failed},
		{[]*iotax.Run{a, part(iotax.Interrupted, "h", "")}, 2, iotax.Interrupted},
	} {
		if m := Merge(c.parts, c.count); m.Status != c.want || m.Status == iotax.Running && !m.End.IsZero() {
			t.Errorf("%s and others: %s, want %s", c.parts[len(c.parts)-1].Status, m.Status, c.want)
		}
	}
	// Runner and shard belong to the parts, not to the merged run.
	for i, p := range []*iotax.Run{a, b} {
		p.Environment[RunnerKey], p.Environment[ShardKey] = fmt.Sprintf("%d.1.boot@h", 70+i), Shard{i, 2}.String()
	}
	b.Status = iotax.Running
	if m := Merge([]*iotax.Run{a, b}, 2); m.Environment[RunnerKey] != "" || m.Environment[ShardKey] != "" {
		t.Errorf("%v", m.Environment)
	}
}
