package workload

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"iotax"
	"iotax/internal/metric"
	"iotax/internal/plan"
	"iotax/internal/workload/support"
	"iotax/internal/workload/task"
)

// Network is the spec of `network: {…}`. iperf3 measures TCP streams between the two machines of a target of kind
// network.
type Network struct {
	Streams int  `yaml:"streams" doc:"number of parallel connections"`
	Reverse bool `yaml:"reverse" doc:"send from the other machine to the target's own"`
}

func newNetwork() plan.Spec { return &Network{Streams: 1} }

// Validate returns an error for a number of streams that iperf3 does not accept.
func (n *Network) Validate() error {
	if n.Streams < 1 || n.Streams > 128 {
		return &plan.FieldError{Field: "streams", Msg: fmt.Sprintf("%d is not a number of connections from 1 to 128", n.Streams)}
	}
	return nil
}

func (n *Network) Traits() plan.Traits {
	return plan.Traits{Tools: []string{"iperf3"}, Metrics: n.metrics}
}

func (n *Network) metrics() []metric.Metric {
	return slices.Concat(metric.Of(iotax.BytesPerSecond, iotax.Up, iotax.ValueBandwidth, "bytes that arrived per second"),
		metric.Of(iotax.Seconds, iotax.Down, "rtt.mean", "mean round trip, as the sender's kernel knows it", "rtt.min", "shortest round trip", "rtt.max", "longest round trip"),
		metric.Of(iotax.Count, iotax.Neither, "retransmits", "segments that were sent again"))
}

func openNetwork(w plan.Workload, s *Network, _ support.Env) (iotax.Workload, error) {
	return &stream{name: w.Name, spec: *s}, nil
}

type stream struct {
	name string
	spec Network
}

func (s *stream) Caps() iotax.WorkloadCaps { return iotax.WorkloadCaps{} }

func (s *stream) Metrics() []string { return []string{iotax.ValueBandwidth, "rtt.mean", "retransmits"} }

// Check returns an error if the place is not an iperf3 server, or if iperf3 is missing.
func (s *stream) Check(ctx context.Context, t *iotax.Target) error {
	on := func(err error, hint string) error {
		return &iotax.Error{Op: "check " + s.name + " on", On: t.Name, Err: err, Hint: hint}
	}
	if t.Place.Kind != iotax.PlaceURL || !strings.HasPrefix(t.Place.Path, "tcp://") {
		return on(fmt.Errorf("%s is not a server of iperf3", t.Place.Path), "a target {network: {to: MACHINE}}, and at: its name")
	}
	out, err := iotax.Output(ctx, t.Machine, "iperf3", "--version")
	if err != nil {
		return on(err, "apt install iperf3 on "+t.Machine.String())
	}
	version, _, _ := strings.Cut(string(out), "\n")
	if t.Facts == nil {
		t.Facts = map[string]string{}
	}
	t.Facts["iperf3"] = strings.TrimSpace(version)
	return nil
}

func (s *stream) Prepare(context.Context, *iotax.Target) error { return nil }
func (s *stream) Cleanup(context.Context, *iotax.Target) error { return nil }

// Run runs iperf3 once. It rounds durations up to whole seconds, because iperf3 accepts only whole seconds.
func (s *stream) Run(ctx context.Context, t *iotax.Target, out *iotax.Trial) error {
	fail := func(err error, hint string) error {
		return &iotax.Error{Op: "run iperf3 for " + s.name + " on", On: t.Name, Err: err, Hint: hint}
	}
	u, err := url.Parse(t.Place.Path)
	if err != nil {
		return fail(err, "")
	}
	whole := func(d time.Duration) string { return strconv.Itoa(int((d + time.Second - 1) / time.Second)) }
	args := []string{"iperf3", "--client", u.Hostname(), "--port", u.Port(), "--json", "--connect-timeout", "5000",
		"--time", whole(max(out.Length, time.Second)), "--parallel", strconv.Itoa(s.spec.Streams)}
	if out.Ramp > 0 {
		args = append(args, "--omit", whole(out.Ramp))
	}
	if s.spec.Reverse {
		args = append(args, "--reverse")
	}
	out.Facts[iotax.FactCommand] = iotax.QuoteAll(args)
	out.Facts["streams"] = strconv.Itoa(s.spec.Streams)
	stdout, stderr := iotax.Capture{}, task.Head{Limit: support.MessageLimit}
	err = t.Machine.Run(ctx, &iotax.Cmd{Args: args, Stdout: &stdout, Stderr: &stderr})
	out.Raw = stdout.Bytes()
	if err != nil && ctx.Err() != nil {
		return err
	}
	values, series, perr := parseIperf(stdout.Bytes())
	switch {
	case perr != nil && err != nil && len(out.Raw) == 0:
		return fail(err, "")
	case perr != nil:
		return fail(perr, "see that "+u.Host+" can be reached from "+t.Machine.String())
	case err != nil:
		return fail(err, "")
	}
	out.Values, out.Series = append(out.Values, values...), append(out.Series, series...)
	return nil
}

