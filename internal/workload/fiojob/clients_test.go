package fiojob

import (
	"math"
	"testing"

	"iotax/fio"
)

func TestFairness(t *testing.T) {
	for _, c := range []struct {
		rates        []float64
		minMax, jain float64
	}{
		{[]float64{5}, 1, 1},
		{[]float64{5, 5, 5}, 1, 1},
		{[]float64{0, 0, 0, 8}, 0, .25}, // one has all
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
	if got := serversSaid(notes); got != "fio: no such file" {
		t.Errorf("%q", got)
	}
}

// A job file holds what the command line would.
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
