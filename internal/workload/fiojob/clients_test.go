package fiojob

import (
	"context"
	"errors"
	"math"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"iotax"
	"iotax/fio"
	"iotax/internal/machine/host"
	"iotax/internal/testenv/worktest"
)

func TestFairness(t *testing.T) {
	for _, c := range []struct {
		rates        []float64
		minMax, jain float64
	}{
		{[]float64{5}, 1, 1},
		{[]float64{5, 5, 5}, 1, 1},
		{[]float64{0, 0, 0, 8}, 0, .25}, // one client gets everything
		{[]float64{1, 3}, 1. / 3, 16. / 20},
		{[]float64{0, 0}, 1, 1},
	} {
		if m, j := Fairness(c.rates); math.Abs(m-c.minMax) > 1e-12 || math.Abs(j-c.jain) > 1e-12 {
			t.Errorf("%v: %v and %v, want %v and %v", c.rates, m, j, c.minMax, c.jain)
		}
	}
}

func TestServersSaid(t *testing.T) {
	notes := []string{"<vm> iotax.w: (g=0): rw=randread, bs=(R) 4096B-4096B", "<vm> Starting 1 process", "<vm> iotax.w: Laying out IO file (1 file / 16MiB)",
		"<vm> fio: no such file", "<vm>"}
	if got := serversStderr(notes); got != "fio: no such file" {
		t.Errorf("%q", got)
	}
}

// The job file for fio's client contains the name and the options of the job.
func TestJobFileOfClients(t *testing.T) {
	text := jobFile([]fio.JobSpec{{Name: "iotax.a", Settings: []fio.Setting{{Key: "rw", Value: "randread"}, {Key: "size", Value: "1m", KBBase: 1000}, {Key: "fsync_on_close", Bare: true}}}})
	f, err := fio.ParseJob(text)
	if err != nil {
		t.Fatal(err)
	}
	jobs := f.Jobs()
	if len(jobs) != 1 || jobs[0].Name != "iotax.a" || !jobs[0].On("fsync_on_close") {
		t.Fatalf("%+v of\n%s", jobs, text)
	}
	if s, _ := jobs[0].Get("size"); s.Value != "1m" || s.KBBase != 1000 {
		t.Errorf("size: %+v", s)
	}
}

// The logs of the client are read also if the path of the temporary directory looks like a pattern.
func TestClientsLogs(t *testing.T) {
	tmp := filepath.Join(t.TempDir(), "[ab]")
	if err := os.Mkdir(tmp, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", tmp)
	j, out := open(t, "rw", "randread", "size", "64k", "direct", "0", "ioengine", "psync"), trial(2*time.Second)
	both := &iotax.Target{Name: "both", Machine: host.Local(), Together: []*iotax.Target{worktest.Target(host.Local(), worktest.OnDisk(t)), worktest.Target(host.Local(), worktest.OnDisk(t))}}
	prepared(t, j, both)
	if err := j.Run(worktest.CtxFor(t), both, out); err != nil || len(out.Series) == 0 {
		t.Errorf("%d series, %v", len(out.Series), err)
	}
}

// This host reaches a fio server on this host and on another machine. If the server ends early, serve returns its
// message. The servers leave no directories behind.
func TestServe(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	for _, m := range []iotax.Machine{host.Local(), &worktest.Elsewhere{Machine: host.Local(), Name: "far"}} {
		j, at, dir := open(t, "size", "1MiB"), worktest.Target(m, t.TempDir()), t.TempDir()
		for name, argv := range map[string][]string{"c0": {"fio"}, "c1": {"fio", "--no-such-option"}} {
			ctx, cancel := context.WithCancelCause(t.Context())
			var done sync.WaitGroup
			err := j.serve(ctx, party{j, at, false}, argv, dir, name, cancel, &done)
			if len(argv) > 1 {
				if err == nil || !errors.Is(err, context.Cause(ctx)) || !strings.Contains(err.Error(), "unrecognized option '--no-such-option'") {
					t.Errorf("%v: a server that ends: %v", m, err)
				}
			} else if err != nil {
				t.Errorf("%v: %v", m, err)
			} else if c, err := net.Dial("unix", filepath.Join(dir, name)); err != nil {
				t.Errorf("%v: %v", m, err)
			} else {
				c.Close()
			}
			cancel(nil)
			done.Wait()
		}
	}
	if left, _ := filepath.Glob(os.TempDir() + "/iotax-log-*"); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}
