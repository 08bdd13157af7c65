package fio

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"mime/quotedprintable"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/charmbracelet/x/ansi"
)

// A textReader reads fio's normal and terse output line by line. It recognizes the lines of fio 2.x,
//
//	read : io=4096.0MB, bw=611058KB/s, iops=152764, runt=  6864msec
//	  issued    : total=r=1048576/w=0/d=0, short=r=0/w=0/d=0, drop=r=0/w=0/d=0
//
// and of 3.x,
//
//	read: IOPS=8910, BW=34.8MiB/s (36.5MB/s)(2088MiB/60001msec)
//	  issued rwts: total=534610,0,0,0 short=0,0,0,0 dropped=0,0,0,0
//
// and terse lines. It ignores other lines, such as progress, prose and Markdown. Lines may be in quoted-printable
// encoding, as in mail. A report ends at a prompt or a code fence, or where the next report begins.
type textReader struct {
	done []textReport

	// The current report; nil between reports.
	cur         *Result
	start, line int // offset and line number of its first byte
	end         int // offset after its last line
	rows        []*textRow
	closed      bool    // the rows are complete: a group summary or disk statistics followed
	implied     bool    // in an excerpt: the row has no first line
	summed      bool    // in an excerpt: the row is the summary of a group
	broken      bool    // in an excerpt: a line of other text followed
	summaries   [4]bool // directions whose summary was read
	group       int     // group of the summaries

	job  *textRow // the row that the current lines belong to
	dir  *Direction
	pct  *Latency // the latency whose percentiles follow
	unit float64  // unit of the percentiles, in seconds

	// State from the lines that fio prints before a report.
	version string
	heads   []textHead
	used    bool // a report followed the heads
	fresh   bool // a prompt, a code fence, or a line that a process prints when it starts was read after the last report
	headAt  int  // offset of the first element of heads; headOn is its line number
	headOn  int

	host string // client that printed the current line

	at, on int // offset and number of the current line

	quoted bool // the text is quoted-printable
	// A line that continues on the next line: its text, offset and number.
	soft           string
	softAt, softOn int
}

// A textHead is the line that fio prints for a job before the job starts.
type textHead struct {
	name    string
	group   int
	options map[string]string
}

// A textRow is a job with its printed sizes and rates.
type textRow struct {
	Job
	size, rate, iops [4]amount // in the order of Job.directions
	issued           [4]uint64 // read, write, trim, sync
	description      string
}

// A textReport is one report, at bytes start to end of the input.
type textReport struct {
	start, end, line int
	result           *Result
	err              error
}

// feed reads complete lines. offset and line are the position of the first line.
func (t *textReader) feed(text []byte, offset, line int) {
	for len(text) > 0 {
		// A progress line ends with a carriage return. A report may follow on the same line.
		n := bytes.IndexAny(text, "\r\n") + 1
		if n == 0 {
			n = len(text)
		}
		if n < maxTextLine && (n > 4 || t.soft != "" && len(bytes.TrimSpace(text[:n])) > 0) {
			t.read(text[:n], offset, line, offset+n)
		}
		if text[n-1] == '\n' {
			line++
		}
		offset, text = offset+n, text[n:]
	}
}

// take returns the complete reports and removes them from t.
func (t *textReader) take() []textReport {
	done := t.done
	t.done = nil
	return done
}

// maxRows limits the number of jobs of a process.
const maxRows = 4096

const maxTextLine = 1 << 16 // the lines of a report are shorter; a line of a binary file may be gigabytes long

// read reads one line.
func (t *textReader) read(raw []byte, start, line, end int) {
	s := string(raw)
	t.quoted = t.quoted || strings.Contains(s, "quoted-printable")
	if t.soft != "" || strings.Contains(s, "=") {
		if s, start, line = t.unquote(s, start, line); s == "" {
			return
		}
	}
	if s = t.strip(s); s == "" {
		return
	}
	if _, ok := terseLine(s); ok {
		t.terse(s, start, line, end)
		return
	}
	t.at, t.on = start, line
	if !t.understand(s) || t.cur == nil {
		t.broken = t.broken || t.implied && t.cur != nil && foreignLine(s)
		return
	}
	if t.end == 0 {
		t.start, t.line = start, line
		if len(t.heads) > 0 && !t.used {
			t.start, t.line = t.headAt, t.headOn
		}
	}
	t.end = end
}

