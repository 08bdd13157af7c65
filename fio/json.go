package fio

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// A SyntaxError says where fio's output stops being readable.
type SyntaxError struct {
	Offset int    // byte in the input
	Msg    string // "unexpected end of input"
	Read   string // what was read until there
}

func (e *SyntaxError) Error() string {
	s := fmt.Sprintf("fio output, byte %d: %s", e.Offset, e.Msg)
	if e.Read != "" {
		s += " (read so far: " + e.Read + ")"
	}
	return s
}

// ErrNoResult means that the input holds no JSON document of fio.
var ErrNoResult = errors.New("no JSON result of fio")

// Parse reads the JSON or json+ output of fio. Text around the document is kept as Notes. Of
// several documents (status-interval writes cumulative ones) the last counts. If that one is cut
// off, Parse returns what could be read of it together with a *SyntaxError.
func Parse(data []byte) (*Result, error) {
	var last *Result
	var lastErr error
	var notes []string
	for r, err := range Documents(data) {
		notes = append(notes, r.Notes...)
		if len(r.Jobs) == 0 && last != nil && err == nil {
			continue // the text after the last document
		}
		last, lastErr = r, err
	}
	if last == nil {
		return &Result{Notes: notes}, ErrNoResult
	}
	last.Notes = notes
	if lastErr == nil && len(last.Jobs) == 0 && last.Version == "" {
		return last, ErrNoResult
	}
	return last, lastErr
}

// Documents reads the documents in data one by one, so that memory is bounded by one of them. The
// Notes of each are the text before it; text after the last comes as a result of its own, without
// version or jobs. A document that can't be read comes with what was read of it and a *SyntaxError.
func Documents(data []byte) iter.Seq2[*Result, error] {
	return func(yield func(*Result, error) bool) {
		noted := 0
		for d := range documents(data) {
			d.result.Notes = append(noteLines(data[noted:d.start]), d.result.Notes...)
			noted = d.end
			var err error
			if d.err != nil {
				err = d.err
			}
			if !yield(d.result, err) {
				return
			}
		}
		if notes := noteLines(data[noted:]); len(notes) > 0 {
			yield(&Result{Notes: notes}, nil)
		}
	}
}

// A document is one JSON document in an input: data[start:end]. The result's notes are those that
// stood inside it.
type document struct {
	start, end int
	result     *Result
	err        *SyntaxError // nil when it is whole
	cut        bool         // the input ended before the document
}

