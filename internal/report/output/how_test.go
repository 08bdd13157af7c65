package output

import (
	"bytes"
	gohtml "html"
	"io"
	"strings"
	"testing"
	"time"

	"iotax"
	"iotax/internal/report"
	"iotax/internal/report/assess"
	"iotax/internal/report/export"
	"iotax/internal/report/format"
	"iotax/internal/report/text"
	"iotax/internal/testenv/reporttest"
)

func TestNoiseFloorIsInEveryFormat(t *testing.T) {
	run, trials := reporttest.Fixture()
	run.Calibration = &iotax.Calibration{Ratio: 1.01, Lo: .98, Hi: 1.04, Rounds: 20, Phi: .5, At: time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC), Workload: "randread-4k", Length: 5 * time.Second}
	rep := report.New(run, trials)
	if got, want := assess.Noise(rep), "Noise floor: A/A ± 3 % (20 rounds of 5s, randread-4k, 2026-03-01); intervals are widened by 1.73, because successive rounds resemble each other (φ = 0.50)."; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	for name, write := range map[string]func(b *bytes.Buffer) error{
		"text": func(b *bytes.Buffer) error { return Text(b, rep, true, text.Options{Width: 200}) }, "markdown": func(b *bytes.Buffer) error { return Write(b, rep, "md", true) },
		"html": func(b *bytes.Buffer) error { return HTML(b, rep) },
	} {
		var b bytes.Buffer
		if err := write(&b); err != nil {
			t.Fatal(err)
		}
		if s := strings.ReplaceAll(b.String(), format.NBSP, " "); !strings.Contains(s, "Noise floor: A/A ± 3 %") {
			t.Errorf("%s lacks the noise floor", name)
		}
	}

	run.Calibration = nil
	if got := assess.Noise(report.New(run, trials)); !strings.Contains(got, "not calibrated (`iotax calibrate`); single trials of host disk vary by ") {
		t.Error(got)
	}
	if got := assess.Noise(report.New(run, nil)); got != "Noise floor: not calibrated (`iotax calibrate`)." {
		t.Error(got)
	}
}

func output(t *testing.T, write func(io.Writer) error) string {
	t.Helper()
	var b strings.Builder
	if err := write(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// Text, Markdown, HTML and JSON report how object data was protected and verified.
func TestObjectsAreToldInEveryFormat(t *testing.T) {
	up := func(target, payload, verified string) reporttest.CellSpec {
		return reporttest.CellSpec{Target: target, Workload: "put", Values: map[string]float64{"upload.bandwidth": 1000}, Facts: map[string]string{"payload": payload, "verified": verified}}
	}
	signed, unsigned := up("s3", "signed chunk by chunk", "CRC-64/NVME"), up("s3 over TLS", "unsigned", "CRC-64/NVME")
	for _, c := range []struct {
		cells []reporttest.CellSpec
		want  string
		json  string
	}{
		{[]reporttest.CellSpec{signed, up("another", "signed chunk by chunk", "CRC-64/NVME")},
			"Payloads of objects: signed chunk by chunk. What was downloaded: compared by CRC-64/NVME.", `"value": "signed chunk by chunk"`},
		{[]reporttest.CellSpec{signed, unsigned},
			"Payloads of objects: signed chunk by chunk (s3); unsigned (s3 over TLS). What was downloaded: compared by CRC-64/NVME.", `"value": "unsigned"`},
		{[]reporttest.CellSpec{up("s3", "", "no")}, "What was downloaded: not compared.", `"fact": "verified"`},
		{[]reporttest.CellSpec{reporttest.Reads("disk", 1000, nil)}, "", ""},
	} {
		r := report.New(reporttest.RunOf(6, nil, c.cells...))
		if got := assess.Objects(r); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
		for format, out := range map[string]string{"text": output(t, inText(r, 200)), "markdown": output(t, func(w io.Writer) error { return Write(w, r, "md", true) }),
			"html": strings.NewReplacer(format.NBSP, " ", "\u2060", "").Replace(gohtml.UnescapeString(output(t, func(w io.Writer) error { return HTML(w, r) })))} {
			plain := strings.Join(strings.Fields(out), " ")
			if c.want != "" && !strings.Contains(plain, c.want) || c.want == "" && (strings.Contains(plain, "Payloads of") || strings.Contains(plain, "downloaded")) {
				t.Errorf("%s: want %q in\n%s", format, c.want, out[max(0, len(out)-2000):])
			}
		}
		if out := output(t, func(w io.Writer) error { return export.JSON(w, r) }); !strings.Contains(out, c.json) || c.json == "" && strings.Contains(out, `"objects"`) {
			t.Errorf("JSON: want %q in\n%s", c.json, out)
		}
	}
}