// unquote decodes a line of quoted-printable text. It recognizes such text by "=3D", which fio never prints, or by an
// earlier "quoted-printable". It returns "" if the line continues on the next line.
func (t *textReader) unquote(s string, start, line int) (string, int, int) {
	if t.soft != "" {
		s, start, line = t.soft+s, t.softAt, t.softOn
		t.soft = ""
	}
	body := strings.TrimRight(s, " \t\r\n")
	switch encoded := strings.Contains(body, "=3D"); {
	case !t.quoted && !encoded || !quotedPrintable.MatchString(body):
		return s, start, line
	case strings.HasSuffix(body, "=") && len(body) < maxTextLine:
		t.soft, t.softAt, t.softOn = body[:len(body)-1], start, line
		return "", 0, 0
	case !encoded:
		return s, start, line
	}
	t.quoted = true
	out, err := io.ReadAll(quotedprintable.NewReader(strings.NewReader(body)))
	if err != nil {
		return s, start, line
	}
	return string(out), start, line
}

// quotedPrintable matches a line in which each "=" is at the end or before two hexadecimal digits.
var quotedPrintable = regexp.MustCompile(`^(?:[^=]|=[0-9A-F]{2}|=$)*$`)

// foreignLine reports whether s may be prose between two excerpts: it contains letters and does not start like a
// line of fio.
func foreignLine(s string) bool {
	for _, own := range []string{"fsync/", "Starting ", "fio:", "note:", "zone"} {
		if strings.HasPrefix(s, own) {
			return false
		}
	}
	return strings.ContainsFunc(s, unicode.IsLetter)
}

func (t *textReader) terse(s string, start, line, end int) {
	r := &Result{Kind: KindTerse}
	j, err := parseTerse(s, r)
	if err != nil {
		t.flush()
		t.done = append(t.done, textReport{start, end, line, &Result{Kind: KindTerse, Version: r.Version}, fmt.Errorf("terse line %d: %w", line, err)})
		return
	}
	j.Host = t.host
	if t.cur != nil && (t.cur.Kind != KindTerse || !t.cur.joined(r, &j)) {
		t.flush()
	}
	if t.cur == nil {
		r.fresh, t.fresh = t.fresh, false
		t.cur, t.start, t.line = r, start, line
	}
	t.cur.Jobs = append(t.cur.Jobs, j)
	t.end = end
}

// joined reports whether the terse row j belongs to the process that wrote r. `next` contains the disks and version of
// j. Rows of one process have the same disk statistics, because fio reads them once, at the end. Without disk activity,
// j belongs to the process if its group directly follows the group of the last row, or if it is in the same group and
// the bandwidth shares of that group are known and do not clearly exceed 100 %.
func (r *Result) joined(next *Result, j *Job) bool {
	first, last := &r.Jobs[0], &r.Jobs[len(r.Jobs)-1]
	shares := r.shares(j)
	switch {
	case len(r.Jobs) == maxRows || r.Version != next.Version || !slices.Equal(r.Disks, next.Disks) || j.Name == allClients || last.Name == allClients:
		return false
	case shares >= 1.15 && j.Name == first.Name && j.Group == first.Group:
		return false // a later report begins; jobs with different runtimes also have such shares, but have other names
	case slices.ContainsFunc(r.Disks, func(d Disk) bool { return d.ReadIOs+d.WriteIOs > 0 }):
		return true
	case j.Group != last.Group:
		return j.Group == last.Group+1
	}
	return shares > 0 && shares < 1.15 // two separate results of one job have 200 % together
}

// shares returns the sum of the bandwidth shares of j and of the rows in its group. It uses the first direction in
// which both j and the rows have a share. Without such a direction it returns 0.
func (r *Result) shares(j *Job) float64 {
	for i, d := range j.directions() {
		sum := 0.0
		for k := range r.Jobs {
			if r.Jobs[k].Group == j.Group {
				sum += r.Jobs[k].directions()[i].share
			}
		}
		if d.share > 0 && sum > 0 {
			return d.share + sum
		}
	}
	return 0
}

// strip removes surrounding space, Markdown quote markers, colours, fio's progress, and any text before a terse line.
// It also removes the "<host>" prefix of a client's line and stores the host in t.host.
func (t *textReader) strip(s string) string {
	if strings.IndexByte(s, 0x1b) >= 0 {
		s = ansi.Strip(s)
	}
	s, t.host = strings.TrimSpace(s), ""
	for strings.HasPrefix(s, ">") {
		s = strings.TrimSpace(s[1:])
	}
	// fio prints its progress without a newline, so a line of the report may follow on the same line.
	for strings.HasPrefix(s, "Jobs: ") {
		at := progress.FindStringIndex(s)
		if at == nil {
			break
		}
		s = strings.TrimSpace(s[at[1]:])
	}
	for _, version := range []string{"3", "4", "5"} {
		if i := strings.Index(s, version+";fio-"); i > 0 {
			if _, ok := terseLine(s[i:]); ok {
				return s[i:]
			}
		}
	}
	if strings.HasPrefix(s, "<") {
		if host, rest, ok := strings.Cut(s[1:], "> "); ok && !strings.ContainsAny(host, " \t</") && !slices.Contains(htmlTags, host) {
			t.host = valid(host)
			return strings.TrimSpace(rest)
		}
	}
	return s
}

