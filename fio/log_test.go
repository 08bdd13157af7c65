package fio

import (
	"math"
	"os"
	"path/filepath"
	"testing"

	"iotax"
)

// Real logs of a rate-limited run: every full second shows the rate.
func TestRatesOfARealRun(t *testing.T) {
	dir := t.TempDir()
	run(t, "--name=a", "--rw=randrw", "--size=64m", "--ioengine=null", "--numjobs=2", "--rate_iops=500,250", "--runtime=3s", "--time_based",
		"--ramp_time=500ms", "--write_iops_log="+dir+"/s", "--write_bw_log="+dir+"/s", "--log_avg_msec=1000", "--group_reporting")
	read := func(pattern string) (logs [][]Sample) {
		files, _ := filepath.Glob(filepath.Join(dir, pattern))
		for _, f := range files {
			text, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			s, err := ParseLog(text)
			if err != nil {
				t.Fatal(err)
			}
			logs = append(logs, s)
		}
		return logs
	}
	iops := Rates(IOPSLog, 1, read("s_iops.*.log")...)
	bw := Rates(BandwidthLog, 1, read("s_bw.*.log")...)
	if len(iops) != 2 || len(bw) != 2 || iops[0].Name != "read.iops" || iops[1].Name != "write.iops" || bw[0].Name != "read.bandwidth" || bw[0].Unit != iotax.BytesPerSecond {
		t.Fatalf("%+v\n%+v", iops, bw)
	}
	for i, want := range []float64{1000, 500} {
		if len(iops[i].V) < 2 {
			t.Fatalf("%d seconds of 3: %+v", len(iops[i].V), iops[i])
		}
		for k := range iops[i].V {
			near(t, iops[i].Name, iops[i].V[k], want, 0.1)
			near(t, bw[i].Name, bw[i].V[k], want*4096, 0.1)
			if iops[i].T[k] != float64(k+1) {
				t.Errorf("times %v", iops[i].T)
			}
		}
	}
}

func TestRates(t *testing.T) {
	log := func(text string) []Sample {
		s, err := ParseLog([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	// The second sample comes 100 ms late: its rate reaches 100 ms into the third second.
	got := Rates(IOPSLog, 1, log("1000, 100, 0, 4096\n2100, 200, 0, 4096, 0, 0x0004\n3000, 300, 0, 4096\n"), log("1000, 10, 0, 0\n2000, 20, 0, 0\n3000, 30, 0, 0\n"))
	want := []float64{110, 220, 0.1*200 + 0.9*300 + 30}
	if len(got) != 1 || len(got[0].V) != 3 {
		t.Fatal(got)
	}
	for i := range want {
		if math.Abs(got[0].V[i]-want[i]) > 1e-6 {
			t.Errorf("got %v, want %v", got[0].V, want)
		}
	}
	// A second of which less than half is known is left out.
	if got := Rates(IOPSLog, 1, log("1000, 5, 1, 0\n1300, 5, 1, 0\n")); len(got) != 1 || len(got[0].V) != 1 || got[0].Name != "write.iops" {
		t.Error(got)
	}
	for _, bad := range []string{"1000, 5\n", "x, 1, 0, 0\n", "1, nan, 0, 0\n", "-1, 1, 0, 0\n", "1, 1, 0\n"} {
		if _, err := ParseLog([]byte(bad)); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

func FuzzParseLog(f *testing.F) {
	f.Add([]byte("999, 127811, 0, 0, 0\n2000, 133416, 1, 4096, 0\n"))
	f.Add([]byte("1e300, 1, 0, 0\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, _ := ParseLog(data)
		for _, series := range Rates(BandwidthLog, 1, s, s) {
			if len(series.T) != len(series.V) {
				t.Fatal(series)
			}
		}
	})
}
