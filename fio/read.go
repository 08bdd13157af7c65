package fio

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"iotax"
)

// A Part is a result, a log or a job file that Read found in an input.
type Part struct {
	Kind   Kind
	Offset int    // offset of its first byte
	End    int    // offset of the byte after its last byte
	Line   int    // line of the first byte, from 1
	Also   []Kind // other formats of the same run in the input, as with --output-format=normal,json

	Result *Result // of one fio process; nil for other kinds
	Log    *Log    // for KindLog

	doubtful bool   // this may be a later report of the process that wrote the previous part
	earlier  []*Job // rows of earlier reports of the process, without latencies; at most maxRows

	// Err reports why no result was found, or where a damaged part ends. For JSON it is a *SyntaxError.
	Err error
}

// Read finds the contents of data: results of fio as JSON, terse or text, with other text around them, or a log, or
// a job file. It returns at least one part, in input order. A part that has neither a Result nor a Log has an Err.
//
// Read returns one result for each fio process. Of the cumulative reports of status-interval, the last one is the
// result. Its Series contains the rates between the reports. If Read cannot determine whether two reports are from the
// same process, it returns both. If a run was printed in several formats, Read returns it once, from the most
// exact format.
//
// name is the name of the file, or "". Except for histograms, Read cannot read a log without its name ("x_bw.1.log").
func Read(data []byte, name string) []Part {
	if p, ok := readLog(data, name); ok {
		return []Part{p}
	}
	s := scanner{}
	s.scan(data, true)
	return s.finish(data, name)
}

// maxDocument limits the length of a log or document in bytes, and how far ReadFrom searches for the first result.
// maxParts limits the number of results in an input.
var (
	maxDocument int64 = 256 << 20
	maxParts          = 10_000
)

