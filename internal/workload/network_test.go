package workload

import (
	"strings"
	"testing"

	"iotax"
)

// iperfJSON is shortened output of iperf3 3.12.
const iperfJSON = `{"start":{"tcp_mss_default":1448},"intervals":[
{"sum":{"start":0,"end":1.0,"bits_per_second":1e9,"omitted":true}},
{"sum":{"start":0,"end":1.0,"bits_per_second":4e8,"omitted":false}},
{"sum":{"start":1.0,"end":2.0,"bits_per_second":3.6e8,"omitted":false}}],
"end":{"streams":[{"sender":{"mean_rtt":4000,"min_rtt":50,"max_rtt":9000}},{"sender":{"mean_rtt":6000,"min_rtt":40,"max_rtt":8000}}],
"sum_sent":{"retransmits":7,"bits_per_second":3.9e8},"sum_received":{"bits_per_second":3.8e8,"bytes":95000000,"seconds":2.0},
"cpu_utilization_percent":{"host_total":5,"remote_total":12.5}}}`

func TestParseIperf(t *testing.T) {
	values, series, err := parseIperf([]byte(iperfJSON))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]float64{"bandwidth": 3.8e8 / 8, "retransmits": 7, "rtt.mean": 5e-3, "rtt.min": 40e-6, "rtt.max": 9e-3, "cpu.client": .05, "cpu.server": .125}
	for _, v := range values {
		if w, ok := want[v.Name]; !ok || v.Value < w*(1-1e-9) || v.Value > w*(1+1e-9) {
			t.Errorf("%+v, want %v", v, w)
		}
		delete(want, v.Name)
	}
	if len(want) > 0 {
		t.Errorf("not told: %v", want)
	}
	if len(series) != 1 || len(series[0].T) != 2 || series[0].T[1] != 2 || series[0].V[1] != 4.5e7 {
		t.Errorf("series %+v", series)
	}
	for text, cause := range map[string]string{
		`{"error":"error - unable to connect to server: Connection refused"}`: "unable to connect",
		`{}`:       "nothing arrived",
		``:         "read iperf3's result",
		`not json`: "read iperf3's result",
	} {
		if _, _, err := parseIperf([]byte(text)); err == nil || !strings.Contains(err.Error(), cause) {
			t.Errorf("%q: %v, want %q", text, err, cause)
		}
	}
}

func TestNetworkNeedsAServer(t *testing.T) {
	w := &stream{name: "network"}
	err := w.Check(t.Context(), &iotax.Target{Name: "disk", Place: iotax.Place{Kind: iotax.PlaceDir, Path: "/x"}})
	if err == nil || !strings.Contains(err.Error(), "at:") {
		t.Errorf("a directory was taken: %v", err)
	}
}