// iperf contains some of the fields of iperf3's JSON output (3.1 and later).
type iperf struct {
	Error string `json:"error"`
	Start struct {
		MSS int `json:"tcp_mss_default"`
	} `json:"start"`
	Intervals []struct {
		Sum struct {
			Start   float64 `json:"start"`
			End     float64 `json:"end"`
			Bits    float64 `json:"bits_per_second"`
			Omitted bool    `json:"omitted"`
		} `json:"sum"`
	} `json:"intervals"`
	End struct {
		Streams []struct {
			Sender struct {
				MeanRTT float64 `json:"mean_rtt"` // µs
				MinRTT  float64 `json:"min_rtt"`
				MaxRTT  float64 `json:"max_rtt"`
			} `json:"sender"`
		} `json:"streams"`
		Sent struct {
			Retransmits *float64 `json:"retransmits"`
		} `json:"sum_sent"`
		Received struct {
			Bits    float64 `json:"bits_per_second"`
			Bytes   float64 `json:"bytes"`
			Seconds float64 `json:"seconds"`
		} `json:"sum_received"`
		CPU struct {
			Local  float64 `json:"host_total"` // % of a CPU
			Remote float64 `json:"remote_total"`
		} `json:"cpu_utilization_percent"`
	} `json:"end"`
}

// parseIperf parses iperf3's output. The bandwidth is that of the received data.
func parseIperf(raw []byte) ([]iotax.Value, []iotax.Series, error) {
	var r iperf
	if err := json.Unmarshal(raw, &r); err != nil {
		return nil, nil, fmt.Errorf("read iperf3's result: %w", err)
	}
	if r.Error != "" {
		return nil, nil, errors.New(strings.TrimSpace(strings.TrimPrefix(r.Error, "error - ")))
	}
	got := r.End.Received
	if !(got.Bits > 0) || !(got.Seconds > 0) {
		return nil, nil, errors.New("nothing arrived at the other end")
	}
	values := []iotax.Value{{Name: "bandwidth", Value: got.Bits / 8, Unit: iotax.BytesPerSecond, Better: iotax.Up}}
	if n := r.End.Sent.Retransmits; n != nil { // missing if the system does not count them
		// Better is Neither, because the value is often 0, and a ratio to 0 is undefined.
		values = append(values, iotax.Value{Name: "retransmits", Value: *n, Unit: iotax.Count, Better: iotax.Neither})
	}
	var mean, least, most float64
	for i, s := range r.End.Streams {
		mean += s.Sender.MeanRTT / float64(len(r.End.Streams))
		if i == 0 || s.Sender.MinRTT < least {
			least = s.Sender.MinRTT
		}
		most = max(most, s.Sender.MaxRTT)
	}
	if mean > 0 { // 0 if the sender's kernel does not report it; with reverse, the sender is the other machine
		for _, v := range []struct {
			name string
			us   float64
		}{{"rtt.mean", mean}, {"rtt.min", least}, {"rtt.max", most}} {
			values = append(values, iotax.Value{Name: v.name, Value: v.us / 1e6, Unit: iotax.Seconds, Better: iotax.Down})
		}
	}
	values = append(values,
		iotax.Value{Name: iotax.ValueCPUClient, Value: r.End.CPU.Local / 100, Unit: "s/s"},
		iotax.Value{Name: "cpu.server", Value: r.End.CPU.Remote / 100, Unit: "s/s"})
	s := iotax.Series{Name: "bandwidth", Unit: iotax.BytesPerSecond}
	from := -1.0
	for _, i := range r.Intervals {
		if i.Sum.Omitted {
			continue
		}
		if from < 0 {
			from = i.Sum.Start
		}
		s.T, s.V = append(s.T, i.Sum.End-from), append(s.V, i.Sum.Bits/8)
	}
	if len(s.T) == 0 {
		return values, nil, nil
	}
	return values, []iotax.Series{s}, nil
}
