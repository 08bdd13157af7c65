package fio

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"iotax"
	"iotax/internal/testenv/long"
)

// one reads data and expects a single result without an error.
func one(t *testing.T, data []byte, name string) Part {
	t.Helper()
	parts := Read(data, name)
	if len(parts) != 1 || parts[0].Err != nil || parts[0].Result == nil {
		t.Fatalf("%d parts: %s\n%.3000s", len(parts), describe(parts), data)
	}
	return parts[0]
}

func describe(parts []Part) string {
	var b strings.Builder
	for _, p := range parts {
		fmt.Fprintf(&b, "%s at %d, line %d, also %v, err %v", p.Kind, p.Offset, p.Line, p.Also, p.Err)
		if p.Result != nil {
			fmt.Fprintf(&b, ", %d jobs, series %v", len(p.Result.Jobs), p.Result.Series)
		}
		b.WriteString("\n")
	}
	return b.String()
}

// forms splits the output of --output-format=normal,terse,json+ into its formats.
func forms(out []byte) (text, terse, doc []byte) {
	in := false
	for line := range bytes.Lines(out) {
		switch {
		case bytes.HasPrefix(line, []byte("{")):
			in = true
			doc = append(doc, line...)
		case in:
			doc = append(doc, line...)
			in = !bytes.HasPrefix(line, []byte("}"))
		case len(line) > 2 && line[1] == ';':
			terse = append(terse, line...)
		default:
			text = append(text, line...)
		}
	}
	return text, terse, doc
}

// TestFormsOfOneRun reads the real output of one run in each format. Totals and rates must be identical except for
// floating-point rounding. Latencies must agree within the precision of the format.
func TestFormsOfOneRun(t *testing.T) {
	t.Parallel() // the test mostly waits for fio
	file := filepath.Join(t.TempDir(), "f")
	for _, c := range []struct {
		name string
		args []string
	}{
		{"reads", []string{"--rw=randread", "--bs=4k", "--ioengine=null", "--size=1g"}},
		{"mixed with flushes", []string{"--rw=randrw", "--bs=8k", "--ioengine=psync", "--filename=" + file, "--size=16m", "--fsync=32"}},
		{"large blocks", []string{"--rw=write", "--bs=1m", "--ioengine=null", "--size=64m", "--rate_iops=37"}},
		{"jobs in a group", []string{"--rw=randrw", "--bs=16k", "--ioengine=null", "--size=1g", "--numjobs=3", "--group_reporting"}},
		// fio samples the bandwidth every 500 ms, so this case runs longer than the others. In the terse output, only
		// the bandwidth shares show that the jobs belong to one run.
		{"jobs apart", []string{"--rw=randread", "--bs=4k", "--ioengine=null", "--size=1g", "--numjobs=3", "--rate_iops=1000", "--runtime=1200ms"}},
		{"unified", []string{"--rw=randrw", "--bs=4k", "--ioengine=null", "--size=1g", "--unified_rw_reporting=1"}},
		{"unified and apart", []string{"--rw=randrw", "--bs=4k", "--ioengine=null", "--size=1g", "--unified_rw_reporting=both"}},
		{"total latency", []string{"--rw=randread", "--bs=4k", "--ioengine=null", "--size=1g", "--lat_percentiles=1", "--clat_percentiles=0"}},
		{"bits", []string{"--rw=read", "--bs=64k", "--ioengine=null", "--size=1g", "--unit_base=1"}},
		{"powers of 1000", []string{"--rw=read", "--bs=64k", "--ioengine=null", "--size=1g", "--kb_base=1000"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			args := append([]string{"--name=a job: [1]", "--runtime=150ms", "--time_based", "--output-format=normal,terse,json+"}, c.args...)
			for _, version := range []string{"3", "4", "5"} {
				if version != "3" && c.name != "mixed with flushes" && c.name != "unified and apart" {
					continue
				}
				out := run(t, append(args, "--terse-version="+version)...)
				text, terse, doc := forms(out)
				whole := one(t, out, "")
				if whole.Kind != KindJSONPlus || len(whole.Also) != 2 {
					t.Errorf("all forms: %s", describe([]Part{whole}))
				}
				want := one(t, doc, "").Result
				for kind, data := range map[Kind][]byte{KindText: text, KindTerse: terse} {
					p := one(t, data, "")
					if p.Kind != kind {
						t.Errorf("%s was taken for %s", kind, p.Kind)
					}
					compareForms(t, kind, p.Result, want)
				}
			}
		})
	}
}

