package export

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"

	"iotax"
	"iotax/internal/expect"
	"iotax/internal/report"
	"iotax/internal/report/format"
	"iotax/stat"
)

type jsonExpected struct {
	Expectation string         `json:"expectation"` // for example "read.latency.p99 < 10ms"
	Workload    string         `json:"workload"`
	Target      string         `json:"target"`
	Metric      string         `json:"metric"`
	Outcome     expect.Outcome `json:"outcome"`
	Unit        string         `json:"unit"` // unit of value: that of the metric, or "ratio" for a percentage of the baseline
	Value       stat.Interval  `json:"value"`
	Why         string         `json:"why,omitempty"` // why the outcome is undecided, if not because of the interval
}

func expected(r *report.Report) (out []jsonExpected) {
	for _, x := range r.Expected {
		out = append(out, jsonExpected{x.Condition(), x.Workload, x.Target, x.Metric, x.Outcome, x.Unit, x.Value, x.Why})
	}
	return out
}

// ErrNoExpectations is returned by JUnit and GitHub if the run has no expectations.
var ErrNoExpectations = &iotax.Error{Op: "write expectations", Err: errors.New("the run has none"),
	Hint: "add expect: to the plan, or --expect 'METRIC < LIMIT' to iotax run"}

// sentence returns the measured value as text, or the reason why the expectation is undecided.
func sentence(x report.Expected) string {
	if x.Why != "" {
		return x.Why
	}
	return "measured " + format.Value(x.Value, x.Unit)
}

type junitReport struct {
	XMLName xml.Name     `xml:"testsuites"`
	Suites  []junitSuite `xml:"testsuite"`
}

type junitSuite struct {
	Name     string      `xml:"name,attr"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Errors   int         `xml:"errors,attr"`
	Skipped  int         `xml:"skipped,attr"`
	Time     string      `xml:"time,attr"`
	At       string      `xml:"timestamp,attr"`
	Cases    []junitCase `xml:"testcase"`
	Out      string      `xml:"system-out,omitempty"` // the banner
}

type junitCase struct {
	Class   string       `xml:"classname,attr"`
	Name    string       `xml:"name,attr"`
	Time    string       `xml:"time,attr"`
	Failure *junitResult `xml:"failure"`
	Skipped *junitResult `xml:"skipped"`
}

type junitResult struct {
	Message string `xml:"message,attr"`
	Type    string `xml:"type,attr,omitempty"`
}

// JUnit writes the expectations as JUnit test cases. A missed expectation is a failed test case, and an undecided
// expectation is a skipped one.
func JUnit(w io.Writer, r *report.Report) error {
	if r.Expected == nil {
		return ErrNoExpectations
	}
	s := junitSuite{Name: "iotax " + r.Run.Name, Tests: len(r.Expected), Failures: r.Outcomes()[expect.Missed],
		Skipped: r.Outcomes()[expect.Undecided], Time: fmt.Sprintf("%.3f", max(0, r.Run.End.Sub(r.Run.Start).Seconds())),
		At: r.Run.Start.UTC().Format("2006-01-02T15:04:05"), Out: r.Banner()}
	for _, x := range r.Expected {
		c := junitCase{Class: x.Workload, Name: x.Condition() + " at " + x.Target, Time: "0"}
		switch x.Outcome {
		case expect.Missed:
			c.Failure = &junitResult{Message: sentence(x), Type: string(x.Outcome)}
		case expect.Undecided:
			c.Skipped = &junitResult{Message: string(x.Outcome) + ": " + sentence(x)}
		}
		s.Cases = append(s.Cases, c)
	}
	out, err := xml.MarshalIndent(junitReport{Suites: []junitSuite{s}}, "", "  ")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s%s\n", xml.Header, out)
	return err
}

// GitHub writes annotations for GitHub Actions: one if guests were emulated, and one for each expectation.
func GitHub(w io.Writer, r *report.Report) error {
	if r.Expected == nil {
		return ErrNoExpectations
	}
	level := map[expect.Outcome]string{expect.Missed: "error", expect.Undecided: "warning", expect.Met: "notice"}
	data := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	property := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
	var b strings.Builder
	if text := r.Banner(); text != "" {
		fmt.Fprintf(&b, "::warning title=Emulated guests::%s\n", data.Replace(text))
	}
	for _, x := range r.Expected {
		place := ""
		if x.File != "" {
			place = fmt.Sprintf("file=%s,line=%d,", property.Replace(x.File), x.Line)
		}
		fmt.Fprintf(&b, "::%s %stitle=%s::%s\n", level[x.Outcome], place, property.Replace(format.Capital(string(x.Outcome))+": "+x.Expectation.String()), data.Replace(sentence(x)))
	}
	_, err := io.WriteString(w, b.String())
	return err
}
