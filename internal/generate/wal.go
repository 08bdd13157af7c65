package generate

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"time"

	"iotax"
	"iotax/internal/agent"
)

// A WAL does the I/O of a database with group commit, such as PostgreSQL. Each transaction changes an 8 KiB page in
// memory, adds a record to the log, and waits until the record is durable. The first waiting transaction writes and
// flushes the log for all. The first record of a page after the start of a checkpoint contains the whole page. A
// checkpointer writes the changed pages to the data file over nine tenths of the checkpoint interval, then calls fsync.
// See access/transam/xlog.c and postmaster/checkpointer.c of PostgreSQL.
type WAL struct {
	Dir          string // MakeWAL creates it, replacing an old one
	Committers   int
	Record       int           // bytes of a record without its page
	Pages        int           // in the data file
	Compute      time.Duration // CPU time of a transaction before it commits
	Method       string
	Checkpoint   time.Duration // from the start of one checkpoint to the next
	Seed         uint64
	Ramp, Length time.Duration
}

// PostgreSQL's defaults.
const (
	walPage     = 8192
	walSegment  = 16 << 20
	walSegments = 5
	walSpread   = 0.9
)

// Space returns the size of all files in bytes.
func (w WAL) Space() int64 { return walSegments*walSegment + int64(w.Pages)*walPage }

// Methods lists PostgreSQL's names for the methods that make a log durable. fdatasync uses F_FULLFSYNC on macOS, and
// FlushFileBuffers on Windows. On macOS, fsync leaves data in the drive's cache.
var Methods = []string{"fdatasync", "fsync", "open_datasync"}

var (
	// TryWAL returns an error if the directory does not support the method.
	TryWAL = agent.New("try a write-ahead log", tryWAL)
	// MakeWAL creates the segments and the data file in Dir, replacing an old Dir.
	MakeWAL = agent.New("make a write-ahead log", makeWAL)
	// DoWAL does the I/O for Ramp, without measuring it, and then for Length. Then it reads the log and the pages back.
	DoWAL = agent.New("do the I/O of a write-ahead log", doWAL)
)

func (w WAL) open(name string, flags int) (*os.File, error) {
	if w.Method == "open_datasync" {
		if dataSync == 0 {
			return nil, errors.New("this system has no O_DSYNC")
		}
		flags |= dataSync
	}
	return os.OpenFile(filepath.Join(w.Dir, name), flags|os.O_RDWR, 0o600)
}

func (w WAL) sync(f *os.File) error {
	switch w.Method {
	case "open_datasync":
		return nil
	case "fsync":
		return fsync(f)
	}
	return flush(f)
}

func tryWAL(_ context.Context, w WAL) (none struct{}, err error) {
	defer func() { err = errors.Join(err, os.RemoveAll(w.Dir)) }()
	if err := os.Mkdir(w.Dir, 0o700); err != nil {
		return none, err
	}
	f, err := w.open("0", os.O_CREATE)
	if err == nil {
		_, err = f.Write(make([]byte, walPage))
		err = errors.Join(err, w.sync(f), f.Close())
	}
	return none, err
}

func segmentName(number int64) string { return fmt.Sprintf("%016x", number) }

// fillPage returns the content of a page after the transaction `by` changed it. If by is 0, it returns the original
// content.
func fillPage(f filler, buf []byte, page int, by uint64) []byte {
	return f.fill(buf[:walPage], int(by<<20)|page)
}

