package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"time"

	"iotax"
	"iotax/internal/machine"
	"iotax/internal/machine/vm"
	"iotax/internal/plan"
)

// jumpOwnClock sets the clock of the machine that runs iotax an hour ahead and then two hours back during a run. iotax
// runs in a guest, because other programs use the clock of this host.
func jumpOwnClock(s *stage, d *rand.Rand) (o aftermath) {
	o.tries = 1
	ctx, cancel := context.WithTimeout(s.t.Context(), 10*time.Minute)
	defer cancel()
	spec := vm.Kind.New().(*vm.Spec)
	spec.Memory = 768 << 20      // the test binary is large, and the guest's memory contains it twice
	self, err := os.Executable() // becomes /init instead of the agent
	if err != nil {
		s.t.Fatal(err)
	}
	guest, err := machine.Open(ctx, plan.Machine{Name: "guest", Kind: "qemu", Spec: spec}, machine.Options{Name: "guest", CacheDir: iotax.CacheDir(), WorkDir: s.mkdir("guest"), Init: self})
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() {
		if err := guest.Close(context.WithoutCancel(ctx)); err != nil {
			s.t.Error(err)
		}
	}()
	there := func(script string) string {
		s.t.Helper()
		out, err := iotax.Output(ctx, guest, "sh", "-c", script)
		if err != nil {
			s.t.Errorf("%s: %v", script, err)
		}
		return string(out)
	}
	there("mkdir -p /tmp/s/a /tmp/s/b /tmp/bin && ln -s /init /tmp/bin/iotax")
	there(`cat >/tmp/s/plan.yaml <<'end'
targets: {a: {dir: /tmp/s/a}, b: {dir: /tmp/s/b}}
workloads: {w: {fio: {rw: randrw, bs: 4k, size: 4MiB, direct: 0}}} # a file system in memory knows no other
measure: {protocol: "fixed:6x300ms", ramp: 0s, cold: false}
end`)
	command := func(args string) *iotax.Cmd {
		c := iotax.Command("sh", "-c", "exec /tmp/bin/iotax "+args)
		c.Env = []string{"HOME=/tmp/s", "XDG_STATE_HOME=/tmp/s", "XDG_CACHE_HOME=/tmp/s", "TMPDIR=/tmp/s", "NO_COLOR=1"}
		return c
	}
	run := command("run -v /tmp/s/plan.yaml --calibrate=no")
	said := &waiter{changed: make(chan struct{}, 1)}
	run.Stderr = said
	done := make(chan error, 1)
	go func() { done <- guest.Run(ctx, run) }()
	for _, jump := range []string{"+ 3600", "- 7200"} {
		if said.reaches(said.told()+1+d.IntN(3), done) {
			there("date -s @$(($(date +%s) " + jump + "))")
			o.hit = 1
		}
	}
	var exit *iotax.ExitError
	if err := <-done; err != nil && (!errors.As(err, &exit) || exit.Code != 4) {
		s.t.Errorf("%v: %s", err, said)
	}
	var saved struct {
		Run    iotax.Run
		Trials []*iotax.Trial
	}
	show := command("show --json")
	var out bytes.Buffer
	show.Stdout = &out
	if err := guest.Run(ctx, show); err != nil {
		s.t.Errorf("show: %v", err)
	} else if err := json.Unmarshal(out.Bytes(), &saved); err != nil {
		s.t.Errorf("show: %v: %s", err, &out)
	}
	o.finished = len(saved.Trials)
	if o.lost = max(0, said.told()-o.finished); o.lost > 0 || o.finished < 12 || saved.Run.Status != iotax.Done {
		s.t.Errorf("%d trials were told of, %d are saved, the run is %s: %s", said.told(), o.finished, saved.Run.Status, said)
	}
	for _, x := range saved.Trials {
		if x.Err != "" || x.Took <= 0 || x.Took > 30*time.Minute {
			s.t.Errorf("trial %d took %v: %s", x.Seq, x.Took, x.Err)
		}
	}
	for _, left := range strings.Fields(there("ls -d /tmp/s/a/iotax-* /tmp/s/b/iotax-* /tmp/s/iotax-* /var/tmp/iotax-* 2>/dev/null; true")) {
		o.left++
		s.t.Errorf("left behind: %s", left)
	}
	return o
}

// A waiter collects the output of a run and waits for parts of it.
type waiter struct {
	mu      sync.Mutex
	text    bytes.Buffer
	changed chan struct{}
}

func (w *waiter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case w.changed <- struct{}{}:
	default:
	}
	return w.text.Write(p)
}

func (w *waiter) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}

// told counts the trials in the output.
func (w *waiter) told() int { return strings.Count(w.String(), "  round ") }

// reaches waits until the output contains n trials. It returns false if the run ends first.
func (w *waiter) reaches(n int, done chan error) bool {
	for w.told() < n {
		select {
		case <-w.changed:
		case err := <-done:
			done <- err
			return false
		}
	}
	return true
}
