package ingest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"iotax"
	"iotax/fio"
)

// varied returns the arguments of a short fio run with random options.
func varied(r *rand.Rand, dir string) []string {
	pick := func(words ...string) string { return words[r.IntN(len(words))] }
	chance := func(p float64) bool { return r.Float64() < p }
	args := []string{"--directory=" + dir, "--terse-version=" + pick("3", "3", "4", "5")}
	add := func(s ...string) { args = append(args, s...) }
	for _, c := range []struct {
		p    float64
		args []string
	}{
		{.5, []string{"--group_reporting"}}, {.1, []string{"--unit_base=1"}}, {.1, []string{"--kb_base=1000"}},
		{.1, []string{"--unified_rw_reporting=1"}}, {.05, []string{"--unified_rw_reporting=both"}}, {.07, []string{"--gtod_reduce=1"}},
		{.1, []string{"--disable_clat=1"}}, {.1, []string{"--disable_slat=1"}}, {.05, []string{"--disable_lat=1"}},
		{.1, []string{"--lat_percentiles=1", "--clat_percentiles=0"}}, {.05, []string{"--slat_percentiles=1", "--lat_percentiles=1"}}, {.1, []string{"--percentile_list=50:90:99:99.9"}},
		{.05, []string{"--percentile_list=25"}}, {.2, []string{"--ramp_time=" + pick("50ms", "150ms", "300ms")}}, {.1, []string{"--randrepeat=0"}},
		{.1, []string{"--thread"}}, {.05, []string{"--description=a job: of (groupid=1), it is"}},
	} {
		if chance(c.p) {
			add(c.args...)
		}
	}
	timed := chance(.6)
	runtime := pick("20ms", "60ms", "90ms", "150ms", "300ms", "600ms", "1100ms")
	if chance(.15) {
		timed, runtime = true, pick("700ms", "1100ms")
		add("--status-interval=" + pick("200ms", "300ms"))
	}
	if timed {
		add("--time_based", "--runtime="+runtime)
	} else {
		add("--runtime=2s")
	}
	sections := 1
	if chance(.45) {
		sections = 2 + r.IntN(2)
	}
	for i := range sections {
		add("--name=" + pick("a", "b", "a job", "x: [1], y", string(rune('p'+i))))
		if i > 0 && chance(.3) {
			add("--" + pick("stonewall", "stonewall", "new_group"))
		}
		engine := pick("null", "null", "null", "psync", "sync", "libaio", "posixaio", "mmap", "pvsync2")
		add("--ioengine=" + engine)
		rw := pick("read", "write", "randread", "randwrite", "rw", "randrw")
		if engine == "null" && chance(.1) {
			rw = pick("trim", "randtrim", "trimwrite")
		}
		add("--rw=" + rw)
		if strings.HasSuffix(rw, "rw") && chance(.5) {
			add("--rwmixread=" + pick("10", "70", "90", "99"))
		}
		switch n := r.IntN(10); {
		case engine == "mmap":
			add("--bs=" + pick("64k", "128k", "1m")) // it takes at least a page
		case n == 0:
			add("--bssplit=" + pick("4k/50:64k/50", "512/10:4k/60:16k/30", "4k/90:1m/10"))
		case n == 1:
			add("--bsrange="+pick("4k-16k", "512-64k", "1k-3k"), "--bs_unaligned=0")
		case n == 2:
			add("--bs=" + pick("4k,64k", "8k,512", "512,4k"))
		default:
			add("--bs=" + pick("512", "4k", "4k", "4k", "8k", "16k", "64k", "256k", "1m", "3000", "20k", "192k"))
		}
		if chance(.6) {
			add("--iodepth=" + pick("1", "2", "8", "32", "64"))
		}
		if chance(.2) {
			add("--iodepth_batch=" + pick("2", "4"))
		}
		if chance(.4) {
			add("--numjobs=" + pick("1", "2", "3", "4"))
		}
		if chance(.35) {
			add("--rate_iops=" + pick("15", "37", "100", "1000", "10000", "25000"))
		} else if chance(.15) {
			add("--rate=" + pick("1m", "10m,5m", "100m", "777k"))
		}
		if chance(.1) {
			add("--thinktime=" + pick("1000", "20000"))
		}
		if chance(.15) && engine != "null" {
			add(pick("--fsync=8", "--fdatasync=4", "--sync=1", "--end_fsync=1"))
		}
		if chance(.1) && engine != "null" && !timed && sections == 1 && strings.HasSuffix(rw, "write") {
			add("--verify=crc32c")
		}
		size := pick("1m", "4m", "16m")
		if engine == "null" {
			size = pick("1m", "16m", "256m", "1g", "4g")
		}
		add("--size=" + size)
	}
	return args
}