func makeWAL(ctx context.Context, w WAL) (none struct{}, err error) {
	if err := errors.Join(os.RemoveAll(w.Dir), os.Mkdir(w.Dir, 0o700)); err != nil {
		return none, err
	}
	make1 := func(name string, size int64, fill func(buf []byte, page int) []byte) error {
		f, err := os.OpenFile(filepath.Join(w.Dir, name), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		const many = 128 // pages per write
		buf := make([]byte, many*walPage)
		for page := 0; int64(page)*walPage < size && err == nil; page += many {
			n := min(many, int(size/walPage)-page)
			for i := range n {
				fill(buf[i*walPage:], page+i)
			}
			if _, err = f.Write(buf[:n*walPage]); err == nil {
				err = context.Cause(ctx)
			}
		}
		return errors.Join(err, f.Close())
	}
	for i := range int64(walSegments) {
		if err == nil {
			err = make1(segmentName(i), walSegment, func(buf []byte, _ int) []byte { return buf })
		}
	}
	if content := newFiller(w.Seed, walPage); err == nil {
		err = make1("data", int64(w.Pages)*walPage, func(buf []byte, page int) []byte { return fillPage(content, buf, page, 0) })
	}
	return none, err
}

// A wal contains the log and the pages in memory.
type wal struct {
	WAL
	mu sync.Mutex

	// The log. Positions are in bytes from the start of the log.
	waiting    []byte     // records since the last write began, preceded by the last partial page of that write
	spare      []byte     // buffer that becomes `waiting` at the next write
	start, end int64      // positions of `waiting`; `start` is a multiple of walPage
	durable    int64      // the log is durable up to this position
	flushing   *sync.Cond // signals that `durable` has changed
	busy       bool
	err        error // the first error; all transactions return it
	segment    *os.File
	number     int64    // number of the open segment
	records    uint64   // total number of records
	first      []record // the first record that starts in each segment
	syncs      recorder
	synced     int // flushes in the window
	bytes      float64
	measured   bool // the measurement window has begun and has not ended
	written    int  // all writes of the log, each with its flush; guarded by busy, like renamed
	renamed    int  // segments

	// The pages.
	content       filler
	data          *os.File
	by            []uint64 // the last transaction that changed each page
	dirty, imaged []bool   // pages changed, and pages logged in full, since the last checkpoint began
	checkpoints   recorder
	pages, fsyncs int // writes and flushes of the data file; only one checkpoint runs at a time
}

// A record is the number and the position of a record in the log.
type record struct {
	number uint64
	at     int64
}

// headSize is the length of a record's header: its size, its number and a checksum.
const headSize = 16

// insert adds a transaction's record and returns the position of its end.
func (l *wal) insert(page int, random, image []byte) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.records++
	l.by[page], l.dirty[page] = l.records, true
	if int64(len(l.first)) <= l.end/walSegment {
		l.first = append(l.first, record{l.records, l.end})
	}
	at := len(l.waiting)
	l.waiting = append(append(l.waiting, make([]byte, headSize)...), random...)
	if !l.imaged[page] {
		l.imaged[page] = true
		l.waiting = append(l.waiting, fillPage(l.content, image, page, l.records)...)
	}
	r := l.waiting[at:]
	binary.LittleEndian.PutUint32(r, uint32(len(r)))
	seal(r[4:], l.records)
	l.end += int64(len(r))
	return l.end
}

// commit waits until the log is durable up to a position. It writes and flushes the log itself, unless another
// transaction is doing so.
func (l *wal) commit(upTo int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.durable < upTo && l.err == nil {
		if l.busy {
			l.flushing.Wait()
			continue
		}
		l.busy = true
		all, from, to := l.waiting, l.start, l.end
		rest := len(all) % walPage
		l.start = to - int64(rest)
		l.waiting = append(l.spare[:0], all[len(all)-rest:]...)
		l.mu.Unlock()
		if rest > 0 {
			all = append(all, make([]byte, walPage-rest)...)
		}
		begun := time.Now()
		err := l.write(all, from)
		took := time.Since(begun)
		l.mu.Lock()
		if l.measured {
			l.syncs.add(took)
			l.bytes += float64(len(all))
			l.synced++
		}
		l.spare, l.busy = all, false
		l.durable, l.err = to, cmp.Or(l.err, err)
		l.flushing.Broadcast()
	}
	return l.err
}

// write writes pages of the log and makes them durable.
func (l *wal) write(pages []byte, at int64) error {
	for len(pages) > 0 {
		if n := at / walSegment; n != l.number || l.segment == nil {
			if err := l.next(n); err != nil {
				return err
			}
		}
		n := min(int64(len(pages)), walSegment-at%walSegment)
		if _, err := l.segment.WriteAt(pages[:n], at%walSegment); err != nil {
			return err
		}
		if err := l.sync(l.segment); err != nil {
			return err
		}
		l.written++
		pages, at = pages[n:], at+n
	}
	return nil
}