// progress matches fio's progress output at the start of a line.
var progress = regexp.MustCompile(`^Jobs: \d+ \(f=-?\d+\)(?:, [^:;\[<]*(?:/s|IOPS))?(?:: ?(?:\[[^\]]*\] ?)*?\[eta [0-9dhms:-]+\]?)?`)

// htmlTags lists tags around pasted output. They look like "<host>", but they are not hosts.
var htmlTags = []string{"", "pre", "code", "p", "li", "td", "b", "blockquote", "span", "div", "br", "details", "summary"}

// understand reads s. It reports whether s is a line of a report.
func (t *textReader) understand(s string) bool {
	switch c := s[0]; {
	case t.cur != nil && t.cur.Kind == KindTerse:
		t.flush()
		return t.understand(s)
	case promptLine(s), c == '`' || c == '$' || c == '#' || strings.HasPrefix(s, "~~~"):
		// A code fence or a prompt ends the report.
		if t.cur != nil {
			t.flush()
		}
		t.heads, t.version, t.fresh = nil, "", true
		return false
	case c == '|':
		return t.percentiles(s)
	case strings.HasPrefix(s, "hostname="): // the first line of a client
		if v := field(s, "fio="); v != "" {
			t.flush()
			t.version, t.fresh = valid(v), true
		}
		return false
	case strings.HasPrefix(s, "fio-") && !strings.ContainsAny(s, " :;"):
		t.flush()
		t.version, t.fresh = valid(s), true
		return false
	case strings.HasPrefix(s, "Starting ") && (strings.Contains(s, " process") || strings.Contains(s, " thread")):
		t.flush()
		t.fresh = true
		return false
	}
	if strings.Contains(s, "(g=") && t.head(s) || strings.Contains(s, "(groupid=") && t.row(s) {
		return true
	}
	key, rest, ok := strings.Cut(s, ":")
	if !ok {
		return false
	}
	key, rest = strings.TrimSpace(key), strings.TrimSpace(rest)
	switch key {
	case "read", "write", "trim", "mixed":
		return t.direction(key, rest)
	case "READ", "WRITE", "TRIM", "MIXED":
		return t.summary(strings.ToLower(key), rest)
	case "Disk stats (read/write)":
		t.closed = t.cur != nil
		return t.closed
	}
	if group, ok := strings.CutPrefix(key, "Run status group "); ok {
		if t.summed {
			t.flush()
		}
		group, _, _ = strings.Cut(group, " ")
		t.group, _ = strconv.Atoi(group)
		t.closed, t.job, t.dir, t.pct = t.cur != nil, nil, nil, nil
		return t.closed
	}
	if t.closed {
		return t.disk(key, rest)
	}
	if t.job == nil {
		return false
	}
	name, unit, _ := strings.Cut(key, " ")
	switch name {
	case "slat", "clat", "lat", "sync":
		return t.latency(key, name, unit, rest)
	case "cpu":
		t.job.UserCPU, t.job.SystemCPU = percentOf(rest, "usr="), percentOf(rest, "sys=")
		t.job.ContextSwitches = count(number(field(rest, "ctx=")))
		t.job.MajorFaults = count(number(field(rest, "majf=")))
		t.job.MinorFaults = count(number(field(rest, "minf=")))
		return true
	case "issued":
		return t.issued(rest)
	case "steadystate":
		t.job.SteadyState = &SteadyState{Attained: field(rest, "attained=") == "yes"}
		if i := strings.LastIndex(rest, ", "); i >= 0 {
			t.job.SteadyState.Criterion = valid(rest[i+2:])
		}
		return true
	case "Description":
		t.job.description = strings.TrimSuffix(strings.TrimPrefix(rest, "["), "]")
		return true
	case "bw", "iops", "IO", "submit", "complete", "errors", "latency":
		t.pct = nil
		return true
	}
	return false
}

// promptLine reports whether s is a command line that runs fio.
func promptLine(s string) bool {
	return slices.ContainsFunc([]string{"$ fio", "# fio", "% fio", "$ sudo fio"}, func(p string) bool { return strings.Contains(s, p) })
}