func documents(data []byte) iter.Seq[document] {
	return func(yield func(document) bool) {
		for pos := 0; ; {
			start := documentStart(data, pos)
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

// nextDocument reads the document that begins at start. One that was cut off, with the next written
// behind it, must not swallow that.
func nextDocument(data []byte, start int) document {
	d := decodeDocument(data, start)
	if d.err == nil {
		return d
	}
	if next := documentLine(data, start+1); next > 0 && next <= d.end {
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

// documentLine is documentStart for documents that begin a line.
func documentLine(data []byte, pos int) int {
	for {
		start := documentStart(data, pos)
		if start <= 0 || data[start-1] == '\n' {
			return start
		}
		pos = start + 1
	}
}

// firstKeys can open a document of fio. Looking for them, and not for any brace, keeps braces in
// notes from being taken for one.
var firstKeys = [][]byte{[]byte("fio version"), []byte("timestamp"), []byte("jobs"), []byte("client_stats"), []byte("global options")}

func documentStart(data []byte, pos int) int {
	for pos < len(data) {
		i := bytes.IndexByte(data[pos:], '{')
		if i < 0 {
			return -1
		}
		pos += i
		rest := bytes.TrimLeft(data[pos+1:min(len(data), pos+256)], " \t\r\n")
		if len(rest) > 0 && rest[0] == '"' {
			for _, k := range firstKeys {
				if bytes.HasPrefix(rest[1:], k) {
					return pos
				}
			}
		}
		pos++
	}
	return -1
}

// maxNotes bounds what is kept of the text around documents: `normal,json` puts a whole report there.
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

// A decoder reads the JSON that fio writes. encoding/json refuses it: numbers can be nan or inf,
// strings escape only `\` and `"`, and notes land between tokens when both streams share a file.
type decoder struct {
	data  []byte
	pos   int
	depth int
	notes []string
}

var errEnd = errors.New("unexpected end of input")

// maxDepth is far above what fio nests (7) and keeps hostile input from exhausting the stack.
const maxDepth = 64

// next returns the first byte of the next token without taking it.
func (d *decoder) next() (byte, error) {
	for d.pos < len(d.data) {
		switch c := d.data[d.pos]; c {
		case ' ', '\n', '\t', '\r':
			d.pos++
		case 'f': // "false" is not in fio's vocabulary, "fio: note" is
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
		return fmt.Errorf("found %q in place of %q", c, want)
	}
	d.pos++
	return nil
}

// object calls f for each key; f reads the value.
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

// array calls f for each element; f reads it.
func (d *decoder) array(f func() error) error { return d.each('[', ']', f) }

// each calls f for each item between the brackets.
func (d *decoder) each(open, end byte, f func() error) error {
	if err := d.enter(open); err != nil {
		return err
	}
	for {
		c, err := d.next()
		switch {
		case err != nil:
			return err
		case c == end:
			d.leave()
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

func (d *decoder) enter(open byte) error {
	if err := d.expect(open); err != nil {
		return err
	}
	if d.depth++; d.depth > maxDepth {
		return errors.New("nested too deeply")
	}
	return nil
}

func (d *decoder) leave() { d.pos++; d.depth-- }

// str reads a string and returns it as it stands, escapes included.
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

// text reads a string and undoes fio's escapes.
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
		return nil, fmt.Errorf("found %q in place of a value", d.data[start])
	}
	if d.pos == len(d.data) {
		return nil, errEnd // a number at the very end may have lost digits
	}
	return d.data[start:d.pos], nil
}

// float reads a number; nan and inf, which fio prints for want of samples, are 0.
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
	if bytes.EqualFold(raw, []byte("-nan")) { // printf writes it, ParseFloat refuses it
		return 0, nil
	}
	f, err := strconv.ParseFloat(string(bytes.TrimSuffix(raw, []byte("%"))), 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		if c == '"' { // a text where a number was: a key with another meaning in some version
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

// count reads a number that can't be negative. Whole numbers below 2^64 are exact.
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

// skip passes over a value.
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

// is reports whether the next value opens with c; if not it skips the value.
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

func set[T any](dst *T, read func() (T, error)) error {
	v, err := read()
	if err == nil {
		*dst = v
	}
	return err
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

func (d *decoder) integer() (int, error) {
	f, err := d.float()
	if f < math.MinInt32 || f > math.MaxInt32 {
		f = 0
	}
	return int(f), err
}

func (d *decoder) document(r *Result) error {
	err := d.object(func(key []byte) error {
		switch string(key) {
		case "fio version":
			return set(&r.Version, d.text)
		case "timestamp_ms":
			ms, err := d.count()
			if err == nil && ms < math.MaxInt64 {
				r.Time = time.UnixMilli(int64(ms))
			}
			return err
		case "timestamp":
			s, err := d.count()
			if err == nil && r.Time.IsZero() && s < math.MaxInt64/1000 {
				r.Time = time.Unix(int64(s), 0)
			}
			return err
		case "global options":
			return d.options(&r.Options)
		case "jobs", "client_stats":
			if ok, err := d.is('['); !ok {
				return err
			}
			return d.array(func() error {
				if ok, err := d.is('{'); !ok {
					return err
				}
				var j Job
				if err := d.job(r, &j); err != nil {
					return err
				}
				if string(key) == "client_stats" && j.Name == allClients {
					return nil
				}
				r.Jobs = append(r.Jobs, j)
				return nil
			})
		case "disk_util":
			r.Disks = nil
			return d.disks(r)
		}
		return d.skip()
	})
	r.finish()
	return err
}

// finish does what needs the version, wherever it stood.
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
		for _, l := range append(j.latencies(), &j.Sync.Latency) {
			if n := l.counted(); l.N > 0 && n > sum(l.N, sum(l.N, 100)) {
				l.Bins = nil
				r.damaged = append(r.damaged, fmt.Sprintf("a histogram of %s counts %d I/Os, of which %d were done: it is left out", j.Name, n, l.N))
			}
		}
	}
}

// joint finds out whether j is the sum of several sections, which group_reporting makes: JSON does not show
// that option, and has the options of one of the sections. Jobs are then added up in job_runtime.
func (j *Job) joint(all map[string]string) {
	option := func(name, alias string) string {
		return cmp.Or(j.Options[name], j.Options[alias], all[name], all[alias])
	}
	var ran, slowest time.Duration
	for _, d := range j.directions()[:3] {
		ran, slowest = ran+d.Runtime, max(slowest, d.Runtime)
	}
	if v := option("verify", ""); v == "" || v == "0" || v == "none" { // it comes after the writes; other directions are at one time
		ran = slowest
	}
	if ran < 100*time.Millisecond {
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
	for _, d := range j.directions()[:3] {
		if bs, err := ParseSize(option("bs", "blocksize"), 1024); err == nil && bs > 0 && d.IOs > 0 && d.Short == 0 {
			unlike = unlike || !d.FitsBlocks(float64(bs), inFlight)
		}
	}
	if jobs < float64(n)+0.85 && (!unlike || jobs < float64(n)+0.05) {
		return
	}
	j.Members = int(math.Ceil(jobs - 0.05))
	if unlike {
		j.Unlike = []string{"bs"}
	}
	maps.DeleteFunc(j.Options, func(k, _ string) bool { return !strings.HasSuffix(k, "_log") })
}

// decodeBins undoes the three ways in which fio has written the value of a bin: the index into its
// table of microseconds up to 2.19, microseconds up to 2.21, nanoseconds since.
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

// binValue is the middle of the bin with that index: stat.c, plat_idx_to_val, with 64 bins to a
// power of two.
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

// options reads an object of strings, or the list of such objects that several servers give.
func (d *decoder) options(dst *map[string]string) error {
	c, err := d.next()
	if err != nil {
		return err
	}
	if c == '[' {
		return d.array(func() error {
			c, err := d.next()
			if err == nil && c == '[' {
				return errors.New("found '[' in place of '{'")
			}
			if err != nil {
				return err
			}
			return d.options(dst)
		})
	}
	if c != '{' {
		return d.skip()
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
		if err != nil {
			return err
		}
		if *dst == nil {
			*dst = map[string]string{}
		}
		(*dst)[string(key)] = v
		return nil
	})
}

func (d *decoder) job(r *Result, j *Job) error {
	return d.object(func(key []byte) error {
		switch string(key) {
		case "jobname":
			return set(&j.Name, d.text)
		case "hostname":
			return set(&j.Host, d.text)
		case "port":
			return set(&j.Port, d.integer)
		case "groupid":
			return set(&j.Group, d.integer)
		case "error":
			return set(&j.Error, d.integer)
		case "elapsed":
			f, err := d.milliseconds()
			j.Elapsed = min(f, math.MaxInt64/1000) * 1000 // printed in seconds
			return err
		case "job options":
			return d.options(&j.Options)
		case "read":
			return d.direction(&j.Read)
		case "write":
			return d.direction(&j.Write)
		case "trim":
			return d.direction(&j.Trim)
		case "mixed":
			return d.direction(&j.Mixed)
		case "sync":
			return d.sync(&j.Sync)
		case "job_runtime":
			return set(&j.Runtime, d.milliseconds)
		case "usr_cpu":
			return set(&j.UserCPU, d.percent)
		case "sys_cpu":
			return set(&j.SystemCPU, d.percent)
		case "ctx":
			return set(&j.ContextSwitches, d.count)
		case "majf":
			return set(&j.MajorFaults, d.count)
		case "minf":
			return set(&j.MinorFaults, d.count)
		case "steadystate":
			return d.steadyState(j)
		case "disk_util": // a client's own
			return d.disks(r)
		}
		return d.skip()
	})
}

func (d *decoder) percent() (float64, error) {
	f, err := d.float()
	return f / 100, err
}

func (d *decoder) direction(dir *Direction) error {
	if ok, err := d.is('{'); !ok {
		return err
	}
	*dir = Direction{} // of a key that stands twice the last counts
	var ioBytes, ioKBytes uint64
	var bw, bwBytes float64
	var hasKBytes bool
	err := d.object(func(key []byte) error {
		switch string(key) {
		case "io_bytes":
			return set(&ioBytes, d.count)
		case "io_kbytes":
			hasKBytes = true
			return set(&ioKBytes, d.count)
		case "bw_bytes":
			return set(&bwBytes, d.float)
		case "bw":
			return set(&bw, d.float)
		case "iops":
			return set(&dir.IOPS, d.float)
		case "runtime":
			return set(&dir.Runtime, d.milliseconds)
		case "total_ios":
			return set(&dir.IOs, d.count)
		case "short_ios":
			return set(&dir.Short, d.count)
		case "drop_ios":
			return set(&dir.Dropped, d.count)
		case "slat_ns":
			return d.latency(&dir.Submission, 1e-9)
		case "clat_ns":
			return d.latency(&dir.Completion, 1e-9)
		case "lat_ns":
			return d.latency(&dir.Total, 1e-9)
		case "slat":
			return d.latency(&dir.Submission, 1e-6)
		case "clat":
			return d.latency(&dir.Completion, 1e-6)
		case "lat":
			return d.latency(&dir.Total, 1e-6)
		}
		return d.skip()
	})
	// io_bytes was in KiB until io_kbytes came beside it (2.21).
	switch {
	case hasKBytes && ioBytes == 0:
		dir.Bytes, dir.bytesOff = ioKBytes*1024, 1024
	case hasKBytes:
		dir.Bytes = ioBytes
	default:
		dir.Bytes, dir.bytesOff = ioBytes*1024, 1024
	}
	dir.Bandwidth, dir.BandwidthOff = bwBytes, 1
	if bwBytes == 0 {
		dir.Bandwidth, dir.BandwidthOff = bw*1024, 1024
	}
	if dir.IOPS == math.Trunc(dir.IOPS) {
		dir.IOPSOff = 1
	}
	return err
}

func (d *decoder) sync(s *Sync) error {
	if ok, err := d.is('{'); !ok {
		return err
	}
	return d.object(func(key []byte) error {
		switch string(key) {
		case "total_ios":
			return set(&s.IOs, d.count)
		case "lat_ns":
			return d.latency(&s.Latency, 1e-9)
		}
		return d.skip()
	})
}

func (d *decoder) latency(l *Latency, unit float64) error {
	if ok, err := d.is('{'); !ok {
		return err
	}
	*l = Latency{}
	time := func(dst *float64) error {
		f, err := d.float()
		*dst = f * unit
		return err
	}
	return d.object(func(key []byte) error {
		switch string(key) {
		case "min":
			return time(&l.Min)
		case "max":
			return time(&l.Max)
		case "mean":
			return time(&l.Mean)
		case "stddev":
			return time(&l.SD)
		case "N":
			return set(&l.N, d.count)
		case "percentile":
			return d.percentiles(l, unit)
		case "bins":
			return d.bins(l)
		}
		return d.skip()
	})
}

func (d *decoder) percentiles(l *Latency, unit float64) error {
	if ok, err := d.is('{'); !ok {
		return err
	}
	l.Percentiles = make([]Percentile, 0, 20)
	err := d.object(func(key []byte) error {
		p, perr := strconv.ParseFloat(string(key), 64)
		v, err := d.float()
		// Before 3.4 unused slots are printed as "0.00": 0.
		if err != nil || perr != nil || !(p > 0 && p <= 100) {
			return err
		}
		l.Percentiles = append(l.Percentiles, Percentile{P: p / 100, Seconds: v * unit})
		return nil
	})
	sortPercentiles(l.Percentiles)
	return err
}

// bins is the bulk of a json+ document, so it has no call per key.
func (d *decoder) bins(l *Latency) error {
	if ok, err := d.is('{'); !ok {
		return err
	}
	d.pos++
	l.Bins = make([]Bin, 0, 256)
	for {
		c, err := d.next()
		if err != nil {
			return err
		}
		if c == '}' {
			d.pos++
			return nil
		}
		if c == ',' {
			d.pos++
			continue
		}
		key, err := d.str()
		if err != nil {
			return err
		}
		value, end := digits(key, 0)
		if end == 0 || end != len(key) || end > 19 {
			return fmt.Errorf("%.20q is no bin", key)
		}
		if err := d.expect(':'); err != nil {
			return err
		}
		n, err := d.count()
		if err != nil {
			return err
		}
		if n > 0 {
			l.Bins = append(l.Bins, Bin{value, n})
		}
	}
}

func (d *decoder) steadyState(j *Job) error {
	if ok, err := d.is('{'); !ok {
		return err
	}
	s := &SteadyState{}
	j.SteadyState = s
	return d.object(func(key []byte) error {
		switch string(key) {
		case "ss":
			return set(&s.Criterion, d.text)
		case "attained":
			n, err := d.count()
			s.Attained = n > 0
			return err
		case "duration":
			f, err := d.milliseconds()
			s.Duration = min(f, math.MaxInt64/1000) * 1000 // printed in seconds
			return err
		case "data":
			if ok, err := d.is('{'); !ok {
				return err
			}
			return d.object(func(key []byte) error {
				switch string(key) {
				case "bw_mean":
					return set(&s.Bandwidth, d.float) // bytes here, unlike bw elsewhere
				case "iops_mean":
					return set(&s.IOPS, d.float)
				}
				return d.skip()
			})
		}
		return d.skip()
	})
}

const sector = 512

func (d *decoder) disks(r *Result) error {
	if ok, err := d.is('['); !ok {
		return err
	}
	return d.array(func() error {
		if ok, err := d.is('{'); !ok {
			return err
		}
		var k Disk
		err := d.object(func(key []byte) error {
			switch string(key) {
			case "name":
				return set(&k.Name, d.text)
			case "read_ios":
				return set(&k.ReadIOs, d.count)
			case "write_ios":
				return set(&k.WriteIOs, d.count)
			case "read_merges":
				return set(&k.ReadMerges, d.count)
			case "write_merges":
				return set(&k.WriteMerges, d.count)
			case "read_sectors":
				n, err := d.count()
				k.ReadBytes = n * sector
				return err
			case "write_sectors":
				n, err := d.count()
				k.WriteBytes = n * sector
				return err
			case "read_ticks":
				return set(&k.ReadTicks, d.milliseconds)
			case "write_ticks":
				return set(&k.WriteTicks, d.milliseconds)
			case "in_queue":
				return set(&k.InQueue, d.milliseconds)
			case "util":
				return set(&k.Utilization, d.percent)
			}
			return d.skip()
		})
		if err == nil {
			r.Disks = append(r.Disks, k)
		}
		return err
	})
}