func compareForms(t *testing.T, kind Kind, got, want *Result) {
	t.Helper()
	if got.Version != want.Version || len(got.Jobs) != len(want.Jobs) {
		t.Errorf("%s: version %q, %d jobs; want %q, %d", kind, got.Version, len(got.Jobs), want.Version, len(want.Jobs))
	}
	have := map[string]float64{}
	for _, v := range got.Values() {
		have[v.Name] = v.Value
	}
	for _, v := range want.Values() {
		x, ok := have[v.Name]
		delete(have, v.Name)
		margin := v.Value * 1e-14 // the order of summation may differ
		switch {
		case strings.HasPrefix(v.Name, "cpu.") || strings.HasPrefix(v.Name, "sync.") && kind == KindTerse:
			continue // the format never prints this value, or does not print it for groups
		case strings.Contains(v.Name, "latency") && kind == KindTerse:
			margin = 1e-6 // whole microseconds
		case strings.Contains(v.Name, "latency"):
			// Text output has two decimals. The margin assumes numbers of at least 2, or at least 1 for standard
			// deviations. fio rounds percentiles up.
			margin = max(1e-9, v.Value*0.0026)
			if strings.HasSuffix(v.Name, ".sd") {
				margin = max(1e-9, v.Value*0.0051)
			}
			if strings.HasSuffix(v.Name, ".max") && v.Value > 2e-6 {
				margin = max(1e-6, margin) // truncated to whole units
			}
			if strings.Contains(v.Name, ".p") {
				margin = max(2e-9, v.Value*0.02)
				if v.Value > 2e-6 {
					margin = max(1e-6, v.Value*0.02)
				}
			}
		}
		if kind == KindTerse && strings.Contains(v.Name, ".p") && v.Value < 1e-6 {
			continue
		}
		if strings.HasPrefix(v.Name, "mixed.latency.p") || strings.Contains(v.Name, ".p") && len(want.Jobs) > 1 {
			continue // percentiles of several jobs cannot be merged, but bins can
		}
		if !ok {
			t.Errorf("%s: no %s, which is %v", kind, v.Name, v.Value)
		} else if math.Abs(x-v.Value) > margin {
			t.Errorf("%s: %s is %v, and %v in JSON", kind, v.Name, x, v.Value)
		}
	}
	for name, v := range have {
		t.Errorf("%s: %s (%v) is not in JSON", kind, name, v)
	}
	for i, j := range got.Jobs {
		w := want.Jobs[i]
		if j.Name != w.Name || j.Group != w.Group || j.ContextSwitches != w.ContextSwitches || math.Abs(j.SystemCPU-w.SystemCPU) > 1e-4 {
			t.Errorf("%s: job %+v, want %+v", kind, j, w)
		}
		if kind == KindText && (j.Read.Dropped != w.Read.Dropped || w.Sync.IOs != j.Sync.IOs) {
			t.Errorf("%s: job %+v, want %+v", kind, j, w)
		}
	}
}

