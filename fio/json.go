package fio

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// A SyntaxError reports where fio's output stops being valid.
type SyntaxError struct {
	Offset int    // byte in the input
	Msg    string // such as "unexpected end of input"
	Read   string // summary of the part before the error: "fio-3.33, 1 job"
}

func (e *SyntaxError) Error() string {
	s := fmt.Sprintf("fio output, byte %d: %s", e.Offset, e.Msg)
	if e.Read != "" {
		s += " (read so far: " + e.Read + ")"
	}
	return s
}

// ErrNoResult reports that the input contains no JSON document of fio.
var ErrNoResult = errors.New("no JSON result of fio")

// Parse reads fio's JSON or json+ output. Text around the document is in Notes. If the input has several documents,
// Parse returns the last one that has jobs or is damaged, because the documents of status-interval are cumulative. If
// that document is truncated or invalid, Parse returns the part that it could read and a *SyntaxError. If the input has
// no document, or only an undamaged one without version and jobs, Parse returns ErrNoResult. The result is never nil.
func Parse(data []byte) (*Result, error) {
	var last *Result
	var lastErr error
	var notes []string
	noted := 0
	for d := range documents(data) {
		notes = slices.Concat(notes, noteLines(data[noted:d.start]), d.result.Notes)
		noted = d.end
		if last != nil && len(d.result.Jobs) == 0 && d.err == nil {
			continue
		}
		if last, lastErr = d.result, nil; d.err != nil {
			lastErr = d.err
		}
	}
	if last == nil {
		last, lastErr = &Result{}, ErrNoResult
	}
	last.Notes = append(notes, noteLines(data[noted:])...)
	if lastErr == nil && len(last.Jobs) == 0 && last.Version == "" {
		lastErr = ErrNoResult
	}
	return last, lastErr
}

// A document is the JSON document at data[start:end] of an input. result.Notes contains only lines from inside the
// document.
type document struct {
	start, end int
	result     *Result
	err        *SyntaxError // nil if the document is complete
	cut        bool         // the input ended inside the document
}

func documents(data []byte) iter.Seq[document] {
	return func(yield func(document) bool) {
		for pos := 0; ; {
			start := documentStart(data, pos, opening)
			if start < 0 {
				return
			}
			d := nextDocument(data, start)
			if pos = d.end; !yield(d) {
				return
			}
		}
	}
}

// nextDocument reads the document at start. A truncated document ends where the next one begins.
func nextDocument(data []byte, start int) document {
	d := decodeDocument(data, start)
	if d.err == nil {
		return d
	}
	if next := documentStart(data, start, openingLine) + 1; next > 0 && next <= d.end {
		d = decodeDocument(data[:next], start)
		d.end, d.cut = next, false
	}
	return d
}

func decodeDocument(data []byte, start int) document {
	d := decoder{data: data, pos: start}
	r := &Result{Kind: KindJSON}
	err := d.document(r)
	r.Notes = d.notes
	doc := document{start: start, end: max(d.pos, start+1), result: r, cut: errors.Is(err, errEnd)}
	if err != nil {
		doc.err = &SyntaxError{Offset: d.pos, Msg: err.Error(), Read: r.summary()}
	}
	return doc
}

// opening matches the start of a document by its first keys, because other text may contain braces. openingLine
// matches a document at the start of a line, for use after a truncated document.
var (
	opening     = regexp.MustCompile(`\{[ \t\r\n]*"(?:fio version|timestamp|jobs|client_stats|global options)`)
	openingLine = regexp.MustCompile(`\n` + opening.String())
)

// documentStart returns the position of the next match of `opening`, or -1.
func documentStart(data []byte, pos int, opening *regexp.Regexp) int {
	if at := opening.FindIndex(data[pos:]); at != nil {
		return pos + at[0]
	}
	return -1
}

// maxNotes limits the number of notes from the text before, inside or after a document, because `normal,json` prints a
// whole report around the document.
const maxNotes = 200

