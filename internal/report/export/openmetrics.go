package export

import (
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"

	"iotax"
	"iotax/internal/report"
	"iotax/stat"
)

// suffixes maps units to the suffix that OpenMetrics requires in the name of a metric. Other units need no suffix.
var suffixes = map[string]string{iotax.Seconds: "seconds", iotax.Bytes: "bytes", iotax.BytesPerSecond: "bytes_per_second", iotax.RatioUnit: "ratio"}

// families collects the samples of several reports by metric name.
type families struct {
	all map[string]*dto.MetricFamily
	at  *int64 // timestamp of added samples, in ms since 1970; nil omits it
}

// OpenMetrics writes the results of runs in the OpenMetrics 1.0 text format, all as gauges. The names of the runs must
// differ. If stamped is set, each sample has the end time of its run, as `promtool tsdb create-blocks-from openmetrics`
// needs. A scrape needs samples without timestamps.
func OpenMetrics(w io.Writer, reports []*report.Report, stamped bool) error {
	fs := families{all: map[string]*dto.MetricFamily{}}
	for _, r := range reports {
		if stamped {
			ms := r.Run.End.UnixMilli()
			fs.at = &ms
		}
		fs.report(r)
	}
	for _, name := range slices.Sorted(maps.Keys(fs.all)) {
		if _, err := expfmt.MetricFamilyToOpenMetrics(w, fs.all[name]); err != nil {
			return err
		}
	}
	_, err := expfmt.FinalizeOpenMetrics(w)
	return err
}

func (fs *families) report(r *report.Report) {
	plan := []string{"plan", r.Run.Name}
	fs.add("run_info", "", "a run: its id and its baseline", 1, slices.Concat(plan, []string{"run", r.Run.ID, "baseline", r.Run.Baseline, "version", r.Run.Version, "status", string(r.Run.Status)}))
	fs.add("run_end_timestamp", iotax.Seconds, "when the run ended", float64(r.Run.End.UnixNano())/float64(time.Second), plan)
	emulated := r.Emulated()
	for _, t := range r.Targets() {
		fs.add("target_info", "", "a target: what it stores on, and whether its guest was emulated", 1,
			slices.Concat(plan, []string{"target", t.Name, "storage", t.Storage(), "emulated", strconv.FormatBool(slices.Contains(emulated, t.Name))}))
	}
	headline := map[[2]string]bool{} // keys are workload and metric
	for _, s := range r.Sections {
		headline[[2]string{s.Workload, s.Metric}] = true
	}
	for s, row := range r.Rows() {
		cell := slices.Concat(plan, []string{"target", row.Target, "workload", s.Workload})
		fs.value(s.Metric, s.Unit, row.Value, cell)
		if s.First {
			if n := r.InvalidBy(row); n != nil {
				fs.add("invalid_info", "", "the first rule that makes the numbers of a target under a workload invalid", 1, slices.Concat(cell, []string{"rule", n.Rule}))
			}
			for i, n := range []int{row.Ran, row.Failed, row.Discarded} {
				fs.add("trials", "", "trials of a target under a workload", float64(n), slices.Concat(cell, []string{"outcome", []string{"ran", "failed", "discarded"}[i]}))
			}
			for _, f := range row.Secondary {
				if !headline[[2]string{s.Workload, f.Name}] {
					fs.value(f.Name, f.Unit, f.Value, cell)
				}
			}
		}
		judged := slices.Concat(cell, []string{"metric", s.Metric})
		if e := row.Ratio; e != nil {
			against := slices.Concat(judged, []string{"against", row.Against})
			fs.add("comparison", iotax.RatioUnit, "how many times as good as the target that it is compared with", e.Estimate, against)
			fs.add("comparison_lower", iotax.RatioUnit, "lower bound of iotax_comparison_ratio", e.Lo, against)
			fs.add("comparison_upper", iotax.RatioUnit, "upper bound of iotax_comparison_ratio", e.Hi, against)
		}
		if row.Verdict != stat.NoVerdict {
			fs.add("verdict_info", "", "verdict of the interval of the ratio", 1, slices.Concat(judged, []string{"verdict", string(row.Verdict)}))
		}
	}
	for _, e := range r.Expected {
		fs.add("expectation_info", "", "whether an expectation is met", 1, slices.Concat(plan, []string{"target", e.Target, "workload", e.Workload, "expectation", e.Condition(), "outcome", string(e.Outcome)}))
	}
}

// value adds an estimate and its bounds as three metrics. Their names start with iotax_value_, iotax_lower_ and
// iotax_upper_, so that metric names from the plan cannot clash with other metrics.
func (fs *families) value(metric, unit string, i stat.Interval, labels []string) {
	name := strings.Map(func(c rune) rune {
		if c < '0' || c > 'z' || c > '9' && c < 'A' || c > 'Z' && c < 'a' {
			return '_'
		}
		return c
	}, metric)
	fs.add("value_"+name, unit, metric+": median over the trials that count, or of a quantile that of all their I/Os", i.Estimate, labels)
	fs.add("lower_"+name, unit, "lower bound of the interval of "+metric, i.Lo, labels)
	fs.add("upper_"+name, unit, "upper bound of the interval of "+metric, i.Hi, labels)
}

// add adds a sample. It omits NaN.
func (fs *families) add(name, unit, help string, v float64, labels []string) {
	if math.IsNaN(v) {
		return
	}
	name = "iotax_" + name
	suffix := suffixes[unit]
	if suffix != "" {
		name = strings.TrimSuffix(name, "_"+suffix) + "_" + suffix
	}
	f := fs.all[name]
	if f == nil {
		f = &dto.MetricFamily{Name: &name, Help: &help, Type: dto.MetricType_GAUGE.Enum()}
		if suffix != "" {
			f.Unit = &suffix
		}
		fs.all[name] = f
	}
	m := &dto.Metric{Gauge: &dto.Gauge{Value: &v}, TimestampMs: fs.at}
	for pair := range slices.Chunk(labels, 2) {
		m.Label = append(m.Label, &dto.LabelPair{Name: &pair[0], Value: &pair[1]})
	}
	f.Metric = append(f.Metric, m)
}