// Of the reports of one process, the last one is the result. Its series contain the rates between the reports.
func TestStatusIntervals(t *testing.T) {
	for _, format := range []string{"json", "normal", "terse", "normal,json"} {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			out := run(t, "--name=a", "--rw=randread", "--bs=4k", "--size=64m", "--ioengine=null", "--rate_iops=1000", "--numjobs=2", "--group_reporting",
				"--runtime=2400ms", "--time_based", "--status-interval=1", "--output-format="+format)
			parts := Read(out, "")
			r := parts[len(parts)-1].Result
			// Reports in terse format may be separate results, because they contain neither a PID nor a time.
			if len(parts) > 1 && format != "terse" || r == nil {
				t.Fatal(describe(parts))
			}
			if got := value(t, r, "duration"); got < 2.3 {
				t.Errorf("the last report counts, this one is after %v s", got)
			}
			if len(parts) > 1 {
				return
			}
			for name, total := range map[string]string{"read.iops": "read.ios", "read.bandwidth": "read.bytes"} {
				if format == "terse" && name == "read.iops" {
					continue // terse output does not contain the number of I/Os
				}
				var s iotax.Series
				for _, x := range r.Series {
					if x.Name == name {
						s = x
					}
				}
				if len(s.V) < 2 || len(s.T) != len(s.V) {
					t.Fatalf("%s: %v", name, r.Series)
				}
				// The intervals add up to the whole run, except for a sliver at the end.
				sum, last := 0.0, 0.0
				for i, v := range s.V {
					if s.T[i] <= last {
						t.Errorf("times %v", s.T)
					}
					sum, last = sum+v*(s.T[i]-last), s.T[i]
				}
				near(t, name+" summed up", sum, value(t, r, total), 0.1)
			}
		})
	}
}

// The reports of one process are one result, also if they are from before the end of the ramp or from several groups of
// jobs, and if they are in several formats.
func TestStatusIntervalsOfPhases(t *testing.T) {
	long.Test(t)
	for _, c := range []struct {
		name   string
		args   []string
		groups int
	}{
		{"a ramp", []string{"--name=a", "--ramp_time=500ms", "--runtime=700ms"}, 1},
		{"a ramp after which the first report has more", []string{"--name=a", "--ramp_time=250ms", "--runtime=900ms"}, 1},
		{"groups", []string{"--runtime=400ms", "--name=a", "--name=b", "--stonewall", "--name=c", "--stonewall"}, 3},
	} {
		for _, format := range []string{"json", "normal", "terse,json", "normal,terse", "normal,terse,json+"} {
			t.Run(c.name+" "+format, func(t *testing.T) {
				t.Parallel()
				out := run(t, append([]string{"--rw=randread", "--bs=4k", "--size=64m", "--ioengine=null", "--rate_iops=1000", "--time_based", "--status-interval=200ms", "--output-format=" + format}, c.args...)...)
				p := one(t, out, "")
				if n := len(p.Result.Split()); n != c.groups || p.Result.runtime() < 400*time.Millisecond {
					t.Errorf("%d groups, %v", n, p.Result.runtime())
				}
			})
		}
	}
}

// Several runs in one file are separate results, even if all of them take equally long.
func TestSeveralRuns(t *testing.T) {
	t.Parallel() // the test mostly waits for fio
	for _, format := range []string{"json", "normal"} {
		var all []byte
		for range 3 {
			all = append(all, run(t, "--name=a", "--rw=randread", "--size=64m", "--ioengine=null", "--rate_iops=2000", "--runtime=300ms", "--time_based", "--output-format="+format)...)
		}
		parts := Read(all, "")
		if len(parts) != 3 {
			t.Fatalf("%s: %s", format, describe(parts))
		}
		for i, p := range parts {
			if i > 0 && (p.Line <= parts[i-1].Line || p.Offset <= parts[i-1].Offset) {
				t.Errorf("%s", describe(parts))
			}
			if d := value(t, p.Result, "duration"); d < 0.3 || d > 3 {
				t.Errorf("%v s", d)
			}
		}
	}
}

