// Package ingest creates a run from results that were measured without iotax: outputs and logs of fio in every format
// that package fio reads.
package ingest

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"iotax"
	"iotax/fio"
	"iotax/internal/metric"
	"iotax/internal/report/format"
	"iotax/internal/rules"
	"iotax/internal/rules/check"
	"iotax/internal/rules/lint"
	"iotax/internal/secret"
)

// A Source contains the names that the user gave for an input. If Target or Workload is empty, the name is derived from
// the file, its directory or the result.
type Source struct {
	Name     string // of the file, as the user gave it; "-" is the standard input
	Folder   string // name of its directory, if the user named the directory and not the file
	Target   string
	Workload string
}

// A Row describes a part of an input, or one group of jobs of a part, and the trial that Extend made from it, if any.
type Row struct {
	File     string   `json:"file"`
	Line     int      `json:"line"` // first line of the part, from 1; 0 if the input could not be read
	Kind     fio.Kind `json:"kind"` // "" if the input is not from fio or could not be read
	Target   string   `json:"target,omitempty"`
	Workload string   `json:"workload,omitempty"`
	Trial    int      `json:"trial"` // Seq of the trial; -1 if there is none
	Note     string   `json:"note,omitempty"`
	Reason   string   `json:"reason,omitempty"` // why the part has no trial, or why its trial is incomplete
}

// A Batch collects inputs until Run or Extend converts them to trials.
type Batch struct {
	rows  []Row
	items []item
	logs  []logFile
	kept  int // bytes of raw output in items
}

// Limits in bytes of the raw output that trials keep: per input, and for all inputs together. A result beyond a limit
// becomes a trial without raw output.
const (
	keepOne = 4 << 20
	keepAll = 128 << 20
)

// A capture keeps the first bytes that are written to it, up to keepOne.
type capture struct{ bytes []byte }

func (c *capture) Write(p []byte) (int, error) {
	c.bytes = append(c.bytes, p[:min(len(p), keepOne-len(c.bytes))]...)
	return len(p), nil
}

// An item is a part of an input that becomes a trial.
type item struct {
	row    int
	src    Source
	raw    []byte
	result *fio.Result // of one group of jobs; nil for logs without a result
	logs   []*fio.Log
	reason string // why the result is incomplete
	named  bool   // the user named the workload
}

type logFile struct {
	row int
	src Source
	log *fio.Log
}

// Add reads an input to its end. If r fails, Add keeps the parts before the error.
func (b *Batch) Add(src Source, r io.Reader) error {
	var input capture
	parts, err := fio.ReadFrom(io.TeeReader(r, &input), src.Name)
	named := src.Workload != ""
	if src.Target == "" && src.Folder == "" {
		src.Target = TargetOf(src.Name)
	}
	for _, p := range parts {
		row := Row{File: src.Name, Line: p.Line, Kind: p.Kind, Trial: -1}
		if p.Err != nil {
			row.Reason = p.Err.Error()
		}
		if len(p.Also) > 0 {
			row.Note = "also as " + join(p.Also)
		}
		switch {
		case p.Log != nil && (len(p.Log.Samples) > 0 || len(p.Log.Bins) > 0):
			b.logs = append(b.logs, logFile{len(b.rows), src, p.Log})
			b.rows = append(b.rows, row)
		case p.Result != nil && len(p.Result.Jobs) > 0:
			hideOptions(p.Result.Options)
			for _, j := range p.Result.Jobs {
				hideOptions(j.Options)
			}
			for _, g := range p.Result.Split() {
				s := src
				s.Workload = cmp.Or(src.Workload, workloadOf(g))
				var raw []byte
				if p.End <= len(input.bytes) && b.kept+p.End-p.Offset <= keepAll {
					raw = secret.Options(input.bytes[p.Offset:p.End]) // a copy
					b.kept += len(raw)
				}
				b.items = append(b.items, item{row: len(b.rows), src: s, raw: raw, result: g, reason: row.Reason, named: named})
				b.rows = append(b.rows, row)
			}
		case p.Log != nil && p.Err == nil:
			row.Note = "empty"
			b.rows = append(b.rows, row)
		default:
			if row.Reason == "" {
				row.Reason = "no job and no sample found"
			}
			b.rows = append(b.rows, row)
		}
	}
	return err
}