// head reads the line that fio prints for a job before the job runs:
//
//	a: (g=0): rw=randread, bs=(R) 4096B-4096B, (W) 4096B-4096B, (T) 4096B-4096B, ioengine=libaio, iodepth=32
//	a: (g=0): rw=randread, bs=4K-4K/4K-4K/4K-4K, ioengine=libaio, iodepth=64
func (t *textReader) head(s string) bool {
	i := strings.Index(s, ": (g=")
	rw := field(s, "rw=")
	if i <= 0 || rw == "" {
		return false
	}
	t.flush()
	if t.used {
		t.heads, t.used = nil, false
	}
	o := map[string]string{"rw": rw}
	for _, k := range []string{"ioengine", "iodepth"} {
		if v := field(s, k+"="); v != "" {
			o[k] = v
		}
	}
	if bs := blockSizes(s); bs != [3]string{} {
		key := "bs"
		if strings.Contains(strings.Join(bs[:], ""), "-") { // fio shows the smallest and the largest size of a bssplit, too
			key = "bsrange"
			for i, b := range bs {
				if !strings.Contains(b, "-") {
					bs[i] = b + "-" + b
				}
			}
		}
		o[key] = bs[0]
		if bs[1] != bs[0] || bs[2] != bs[0] {
			o[key] = strings.Join(bs[:], ",")
		}
	}
	if t.heads == nil {
		t.headAt, t.headOn = t.at, t.on
	}
	group, _, _ := strings.Cut(s[i+len(": (g="):], ")")
	h := textHead{name: valid(s[:i]), options: o}
	h.group, _ = strconv.Atoi(group)
	if t.fresh = true; len(t.heads) < maxRows {
		t.heads = append(t.heads, h)
	}
	return false // a head without rows is not a report
}

// blockSizes reads the sizes for read, write and trim: "4096", or "4096-65536" for a range.
func blockSizes(s string) (bs [3]string) {
	_, s, ok := strings.Cut(s, "bs=")
	if !ok || strings.Contains(s, "bs_is_seq_rand") {
		return bs
	}
	s, _, _ = strings.Cut(s, ", ioengine")
	sep := "/"
	if strings.Contains(s, "(R)") {
		sep = ", "
	}
	for i, part := range strings.SplitN(s, sep, 3) {
		part = strings.TrimSpace(part)
		if strings.HasPrefix(part, "(") {
			_, part, _ = strings.Cut(part, ") ")
		}
		lo, hi, ok := strings.Cut(part, "-")
		a, b := blockSize(lo, sep == "/"), blockSize(hi, sep == "/")
		if !ok || a == 0 || b == 0 {
			return [3]string{}
		}
		if bs[i] = strconv.FormatUint(a, 10); a != b {
			bs[i] += "-" + strconv.FormatUint(b, 10)
		}
	}
	if bs[2] == "" { // printed by a version of fio without trim support
		bs[2] = bs[1]
	}
	return bs
}

// blockSize returns a size in bytes. For a size with decimals, which is rounded, it returns the only multiple of 512
// that the size can mean, or 0 if there is no such multiple or more than one.
func blockSize(s string, old bool) uint64 {
	a := sizeOf(s, old)
	decimal := a.power > 0 && a.scale == math.Pow(1000, float64(a.power)) // with kb_base=1000, 262kB is 262144 bytes, and 20.0kB are 20000
	if a.decimals == 0 && !decimal || a.whole && decimal {
		return count(a.value)
	}
	margin := a.margin(false)
	if decimal {
		margin /= 2
	}
	if a.whole {
		margin = a.scale / 10 // ignore the bug of old versions, which printed x.96 and more as x.0
	}
	n := uint64(0)
	// The value may be as small as its margin, as in "0.1M", so start at 512.
	for bs := max(512, math.Ceil((a.value-margin)/512)*512); bs <= a.value+margin; bs += 512 {
		if n != 0 {
			return 0
		}
		n = count(bs)
	}
	return n
}

// row reads the first line of a job's result:
//
//	a: (groupid=0, jobs=4): err= 0: pid=4711: Sat Nov 21 05:31:38 2026
//	a: (groupid=0, jobs=4): err= 5 (file:io_u.c:1803, func=io_u error, error=Input/output error): pid=4711: …
func (t *textReader) row(s string) bool {
	i := strings.LastIndex(s, ": (groupid=")
	if i < 0 {
		return false
	}
	j := Job{Name: valid(s[:i]), Host: t.host}
	rest := s[i:]
	j.Group, _ = strconv.Atoi(field(rest, "groupid="))
	members, _, _ := strings.Cut(field(rest, "jobs="), ")")
	j.Members, _ = strconv.Atoi(members)
	errno, _, _ := strings.Cut(strings.TrimSpace(after(rest, "err=")), " ")
	j.Error, _ = strconv.Atoi(strings.TrimSuffix(errno, ":"))
	pid, date, _ := strings.Cut(after(rest, ": pid="), ": ")
	j.PID, _ = strconv.Atoi(strings.TrimSpace(pid))
	at, err := time.ParseInLocation(time.ANSIC, strings.TrimSpace(date), time.Local)
	if t.cur != nil && (t.closed || t.implied || j.Name == allClients || t.apart(&j, at)) {
		t.flush()
	}
	t.add(j)
	if err == nil {
		t.cur.Time = at
	}
	return true
}