// With a real fio client, the result contains the rows of the jobs, but not their sum.
func TestClient(t *testing.T) {
	t.Parallel() // the test mostly waits for fio
	server := exec.Command("fio", "--server=127.0.0.1,18767")
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { server.Process.Kill(); server.Wait() }()
	job := filepath.Join(t.TempDir(), "c.fio")
	if err := os.WriteFile(job, []byte("[global]\nioengine=null\nsize=64m\nbs=4k\nrw=randread\n[c]\n[d]\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, format := range []string{"json", "normal", "terse"} {
		var out []byte
		var err error
		for range 50 { // until the server listens
			if out, err = exec.Command("fio", "--client=127.0.0.1,18767", "--output-format="+format, job).CombinedOutput(); err == nil {
				break
			}
		}
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		r := one(t, out, "").Result
		if len(r.Jobs) != 2 || r.Jobs[0].Name != "c" || r.Jobs[1].Name != "d" || r.Version != "fio-3.33" && format == "json" {
			t.Errorf("%s: %+v", format, r.Jobs)
		}
		if got := value(t, r, "read.bytes"); got != 128<<20 {
			t.Errorf("%s: %v bytes", format, got)
		}
		if format != "terse" && r.Jobs[0].Options["bs"] == "" && r.Options["bs"] == "" {
			t.Errorf("%s: options %v %v", format, r.Options, r.Jobs[0].Options)
		}
	}
}

// ReadFrom finds the same parts as Read, however the reader splits the input.
func TestReadFrom(t *testing.T) {
	t.Parallel() // the test mostly waits for fio
	var all []byte
	for _, format := range []string{"normal,terse,json+", "normal", "terse", "json"} {
		all = append(all, run(t, "--name=a", "--rw=randrw", "--size=16m", "--ioengine=null", "--output-format="+format)...)
		all = append(all, "user@host:~$ fio again.fio\n"...)
	}
	// Make the input larger than the first buffer, so that a document crosses the end of the buffer.
	for len(all) < 3<<20 {
		all = append(all, all...)
	}
	want := Read(all, "")
	for name, r := range map[string]io.Reader{"whole": bytes.NewReader(all), "halves": iotest.HalfReader(bytes.NewReader(all)), "errors late": iotest.DataErrReader(bytes.NewReader(all))} {
		got, err := ReadFrom(r, "")
		if err != nil {
			t.Fatal(name, err)
		}
		if describe(got) != describe(want) {
			t.Errorf("%s: %d parts, want %d", name, len(got), len(want))
		}
	}
	if _, err := ReadFrom(iotest.TimeoutReader(bytes.NewReader(all)), ""); err != iotest.ErrTimeout {
		t.Errorf("%v", err)
	}
	got, err := ReadFrom(strings.NewReader("1000, 5, 0, 0\n"), "x_iops.1.log")
	if err != nil || len(got) != 1 || got[0].Log == nil {
		t.Errorf("%v %s", err, describe(got))
	}
}

func TestForeign(t *testing.T) {
	for _, c := range []struct{ data, name, want string }{
		{"", "", "empty"},
		{" \n\t\n", "", "empty"},
		{"bash: fio: command not found\n", "", "begins: bash: fio: command not found"},
		{`{"results": [1, 2]}`, "", "not a result of fio"},
		{"\x1f\x8b\x08\x00rest", "a.json.gz", "gzip"},
		{"\xff\xfe{\x00", "", "UTF-16"},
		{"ab\x00cd", "", "binary"},
		{"; a comment\n[global]\nrw=read\n[a]\nsize=1m\n", "x", "job file"},
		{"[section]\nhello = 1\n", "settings.ini", "no result"},
		{"1, 2, 3, 4\n5, 6, 0, 8\n", "numbers.csv", "does not show its quantity"},
		{strings.Repeat("word ", 50), "", "…"},
	} {
		parts := Read([]byte(c.data), c.name)
		if len(parts) != 1 || parts[0].Err == nil || !strings.Contains(parts[0].Err.Error(), c.want) || parts[0].Result != nil {
			t.Errorf("%q: %s", c.data, describe(parts))
		}
	}
}

// A truncated document is a part with an error, and does not hide the document after it.
func TestCutThenWhole(t *testing.T) {
	whole := run(t, "--name=a", "--rw=randread", "--size=16m", "--ioengine=null", "--output-format=json")
	for cut := 200; cut < len(whole)-10; cut += 97 {
		parts := Read(append(append(bytes.Clone(whole[:cut]), '\n'), whole...), "")
		last := parts[len(parts)-1]
		if len(parts) != 2 || parts[0].Err == nil || last.Err != nil || value(t, last.Result, "read.bytes") != 16<<20 {
			t.Fatalf("cut at %d: %s", cut, describe(parts))
		}
	}
}

// BenchmarkRead reads a file with many runs in each format, piece by piece.
func BenchmarkRead(b *testing.B) {
	for _, format := range []string{"json", "json+", "normal", "terse", "normal,terse,json+"} {
		b.Run(format, func(b *testing.B) {
			one := run(b, "--name=a", "--rw=randrw", "--size=64m", "--ioengine=null", "--numjobs=4", "--output-format="+format)
			all := bytes.Repeat(one, 1+4<<20/len(one))
			b.SetBytes(int64(len(all)))
			b.ReportAllocs()
			for b.Loop() {
				parts, err := ReadFrom(bytes.NewReader(all), "")
				if err != nil || len(parts) < 1 {
					b.Fatal(err, len(parts))
				}
			}
		})
	}
}

// ReadFrom does not keep a long stream of status-interval reports in memory.
func TestMemoryIsBounded(t *testing.T) {
	const reports = 2000
	head, tail := strings.Repeat(" ", 8<<10), strings.Repeat("\t", 8<<10) // padding to the size of a real report
	i := 0
	var base, peak, total uint64
	var pending []byte
	r := readFunc(func(p []byte) (int, error) {
		var m runtime.MemStats
		if i%100 == 0 {
			runtime.ReadMemStats(&m)
			if base == 0 {
				base = m.HeapAlloc
			}
			peak = max(peak, m.HeapAlloc)
		}
		if len(pending) == 0 {
			if i == reports {
				return 0, io.EOF
			}
			i++
			pending = fmt.Appendf(nil, "{\"fio version\" : \"fio-3.33\",%s \"timestamp_ms\" : %d, \"jobs\" : [{\"jobname\" : \"a\", \"read\" : {\"io_bytes\" : %d, \"io_kbytes\" : 1, \"total_ios\" : %d, \"runtime\" : %d}}]%s}\n",
				head, 1700000000000+i*1000, i*4096, i, i*1000, tail)
		}
		n := copy(p, pending)
		pending = pending[n:]
		total += uint64(n)
		return n, nil
	})
	parts, err := ReadFrom(r, "")
	if err != nil || len(parts) != 1 || parts[0].Err != nil {
		t.Fatalf("%v: %d parts", err, len(parts))
	}
	if s := parts[0].Result.Series; len(s) != 2 || len(s[0].V) != reports || s[0].V[reports-1] != 1 {
		t.Errorf("%d series", len(s))
	}
	if total < 30<<20 || peak-base > total/2 {
		t.Errorf("%d MiB of heap for %d MiB of reports", (peak-base)>>20, total>>20)
	}
}

type readFunc func([]byte) (int, error)

func (f readFunc) Read(p []byte) (int, error) { return f(p) }

// If a key is repeated, the last value applies. Values are not added up.
func TestDuplicateKeys(t *testing.T) {
	const lat = `"lat_ns" : {"mean" : 5, "N" : 1000, "bins" : {"10" : 400, "20" : 600}, "bins" : {"10" : 1000}}`
	r := parse(t, []byte(`{"fio version" : "fio-3.33", "jobs" : [{"jobname" : "x", "jobname" : "a", "read" : {"io_bytes" : 1, "total_ios" : 7, `+lat+`},
		"read" : {"io_bytes" : 4096, "io_kbytes" : 4, "total_ios" : 1000, "runtime" : 1000, `+lat+`}}]}`))
	if r.Jobs[0].Name != "a" || value(t, r, "read.ios") != 1000 || value(t, r, "read.bytes") != 4096 {
		t.Errorf("%+v", r.Jobs[0])
	}
	if h := r.Histograms()[0]; len(h.Bins) != 1 || h.Bins[0].Count != 1000 {
		t.Errorf("%+v", h)
	}
}

// Read returns the report of a run without I/O as a separate part. A report from before the first I/O of a run belongs
// to the part of that run.
func TestIdleRunThenAnother(t *testing.T) {
	doc := func(at, errno, ios int) string {
		return fmt.Sprintf(`{"fio version" : "fio-3.33", "timestamp_ms" : %d, "jobs" : [{"jobname" : "a", "error" : %d, "elapsed" : 3, "read" : {"io_bytes" : %d, "io_kbytes" : %d, "total_ios" : %d, "runtime" : %d}}]}`+"\n",
			1700000000000+at, errno, ios*4096, ios*4, ios, min(ios, 2000))
	}
	for name, c := range map[string]struct {
		text string
		want int
	}{
		"it failed":                        {doc(0, 5, 0) + doc(1000, 0, 9000), 2},
		"it did nothing, a while before":   {doc(0, 0, 0) + doc(9000, 0, 9000), 2},
		"a report before the first I/O":    {doc(0, 0, 0) + doc(2000, 0, 9000), 1},
		"a report, and another run behind": {doc(0, 0, 0) + doc(2000, 0, 9000) + doc(6000, 0, 9500), 2},
	} {
		if parts := Read([]byte(c.text), ""); len(parts) != c.want {
			t.Errorf("%s: %s", name, describe(parts))
		}
	}
}

// endless is a reader that repeats a text forever.
type endless struct {
	text string
	at   int
}

func (e *endless) Read(p []byte) (int, error) {
	n := 0
	for n < len(p) {
		k := copy(p[n:], e.text[e.at:])
		e.at, n = (e.at+k)%len(e.text), n+k
	}
	return n, nil
}

// Endless inputs are rejected, whatever they contain.
func TestReadFromLimits(t *testing.T) {
	defer func(d int64, p int) { maxDocument, maxParts = d, p }(maxDocument, maxParts)
	maxDocument, maxParts = 4<<20, 100
	terse := "3;fio-3.33;a;0;0;" + strings.Repeat("1;", 126) + "1\n"
	for _, c := range []struct{ name, text, want string }{
		{"zeros", "\x00", "a document: it is larger than 4 MiB"},
		{"one line", "{", "it is larger than 4 MiB"},
		{"a document", `{"fio version" : "fio-3.33", "jobs" : [` + strings.Repeat(" ", 5<<20), "a document: it is larger than 4 MiB"},
		{"text", "hello\n", "no result found: it is larger than 4 MiB"},
		{"x_bw.1.log", "1, 2, 0, 4096\n", "a log: it is larger than 4 MiB"},
		{"results", terse, "more than 100 results"},
	} {
		_, err := ReadFrom(&endless{text: c.text}, c.name)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %s", c.name, err, c.want)
		}
	}
}

func TestJobLimit(t *testing.T) {
	t.Parallel()
	text := []byte("[a]\n" + strings.Repeat("\n", MaxJob/2))
	_, err := ReadJob("a", func(name string) ([]byte, error) {
		if name == "a" {
			return append(text, "include b\n"...), nil
		}
		return text, nil
	})
	if err == nil || !strings.Contains(err.Error(), "larger than 4 MiB") {
		t.Errorf("a job file whose includes are too large: %v", err)
	}
	if _, err := ParseJob(strings.Repeat("\n", MaxJob+1)); err == nil {
		t.Error("a job file that is too large was read")
	}
	if _, err := ParseCommand("fio " + strings.Repeat("x ", MaxJob/2)); err == nil {
		t.Error("a command that is too long was read")
	}
}
