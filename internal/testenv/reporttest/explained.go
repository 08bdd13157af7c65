package reporttest

import (
	"encoding/json"
	"math/rand/v2"
	"time"

	"iotax"
)

// Explained returns a run of a host disk, a guest disk and a guest share with explained trials. Their mean latencies
// are about 100, 400 and 900 µs. The share's clocks between application and device are missing.
func Explained(rounds int) (*iotax.Run, []*iotax.Trial) {
	const work, ios = "4k random read", 10_000
	r := rand.New(rand.NewPCG(5, 8))
	type target struct {
		name   string
		clocks []float64 // µs, from the application down; 0 for a missing clock
		stages []iotax.Stage
	}
	targets := []target{
		{"host disk", []float64{100, 90}, []iotax.Stage{{Name: "above the block layer", End: "device"}, {Name: "device"}}},
		{"guest disk", []float64{400, 350, 150, 90}, []iotax.Stage{{Name: "guest above the block layer", End: "block"}, {Name: "queue", End: "qemu"}, {Name: "QEMU", End: "device"}, {Name: "device"}}},
		{"guest share", []float64{900, 0, 0, 90}, []iotax.Stage{{Name: "FUSE", End: "fuse", Missing: "Linux keeps no times"}, {Name: "wake-up", End: "serving", Missing: "it counts no times"}, {Name: "virtiofsd", End: "device"}, {Name: "device"}}},
	}
	run := &iotax.Run{ID: "20260401-101500-e8xp", Name: "explained", Version: "0.1.0", Status: iotax.Done, Baseline: "host disk", Margin: .05, Precision: .05, Alpha: .05,
		Start: time.Date(2026, 4, 1, 10, 15, 0, 0, time.UTC), Workloads: []iotax.WorkloadInfo{{Name: work, Kind: "fio", Metrics: []string{"read.iops"}}}}
	var trials []*iotax.Trial
	for _, t := range targets {
		run.Targets = append(run.Targets, iotax.TargetInfo{Name: t.name, Machine: "host", Durability: iotax.Durable})
	}
	for round := range rounds {
		for _, t := range targets {
			level := 1 + .01*r.NormFloat64()
			for _, explained := range []bool{false, true} {
				speed := level * (1 + .005*r.NormFloat64())
				x := &iotax.Trial{Run: run.ID, Target: t.name, Workload: work, Round: round, Seq: len(trials), StartIndex: 1, Length: 10 * time.Second, Facts: map[string]string{}}
				if explained {
					speed *= 1.02
				}
				x.Values = []iotax.Value{{Name: "read.iops", Value: 1e6 / (t.clocks[0] * speed), Unit: iotax.PerSecond, Better: iotax.Up},
					{Name: "read.ios", Value: ios, Unit: iotax.Count}, {Name: "read.latency.mean", Value: t.clocks[0] * speed * 1e-6, Unit: iotax.Seconds, Better: iotax.Down}}
				if explained {
					x.Facts[iotax.FactExplains], x.Workload = work, work+" (explained)"
					text, _ := json.Marshal(t.stages) // strings always encode
					x.Facts[iotax.FactStages] = string(text)
					for i, s := range t.stages[:len(t.stages)-1] {
						if s.Missing != "" {
							continue
						}
						x.Values = append(x.Values, iotax.Value{Name: iotax.ValueStage(s.End, iotax.StageBelow), Value: t.clocks[i+1] * speed * 1e-6 * ios, Unit: iotax.Seconds},
							iotax.Value{Name: iotax.ValueStage(s.End, iotax.StageRequests), Value: ios, Unit: iotax.Count},
							iotax.Value{Name: iotax.ValueStage(s.End, iotax.StageHanded), Value: ios, Unit: iotax.Count})
					}
				}
				trials = append(trials, x)
			}
		}
	}
	return run, trials
}