func noteLines(text []byte) []string {
	var notes []string
	for line := range bytes.Lines(text) {
		line = bytes.TrimSpace(line)
		if len(line) == 0 {
			continue
		}
		if len(notes) == maxNotes {
			break
		}
		notes = append(notes, strings.ToValidUTF8(string(line), string(utf8.RuneError)))
	}
	return notes
}

func (r *Result) summary() string {
	if r.Version == "" && len(r.Jobs) == 0 {
		return ""
	}
	return fmt.Sprintf("%s, %s", r.Version, plural(len(r.Jobs), "job"))
}

// A decoder reads the JSON that fio writes. encoding/json cannot read it: fio prints nan and inf as numbers,
// escapes only `\` and `"` in strings, and writes messages between tokens if stdout and stderr go to the same file.
// A document may also be truncated.
type decoder struct {
	data  []byte
	pos   int
	depth int
	notes []string
}

var errEnd = errors.New("unexpected end of input")

// maxDepth is far above the 7 levels that fio uses. It protects the stack from hostile input.
const maxDepth = 64

// next returns the first byte of the next token without consuming it. It moves fio's messages before the token to
// d.notes.
func (d *decoder) next() (byte, error) {
	for d.pos < len(d.data) {
		switch c := d.data[d.pos]; c {
		case ' ', '\n', '\t', '\r':
			d.pos++
		case 'f': // fio never prints "false", but it prints "fio: message"
			if !bytes.HasPrefix(d.data[d.pos:], []byte("fio:")) {
				return c, nil
			}
			line := d.data[d.pos:]
			if i := bytes.IndexByte(line, '\n'); i >= 0 {
				line = line[:i+1]
			}
			d.pos += len(line)
			if len(d.notes) < maxNotes {
				d.notes = append(d.notes, noteLines(line)...)
			}
		default:
			return c, nil
		}
	}
	return 0, errEnd
}

func (d *decoder) expect(want byte) error {
	c, err := d.next()
	if err != nil {
		return err
	}
	if c != want {
		return fmt.Errorf("found %q instead of %q", c, want)
	}
	d.pos++
	return nil
}

// object calls f for each key of an object. f must read the value.
func (d *decoder) object(f func(key []byte) error) error {
	return d.each('{', '}', func() error {
		key, err := d.str()
		if err != nil {
			return err
		}
		if err := d.expect(':'); err != nil {
			return err
		}
		return f(key)
	})
}

// array calls f for each element of an array. f must read the element.
func (d *decoder) array(f func() error) error { return d.each('[', ']', f) }

// each calls f for each item between the brackets.
func (d *decoder) each(open, end byte, f func() error) error {
	if err := d.expect(open); err != nil {
		return err
	}
	if d.depth++; d.depth > maxDepth {
		return errors.New("nested too deeply")
	}
	defer func() { d.depth-- }()
	for {
		c, err := d.next()
		switch {
		case err != nil:
			return err
		case c == end:
			d.pos++
			return nil
		case c == ',':
			d.pos++
			continue
		}
		if err := f(); err != nil {
			return err
		}
	}
}

// str reads a string and returns it without decoding its escapes.
func (d *decoder) str() ([]byte, error) {
	if err := d.expect('"'); err != nil {
		return nil, err
	}
	start := d.pos
	for {
		i := bytes.IndexByte(d.data[d.pos:], '"')
		if i < 0 {
			d.pos = len(d.data)
			return nil, errEnd
		}
		d.pos += i + 1
		slashes := 0
		for j := d.pos - 2; j >= start && d.data[j] == '\\'; j-- {
			slashes++
		}
		if slashes%2 == 0 {
			return d.data[start : d.pos-1], nil
		}
	}
}