// hideOptions replaces the secrets in fio's options.
func hideOptions(options map[string]string) {
	for k, v := range options {
		if options[k] = secret.Text(v); secret.Named(k) && v != "" {
			options[k] = secret.Hidden
		}
	}
}

// Refuse records an input that could not be read.
func (b *Batch) Refuse(name string, err error) {
	b.rows = append(b.rows, Row{File: name, Trial: -1, Reason: err.Error()})
}

func join(kinds []fio.Kind) string {
	var s []string
	for _, k := range kinds {
		s = append(s, string(k))
	}
	return strings.Join(s, ", ")
}

var (
	ending     = regexp.MustCompile(`(?i)(\.(json|txt|log|out|csv|md|terse|fio|result|results|output))+$`)
	repetition = regexp.MustCompile(`(?i)([-_. ]*\(\d+\)|[-_. ]+\d+|[-_. ]*(run|rep|round|try|iter|pass)[-_. ]*\d+)$`)
)

// TargetOf derives the name of a target from a file name. It removes the extension and the number of a repetition:
// "host" for "host-2.json" and "host_run3.txt".
func TargetOf(file string) string {
	if file == "-" {
		return "stdin"
	}
	if l, ok := fio.LogName(file); ok {
		file = l.Prefix
	}
	base := path.Base(strings.ReplaceAll(file, `\`, "/"))
	s := ending.ReplaceAllString(base, "")
	if short := repetition.ReplaceAllString(s, ""); short != "" {
		s = short
	}
	return cmp.Or(s, base)
}

// workloadOf names a workload after its jobs, or after its directions if the jobs have no names.
func workloadOf(r *fio.Result) string {
	var names []string
	for _, j := range r.Jobs {
		if j.Name != "" && !slices.Contains(names, j.Name) {
			names = append(names, j.Name)
		}
	}
	if len(names) > 0 {
		return strings.Join(names, "+")
	}
	return cmp.Or(strings.Join(directions(r.Values()), "+"), "fio")
}

func directions(values []iotax.Value) []string {
	var out []string
	for _, d := range []string{"read", "write", "trim", "mixed"} {
		if d == "mixed" && len(out) > 0 {
			break
		}
		if slices.ContainsFunc(values, func(v iotax.Value) bool { return v.Name == d+".bandwidth" || v.Name == d+".iops" }) {
			out = append(out, d)
		}
	}
	return out
}

// ErrNothing reports that the inputs yield no trial.
var ErrNothing = errors.New("no result of fio was recognised")

// Run creates a run from the added inputs. It returns the run, its trials, and the rows of the inputs in order. The
// first target is the baseline. The run starts at `now`, so that it is the latest run. The caller sets the run's ID.
// Without trials, the error is ErrNothing.
func (b *Batch) Run(version string, now time.Time) (*iotax.Run, []*iotax.Trial, []Row, error) {
	run := &iotax.Run{Name: "imported", Version: version, Start: now, End: now, Status: iotax.Done, Margin: 0.05, Alpha: 0.05,
		Environment: map[string]string{iotax.FactOrigin: iotax.OriginImport}}
	trials, rows, err := b.Extend(run, nil, now)
	if err != nil {
		return nil, nil, rows, err
	}
	run.Baseline = run.Targets[0].Name
	return run, trials, rows, nil
}

// Extend adds the inputs of b to run, an imported run that has the trials `have`, and replaces the run's findings. It
// returns the new trials and the rows of the inputs. The error is ErrNothing if there are no new trials.
func (b *Batch) Extend(run *iotax.Run, have []*iotax.Trial, now time.Time) ([]*iotax.Trial, []Row, error) {
	b.nameFolders()
	b.attachLogs()
	b.tellApart()
	all := slices.Clone(have)
	next := 0
	for _, t := range have {
		next = max(next, t.Seq+1, t.Round+1)
	}
	for i := range b.items {
		it := &b.items[i]
		t := it.trial(now)
		secret.Hide(t)
		// Each trial gets its own round, because no two trials were measured together.
		t.Run, t.Seq, t.Round = run.ID, next, next
		next++
		t.Facts["file"] = fmt.Sprintf("%s:%d", it.src.Name, max(1, b.rows[it.row].Line))
		row := &b.rows[it.row]
		row.Target, row.Workload, row.Trial = t.Target, t.Workload, t.Seq
		if note := headline(t); note != "" {
			row.Note = strings.TrimPrefix(row.Note+", "+note, ", ")
		}
		all = append(all, t)
		describe(run, t)
	}
	if len(all) == len(have) {
		return nil, b.rows, ErrNothing
	}
	run.Findings = nil
	if len(run.Targets) > 1 {
		run.Findings = append(run.Findings, rules.Imported.Found(iotax.AboutRun(), "these results were not measured in turns: the ratios include changes between the targets' runs, which no interval shows"))
	}
	run.Findings = append(run.Findings, check.Run(run, all)...)
	return all[len(have):], b.rows, nil
}

// nameFolders sets the targets of files whose directory the user named. It uses the directory's name, because the
// files of a directory are usually the jobs of one target. If there is only one directory, and files with different
// names in it ran the same job, nameFolders uses the names of the files instead. It never uses anonymous file names.
func (b *Batch) nameFolders() {
	folders := map[string]bool{}
	names := map[string][]string{} // names of files, by workload and main options
	for _, it := range b.items {
		if it.src.Target != "" || it.result == nil {
			continue
		}
		folders[path.Dir(it.src.Name)] = true
		f := jobFacts(it.result)
		key := strings.Join([]string{it.src.Workload, f["rw"], f["bs"], f["iodepth"], strings.Join(directions(it.result.Values()), "+")}, "\x00")
		if name := TargetOf(it.src.Name); !anonymous.MatchString(name) && !slices.Contains(names[key], name) {
			names[key] = append(names[key], name)
		}
	}
	several := false
	for _, n := range names {
		several = several || len(n) > 1
	}
	target := func(src Source) string {
		if name := TargetOf(src.Name); several && len(folders) == 1 && folders[path.Dir(src.Name)] && !anonymous.MatchString(name) {
			return name
		}
		return src.Folder
	}
	for i := range b.items {
		if src := &b.items[i].src; src.Target == "" {
			src.Target = target(*src)
		}
	}
	for i := range b.logs {
		if src := &b.logs[i].src; src.Target == "" {
			src.Target = target(*src)
		}
	}
}

// anonymous matches file names that contain only a generic word, a number, or both.
var anonymous = regexp.MustCompile(`(?i)^(r|t|run|rep|test|trial|result|results|fio|out|output)?[-_. ]*\d*$`)

// attachLogs attaches each log to a result in the same directory: the result whose write_*_log option or workload
// equals the log's prefix, or otherwise the only result in the directory. The remaining logs with the same prefix
// become one trial.
func (b *Batch) attachLogs() {
	for _, l := range b.logs {
		i := b.ownerOf(l)
		if i < 0 {
			src := l.src
			src.Workload = cmp.Or(src.Workload, path.Base(l.log.Prefix))
			b.items = append(b.items, item{row: l.row, src: src, named: l.src.Workload != ""})
			i = len(b.items) - 1
		}
		b.items[i].logs = append(b.items[i].logs, l.log)
		if b.items[i].row != l.row {
			b.rows[l.row].Note = "with " + b.rows[b.items[i].row].File
			b.rows[l.row].Target = l.src.Target
		}
	}
	b.logs = nil
}

func (b *Batch) ownerOf(l logFile) int {
	prefix := path.Base(l.log.Prefix)
	found, n := -1, 0
	for i, it := range b.items {
		if it.result == nil {
			if len(it.logs) > 0 && it.logs[0].Prefix == l.log.Prefix {
				return i
			}
			continue
		}
		if path.Dir(it.src.Name) != path.Dir(l.src.Name) {
			continue
		}
		for _, key := range []string{"write_bw_log", "write_iops_log", "write_lat_log", "write_hist_log"} {
			if v := option(it.result, key); v != "" && path.Base(v) == prefix {
				return i
			}
		}
		if prefix == it.src.Workload {
			return i
		}
		found, n = i, n+1
	}
	if n == 1 {
		return found
	}
	return -1
}

// tellApart adds options to the names of workloads that have the same name but different options on one target. Such
// workloads are common, because a script that varies block sizes rarely varies --name.
func (b *Batch) tellApart() {
	type cell struct{ target, workload, key string }
	jobs := make([]work, len(b.items))
	keys := map[string]bool{}
	for i, it := range b.items {
		if it.result != nil && !it.named {
			jobs[i] = workOf(it.result)
			for k := range jobs[i].options {
				keys[k] = true
			}
		}
	}
	order := slices.Clone(first)
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		if !slices.Contains(order, k) {
			order = append(order, k)
		}
	}
	seen := map[cell]string{}
	varies := map[cell]bool{} // whether the option varies on at least one target; `target` is empty in these keys
	for i, it := range b.items {
		for _, k := range order {
			v, known := jobs[i].value(k)
			c := cell{it.src.Target, it.src.Workload, k}
			if have, found := seen[c]; !known {
				continue
			} else if found && have != v {
				varies[cell{workload: c.workload, key: k}] = true
			}
			seen[c] = v
		}
	}
	for i := range b.items {
		name := b.items[i].src.Workload
		for _, k := range order {
			switch v, _ := jobs[i].value(k); {
			case v == "" || !varies[cell{workload: name, key: k}]:
			case k != done:
				b.items[i].src.Workload += " " + k + "=" + v
			case jobs[i].options["rw"] == "" || !varies[cell{workload: name, key: "rw"}]:
				b.items[i].src.Workload += " " + v
			}
		}
	}
}

// work contains the known options of a result's jobs.
type work struct {
	options map[string]string
	all     bool // options contains every option that differs from its default
}

// value returns the value of an option ("" for the default), and whether the value is known.
func (w work) value(key string) (string, bool) {
	v, ok := w.options[key]
	return v, ok || w.all
}

// done is a pseudo-option of tellApart: the directions in which a job did I/O.
const done = "done"

// first lists the options that tellApart appends to a name before any others.
var first = []string{"rw", done, "bs", "iodepth", "numjobs", "rwmixread", "ioengine", "direct"}

// workOf returns the work of a result's jobs, with sizes in short form.
func workOf(r *fio.Result) work {
	n := normal(r)
	w := work{options: map[string]string{}, all: n[iotax.PartlyKnown] == ""}
	delete(n, iotax.PartlyKnown)
	for k, v := range n {
		if strings.HasSuffix(k, "bs") || strings.HasSuffix(k, "size") {
			v = canonical(v)
		}
		w.options[k] = v
	}
	for _, options := range []map[string]string{r.Options, r.Jobs[0].Options} {
		for k := range options {
			k = fio.Canonical(k)
			w.options[k] += "" // mark options that are set to their default as known, because `normal` omits them
		}
	}
	if v := jobFacts(r)["numjobs"]; v != "" {
		w.options["numjobs"] = v
	}
	w.options[done] = strings.Join(directions(r.Values()), "+") // terse output does not contain rw
	return w
}

// trial returns the trial of an item.
func (it *item) trial(now time.Time) *iotax.Trial {
	t := &iotax.Trial{Target: it.src.Target, Workload: it.src.Workload, Start: now, Raw: it.raw, Facts: map[string]string{}}
	r := it.result
	if r == nil {
		t.Series, t.Values, t.Histograms = fio.LogResults("", 1, it.logs...)
		t.Facts["form"] = string(fio.KindLog)
		t.Length = length(t)
		metric.Derive(t)
		t.Findings, t.Discarded = check.Trial(t, nil)
		return t
	}
	t.Facts = jobFacts(r)
	t.Facts["form"] = string(r.Kind)
	for key, v := range map[string]string{"fio": r.Version, "latency": r.Latencies} {
		if v != "" {
			t.Facts[key] = v
		}
	}
	for _, j := range r.Jobs {
		for _, d := range []fio.Direction{j.Read, j.Write, j.Trim, j.Mixed} {
			if d.IOsFrom != fio.Exact {
				t.Facts["iops.from"] = string(d.IOsFrom)
			}
			if d.BytesFrom != fio.Exact {
				t.Facts["bytes.from"] = string(d.BytesFrom)
			}
		}
	}
	t.Series = r.Series
	if len(it.logs) > 0 {
		series, _, hists := fio.LogResults(r.Version, 1, it.logs...)
		t.Series = append(slices.Clone(series), t.Series...)
		t.Histograms = hists
	}
	if h := r.Histograms(); len(h) > 0 {
		t.Histograms = h // includes every I/O; the log may lack the last interval
	}
	if err := r.Err(); err != nil {
		t.Err = err.Error()
	} else if it.reason != "" {
		t.Err = it.reason
	}
	t.Values = r.Values()
	t.Took = length(t)
	if !r.Time.IsZero() {
		t.Start = r.Time.Add(-t.Took)
	}
	t.Length = t.Took
	if asked, err := fio.ParseTime(option(r, "runtime"), time.Second); err == nil && asked > 0 {
		t.Length = asked
	}
	metric.Derive(t)
	t.Findings = rules.FioErrors(iotax.AboutTrial(t), r.Err(), r.Damaged())
	more, discarded := check.Trial(t, nil)
	t.Findings, t.Discarded = append(t.Findings, more...), discarded
	if discarded == "" {
		for _, f := range lint.Result(it.src.Name, 0, r) {
			f.Subject = iotax.AboutTrial(t)
			t.Findings = append(t.Findings, f.Finding)
		}
	}
	return t
}

func length(t *iotax.Trial) time.Duration {
	v, _ := t.Value(iotax.ValueDuration)
	return time.Duration(min(v.Value, 1e9) * float64(time.Second))
}

// option returns the value of an option from the first job that sets it, or else from the global options.
func option(r *fio.Result, key string) string {
	for _, j := range r.Jobs {
		if v, ok := j.Options[key]; ok {
			return v
		}
	}
	return r.Options[key]
}

// ofJob returns the value of an option of j, from the job itself or from the global options.
func ofJob(r *fio.Result, j *fio.Job, key string) string {
	for _, options := range []map[string]string{j.Options, r.Options} {
		v, ok := options[key]
		if !ok && key == "rw" {
			v, ok = options["readwrite"]
		}
		if not, inverse := options["buffered"]; !ok && inverse && key == iotax.FactDirect {
			v, ok = map[string]string{"0": "1", "1": "0"}[not], true
		}
		if ok && (key == "bs" || key == "size") {
			return canonical(v)
		}
		if ok {
			return v
		}
	}
	return ""
}

// ofJobs returns the value of an option of all rows, in order, joined as in "32 + default" if they differ. It returns
// "" if no row sets the option, or if its value is unknown in a row that is a sum of jobs. Such a row may contain jobs
// that override a global iodepth.
func ofJobs(r *fio.Result, key string) string {
	var values []string
	for i := range r.Jobs {
		j := &r.Jobs[i]
		v := ofJob(r, j, key)
		sum := slices.Contains(j.Unlike, key) || v == "" && ofSections(r, j) || key == iotax.FactIODepth && (j.PerhapsSum || ofSections(r, j))
		if sum {
			return ""
		}
		if key == iotax.FactIODepth && v == "" && ofJob(r, j, iotax.FactIOEngine) != "" {
			v = "1"
		}
		values = append(values, v)
	}
	if values = slices.Compact(values); len(values) == 1 {
		return values[0]
	}
	for i, v := range values {
		values[i] = cmp.Or(v, "default")
	}
	return strings.Join(values, " + ")
}

// threads returns the number of jobs that ran at the same time in a row, as far as the row shows it.
func threads(r *fio.Result, j *fio.Job) int {
	n, _ := strconv.Atoi(ofJob(r, j, iotax.FactNumJobs))
	if !j.PerhapsSum {
		return n
	}
	var slowest time.Duration
	for _, d := range []*fio.Direction{&j.Read, &j.Write, &j.Trim, &j.Mixed} {
		slowest = max(slowest, d.Runtime)
	}
	return max(n, int(math.Ceil(min(j.Runtime.Seconds()/max(slowest.Seconds(), 0.001), 1<<20))))
}

// jobFacts returns the facts about a result's jobs that checks need. The fio workload uses the same names for them.
func jobFacts(r *fio.Result) map[string]string {
	facts := map[string]string{}
	for _, k := range []string{"rw", "bs", "bsrange", "bssplit", "ioengine", "iodepth", "direct", "size", "rwmixread"} {
		if v := ofJobs(r, k); v != "" {
			facts[k] = v
		}
	}
	type row struct{ host, name string }
	rows, jobs, most, sum := map[row]int{}, map[row]int{}, map[row]int{}, 0
	for i := range r.Jobs {
		j := &r.Jobs[i]
		at := row{j.Host, j.Name}
		rows[at]++
		jobs[at] += j.Members
		most[at] = max(most[at], threads(r, j))
	}
	for at, n := range rows {
		sum += max(n, jobs[at], most[at])
	}
	if facts[iotax.FactIOEngine] != "" && sum > 0 {
		facts[iotax.FactNumJobs] = strconv.Itoa(sum)
	}
	facts[iotax.FactJob] = iotax.JobText(normal(r))
	if words := command(r); len(words) > 0 {
		facts[iotax.FactCommand] = iotax.QuoteAll(append([]string{"fio"}, words...))
	}
	return facts
}

// command returns the options of the jobs as arguments of fio.
func command(r *fio.Result) []string {
	flags := func(options map[string]string) (words []string) {
		for _, k := range slices.Sorted(maps.Keys(options)) {
			words = append(words, "--"+k+"="+options[k])
		}
		return words
	}
	var unlike []*fio.Job
	for i := range r.Jobs {
		j := &r.Jobs[i]
		if !slices.ContainsFunc(unlike, func(o *fio.Job) bool { return o.Name == j.Name && maps.Equal(o.Options, j.Options) }) {
			unlike = append(unlike, j)
		}
	}
	if len(unlike) == 1 {
		all := map[string]string{}
		maps.Copy(all, r.Options)
		maps.Copy(all, unlike[0].Options)
		return flags(all)
	}
	words := flags(r.Options)
	for _, j := range unlike {
		if own := flags(j.Options); len(own) > 0 {
			own = slices.DeleteFunc(own, func(w string) bool { return w == "--name="+j.Name })
			words = append(append(words, "--name="+j.Name), own...)
		}
	}
	return words
}

func isJSON(r *fio.Result) bool { return r.Kind == fio.KindJSON || r.Kind == fio.KindJSONPlus }

// ofSections reports whether j is a JSON row that sums several sections. Only the common options of these sections are
// known.
func ofSections(r *fio.Result, j *fio.Job) bool { return isJSON(r) && j.Members > 0 }

// normal returns the options of the jobs of r in the same form as the fio workload. It sets iotax.PartlyKnown if some
// options may be unknown: in text and terse output, in JSON without options, and in rows that sum several sections.
func normal(r *fio.Result) map[string]string {
	settings := func(all, own map[string]string) (out []fio.Setting) {
		base := 1024
		if cmp.Or(own["kb_base"], all["kb_base"]) == "1000" {
			base = 1000
		}
		for _, m := range []map[string]string{all, own} {
			for _, k := range slices.Sorted(maps.Keys(m)) {
				out = append(out, fio.Setting{Key: k, Value: m[k], KBBase: base})
			}
		}
		return out
	}
	out := map[string]string{"kind": "fio"}
	seen := map[string]bool{}
	for _, j := range r.Jobs {
		if seen[j.Name] {
			continue
		}
		prefix := ""
		if seen[j.Name] = true; len(seen) > 1 {
			prefix = strconv.Itoa(len(seen)) + "."
		}
		read := fio.Normal
		if !isJSON(r) || len(j.Options)+len(r.Options) == 0 || ofSections(r, &j) {
			read, out[iotax.PartlyKnown] = fio.Partly, "yes"
		}
		for k, v := range read(settings(r.Options, j.Options)) {
			out[prefix+k] = v
		}
	}
	return out
}

// canonical returns a size in one form, such as "4k" for "4096" and "4K". It returns other text unchanged.
func canonical(s string) string {
	n, err := fio.ParseSize(s, 1024)
	if err != nil || n <= 0 {
		return s
	}
	units := []string{"", "k", "m", "g", "t"}
	i := 0
	for n%1024 == 0 && i < len(units)-1 {
		n, i = n/1024, i+1
	}
	return strconv.FormatInt(n, 10) + units[i]
}

// describe adds t's target and workload to the run, unless the run already has them. It sets the metrics of a workload
// that has none.
func describe(run *iotax.Run, t *iotax.Trial) {
	if !slices.ContainsFunc(run.Targets, func(i iotax.TargetInfo) bool { return i.Name == t.Target }) {
		run.Targets = append(run.Targets, iotax.TargetInfo{Name: t.Target, Machine: "imported"})
	}
	i := slices.IndexFunc(run.Workloads, func(w iotax.WorkloadInfo) bool { return w.Name == t.Workload })
	if i < 0 {
		run.Workloads = append(run.Workloads, iotax.WorkloadInfo{Name: t.Workload, Kind: "fio"})
		i = len(run.Workloads) - 1
	}
	if w := &run.Workloads[i]; len(w.Metrics) == 0 {
		w.Metrics = metrics(t)
	}
}

// metrics returns the headline metrics of a trial: IOPS for each direction, or bandwidth if the IOPS are unknown or the
// I/O is in large blocks and not random. Without directions, it returns the metric of the first value, unless that is
// the number of bytes.
func metrics(t *iotax.Trial) []string {
	var out []string
	for _, d := range directions(t.Values) {
		rate := "iops"
		bytes, _ := t.Value(d + ".bandwidth")
		ios, ok := t.Value(d + ".iops")
		if !ok || ios.Value > 0 && bytes.Value/ios.Value >= 64<<10 && !strings.HasPrefix(t.Facts["rw"], "rand") {
			rate = "bandwidth"
		}
		out = append(out, d+"."+rate)
	}
	if len(out) == 0 && len(t.Values) > 0 && t.Values[0].Name != "bytes" {
		out = []string{t.Values[0].Name}
	}
	return out
}

// headline formats the headline values for the note of a trial's row.
func headline(t *iotax.Trial) string {
	if t.Err != "" {
		return "failed"
	}
	var parts []string
	for _, m := range metrics(t) {
		v, _ := t.Value(m)
		d, name, _ := strings.Cut(m, ".")
		sc := format.ScaleOf(v.Unit, v.Value)
		amount := format.WithUnit(format.Three(v.Value/sc.Factor)+sc.Prefix, sc.Unit)
		switch name {
		case "iops":
			parts = append(parts, d+" "+amount+" IOPS")
		case "bandwidth":
			parts = append(parts, d+" "+amount)
		default:
			parts = append(parts, m+" "+amount)
		}
	}
	return strings.Join(parts, ", ")
}