// apart reports whether j, printed at time `at`, belongs to a different report than the previous rows. A report
// contains each job once, and all jobs are printed at about the same time.
func (t *textReader) apart(j *Job, at time.Time) bool {
	const lag = 5 * time.Second // a slow terminal can take this long
	if last := t.cur.Time; len(t.rows) == maxRows || !last.IsZero() && !at.IsZero() && at.Sub(last).Abs() > lag {
		return true
	}
	return slices.ContainsFunc(t.rows, func(row *textRow) bool {
		return row.PID == j.PID && row.Group == j.Group && row.Name == j.Name && row.Host == j.Host || row.Name == allClients
	})
}

// add starts a new row.
func (t *textReader) add(j Job) {
	if t.cur == nil {
		t.cur = &Result{Kind: KindText, Version: t.version}
	}
	t.job, t.dir, t.pct = &textRow{Job: j}, nil, nil
	t.rows = append(t.rows, t.job)
}

// excerpt starts a new report and row, for a line that was quoted without the first line of its row.
func (t *textReader) excerpt() {
	t.flush()
	j := Job{Host: t.host}
	if len(t.heads) == 1 {
		j.Name, j.Group = t.heads[0].name, t.heads[0].group
	}
	t.add(j)
	t.implied = true
}

var directionNames = []string{"read", "write", "trim", "mixed"}

// direction reads the rates of one direction.
func (t *textReader) direction(name, s string) bool {
	var size, rate, iops amount
	var ms, twice string
	switch {
	case strings.HasPrefix(s, "IOPS="):
		iops = amountOf(field(s, "IOPS="))
		bw := field(s, "BW=")
		rate, twice = inTwoForms("BW", bw, before(t.version, 2, 20))
		_, total, ok := strings.Cut(s, ")(")
		b, run, ok2 := strings.Cut(total, "/")
		if !ok || !ok2 {
			return false
		}
		size = sizeOf(b, false)
		ms, _, _ = strings.Cut(run, "msec")
	case strings.HasPrefix(s, "io="):
		size = sizeOf(field(s, "io="), true)
		rate = sizeOf(strings.TrimSuffix(field(s, "bw="), "/s"), true)
		iops = amountOf(field(s, "iops="))
		ms = strings.TrimSuffix(field(s, "runt="), "msec")
	default:
		return false
	}
	if size.value == 0 && rate.value == 0 && iops.value == 0 {
		// With unified_rw_reporting=both, fio prints zeros for mixed. The latencies after this line do not belong to
		// a direction.
		t.dir, t.pct = &Direction{}, nil
		return t.job != nil
	}
	i, ran := slices.Index(directionNames, name), milliseconds(strings.TrimSpace(ms))
	if t.job == nil || t.closed || !t.job.directions()[i].empty() || t.implied && !t.job.goesOn(i, ran) || t.summed || t.broken {
		t.excerpt()
	}
	t.dir, t.pct = t.job.directions()[i], nil
	t.dir.IOPS, t.dir.Bandwidth, t.dir.Runtime, t.dir.Twice = iops.value, rate.value, ran, twice
	t.job.size[i], t.job.rate[i], t.job.iops[i] = size, rate, iops
	return true
}

// goesOn reports whether direction i, with the runtime `ran`, can belong to t. fio prints directions in order, and the
// directions of a job end together.
func (t *textRow) goesOn(i int, ran time.Duration) bool {
	for k, d := range t.directions() {
		if !d.empty() && (k >= i || (d.Runtime-ran).Abs() > 20*time.Millisecond+ran/100) {
			return false
		}
	}
	return true
}

func (d *Direction) empty() bool { return d.IOPS == 0 && d.Bandwidth == 0 && d.Runtime == 0 }

