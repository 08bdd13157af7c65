package ingest

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"iotax"
	"iotax/fio"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// doc returns a synthetic JSON document in the form of fio 3.33. Each job has one direction.
func doc(at time.Time, options string, jobs ...string) string {
	return fmt.Sprintf(`{"fio version" : "fio-3.33", "timestamp_ms" : %d, "global options" : {%s}, "jobs" : [%s]}`+"\n", at.UnixMilli(), options, strings.Join(jobs, ","))
}

func job(name string, group, ios, ms int, options string) string {
	return fmt.Sprintf(`{"jobname" : %q, "groupid" : %d, "error" : 0, "job options" : {%s}, "read" : {"io_bytes" : %d, "io_kbytes" : %d, "total_ios" : %d, "runtime" : %d, "iops" : %d,
		"lat_ns" : {"min" : 1, "max" : 9000, "mean" : 5000, "stddev" : 10, "N" : %d}}, "job_runtime" : %d, "usr_cpu" : 1, "sys_cpu" : 1}`, name, group, options, ios*4096, ios*4, ios, ms, ios*1000/ms, ios, ms)
}

func add(t *testing.T, b *Batch, src Source, text string) {
	t.Helper()
	if err := b.Add(src, strings.NewReader(text)); err != nil {
		t.Fatal(err)
	}
}

func finish(t *testing.T, b *Batch) (*iotax.Run, []*iotax.Trial, []Row) {
	t.Helper()
	r, trials, rows, err := b.Run("test", now)
	if err != nil {
		t.Fatal(err)
	}
	return r, trials, rows
}

func cells(trials []*iotax.Trial) []string {
	var out []string
	for _, t := range trials {
		out = append(out, t.Cell())
	}
	return out
}

// kinds splits the output of --output-format=normal,terse,json+ into its formats.
func kinds(out []byte) map[fio.Kind][]byte {
	all := map[fio.Kind][]byte{}
	in := false
	for line := range bytes.Lines(out) {
		k := fio.KindText
		switch {
		case in || bytes.HasPrefix(line, []byte("{")):
			k, in = fio.KindJSONPlus, !bytes.HasPrefix(line, []byte("}"))
		case len(line) > 2 && line[1] == ';':
			k = fio.KindTerse
		}
		all[k] = append(all[k], line...)
	}
	return all
}

