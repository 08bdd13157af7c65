package report

import (
	"html"
	"io"
	"strings"
	"testing"

	"iotax/report/format"
)

func output(t *testing.T, write func(io.Writer) error) string {
	t.Helper()
	var b strings.Builder
	if err := write(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// How the bytes of objects were kept from harm stands in every format, with its targets where they differ.
func TestObjectsAreToldInEveryFormat(t *testing.T) {
	up := func(target, payload, verified string) cellSpec {
		return cellSpec{target: target, workload: "put", values: map[string]float64{"upload.bandwidth": 1000}, facts: map[string]string{"payload": payload, "verified": verified}}
	}
	signed, unsigned := up("s3", "signed chunk by chunk", "CRC-64/NVME"), up("s3 over TLS", "unsigned", "CRC-64/NVME")
	for _, c := range []struct {
		cells []cellSpec
		want  string
		json  string
	}{
		{[]cellSpec{signed, up("another", "signed chunk by chunk", "CRC-64/NVME")},
			"Payloads of objects: signed chunk by chunk. What was downloaded: compared by CRC-64/NVME.", `"value": "signed chunk by chunk"`},
		{[]cellSpec{signed, unsigned},
			"Payloads of objects: signed chunk by chunk (s3); unsigned (s3 over TLS). What was downloaded: compared by CRC-64/NVME.", `"value": "unsigned"`},
		{[]cellSpec{up("s3", "", "no")}, "What was downloaded: not compared.", `"fact": "verified"`},
		{[]cellSpec{reads("disk", 1000, nil)}, "", ""},
	} {
		r := New(runOf(6, nil, c.cells...))
		if got := r.objectsLine(); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
		for format, out := range map[string]string{"text": output(t, r.text(200)), "markdown": output(t, r.Markdown),
			"html": strings.NewReplacer(format.NBSP, " ", "\u2060", "").Replace(html.UnescapeString(output(t, r.HTML)))} {
			plain := strings.Join(strings.Fields(out), " ")
			if c.want != "" && !strings.Contains(plain, c.want) || c.want == "" && (strings.Contains(plain, "Payloads of") || strings.Contains(plain, "downloaded")) {
				t.Errorf("%s: want %q in\n%s", format, c.want, out[max(0, len(out)-2000):])
			}
		}
		if out := output(t, r.JSON); !strings.Contains(out, c.json) || c.json == "" && strings.Contains(out, `"objects"`) {
			t.Errorf("JSON: want %q in\n%s", c.json, out)
		}
	}
}