// summary reads the summary line of a group. It uses the line only if no job of the group is known.
//
//	READ: bw=34.8MiB/s (36.5MB/s), 34.8MiB/s-34.8MiB/s (36.5MB/s-36.5MB/s), io=2088MiB (2189MB), run=60001-60001msec
//	READ: io=4096.0MB, aggrb=611058KB/s, minb=611058KB/s, maxb=611058KB/s, mint=6864msec, maxt=6864msec
func (t *textReader) summary(name, s string) bool {
	old := strings.Contains(s, "aggrb=")
	bw, ms := field(s, "bw="), after(s, "run=")
	if old {
		bw, ms = field(s, "aggrb="), field(s, "maxt=")
	}
	if _, slowest, ok := strings.Cut(ms, "-"); ok {
		ms = slowest
	}
	b := field(s, "io=")
	wild := old || before(t.version, 2, 20)
	rate, twice := inTwoForms("bw", bw, wild)
	size, other := inTwoForms("io", b, wild)
	if old {
		rate, size = sizeOf(strings.TrimSuffix(bw, "/s"), old), sizeOf(b, old)
	}
	twice = cmp.Or(twice, other)
	i := slices.Index(directionNames, name)
	if t.known(i, rate) {
		t.closed, t.summaries[i] = true, true
		t.compare(i, size, twice, wild)
		return true
	}
	if rate.value == 0 || size.value == 0 {
		return t.cur != nil
	}
	ran := milliseconds(strings.TrimSuffix(strings.TrimSpace(ms), "msec"))
	if !t.summed || t.broken || t.closed || !t.job.goesOn(i, ran) {
		t.excerpt()
		t.summed = true
	}
	d := t.job.directions()[i]
	d.Bandwidth, d.Runtime, d.Twice = rate.value, ran, twice
	t.job.size[i], t.job.rate[i] = size, rate
	return true
}

// inTwoForms reads a number that fio prints in two units, such as "34.8MiB/s (36.5MB/s)". If the two contradict each
// other, twice describes them. For `wild`, see amount.margin.
func inTwoForms(name, s string, wild bool) (a amount, twice string) {
	one, rest, _ := strings.Cut(s, " (")
	another, _, two := strings.Cut(rest, ")")
	a = sizeOf(strings.TrimSuffix(one, "/s"), false)
	b := sizeOf(strings.TrimSuffix(another, "/s"), false)
	if two && apart(a.value, b.value, a.margin(wild)+b.margin(wild)) {
		twice = fmt.Sprintf("%s is %s, and %s", name, one, another)
	}
	return a, twice
}

// compare compares the size in the summary of direction i with the rows of the group. An excerpt may lack rows.
func (t *textReader) compare(i int, size amount, twice string, wild bool) {
	total, off := 0.0, size.margin(wild)
	var first *Direction
	for _, row := range t.rows {
		if row.Group != t.group || row.Name == allClients {
			continue
		}
		if d := row.directions()[i]; !d.empty() {
			if first == nil {
				first = d
			}
			total, off = total+row.size[i].value, off+row.size[i].margin(wild)
		}
	}
	whole := len(t.heads) > 0 && !t.implied
	switch {
	case first == nil || first.Twice != "":
	case twice != "":
		first.Twice = twice
	case apart(total, size.value, off) && (whole || total > size.value):
		first.Twice = fmt.Sprintf("the jobs did %.4g bytes, and the group %.4g", total, size.value)
	}
}

// known reports whether the summary of direction i with this rate belongs to the rows that were read.
func (t *textReader) known(i int, rate amount) bool {
	switch {
	case t.cur == nil || t.summed:
		return false
	case !t.implied:
		return slices.ContainsFunc(t.rows, func(row *textRow) bool { return row.Group == t.group || row.Name == allClients })
	}
	of := t.rows[0].directions()[i].Bandwidth
	return !t.summaries[i] && (of == 0 && rate.value == 0 || math.Abs(of-rate.value) <= 0.05*of)
}

// latency reads "clat (usec): min=80, max=26281, avg=101.03, stdev=20.22", and the first line of a list of
// percentiles, "clat percentiles (usec):".
func (t *textReader) latency(key, name, unit, s string) bool {
	t.pct = nil
	list := strings.HasPrefix(unit, "percentiles (")
	var seconds float64
	switch strings.TrimPrefix(unit, "percentiles ") {
	case "(nsec)":
		seconds = 1e-9
	case "(usec)":
		seconds = 1e-6
	case "(msec)":
		seconds = 1e-3
	default:
		return true // latency of one I/O priority
	}
	var l *Latency
	switch {
	case name == "sync":
		l = &t.job.Sync.Latency
	case t.dir == nil:
		return false
	case name == "slat":
		l = &t.dir.Submission
	case name == "clat":
		l = &t.dir.Completion
	default:
		l = &t.dir.Total
	}
	if list {
		t.pct, t.unit = l, seconds
		return true
	}
	if !strings.Contains(s, "avg=") {
		return true // "lat (usec): 100=1.23%, 250=98.70%": a distribution
	}
	l.Min, l.Max = amountOf(field(s, "min=")).value*seconds, amountOf(field(s, "max=")).value*seconds
	l.Mean, l.SD = number(field(s, "avg="))*seconds, number(field(s, "stdev="))*seconds
	return true
}

