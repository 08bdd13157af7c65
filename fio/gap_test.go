package fio

import (
	"math"
	"testing"
)

// The logs have gaps as fio 3.33 writes them: seconds without a line, and lines that come late.
func TestRatesWithGaps(t *testing.T) {
	for _, c := range []struct {
		name, log string
		want      []float64
	}{
		{"fio was stopped by a signal", "1000, 63830, 0, 0, 0\n2000, 88813, 0, 0, 0\n4410, 20646, 0, 0, 0\n5409, 145111, 0, 0, 0\n",
			[]float64{63830, 88813, 49757, 0, 85615}},
		{"and held back to a rate", "1000, 5003, 0, 0, 0\n2000, 5002, 0, 0, 0\n4465, 938, 0, 0, 0\n5465, 15027, 0, 0, 0\n",
			[]float64{5003, 5002, 2312, 0, 8040}},
		{"the file system was frozen", "1001, 179536, 1, 0, 0\n2002, 255000, 1, 0, 0\n3002, 297241, 1, 0, 0\n4002, 38827, 1, 0, 0\n6003, 23804, 1, 0, 0\n",
			[]float64{179536, 254924, 297156, 39344, 0, 23804}},
		{"late, because others had the CPU", "1000, 5000, 0, 0, 0\n2000, 5000, 0, 0, 0\n3700, 4900, 0, 0, 0\n5000, 5000, 0, 0, 0\n",
			[]float64{5000, 5000, 4900, 4930, 5000}},
		{"the first line comes late", "2500, 100, 0, 0, 0\n3000, 100, 0, 0, 0\n", []float64{100, 100, 100}},
		{"idle for long", "1000, 100, 0, 0, 0\n9002, 100, 0, 0, 0\n", []float64{100, 0, 0, 0, 0, 0, 0, 0, 100}},
	} {
		samples, err := ParseLog([]byte(c.log))
		if err != nil {
			t.Fatal(err)
		}
		series := Rates(IOPSLog, 1, samples)
		if len(series) != 1 {
			t.Fatalf("%s: %d series", c.name, len(series))
		}
		got := series[0].V
		for i := range c.want {
			if i >= len(got) || math.Abs(got[i]-c.want[i]) > 0.01*c.want[i]+0.01*c.want[0] {
				t.Errorf("%s: %.0f, want %.0f", c.name, got, c.want)
				break
			}
		}
	}
}
