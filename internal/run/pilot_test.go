package run

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"iotax"
	"iotax/internal/plan"
)

// A pilotWorkload has a pilot that measures its targets before the first trial.
type pilotWorkload struct {
	fakeWorkload
	err error
}

func (p *pilotWorkload) Caps() iotax.WorkloadCaps { return iotax.WorkloadCaps{Pilot: p.pilot} }

func (p *pilotWorkload) pilot(_ context.Context, targets []*iotax.Target, _ time.Duration, known map[string]string) (map[string]string, error) {
	p.w.say("pilot %s on %d, known %v", p.name, len(targets), known)
	return map[string]string{"load.rate": "5"}, p.err
}

func TestPilotComesAfterPreparingAndIsKeptByAResume(t *testing.T) {
	w := newWorld()
	d := w.deps()
	var fault error
	d.Workload = func(pw plan.Workload) (iotax.Workload, error) {
		return &pilotWorkload{fakeWorkload{w, pw.Name}, fault}, nil
	}
	r, err := Run(context.Background(), guestPlan("w"), d, Options{ID: "r"})
	if err != nil {
		t.Fatal(err)
	}
	log := strings.Join(w.log, "\n")
	if !strings.Contains(log, "prepare w on share\npilot w on 3, known map[]") || r.Workloads[0].Facts["load.rate"] != "5" {
		t.Errorf("facts %v after\n%s", r.Workloads[0].Facts, log)
	}
	again := *r
	again.Status = iotax.Interrupted
	if _, err := Run(context.Background(), guestPlan("w"), d, Options{Resume: &again, Trials: w.saved}); err != nil {
		t.Fatal(err)
	}
	if !has(w.log, fmt.Sprintf("pilot w on 3, known %v", map[string]string{"load.rate": "5"})) {
		t.Errorf("a resumed run does not know: %q", w.log)
	}
	fault = errors.New("too slow")
	if r, err := Run(context.Background(), guestPlan("w"), d, Options{ID: "s"}); !errors.Is(err, fault) || r.Status != iotax.Failed {
		t.Errorf("%v, %s", err, r.Status)
	}
}