// ReadFrom is like Read, for inputs of any length. It keeps one document, or a whole log, in memory. If r fails, or
// maxDocument or maxParts is exceeded, it returns the error and the parts before the error.
func ReadFrom(r io.Reader, name string) ([]Part, error) {
	const step = 1 << 20
	s := scanner{}
	buf := make([]byte, 0, step)
	for first := true; ; first = false {
		// Double a full buffer: scan parses an incomplete document again after each read, so there must be few reads.
		if cap(buf)-len(buf) < step/2 {
			buf = slices.Grow(buf, max(step, len(buf)))
		}
		n, err := io.ReadFull(r, buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		eof := err == io.EOF || err == io.ErrUnexpectedEOF
		if first && logLike(buf, name) {
			rest, rerr := []byte(nil), err
			if err == nil {
				rest, rerr = iotax.ReadAll(r, max(0, maxDocument-int64(len(buf))))
				if errors.As(rerr, new(*iotax.LimitError)) {
					return nil, fmt.Errorf("a log: %w; log averages, with log_avg_msec", &iotax.LimitError{Limit: maxDocument})
				}
			}
			if eof {
				rerr = nil
			}
			return Read(append(buf, rest...), name), rerr
		}
		if first {
			s.head = bytes.Clone(buf[:min(len(buf), 4096)])
		}
		used := s.scan(buf, err != nil)
		if eof {
			return s.finish(s.head, name), nil
		}
		switch {
		case err != nil:
		case int64(len(buf)-used) > maxDocument:
			err = fmt.Errorf("a document: %w", &iotax.LimitError{Limit: maxDocument})
		case len(s.parts) == 0 && int64(s.base) > maxDocument:
			err = fmt.Errorf("no result found: %w", &iotax.LimitError{Limit: maxDocument})
		case len(s.parts) > maxParts:
			err = fmt.Errorf("more than %d results: split the file", maxParts)
		}
		if err != nil {
			return s.finish(s.head, name), err
		}
		buf = buf[:copy(buf, buf[used:])]
	}
}

// A scanner finds results in an input that arrives in pieces.
type scanner struct {
	text  textReader
	parts []Part
	notes []string // fio's own messages since the last document
	base  int      // input offset of the next byte
	line  int      // line of the next byte, from 0
	head  []byte
}

// lookahead is the number of bytes at the start of an object that decide whether it is a fio document.
const lookahead = 512

// scan reads `data`, which continues where the previous call stopped. `last` means that no data follows. scan returns
// the number of bytes that it has processed.
func (s *scanner) scan(data []byte, last bool) (used int) {
	for {
		start := documentStart(data, used, opening)
		if start < 0 {
			break
		}
		if !last && len(data)-start < lookahead {
			s.skip(data[used:start])
			return start
		}
		d := nextDocument(data, start)
		if d.cut && !last {
			s.skip(data[used:start])
			return start
		}
		s.skip(data[used:start])
		s.add(d)
		s.line += bytes.Count(data[start:d.end], []byte{'\n'})
		s.base += d.end - start
		used = d.end
	}
	end := len(data)
	if !last { // keep an incomplete line, and an object that may be a document
		end = max(used, end-lookahead)
		end = used + bytes.LastIndexByte(data[used:end], '\n') + 1
	}
	s.skip(data[used:end])
	if last {
		s.text.flush()
	}
	return end
}

// skip reads text between JSON documents.
func (s *scanner) skip(text []byte) {
	s.text.feed(text, s.base, s.line+1)
	s.notes = append(s.notes, messages(text)...)
	if len(s.notes) > maxNotes {
		s.notes = s.notes[:maxNotes]
	}
	s.line += bytes.Count(text, []byte{'\n'})
	s.base += len(text)
	for _, t := range s.text.take() {
		s.join(Part{Kind: t.result.Kind, Offset: t.start, End: t.end, Line: t.line, Result: t.result, Err: t.err})
	}
}

func (s *scanner) add(d document) {
	if d.result.Version == "" && len(d.result.Jobs) == 0 && d.err == nil {
		return // another program's JSON, for example with a "timestamp"
	}
	d.result.Notes = append(s.notes, d.result.Notes...)
	s.notes = nil
	var err error
	if e := d.err; e != nil {
		e.Offset += s.base - d.start
		err = e
	}
	s.join(Part{Kind: d.result.Kind, Offset: s.base, End: s.base + d.end - d.start, Line: s.line + 1, Result: d.result, Err: err})
}

// join appends a part. If the part is a later report of the same process, it replaces the earlier report. If the part
// is the sum of several clients, join merges the parts of the clients instead.
func (s *scanner) join(p Part) {
	if s.clients(p) {
		return
	}
	if i := s.before(len(s.parts), p.Kind); i >= 0 && s.parts[i].Err == nil {
		switch p.Result.after(s.parts[i].Result) {
		case later:
			i = s.unite(i, p.Result.runtime())
			p.Result.follow(s.parts[i].Result)
			p.keep(&s.parts[i])
			s.parts[i] = p
			return
		case perhaps:
			p.doubtful = true
		}
	}
	p.Result.begin()
	s.parts = append(s.parts, p)
}

// before returns the index of the last part of this kind before i, or -1. JSON and JSON+ count as one kind.
func (s *scanner) before(i int, k Kind) int {
	for i--; i >= 0 && family(s.parts[i].Kind) != family(k); i-- {
	}
	return i
}

// unite merges a doubtful part i with the parts before it, back to and including the last part that is not doubtful. It
// does so only if the runtimes show that one process wrote these parts at equal intervals. It returns the new index of
// part i. `next` is the runtime in the next report of that process.
func (s *scanner) unite(i int, next time.Duration) int {
	chain := []int{i}
	for k := i; k >= 0 && s.parts[k].doubtful; {
		k = s.before(k, s.parts[k].Kind)
		chain = append([]int{k}, chain...)
	}
	first := s.parts[chain[0]].Result.runtime()
	margin := first/10 + 2*sliver
	at := time.Duration(0)
	for _, k := range chain {
		ran := s.parts[k].Result.runtime()
		if (ran - at - first).Abs() > margin {
			return i
		}
		at = ran
	}
	if next-at > first+margin {
		return i
	}
	for n, k := range chain[1:] {
		s.parts[k].Result.follow(s.parts[chain[n]].Result)
		s.parts[k].keep(&s.parts[chain[n]])
	}
	s.parts[i].doubtful = false
	for n := len(chain) - 2; n >= 0; n-- {
		s.parts = slices.Delete(s.parts, chain[n], chain[n]+1)
		i--
	}
	return i
}

// clients merges the results of several clients if p is the sum that fio prints after them. It returns false if p is
// not such a sum.
func (s *scanner) clients(p Part) bool {
	if len(p.Result.Jobs) != 1 || p.Result.Jobs[0].Name != allClients {
		return false
	}
	sum := &p.Result.Jobs[0]
	var bytes [4]float64
	n := 0
	for i := s.before(len(s.parts), p.Kind); i >= 0; i = s.before(i, p.Kind) {
		part := &s.parts[i]
		if part.Err != nil || len(part.Result.Jobs) == 0 || part.Result.Jobs[0].Name == allClients {
			return false
		}
		for k := range part.Result.Jobs {
			n++
			for dir, d := range part.Result.Jobs[k].directions() {
				bytes[dir] += float64(d.Bytes)
			}
		}
		switch total := compareSum(bytes, n, sum); {
		case total > 0:
			return false
		case total == 0:
			for k := i + 1; k < len(s.parts); k++ {
				if family(s.parts[k].Kind) == family(p.Kind) {
					part.Result.Jobs = append(part.Result.Jobs, s.parts[k].Result.Jobs...)
				}
			}
			if p.Result.Time.After(part.Result.Time) {
				part.Result.Time = p.Result.Time
			}
			part.End = p.End
			for k := s.before(len(s.parts), p.Kind); k > i; k = s.before(k, p.Kind) {
				s.parts = slices.Delete(s.parts, k, k+1)
			}
			return true
		}
	}
	return false
}

// compareSum compares the bytes of n rows with their printed sum, in each direction and with a margin for rounding. It
// returns 1 if the rows have more bytes in a direction, -1 if they have fewer, and 0 if they agree.
func compareSum(bytes [4]float64, n int, sum *Job) int {
	less := false
	for k, d := range sum.directions() {
		if margin := float64(d.Bytes)/100 + 1024*float64(n); bytes[k] > float64(d.Bytes)+margin {
			return 1
		} else if bytes[k] < float64(d.Bytes)-margin {
			less = true
		}
	}
	if less {
		return -1
	}
	return 0
}

func family(k Kind) Kind {
	if k == KindJSONPlus {
		return KindJSON
	}
	return k
}

func (s *scanner) finish(head []byte, name string) []Part {
	for _, t := range s.text.take() {
		s.join(Part{Kind: t.result.Kind, Offset: t.start, End: t.end, Line: t.line, Result: t.result, Err: t.err})
	}
	if len(s.parts) == 0 {
		return []Part{foreign(head, name)}
	}
	if len(s.notes) > 0 {
		r := s.parts[len(s.parts)-1].Result
		r.Notes = append(r.Notes, s.notes...)
	}
	slices.SortStableFunc(s.parts, func(a, b Part) int { return a.Offset - b.Offset })
	return oneEach(s.parts)
}

// oneEach removes runs that the input also contains in a more exact format. Each remaining part replaces at most one
// run per format.
func oneEach(parts []Part) []Part {
	ranks := map[Kind]int{KindTerse: 1, KindText: 2, KindJSON: 3, KindJSONPlus: 4}
	gone, measured, rank := make([]bool, len(parts)), make([][]*Job, len(parts)), make([]int, len(parts))
	for i, p := range parts {
		measured[i], rank[i] = p.Result.measured(), ranks[p.Kind]
	}
	for i := range parts {
		for k := range parts {
			if rank[i] >= rank[k] || gone[i] || gone[k] {
				continue
			}
			better, want := &parts[k], measured[k]
			if len(measured[i]) == 0 || len(want) == 0 || better.Err != nil || slices.Contains(better.Also, parts[i].Kind) || !sameRun(measured[i][:1], want[:1]) {
				continue
			}
			// In terse output, the jobs of one process may be separate results.
			var rows []*Job
			var same []int
			for n := i; n < len(parts) && len(rows) < len(want) && (n == i || parts[i].Kind == KindTerse); n++ {
				if parts[n].Kind == parts[i].Kind && !gone[n] && parts[n].Err == nil {
					rows, same = append(rows, measured[n]...), append(same, n)
				}
			}
			if !sameRun(rows, want) {
				continue
			}
			for _, n := range same {
				gone[n] = true
			}
			better.Also = append(better.Also, parts[i].Kind)
			if p := parts[i].Result; len(same) == 1 && !slices.ContainsFunc(better.Result.Split(), func(g *Result) bool { return len(g.Series) > 0 }) {
				better.Result.Series, better.Result.groups = p.Series, p.groups
			}
		}
	}
	for i := range parts {
		for k := range parts {
			if parts[i].Kind == KindTerse && rank[k] > rank[i] && !gone[i] && !gone[k] && parts[i].Err == nil && parts[k].Err == nil && parts[k].contains(parts[i].Result) {
				gone[i] = true
			}
		}
	}
	out := parts[:0]
	for i, p := range parts {
		if !gone[i] {
			out = append(out, p)
		}
	}
	return out
}

// contains reports whether each row of the terse result r is a row of an earlier report of p, or a job without I/O that
// p has, too. Terse output has neither a time nor a process ID, so the reports of one process may be several results.
// contains uses each row of p once.
func (p *Part) contains(r *Result) bool {
	idle := func(j *Job) bool { return j.Read.Runtime+j.Write.Runtime+j.Mixed.Runtime == 0 }
	if len(p.earlier) == 0 && !slices.ContainsFunc(r.Jobs, func(j Job) bool { return idle(&j) }) {
		return false
	}
	left := slices.Clone(p.earlier)
	if !slices.Contains(p.Also, KindTerse) {
		left = append(left, p.Result.bare()...)
	}
	for i := range r.Jobs {
		j := &r.Jobs[i]
		at := slices.IndexFunc(left, func(o *Job) bool { return idle(j) == idle(o) && sameRun([]*Job{j}, []*Job{o}) })
		switch {
		case at >= 0:
			left = slices.Delete(left, at, at+1)
		case !idle(j) || !slices.ContainsFunc(p.Result.Jobs, func(o Job) bool { return o.Name == j.Name && o.Group == j.Group }):
			return false
		}
	}
	p.earlier = left
	return true
}

// keep adds the rows of prev, an earlier report of the same process, to the earlier rows of p.
func (p *Part) keep(prev *Part) {
	p.earlier = append(prev.earlier, prev.Result.bare()...)
	p.earlier = p.earlier[:min(len(p.earlier), maxRows)]
}

// bare returns the rows of r without their latencies and options.
func (r *Result) bare() []*Job {
	var out []*Job
	for i := range r.Jobs {
		j := &Job{Name: r.Jobs[i].Name, Group: r.Jobs[i].Group}
		for k, d := range r.Jobs[i].directions() {
			*j.directions()[k] = Direction{Bytes: d.Bytes, IOs: d.IOs, Runtime: d.Runtime, BytesOff: d.BytesOff, IOsFrom: d.IOsFrom}
		}
		out = append(out, j)
	}
	return out
}

// sameRun reports whether the rows of two results in different formats are from the same run: their names, groups,
// runtimes and exact numbers of I/Os are equal, and their bytes agree within their rounding.
func sameRun(x, y []*Job) bool {
	if len(x) != len(y) || len(x) == 0 {
		return false
	}
	for i := range x {
		if x[i].Name != y[i].Name || x[i].Group != y[i].Group {
			return false
		}
		for k, d := range x[i].directions() {
			e := y[i].directions()[k]
			if k >= 2 && (d.Runtime == 0 || e.Runtime == 0) {
				continue // terse output may omit trims; text omits the sum of the directions, or prints 0 (unified_rw_reporting=both)
			}
			if d.Runtime != e.Runtime || math.Abs(float64(d.Bytes)-float64(e.Bytes)) > d.BytesOff+e.BytesOff {
				return false
			}
			if d.IOs > 0 && e.IOs > 0 && d.IOsFrom == Exact && e.IOsFrom == Exact && d.IOs != e.IOs {
				return false
			}
		}
	}
	return true
}

// measured returns the rows with I/O. Text output omits the other rows.
func (r *Result) measured() []*Job {
	var out []*Job
	for i := range r.Jobs {
		for _, d := range r.Jobs[i].directions() {
			if d.Bytes > 0 || d.IOs > 0 {
				out = append(out, &r.Jobs[i])
				break
			}
		}
	}
	return out
}

func messages(text []byte) []string {
	var out []string
	for line := range bytes.Lines(text) {
		line = bytes.TrimSpace(line)
		if len(out) < maxNotes && (bytes.HasPrefix(line, []byte("fio:")) || bytes.HasPrefix(line, []byte("note: ")) || bytes.HasPrefix(line, []byte("fio_"))) {
			out = append(out, valid(string(line)))
		}
	}
	return out
}

// magics lists the first bytes of files that users often pass instead of results.
var magics = []struct{ magic, what string }{
	{"\x1f\x8b", "compressed with gzip: unpack it first"},
	{"\x28\xb5\x2f\xfd", "compressed with zstd: unpack it first"},
	{"\xfd7zXZ", "compressed with xz: unpack it first"},
	{"BZh", "compressed with bzip2: unpack it first"},
	{"PK\x03\x04", "a zip archive: unpack it first"},
	{"SQLite format 3", "an SQLite database"},
	{"\x7fELF", "a program"},
}

// foreign returns the part for an input without a result. `head` is the start of the input.
func foreign(head []byte, name string) Part {
	p := Part{Kind: KindNone, Line: 1}
	text := bytes.TrimSpace(bytes.TrimPrefix(head, []byte("\xef\xbb\xbf")))
	switch {
	case len(text) == 0:
		if l, ok := LogName(name); ok { // an empty log: the job did no I/O
			return Part{Kind: KindLog, Line: 1, Log: &l}
		}
		p.Err = errors.New("the file is empty")
		return p
	case bytes.HasPrefix(text, []byte("\xff\xfe")) || bytes.HasPrefix(text, []byte("\xfe\xff")):
		p.Err = errors.New("the file is UTF-16: convert it to UTF-8 first")
		return p
	}
	for _, m := range magics {
		if bytes.HasPrefix(text, []byte(m.magic)) {
			p.Err = errors.New(m.what)
			return p
		}
	}
	if bytes.IndexByte(head, 0) >= 0 {
		p.Err = errors.New("a binary file, not a result of fio")
		return p
	}
	if jobFileLike(string(text), name) {
		p.Kind, p.Err = KindJobFile, errors.New("a job file, not a result")
		return p
	}
	line, _, _ := strings.Cut(string(text), "\n")
	if line = strings.TrimSpace(valid(line)); len([]rune(line)) > 60 {
		line = string([]rune(line)[:59]) + "…"
	}
	switch {
	case text[0] == '{' || text[0] == '[' && bytes.IndexByte(text, '"') > 0:
		p.Err = errors.New("JSON without \"fio version\" and \"jobs\": not a result of fio")
	default:
		p.Err = fmt.Errorf("no result of fio; the file begins: %s", line)
	}
	return p
}

// jobFileLike reports whether text is a job file: it contains a section, and it has the file name of a job file or
// starts with a section and sets a known option.
func jobFileLike(text, name string) bool {
	f, _ := ParseJob(text)
	if f == nil || len(f.Sections) == 0 {
		return false
	}
	for _, l := range f.Head {
		if s := strings.TrimSpace(l.Text); s != "" && s[0] != ';' && s[0] != '#' {
			return strings.HasSuffix(name, ".fio") || strings.HasSuffix(name, ".job")
		}
	}
	for _, s := range f.Sections {
		for _, l := range s.Lines {
			if _, known := LookupOption(l.Key); known {
				return true
			}
		}
	}
	return strings.HasSuffix(name, ".fio") || strings.HasSuffix(name, ".job")
}
