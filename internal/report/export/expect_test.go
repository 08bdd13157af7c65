package export

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/joshdk/go-junit"

	"iotax"
	"iotax/internal/expect"
	"iotax/internal/report"
	"iotax/internal/testenv/reporttest"
)

// junitSchema contains the part of Jenkins's schema junit-10.xsd that iotax uses: the parent of each element, and its
// required and allowed attributes.
var junitSchema = map[string]struct{ in, required, allowed string }{
	"testsuites": {"", "", "name time tests failures errors"},
	"testsuite":  {"testsuites", "name tests failures errors", "time skipped timestamp hostname"},
	"testcase":   {"testsuite", "name", "time classname group"},
	"failure":    {"testcase", "", "type message"},
	"skipped":    {"testcase", "", "type message"},
	"system-out": {"testsuite", "", ""},
}

var surefireTime = regexp.MustCompile(`^(([0-9]{0,3},)*[0-9]{3}|[0-9]{0,3})*(\.[0-9]{0,3})?$`)

// The XML conforms to the schema. An independent parser finds each expectation with its outcome.
func TestJUnit(t *testing.T) {
	run, trials := reporttest.Expecting()
	run.Targets[1].Facts = map[string]string{iotax.FactAccel: "tcg"}
	r := report.New(run, trials)
	var b bytes.Buffer
	if err := GitHub(&b, r); err != nil || !strings.HasPrefix(b.String(), "::warning title=Emulated guests::Guests were EMULATED (QEMU TCG): do not publish.") {
		t.Errorf("annotations of emulated guests (%v):\n%s", err, &b)
	}
	b.Reset()
	if err := JUnit(&b, r); err != nil {
		t.Fatal(err)
	}
	var within []string
	for d := xml.NewDecoder(bytes.NewReader(b.Bytes())); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		switch e := token.(type) {
		case xml.StartElement:
			s, known := junitSchema[e.Name.Local]
			if in := append([]string{""}, within...); !known || in[len(in)-1] != s.in {
				t.Errorf("%s in %v", e.Name.Local, within)
			}
			within = append(within, e.Name.Local)
			missing := strings.Fields(s.required)
			for _, a := range e.Attr {
				if !strings.Contains(" "+s.required+" "+s.allowed+" ", " "+a.Name.Local+" ") || a.Name.Local == "time" && !surefireTime.MatchString(a.Value) {
					t.Errorf("%s has %s=%q", e.Name.Local, a.Name.Local, a.Value)
				}
				missing = slices.DeleteFunc(missing, func(name string) bool { return name == a.Name.Local })
			}
			if len(missing) > 0 {
				t.Errorf("%s lacks %v", e.Name.Local, missing)
			}
		case xml.EndElement:
			within = within[:len(within)-1]
		}
	}
	suites, err := junit.Ingest(b.Bytes())
	if err != nil || len(suites) != 1 || len(suites[0].Tests) != len(r.Expected) {
		t.Fatalf("%v, %v", suites, err)
	}
	if suites[0].SystemOut != r.Banner() || r.Banner() == "" {
		t.Errorf("the banner is %q, in the XML %q", r.Banner(), suites[0].SystemOut)
	}
	status := map[expect.Outcome]junit.Status{expect.Met: junit.StatusPassed, expect.Missed: junit.StatusFailed, expect.Undecided: junit.StatusSkipped}
	for i, x := range r.Expected {
		if got := suites[0].Tests[i]; got.Status != status[x.Outcome] || got.Classname != x.Workload || got.Name != x.Condition()+" at "+x.Target || (got.Message == "") != (x.Outcome == expect.Met) {
			t.Errorf("%s is %s: %+v", x.Expectation, x.Outcome, got)
		}
	}
	if n := suites[0].Totals; n.Failed != r.Outcomes()[expect.Missed] || n.Skipped != r.Outcomes()[expect.Undecided] || n.Failed*n.Skipped*n.Passed == 0 {
		t.Errorf("%+v", n)
	}
}