// text reads a string and decodes fio's escapes. It also accepts a number or a bare word.
func (d *decoder) text() (string, error) {
	c, err := d.next()
	if err != nil {
		return "", err
	}
	if c != '"' {
		raw, err := d.word()
		return string(raw), err
	}
	raw, err := d.str()
	if err != nil {
		return "", err
	}
	s := string(raw)
	if strings.IndexByte(s, '\\') >= 0 {
		s = strings.NewReplacer(`\\`, `\`, `\"`, `"`).Replace(s)
	}
	return strings.ToValidUTF8(s, string(utf8.RuneError)), nil
}

// word reads the characters of a number or a bare word.
func (d *decoder) word() ([]byte, error) {
	if _, err := d.next(); err != nil {
		return nil, err
	}
	start := d.pos
	for d.pos < len(d.data) {
		switch c := d.data[d.pos]; {
		case c >= '0' && c <= '9', c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c == '.', c == '-', c == '+':
			d.pos++
			continue
		}
		break
	}
	if d.pos == start {
		return nil, fmt.Errorf("found %q instead of a value", d.data[start])
	}
	if d.pos == len(d.data) {
		return nil, errEnd // the input may have been truncated inside the number
	}
	return d.data[start:d.pos], nil
}

// float reads a number. It returns 0 for nan and inf, which fio prints if there are no samples, and for objects, arrays
// and strings without a number.
func (d *decoder) float() (float64, error) {
	c, err := d.next()
	if err != nil {
		return 0, err
	}
	if c == '{' || c == '[' {
		return 0, d.skip()
	}
	var raw []byte
	start := d.pos
	if c == '"' {
		raw, err = d.str()
	} else {
		raw, err = d.word()
	}
	if err != nil {
		return 0, err
	}
	if bytes.EqualFold(raw, []byte("-nan")) { // printf can print -nan, but ParseFloat rejects it
		return 0, nil
	}
	f, err := strconv.ParseFloat(string(bytes.TrimSuffix(raw, []byte("%"))), 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		if c == '"' { // a string instead of a number: in this version the key has another meaning
			return 0, nil
		}
		d.pos = start
		return 0, fmt.Errorf("%.20q is not a number", raw)
	}
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return 0, nil
	}
	return f, nil
}

// count reads a number, and returns 0 if it is negative. Whole numbers of up to 19 digits are exact.
func (d *decoder) count() (uint64, error) {
	if _, err := d.next(); err != nil {
		return 0, err
	}
	if n, end := digits(d.data, d.pos); end > d.pos && end-d.pos < 20 && end < len(d.data) && endsNumber(d.data[end]) {
		d.pos = end
		return n, nil
	}
	f, err := d.float()
	if err != nil || f <= 0 {
		return 0, err
	}
	if f >= math.MaxUint64 {
		return math.MaxUint64, nil
	}
	return uint64(f), nil
}

func digits(data []byte, pos int) (n uint64, end int) {
	for end = pos; end < len(data) && data[end] >= '0' && data[end] <= '9'; end++ {
		n = n*10 + uint64(data[end]-'0')
	}
	return n, end
}

func endsNumber(c byte) bool {
	return c == ',' || c == '\n' || c == '\r' || c == ' ' || c == '\t' || c == '}' || c == ']'
}

func (d *decoder) skip() error {
	c, err := d.next()
	if err != nil {
		return err
	}
	switch c {
	case '{':
		return d.object(func([]byte) error { return d.skip() })
	case '[':
		return d.array(d.skip)
	case '"':
		_, err = d.str()
		return err
	}
	_, err = d.word()
	return err
}

// is reports whether the next value begins with c. If not, it skips the value.
func (d *decoder) is(c byte) (bool, error) {
	got, err := d.next()
	if err != nil {
		return false, err
	}
	if got == c {
		return true, nil
	}
	return false, d.skip()
}

// A member is a key of an object, with a pointer that receives its value or a function that reads it.
type member struct {
	key string
	to  any
}

// members reads an object. It skips unknown keys. If the value is not an object, it skips the value.
func (d *decoder) members(ms ...member) error {
	if ok, err := d.is('{'); !ok {
		return err
	}
	return d.object(func(key []byte) error {
		for i := range ms {
			if ms[i].key == string(key) {
				return d.value(ms[i].to)
			}
		}
		return d.skip()
	})
}

func (d *decoder) value(to any) (err error) {
	switch to := to.(type) {
	case *string:
		*to, err = d.text()
	case *uint64:
		*to, err = d.count()
	case *float64:
		*to, err = d.float()
	case *int:
		var f float64
		if f, err = d.float(); f >= math.MinInt32 && f <= math.MaxInt32 {
			*to = int(f)
		}
	case *time.Duration:
		*to, err = d.milliseconds()
	case *map[string]string:
		return d.options(to)
	case func() error:
		return to()
	}
	return err
}

// elements returns a function that reads an array of objects with f. The function skips other values.
func (d *decoder) elements(f func() error) func() error {
	return func() error {
		if ok, err := d.is('['); !ok {
			return err
		}
		return d.array(func() error {
			if ok, err := d.is('{'); !ok {
				return err
			}
			return f()
		})
	}
}

func (d *decoder) milliseconds() (time.Duration, error) {
	f, err := d.float()
	f *= float64(time.Millisecond)
	if !(f > 0) {
		return 0, err
	}
	if f >= math.MaxInt64 {
		return math.MaxInt64, err
	}
	return time.Duration(f), err
}

func (d *decoder) seconds(to *time.Duration) func() error {
	return func() error {
		f, err := d.milliseconds()
		*to = min(f, math.MaxInt64/1000) * 1000
		return err
	}
}

func (d *decoder) percent(to *float64) func() error {
	return func() error {
		f, err := d.float()
		*to = f / 100
		return err
	}
}

func (d *decoder) document(r *Result) error {
	var stamp, stampMS uint64
	jobs := func(clients bool) func() error {
		return d.elements(func() error {
			var j Job
			err := d.job(r, &j)
			if err == nil && !(clients && j.Name == allClients) {
				r.Jobs = append(r.Jobs, j)
			}
			return err
		})
	}
	err := d.members(
		member{"fio version", &r.Version}, member{"timestamp", &stamp}, member{"timestamp_ms", &stampMS},
		member{"global options", &r.Options}, member{"jobs", jobs(false)}, member{"client_stats", jobs(true)},
		member{"disk_util", func() error {
			r.Disks = nil
			return d.disks(r)
		}},
	)
	switch {
	case stampMS > 0 && stampMS < math.MaxInt64:
		r.Time = time.UnixMilli(int64(stampMS))
	case stamp > 0 && stamp < math.MaxInt64/1000:
		r.Time = time.Unix(int64(stamp), 0)
	}
	r.finish()
	return err
}

// finish converts the values whose meaning depends on the fio version, derives missing values, and removes impossible
// histograms. It runs at the end of a document, because the version may come last.
func (r *Result) finish() {
	for i := range r.Jobs {
		j := &r.Jobs[i]
		for _, l := range append(j.latencies(), &j.Sync.Latency) {
			if len(l.Bins) > 0 {
				r.Kind = KindJSONPlus
			}
			l.Bins = decodeBins(l.Bins, r.Version)
		}
	}
	r.complete()
	for i := range r.Jobs {
		j := &r.Jobs[i]
		j.joint(r.Options)
		check := func(l *Latency, ios uint64) {
			if n := l.counted(); n > mostCounted || ios > 0 && n > sum(ios, sum(ios, 100)) {
				l.Bins = nil
				r.damaged = append(r.damaged, fmt.Sprintf("a histogram of %s counts %d I/Os of %d: left out", j.Name, n, ios))
			}
		}
		for _, d := range j.directions() {
			for _, l := range []*Latency{&d.Submission, &d.Completion, &d.Total} {
				check(l, cmp.Or(min(l.N, d.IOs), max(l.N, d.IOs)))
			}
		}
		check(&j.Sync.Latency, j.Sync.Latency.N)
	}
}

// mostCounted is more than the I/Os that a job can do, and so few that the sum of maxRows histograms does not overflow.
const mostCounted = 1 << 48

// joint detects whether j is the sum of several sections (group_reporting), which JSON does not show. JSON has the name
// of the first section, and the options of the last. In a sum, job_runtime is the sum of the runtimes of all jobs. If j
// is a sum, joint sets Members and Unlike. It also removes all options whose names do not end in _log. If j may be a
// sum, joint sets PerhapsSum.
func (j *Job) joint(all map[string]string) {
	option := func(name, alias string) string {
		return cmp.Or(j.Options[name], j.Options[alias], all[name], all[alias])
	}
	var ran, slowest time.Duration
	for _, d := range j.directions() {
		slowest = max(slowest, d.Runtime)
	}
	ran = slowest
	if v := option("verify", ""); v != "" && v != "0" && v != "none" { // otherwise, reads and writes run at the same time
		ran = max(slowest, j.Read.Runtime+j.Write.Runtime+j.Trim.Runtime)
	}
	if ran == 0 {
		return
	}
	jobs := min(j.Runtime.Seconds()/ran.Seconds(), 1<<20)
	n, _ := strconv.Atoi(option("numjobs", ""))
	n = min(max(n, 1), 1<<20)
	inFlight := int64(0)
	if option("ramp_time", "") != "" {
		depth, _ := strconv.Atoi(option("iodepth", ""))
		inFlight = int64(max(float64(n), jobs)+1) * int64(min(max(depth, 1), 1<<20))
	}
	unlike := false
	for _, d := range j.directions() {
		if bs, err := ParseSize(option("bs", "blocksize"), 1024); err == nil && bs > 0 && d.IOs > 0 && d.Short == 0 {
			unlike = unlike || !d.FitsBlocks(float64(bs), inFlight)
		}
	}
	// fio counts a job's work after its last I/O, such as a flush, and rounds the runtime down.
	const coarse, rounding = 5 * time.Millisecond, 1.05
	j.PerhapsSum = ran < coarse || j.Runtime > 0 && (jobs > rounding*float64(n) || jobs < 0.8*float64(n))
	switch {
	case j.Options["name"] != "" && j.Options["name"] != j.Name:
		jobs = max(jobs, 2)
	case ran < 100*time.Millisecond, jobs < float64(n)+0.85 && (!unlike || jobs < float64(n)+0.05):
		return
	}
	j.Members = int(math.Ceil(jobs - 0.05))
	if unlike {
		j.Unlike = []string{"bs"}
	}
	j.printed, j.Options = j.Options, maps.Clone(j.Options)
	maps.DeleteFunc(j.Options, func(k, _ string) bool { return !strings.HasSuffix(k, "_log") })
}

// decodeBins converts the values of bins to nanoseconds. Up to 2.19, fio wrote an index into its table of
// microseconds. In 2.20 and 2.21, it wrote microseconds. Later versions write nanoseconds.
func decodeBins(bins []Bin, version string) []Bin {
	if len(bins) == 0 {
		return nil
	}
	if before(version, 2, 99) {
		index := before(version, 2, 20)
		for i := range bins {
			us := bins[i].Nanoseconds
			if index {
				us = binValue(us)
			}
			if us > math.MaxUint64/1000 {
				us = math.MaxUint64 / 1000
			}
			bins[i].Nanoseconds = us * 1000
		}
	}
	return compactBins(bins)
}

// binValue returns the middle of the bin with this index (plat_idx_to_val in fio's stat.c).
func binValue(index uint64) uint64 {
	const bits, values = 6, 64
	if index < values<<1 {
		return index
	}
	shift := index>>bits - 1
	if shift > 56 {
		return math.MaxUint64
	}
	base := uint64(1) << (shift + bits)
	k := index % values
	return base + uint64((float64(k)+0.5)*float64(uint64(1)<<shift))
}

// options reads an object of strings, or a list of such objects, which fio writes for several servers.
func (d *decoder) options(dst *map[string]string) error {
	c, err := d.next()
	if err != nil {
		return err
	}
	if c != '{' {
		return d.elements(func() error { return d.options(dst) })()
	}
	return d.object(func(key []byte) error {
		c, err := d.next()
		if err != nil {
			return err
		}
		if c == '{' || c == '[' {
			return d.skip()
		}
		v, err := d.text()
		if err == nil && *dst == nil {
			*dst = map[string]string{}
		}
		if err == nil {
			(*dst)[string(key)] = v
		}
		return err
	})
}

func (d *decoder) job(r *Result, j *Job) error {
	return d.members(
		member{"jobname", &j.Name}, member{"hostname", &j.Host}, member{"port", &j.Port}, member{"groupid", &j.Group},
		member{"error", &j.Error}, member{"elapsed", d.seconds(&j.Elapsed)}, member{"job options", &j.Options},
		member{"read", d.direction(&j.Read)}, member{"write", d.direction(&j.Write)}, member{"trim", d.direction(&j.Trim)},
		member{"mixed", d.direction(&j.Mixed)}, member{"job_runtime", &j.Runtime},
		member{"sync", func() error {
			return d.members(member{"total_ios", &j.Sync.IOs}, member{"lat_ns", d.latency(&j.Sync.Latency, 1e-9)})
		}},
		member{"usr_cpu", d.percent(&j.UserCPU)}, member{"sys_cpu", d.percent(&j.SystemCPU)},
		member{"ctx", &j.ContextSwitches}, member{"majf", &j.MajorFaults}, member{"minf", &j.MinorFaults},
		member{"steadystate", func() error { return d.steadyState(j) }},
		member{"disk_util", func() error { return d.disks(r) }}, // the disks of one client
	)
}

func (d *decoder) direction(dir *Direction) func() error {
	return func() error {
		*dir = Direction{} // if a key is repeated, the last one applies
		var ioBytes, bw, bwBytes = uint64(0), 0.0, 0.0
		ioKBytes := uint64(math.MaxUint64)
		err := d.members(
			member{"io_bytes", &ioBytes}, member{"io_kbytes", &ioKBytes}, member{"bw_bytes", &bwBytes}, member{"bw", &bw},
			member{"iops", &dir.IOPS}, member{"runtime", &dir.Runtime}, member{"total_ios", &dir.IOs},
			member{"short_ios", &dir.Short}, member{"drop_ios", &dir.Dropped},
			member{"slat_ns", d.latency(&dir.Submission, 1e-9)}, member{"slat", d.latency(&dir.Submission, 1e-6)},
			member{"clat_ns", d.latency(&dir.Completion, 1e-9)}, member{"clat", d.latency(&dir.Completion, 1e-6)},
			member{"lat_ns", d.latency(&dir.Total, 1e-9)}, member{"lat", d.latency(&dir.Total, 1e-6)},
		)
		// Until fio 2.21 added io_kbytes, io_bytes was in KiB.
		hasKBytes := ioKBytes != math.MaxUint64
		switch {
		case hasKBytes && ioBytes == 0:
			dir.Bytes, dir.BytesOff = ioKBytes*1024, 1024
		case hasKBytes:
			dir.Bytes = ioBytes
		default:
			dir.Bytes, dir.BytesOff = ioBytes*1024, 1024
		}
		dir.Bandwidth, dir.BandwidthOff = bwBytes, 1
		if bwBytes == 0 {
			dir.Bandwidth, dir.BandwidthOff = bw*1024, 1024
		}
		if hasKBytes && ioBytes > 0 && apart(float64(ioBytes), float64(ioKBytes)*1024, 1024) {
			dir.Twice = fmt.Sprintf("io_bytes is %d, and io_kbytes is %d", ioBytes, ioKBytes)
		}
		if bwBytes > 0 && bw > 0 && apart(bwBytes, bw*1024, 1025) {
			dir.Twice = fmt.Sprintf("bw_bytes is %.0f, and bw is %.0f", bwBytes, bw)
		}
		if dir.IOPS == math.Trunc(dir.IOPS) {
			dir.IOPSOff = 1
		}
		return err
	}
}

// apart reports whether two forms of one number differ by more than their rounding and 5 %.
func apart(a, b, rounding float64) bool { return math.Abs(a-b) > rounding+0.05*min(a, b) }

func (d *decoder) latency(l *Latency, unit float64) func() error {
	return func() error {
		*l = Latency{}
		err := d.members(
			member{"min", &l.Min}, member{"max", &l.Max}, member{"mean", &l.Mean}, member{"stddev", &l.SD}, member{"N", &l.N},
			member{"percentile", func() error { return d.percentiles(l, unit) }},
			member{"bins", func() error { return d.bins(l) }},
		)
		for _, v := range []*float64{&l.Min, &l.Max, &l.Mean, &l.SD} {
			*v *= unit
		}
		return err
	}
}

func (d *decoder) percentiles(l *Latency, unit float64) error {
	if ok, err := d.is('{'); !ok {
		return err
	}
	l.Percentiles = make([]Percentile, 0, 20)
	err := d.object(func(key []byte) error {
		p, perr := strconv.ParseFloat(string(key), 64)
		v, err := d.float()
		// Before 3.4, fio prints unused slots as "0.00": 0.
		if err != nil || perr != nil || !(p > 0 && p <= 100) {
			return err
		}
		l.Percentiles = append(l.Percentiles, Percentile{P: p / 100, Seconds: v * unit})
		return nil
	})
	sortPercentiles(l.Percentiles)
	return err
}

func (d *decoder) bins(l *Latency) error {
	if ok, err := d.is('{'); !ok {
		return err
	}
	l.Bins = make([]Bin, 0, 256)
	return d.object(func(key []byte) error {
		value, end := digits(key, 0)
		if end == 0 || end != len(key) || end > 19 {
			return fmt.Errorf("%.20q is not the value of a bin", key)
		}
		n, err := d.count()
		if err == nil && n > 0 {
			l.Bins = append(l.Bins, Bin{value, n})
		}
		return err
	})
}

func (d *decoder) steadyState(j *Job) error {
	if ok, err := d.is('{'); !ok {
		return err
	}
	var attained uint64
	s := &SteadyState{}
	err := d.members(
		member{"ss", &s.Criterion}, member{"attained", &attained}, member{"duration", d.seconds(&s.Duration)},
		member{"data", func() error {
			return d.members(member{"bw_mean", &s.Bandwidth}, member{"iops_mean", &s.IOPS}) // bw_mean is in bytes, unlike bw
		}},
	)
	s.Attained = attained > 0
	j.SteadyState = s
	return err
}

const sector = 512

func (d *decoder) disks(r *Result) error {
	return d.elements(func() error {
		var k Disk
		err := d.members(
			member{"name", &k.Name}, member{"read_ios", &k.ReadIOs}, member{"write_ios", &k.WriteIOs},
			member{"read_merges", &k.ReadMerges}, member{"write_merges", &k.WriteMerges},
			member{"read_sectors", &k.ReadBytes}, member{"write_sectors", &k.WriteBytes},
			member{"read_ticks", &k.ReadTicks}, member{"write_ticks", &k.WriteTicks},
			member{"in_queue", &k.InQueue}, member{"util", d.percent(&k.Utilization)},
		)
		k.ReadBytes, k.WriteBytes = k.ReadBytes*sector, k.WriteBytes*sector
		if err == nil {
			r.Disks = append(r.Disks, k)
		}
		return err
	})()
}