// percentiles reads "| 1.00th=[   95], 5.00th=[   97]".
func (t *textReader) percentiles(s string) bool {
	if t.pct == nil {
		return t.cur != nil && !t.closed
	}
	for _, part := range strings.Split(strings.Trim(s, "|"), "],") {
		p, v, ok := strings.Cut(part, "th=[")
		if share := number(p) / 100; ok && share > 0 && share <= 1 {
			t.pct.Percentiles = append(t.pct.Percentiles, Percentile{P: share, Seconds: number(strings.Trim(v, " ]")) * t.unit})
		}
	}
	return true
}

// issued reads the numbers of I/Os. Text output does not round these numbers.
func (t *textReader) issued(s string) bool {
	t.pct = nil
	total, ok := counts(s, "total=")
	if !ok {
		return false
	}
	short, _ := counts(s, "short=")
	dropped, ok := counts(s, "dropped=")
	if !ok {
		dropped, _ = counts(s, "drop=")
	}
	t.job.issued = total
	t.job.Sync.IOs = total[3]
	for i, d := range []*Direction{&t.job.Read, &t.job.Write, &t.job.Trim} {
		d.IOs, d.Short, d.Dropped = total[i], short[i], dropped[i]
	}
	if m := &t.job.Mixed; !m.empty() {
		m.IOs, m.Short, m.Dropped = total[0]+total[1]+total[2], short[0]+short[1]+short[2], dropped[0]+dropped[1]+dropped[2]
		if t.job.Read.empty() && t.job.Write.empty() && t.job.Trim.empty() { // unified: this line contains only the sum, as reads
			t.job.Read, t.job.Write, t.job.Trim = Direction{}, Direction{}, Direction{}
		}
	}
	return true
}

// counts reads the numbers after key: "1,2,3,4" or "r=1/w=2/d=3".
func counts(s, key string) (n [4]uint64, ok bool) {
	s = after(s, key)
	for i := range n {
		if len(s) > 2 && s[1] == '=' {
			s = s[2:]
		}
		end := len(s) - len(strings.TrimLeft(s, decimals))
		if end == 0 {
			break
		}
		n[i], ok = count(number(s[:end])), true
		if s = s[end:]; s == "" || s[0] != ',' && s[0] != '/' {
			break
		}
		s = s[1:]
	}
	return n, ok
}

// disk reads "nvme0n1: ios=1/2, sectors=3/4, merge=5/6, ticks=7/8, in_queue=9, util=1.23%".
func (t *textReader) disk(name, s string) bool {
	if !strings.HasPrefix(s, "ios=") {
		return false
	}
	pair := func(key string) (a, b float64) {
		x, y, _ := strings.Cut(field(s, key), "/")
		return number(x), number(y)
	}
	k := Disk{Name: valid(name), InQueue: milliseconds(field(s, "in_queue=")), Utilization: percentOf(s, "util=")}
	r, w := pair("ios=")
	k.ReadIOs, k.WriteIOs = count(r), count(w)
	r, w = pair("merge=")
	k.ReadMerges, k.WriteMerges = count(r), count(w)
	r, w = pair("sectors=")
	k.ReadBytes, k.WriteBytes = count(r*sector), count(w*sector)
	r, w = pair("ticks=")
	k.ReadTicks, k.WriteTicks = time.Duration(r)*time.Millisecond, time.Duration(w)*time.Millisecond
	t.cur.Disks = append(t.cur.Disks, k)
	return true
}

// flush finishes the current report.
func (t *textReader) flush() {
	if r := t.cur; r != nil {
		if r.Kind == KindText {
			t.used = true
			r.fresh, t.fresh = t.fresh, false
			r.headed = t.heads != nil
			t.describe()
		}
		for _, row := range t.rows {
			if row.description != "" {
				setOption(&row.Job, "description", row.description)
			}
			if row.settle(t.version); row.measured() {
				r.Jobs = append(r.Jobs, row.Job)
			}
		}
		r.complete()
		if len(r.Jobs) > 0 {
			t.done = append(t.done, textReport{t.start, t.end, t.line, r, nil})
		}
	}
	t.cur, t.rows, t.job, t.dir, t.pct = nil, nil, nil, nil, nil
	t.end, t.group, t.closed, t.implied, t.summed, t.broken, t.summaries = 0, 0, false, false, false, false, [4]bool{}
}