// next switches to segment `number`. Once all segments have been used, it renames the oldest one to this segment.
func (l *wal) next(number int64) (err error) {
	if l.segment != nil {
		err = l.segment.Close()
	}
	if err == nil && number >= walSegments {
		if err = os.Rename(filepath.Join(l.Dir, segmentName(number-walSegments)), filepath.Join(l.Dir, segmentName(number))); err == nil {
			err = flushDir(l.Dir)
			l.renamed++
		}
	}
	if err == nil {
		l.segment, err = l.open(segmentName(number), 0)
	}
	l.number = number
	return err
}

// checkpoint writes the changed pages in ascending order, spread over the duration `over`, and calls fsync. After
// `stop` is closed, it writes the remaining pages without delays.
func (l *wal) checkpoint(over time.Duration, stop <-chan struct{}) error {
	begun := time.Now()
	l.mu.Lock()
	dirty := l.dirty
	l.dirty = make([]bool, len(dirty))
	clear(l.imaged)
	l.mu.Unlock()
	var pages []int
	for p, d := range dirty {
		if d {
			pages = append(pages, p)
		}
	}
	buf := make([]byte, walPage)
	for i, p := range pages {
		if wait := time.Until(begun.Add(over * time.Duration(i) / time.Duration(len(pages)))); wait > 0 {
			select {
			case <-stop:
				over = 0
			case <-time.After(wait):
			}
		}
		l.mu.Lock()
		by, end := l.by[p], l.end
		l.mu.Unlock()
		if err := l.commit(end); err != nil { // the log must be durable before the page is written
			return err
		}
		if _, err := l.data.WriteAt(fillPage(l.content, buf, p, by), int64(p)*walPage); err != nil {
			return err
		}
		l.pages++
	}
	if err := fsync(l.data); err != nil {
		return err
	}
	l.fsyncs++
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.measured && over > 0 {
		l.checkpoints.add(time.Since(begun))
	}
	return nil
}

// transactions runs one committer until `end`. It returns the durations of the transactions that began after
// `measured`.
func (l *wal) transactions(ctx context.Context, worker int, measured, end time.Time) (commits recorder, err error) {
	random := rand.New(rand.NewPCG(l.Seed, uint64(worker)))
	noise := rand.NewChaCha8([32]byte{0: byte(worker), 1: byte(worker >> 8), 24: byte(l.Seed), 25: byte(l.Seed >> 8)})
	body, image := make([]byte, l.Record-headSize), make([]byte, walPage)
	now := time.Now()
	for now.Before(end) && err == nil {
		compute(l.Compute, image)
		_, _ = noise.Read(body) // it never fails
		err = l.commit(l.insert(random.IntN(l.Pages), body, image))
		before := now
		if now = time.Now(); before.After(measured) {
			commits.add(now.Sub(before))
		}
		if err == nil {
			err = context.Cause(ctx)
		}
	}
	return commits, err
}

func openWAL(w WAL) (*wal, error) {
	l := &wal{WAL: w, content: newFiller(w.Seed, walPage), by: make([]uint64, w.Pages), dirty: make([]bool, w.Pages), imaged: make([]bool, w.Pages)}
	l.flushing = sync.NewCond(&l.mu)
	err := l.next(0)
	if err == nil {
		l.data, err = os.OpenFile(filepath.Join(w.Dir, "data"), os.O_RDWR, 0o600)
	}
	if err != nil {
		_ = l.close() // report err, which occurred first
	}
	return l, err
}

func (l *wal) close() error { return errors.Join(l.segment.Close(), l.data.Close()) }