// ids returns the rules of a trial's findings.
func ids(t *iotax.Trial) []string {
	var out []string
	for _, f := range t.Findings {
		out = append(out, f.Rule)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func TestTargetOf(t *testing.T) {
	for file, want := range map[string]string{
		"host.json": "host", "d/host-1.json": "host", "host_run3.txt": "host", "guest.2.json.txt": "guest", "guest (2).json": "guest", "run1.json": "run1",
		"node01.json": "node01", "sda1.txt": "sda1", "-": "stdin", "x_bw.1.log": "x", ".json": ".json", `C:\r\vm.json`: "vm", "a/b/": "b", "plain": "plain", "3.28-4.json": "3.28",
	} {
		if got := TargetOf(file); got != want {
			t.Errorf("%s: %s, want %s", file, got, want)
		}
	}
}

// Each group of jobs becomes a workload. Results of the same job become repetitions, each in its own round.
func TestRepetitionsAndGroups(t *testing.T) {
	var b Batch
	two := func(i int) string {
		return doc(now.Add(time.Duration(i)*time.Hour), `"bs" : "4k"`, job("a", 0, 1000*i, 1000, ""), job("a", 0, 1000*i, 1000, ""), job("b", 1, 500, 1000, ""))
	}
	add(t, &b, Source{Name: "host-1.json"}, two(2)+two(3))
	add(t, &b, Source{Name: "guest.json"}, two(1))
	add(t, &b, Source{Name: "notes.txt"}, "nothing\n")
	b.Refuse("gone.json", errors.New("no such file"))
	r, trials, rows := finish(t, &b)
	want := []string{"host / a", "host / b", "host / a", "host / b", "guest / a", "guest / b"}
	if got := cells(trials); !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
	if v, _ := trials[0].Value("iops"); v.Value != 4000 || v.Unit != iotax.PerSecond || v.Better != iotax.Up {
		t.Errorf("jobs of a group add up: %v", v)
	}
	rounds := map[int]bool{}
	for i, x := range trials {
		rounds[x.Round] = true
		if x.Seq != i || x.Facts["file"] == "" || x.Facts["fio"] != "fio-3.33" || x.Facts["bs"] != "4k" {
			t.Errorf("%+v", x)
		}
	}
	if len(rounds) != len(trials) {
		t.Errorf("trials share rounds: %v", rounds)
	}
	if p := fio.Read(trials[3].Raw, ""); len(p) != 1 || p[0].Err != nil || p[0].Result.Jobs[0].Read.IOs != 3000 {
		t.Errorf("fio's own output is kept: %.200s", trials[3].Raw)
	}
	if trials[2].Facts["file"] != "host-1.json:5" {
		t.Errorf("second document: %s", trials[2].Facts["file"])
	}
	if !r.Start.Equal(now) || !trials[0].Start.Equal(now.Add(2*time.Hour-time.Second)) {
		t.Errorf("the run began at %v, its first trial at %v", r.Start, trials[0].Start)
	}
	if !r.Imported() || r.Baseline != "host" || len(r.Targets) != 2 || len(r.Workloads) != 2 || r.Workloads[0].Metrics[0] != "read.iops" || len(r.Findings) == 0 || r.Findings[0].Rule != "imported" {
		t.Errorf("%+v", r)
	}
	if len(rows) != 8 || rows[6].Trial != -1 || !strings.Contains(rows[6].Reason, "no result") || rows[7].Reason != "no such file" {
		t.Errorf("%+v", rows)
	}
}

// Jobs with the same name but different options are different workloads if they ran on the same target. The same
// workload can have different options on different targets.
func TestTellApart(t *testing.T) {
	var b Batch
	for _, c := range []struct{ target, options string }{
		{"host", `"rw" : "randread", "bs" : "4k", "ioengine" : "io_uring"`}, {"host", `"rw" : "randread", "bs" : "1024k", "ioengine" : "io_uring"`}, {"host", `"rw" : "randread", "bs" : "4096", "ioengine" : "io_uring"`},
		{"guest", `"rw" : "randread", "bs" : "4K", "ioengine" : "libaio"`},
	} {
		add(t, &b, Source{Name: "x.json", Target: c.target}, doc(now, "", job("test", 0, 1000, 1000, c.options)))
	}
	r, trials, _ := finish(t, &b)
	want := []string{"host / test bs=4k", "host / test bs=1m", "host / test bs=4k", "guest / test bs=4k"}
	if got := cells(trials); !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
	if !slices.ContainsFunc(r.Findings, func(f iotax.Finding) bool {
		return f.Rule == "unlike-facts" && strings.Contains(f.Evidence, "libaio on guest")
	}) {
		t.Errorf("the engines differ: %+v", r.Findings)
	}
	var kinds Batch
	read := "a: (groupid=0, jobs=1): err= 0: pid=1: Sat Jul 12 10:11:12 2014\n  read : io=4096KB, bw=4096KB/s, iops=1024, runt=  1000msec\n"
	add(t, &kinds, Source{Name: "x"}, read)
	add(t, &kinds, Source{Name: "x"}, strings.Replace(read, "read ", "write", 1))
	if _, trials, _ := finish(t, &kinds); trials[0].Workload != "a read" || trials[1].Workload != "a write" {
		t.Errorf("%v", cells(trials))
	}
	var named Batch
	for _, bs := range []string{"4k", "8k"} {
		add(t, &named, Source{Name: "x.json", Workload: "mine"}, doc(now, "", job("test", 0, 1000, 1000, `"bs" : "`+bs+`"`)))
	}
	if _, trials, _ := finish(t, &named); trials[1].Workload != "mine" {
		t.Errorf("the user's name was changed: %s", trials[1].Workload)
	}
}

// A failed job and a truncated document become trials with errors. Without any result, Run returns an error.
func TestFailures(t *testing.T) {
	var b Batch
	add(t, &b, Source{Name: "a.json"}, strings.Replace(doc(now, "", job("a", 0, 10, 1000, "")), `"error" : 0`, `"error" : 5`, 1))
	whole := doc(now, "", job("a", 0, 10, 1000, ""), job("a", 0, 10, 1000, ""))
	add(t, &b, Source{Name: "cut.json"}, whole[:len(whole)-20])
	_, trials, rows := finish(t, &b)
	if len(trials) != 2 || !strings.Contains(trials[0].Err, "input/output error") || !strings.Contains(trials[1].Err, "byte") || !strings.Contains(rows[1].Reason, "read so far: fio-3.33, 1 job") {
		t.Errorf("%+v\n%+v", trials, rows)
	}
	var none Batch
	add(t, &none, Source{Name: "x"}, "\n")
	if _, _, rows, err := none.Run("test", now); !errors.Is(err, ErrNothing) || len(rows) != 1 {
		t.Errorf("%v %+v", err, rows)
	}
}

func TestExtend(t *testing.T) {
	var first, second Batch
	add(t, &first, Source{Name: "host.json"}, doc(now, "", job("a", 0, 1000, 1000, "")))
	r, have, _ := finish(t, &first)
	if len(r.Findings) != 0 {
		t.Errorf("one target has nothing to compare: %+v", r.Findings)
	}
	r.ID = "x"
	add(t, &second, Source{Name: "guest.json"}, doc(now, "", job("a", 0, 500, 1000, "")))
	more, _, err := second.Extend(r, have, now)
	if err != nil || len(more) != 1 || more[0].Seq != 1 || more[0].Round != 1 || more[0].Run != "x" || len(r.Targets) != 2 || len(r.Workloads) != 1 || len(r.Findings) == 0 {
		t.Errorf("%v %+v %+v", err, more, r)
	}
}

// The logs of a real run are attached to its result. Without the result, they become a trial with similar values.
func TestLogsOfARealRun(t *testing.T) {
	dir := t.TempDir()
	cmd := exec.Command("fio", "--name=a", "--rw=randread", "--bs=4k", "--size=64m", "--ioengine=null", "--numjobs=2", "--rate_iops=1000", "--runtime=3s", "--time_based", "--group_reporting",
		"--write_iops_log=p", "--write_bw_log=p", "--write_lat_log=p", "--log_avg_msec=500", "--output-format=json", "--output=out.json")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	files, err := filepath.Glob(dir + "/*")
	if err != nil || len(files) < 9 {
		t.Fatal(files, err)
	}
	read := func(logs bool) Batch {
		var b Batch
		for _, f := range files {
			if !logs || strings.HasSuffix(f, ".log") {
				data, err := os.ReadFile(f)
				if err != nil {
					t.Fatal(err)
				}
				add(t, &b, Source{Name: f, Target: "here"}, string(data))
			}
		}
		return b
	}
	with, alone := read(false), read(true)
	_, trials, rows := finish(t, &with)
	if len(trials) != 1 || len(trials[0].Series) < 3 || trials[0].Workload != "a" {
		t.Fatalf("%v\n%+v", cells(trials), rows)
	}
	for _, row := range rows {
		if row.Reason != "" || row.Kind == fio.KindLog && row.Note != "empty" && !strings.Contains(row.Note, "out.json") {
			t.Errorf("%+v", row)
		}
	}
	_, fromLogs, _ := finish(t, &alone)
	if len(fromLogs) != 1 || fromLogs[0].Workload != "p" {
		t.Fatalf("%v", cells(fromLogs))
	}
	a, _ := trials[0].Value("read.iops")
	b, _ := fromLogs[0].Value("read.iops")
	// The values may differ, because a stall of the machine makes the windows of the logs unequal. If the logs of only
	// one of the two jobs were counted, the ratio would be 0.5.
	if ratio := b.Value / a.Value; ratio < 1/1.5 || ratio > 1.5 {
		t.Errorf("%v of the result, %v of the logs", a, b)
	}
}

// If the text output of fio rounds a value, the trial's facts record the rounding.
func TestSources(t *testing.T) {
	var b Batch
	add(t, &b, Source{Name: "-"}, "  read: IOPS=37.6k, BW=147MiB/s (154MB/s)(8812MiB/60001msec)\n")
	_, trials, _ := finish(t, &b)
	x := trials[0]
	if x.Target != "stdin" || x.Workload != "read" || x.Facts["iops.from"] != string(fio.Rounded) || x.Facts["bytes.from"] != string(fio.Rounded) || x.Facts["form"] != "text" {
		t.Errorf("%+v", x)
	}
}

func TestFolders(t *testing.T) {
	one := func(name string) string { return doc(now, "", job(name, 0, 1000, 1000, "")) }
	for _, c := range []struct {
		name  string
		files map[string]string // job by file
		want  []string
	}{
		{"a folder a target", map[string]string{"r/guest/x.json": "a", "r/host/x.json": "a", "r/host/y.json": "b", "r/host/z.json": "b"},
			[]string{"guest / a", "host / a", "host / b", "host / b"}},
		{"files repeat a job", map[string]string{"r/guest-1.json": "a", "r/host-1.json": "a", "r/host-2.json": "a", "r/other.json": "b"},
			[]string{"guest / a", "host / a", "host / a", "other / b"}},
		{"a file a job", map[string]string{"r/read.json": "read", "r/write.json": "write"}, []string{"r / read", "r / write"}},
		{"numbers alone", map[string]string{"r/1.json": "a", "r/run2.json": "a", "r/run-3.json": "a"}, []string{"r / a", "r / a", "r / a"}},
	} {
		var b Batch
		for _, f := range slices.Sorted(maps.Keys(c.files)) {
			add(t, &b, Source{Name: f, Folder: filepath.Base(filepath.Dir(f))}, one(c.files[f]))
		}
		_, trials, _ := finish(t, &b)
		if got := cells(trials); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

// Values of options that hold a secret are neither in the run nor in its trials.
func TestSecretOptions(t *testing.T) {
	secrets := `"http_pass" : "MARK \"1\"", "http_s3_key" : "MARK2", "http_swift_auth_token" : "MARK3", "rbd_encryption_passphrase" : "MARK4", "filename" : "http://h/a?X-Amz-Signature=MARK5"`
	var b Batch
	add(t, &b, Source{Name: "a.json"}, doc(now, secrets, job("a", 0, 1000, 1000, `"rw" : "read", "http_s3_security_token" : "MARK6"`)))
	add(t, &b, Source{Name: "a.json"}, doc(now, secrets, job("a", 0, 1000, 1000, `"rw" : "read", "http_s3_security_token" : "MARK7"`)))
	r, trials, rows := finish(t, &b)
	if trials[0].Workload != "a" || !strings.Contains(string(trials[0].Raw), `"http_pass" : "[…]"`) {
		t.Errorf("%s\n%s", trials[0].Workload, trials[0].Raw)
	}
	text := fmt.Sprintf("%+v %+v", *r, rows)
	for _, x := range trials {
		text += fmt.Sprintf("%+v %s", *x, x.Raw)
	}
	if at := strings.Index(text, "MARK"); at >= 0 {
		t.Errorf("a secret is kept: %.60s", text[max(0, at-40):])
	}
}