// describe sets the options of each row from its head. With group_reporting, a row is the sum of several jobs under the
// name of the first. Such a row gets the options that all of these jobs share. If several heads have the name of a row,
// and it is unknown which of them belongs to the row, the row gets the options that these heads share.
func (t *textReader) describe() {
	type key struct {
		name  string
		group int
	}
	rows := map[key]bool{}
	inGroup := map[int][]*textRow{}
	for _, row := range t.rows {
		rows[key{row.Name, row.Group}] = true
		inGroup[row.Group] = append(inGroup[row.Group], row)
	}
	own, rest := map[key][]textHead{}, map[int][]textHead{} // a head without a row may belong to any row of its group
	all := map[int][]textHead{}
	for _, h := range t.heads {
		all[h.group] = append(all[h.group], h)
		k := key{h.name, h.group}
		if own[k] = append(own[k], h); !rows[k] {
			rest[h.group] = append(rest[h.group], h)
		}
	}
	for _, row := range t.rows {
		heads := own[key{row.Name, row.Group}]
		if len(heads) > 0 && row.Members > 1 {
			heads = slices.Concat(heads, rest[row.Group])
		}
		if own := inGroup[row.Group]; slices.EqualFunc(all[row.Group], own, func(h textHead, r *textRow) bool { return h.name == r.Name }) {
			heads = all[row.Group][slices.Index(own, row):][:1]
		}
		for i, h := range heads {
			if i == 0 {
				row.Options = maps.Clone(h.options)
				continue
			}
			for k, v := range row.Options {
				if h.options[k] == v {
					continue
				}
				if delete(row.Options, k); row.Members > 1 {
					row.Unlike = append(row.Unlike, k)
				}
			}
		}
		slices.Sort(row.Unlike)
	}
}

func (t *textRow) measured() bool {
	for _, d := range t.directions() {
		if !d.empty() {
			return true
		}
	}
	return t.Error != 0
}

// settle derives the totals from the printed numbers, and records their Source.
func (t *textRow) settle(version string) {
	sizes := strings.Split(t.Options["bs"], ",")
	for i, d := range t.directions() {
		if d.empty() {
			continue
		}
		if d.IOs == 0 && d.IOPS > 0 {
			d.IOsFrom = Rounded
		}
		d.IOPSOff = max(1, t.iops[i].margin(false)) // below 10,000, fio truncates the rate
		d.BandwidthOff = t.rate[i].margin(before(version, 2, 20))
		var bs float64
		switch {
		case i < 3 && len(sizes) == 3:
			bs = number(sizes[i])
		case len(sizes) == 1:
			bs = number(sizes[0]) // 0 for a range
		}
		depth := max(1, number(t.Options["iodepth"])) * max(1, float64(t.Members))
		d.settle(t.size[i], t.rate[i], bs, depth, before(version, 2, 20))
	}
}

// settle derives the bytes. Text shows them with four to six digits, and fio before 2.20 prints meaningless decimals,
// such as .2 for the fraction 1023/1024. I/Os × block size is exact if the job had one block size and the product
// agrees with the printed bytes. Otherwise, settle uses rate × runtime if that agrees with the printed bytes and is
// more precise, or else the printed bytes. depth is the maximum number of I/Os in flight: after a ramp, fio counts their
// bytes, but does not count these I/Os.
func (d *Direction) settle(size, rate amount, bs, depth float64, wild bool) {
	wild = wild || size.old
	margin := size.margin(wild)
	if product := float64(d.IOs) * bs; product > 0 && !(product >= 1<<63) {
		if math.Abs(product-size.value) <= margin {
			d.Bytes, d.BytesFrom, d.BytesOff = uint64(product), FromBlockSize, min(margin, depth*bs)
			return
		}
		// With kb_base=1000, MB in old text means 1000² bytes.
		if decimal := size.decimal(); size.old && math.Abs(product-decimal) <= margin {
			d.Bytes, d.BytesFrom, d.BytesOff = uint64(product), FromBlockSize, min(margin, depth*bs)
			d.Bandwidth = rate.decimal()
			return
		}
	}
	d.Bytes, d.BytesFrom, d.BytesOff = count(size.value), Rounded, margin
	if size.scale == 1 {
		d.BytesFrom = Exact
		return
	}
	total := rate.value * d.Runtime.Seconds()
	if off := rate.margin(wild) / rate.value; rate.value > 0 && off < margin/size.value && math.Abs(total-size.value) <= margin+total*off {
		d.Bytes, d.BytesFrom, d.BytesOff = count(total), FromRate, total*off
	}
}