func doWAL(ctx context.Context, w WAL) (_ *Result, err error) {
	fail := func(op string, err error) error {
		return &iotax.Error{Op: op, On: w.Dir, Err: err}
	}
	l, err := openWAL(w)
	if err != nil {
		return nil, fail("open the log", err)
	}
	defer func() { err = errors.Join(err, l.close()) }()

	stop, checkpointed := make(chan struct{}), make(chan error, 1)
	go func() {
		next := time.NewTicker(w.Checkpoint)
		defer next.Stop()
		for {
			select {
			case <-stop:
				checkpointed <- nil
				return
			case <-next.C:
			}
			if err := l.checkpoint(time.Duration(walSpread*float64(w.Checkpoint)), stop); err != nil {
				checkpointed <- err
				return
			}
		}
	}()
	begun := time.Now()
	measured, end := begun.Add(w.Ramp), begun.Add(w.Ramp+w.Length)
	window := time.AfterFunc(w.Ramp, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.measured = true
	})
	defer window.Stop()
	commits, errs := make([]recorder, w.Committers), make([]error, w.Committers)
	var all sync.WaitGroup
	for i := range w.Committers {
		all.Go(func() { commits[i], errs[i] = l.transactions(ctx, i, measured, end) })
	}
	all.Wait()
	l.mu.Lock()
	l.measured = false
	l.mu.Unlock()
	took := time.Since(measured)
	close(stop)
	for _, err := range append(errs, <-checkpointed) {
		if err != nil {
			return nil, fail("commit", err)
		}
	}
	for i := range commits[1:] {
		commits[0].merge(&commits[1+i])
	}
	if commits[0].n == 0 || l.synced == 0 {
		return nil, fail("measure", errors.New("no transaction ended in the window"))
	}
	if err := l.checkpoint(0, nil); err != nil {
		return nil, fail("end with a checkpoint", err)
	}
	out := &Result{Facts: map[string]string{iotax.FactDirect: "by flushes"}, Calls: map[string]int{}} // the rules then require that these bytes reach the device
	out.value("transactions.rate", float64(commits[0].n)/took.Seconds(), iotax.PerSecond, iotax.Up)
	out.value("transactions.per-sync", float64(commits[0].n)/float64(l.synced), iotax.RatioUnit, iotax.Neither)
	out.value(iotax.ValueWriteIOPS, float64(l.synced)/took.Seconds(), iotax.PerSecond, iotax.Up)
	out.value("write.bytes", l.bytes, iotax.Bytes, iotax.Neither)
	commits[0].into(out, "commit")
	l.syncs.into(out, "sync")
	l.checkpoints.into(out, "checkpoint")
	out.called(l.written+l.pages, "pwrite64")
	if w.Method != "open_datasync" {
		out.called(l.written, w.Method)
	}
	out.called(l.fsyncs+l.renamed, "fsync")
	out.called(l.renamed, "renameat")
	return out, l.verify()
}

// verify reads back all pages, and all records that start in a segment that still exists.
func (l *wal) verify() error {
	last := l.end / walSegment
	oldest := l.first[max(0, min(last-walSegments+1, int64(len(l.first))-1))]
	files := map[int64]*os.File{}
	defer func() {
		for _, f := range files {
			f.Close()
		}
	}()
	get := func(buf []byte, at int64) error {
		for len(buf) > 0 {
			s := at / walSegment
			if files[s] == nil {
				f, err := os.Open(filepath.Join(l.Dir, segmentName(s)))
				if err != nil {
					return err
				}
				files[s] = f
			}
			n := min(int64(len(buf)), walSegment-at%walSegment)
			if _, err := files[s].ReadAt(buf[:n], at%walSegment); err != nil {
				return err
			}
			buf, at = buf[n:], at+n
		}
		return nil
	}
	buf := make([]byte, l.Record+walPage)
	at := oldest.at
	for number := oldest.number; number <= l.records; number++ {
		err := get(buf[:4], at)
		size := int(binary.LittleEndian.Uint32(buf))
		if err == nil && (size == l.Record || size == l.Record+walPage) {
			err = get(buf[:size], at)
		}
		if err != nil {
			return lost(filepath.Join(l.Dir, segmentName(at/walSegment)), fmt.Errorf("read record %d: %w", number, err))
		}
		if size != l.Record && size != l.Record+walPage || !sealed(buf[4:size], number) {
			return lost(filepath.Join(l.Dir, segmentName(at/walSegment)), fmt.Errorf("record %d is not what was written", number))
		}
		at += int64(size)
	}
	if at != l.end {
		return lost(filepath.Join(l.Dir, segmentName(last)), fmt.Errorf("the log ends at byte %d in place of %d", at, l.end))
	}
	got, want := make([]byte, walPage), make([]byte, walPage)
	for p, by := range l.by {
		if _, err := l.data.ReadAt(got, int64(p)*walPage); err != nil {
			return lost(filepath.Join(l.Dir, "data"), fmt.Errorf("read page %d: %w", p, err))
		}
		if !bytes.Equal(got, fillPage(l.content, want, p, by)) {
			return lost(filepath.Join(l.Dir, "data"), fmt.Errorf("page %d is not what was written", p))
		}
	}
	return nil
}