// suffix matches the options that tellApart adds to a name. A format that shows more options adds more.
var suffix = regexp.MustCompile(`( (\w+=|read|write|trim|mixed)\S*)+$`)

// fio prints each of 200 varied runs in three formats. Each format alone has the same results as all of them together,
// within its rounding, and no finding of a genuine run says that its numbers are wrong. Terse output has neither a time
// nor a process ID, so its lines may be several results.
func TestVariedRuns(t *testing.T) {
	t.Parallel() // the test mostly waits for fio
	n := 200
	if testing.Short() {
		n = 6
	}
	dir, err := os.MkdirTemp("/dev/shm", "iotax-forms-")
	if err != nil {
		dir = t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	split, failed, differ := 0, 0, 0
	for i := range n {
		args := append(varied(rand.New(rand.NewPCG(1, uint64(i))), dir), "--output-format=normal,terse,json+", "--eta=never")
		cmd := exec.Command("fio", args...)
		cmd.Dir = dir // fio leaves the state of a verify job there
		out, err := cmd.CombinedOutput()
		if err != nil {
			failed++
			t.Logf("run %d: fio %s: %v\n%.500s", i, iotax.QuoteAll(args), err, out)
			continue
		}
		bad, apart := compareForms(t, out, strings.Join(args, " "))
		if apart {
			split++
		}
		if len(bad) > 0 {
			differ++
			t.Logf("run %d: fio %s\n  %s", i, iotax.QuoteAll(args), strings.Join(bad, "\n  "))
		}
	}
	t.Logf("%d runs: fio failed in %d, the formats differ in %d, terse output alone is several results in %d", n, failed, differ, split)
	if failed > n/20 || differ > n/100 { // a report during a run may come so late that it seems to be of another process
		t.Errorf("fio failed in %d runs, the formats differ in %d", failed, differ)
	}
}

// compareForms returns how the formats in the output of a run disagree, and whether terse output has more results than
// JSON.
func compareForms(t *testing.T, out []byte, args string) (bad []string, apart bool) {
	say := func(format string, args ...any) { bad = append(bad, fmt.Sprintf(format, args...)) }
	read := func(kind fio.Kind, data []byte) (trials []*iotax.Trial) {
		var b Batch
		add(t, &b, Source{Name: "x.txt"}, string(data))
		_, all, rows, err := b.Run("test", now)
		if err != nil {
			say("%s: %v: %+v", kind, err, rows)
		}
		for _, trial := range all {
			if v, ok := trial.Value("bytes"); ok && v.Value > 0 { // text omits jobs without I/O
				trials = append(trials, trial)
			}
			for _, f := range trial.Findings {
				if f.Severity == iotax.Invalid || f.Rule == "rate-mismatch" && f.Severity != iotax.Info {
					say("%s: %s: %s: %s", kind, trial.Workload, f.Rule, f.Evidence)
				}
			}
			if trial.Err != "" || trial.Discarded != "" && !strings.HasPrefix(trial.Discarded, "no-io") {
				say("%s: %s: %s%s", kind, trial.Workload, trial.Err, trial.Discarded)
			}
		}
		return trials
	}
	forms := kinds(out)
	want := read(fio.KindJSONPlus, forms[fio.KindJSONPlus])
	const all = "all formats"
	forms[all] = out
	for kind, data := range forms {
		got := read(kind, data)
		if kind == fio.KindTerse && strings.Contains(args, "trim") && strings.Contains(args, "--terse-version=3") {
			continue // this version has no trims
		}
		if kind == fio.KindTerse && len(got) > len(want) {
			apart = true
			continue
		}
		if len(got) != len(want) {
			say("%s: %d results, want %d: %q, %q", kind, len(got), len(want), cells(got), cells(want))
			continue
		}
		for i, g := range got {
			w := want[i]
			if x, y := suffix.ReplaceAllString(g.Workload, ""), suffix.ReplaceAllString(w.Workload, ""); x != y {
				say("%s: workload %q, want %q", kind, x, y)
			}
			for _, id := range ids(g) {
				// Text shows how many jobs a row has and in what they differ, but not gtod_reduce and rates. Series of
				// rounded numbers may be less steady.
				if !slices.Contains(append(ids(w), "depth-not-reached", "jobs-compete", "generator-bound", "blocking-submit", "no-latency", "not-steady", "warm-up", "throttle-step", "stall"), id) {
					say("%s: %s: %s is not found in JSON", kind, g.Workload, id)
				}
			}
			if slices.Contains(ids(g), "no-latency") && !slices.Contains(ids(w), "no-latency") && !strings.Contains(args, "gtod_reduce") {
				say("%s: %s: no latency", kind, g.Workload)
			}
			compareValues(kind, args, g, w, say)
		}
	}
	return bad, apart
}

// compareValues compares the values that a format has with those of JSON.
func compareValues(kind fio.Kind, args string, g, w *iotax.Trial, say func(string, ...any)) {
	took, _ := w.Value(iotax.ValueDuration)
	for _, v := range g.Values {
		ref, ok := w.Value(v.Name)
		direction, what, _ := strings.Cut(v.Name, ".")
		sum := direction == "mixed" || what == ""
		rows, margin := 16.0, ref.Value*0.011
		switch {
		case strings.HasPrefix(v.Name, "cpu") && (took.Value < 0.3 || kind == fio.KindTerse || v.Name == iotax.ValueCPUClientPerIO):
			continue
		case strings.HasPrefix(v.Name, "cpu"):
			margin = ref.Value*0.15 + rows/1000 // fio rounds the runtime of a job to milliseconds
		case sum && strings.Contains(what, "latency") && strings.Contains(args, "ramp_time"):
			continue // fio does not count the latencies of all I/Os of a ramp
		case sum && strings.Contains(args, "unified_rw_reporting=both") || sum && strings.Contains(what, "submission"):
			continue // only JSON shows the sum of the directions, and how many I/Os have a submission latency
		case direction == "sync" && kind != fio.KindTerse && strings.Contains(args, "unified_rw_reporting"):
			continue // JSON has no flushes then
		case strings.Contains(what, "latency"):
			margin = max(2e-6, ref.Value*0.02)
			if strings.Contains(what, ".p") && ref.Value > 9e-3 {
				margin = max(1e-3, margin) // rounded up to milliseconds
			}
		case kind == fio.KindTerse && strings.HasSuffix(v.Name, "iops"):
			margin += rows
		case kind == fio.KindTerse && strings.HasSuffix(v.Name, "bytes"):
			margin += rows * 1024
		case kind == fio.KindTerse && strings.HasSuffix(v.Name, "bandwidth"):
			margin += rows * 1024 / took.Value
		}
		if kind != fio.KindTerse && kind != fio.KindText {
			margin = ref.Value * 1e-9
		}
		if !ok || math.Abs(v.Value-ref.Value) > margin {
			say("%s: %s: %s is %v, want %v (%.2f %%)", kind, g.Workload, v.Name, v.Value, ref.Value, 100*(v.Value/ref.Value-1))
		}
	}
}
