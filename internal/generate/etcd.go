package generate

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"time"

	bolt "go.etcd.io/bbolt"

	"iotax"
	"iotax/internal/agent"
)

// An Etcd does the I/O of one member of etcd. Each request is appended to a write-ahead log and flushed (fdatasync)
// before the next request. Then its value is put into a page file (bbolt), which is committed every 100 ms. Segments of
// the log are allocated before they are needed, and the last five are kept. See server/storage/wal and
// server/storage/backend of etcd.
type Etcd struct {
	Dir          string // DoEtcd creates it, replacing an old one
	Entry        int    // bytes of a log entry; its value in the page file is 252 bytes shorter
	Keys         int
	Seed         uint64
	Ramp, Length time.Duration
}

// etcd's defaults.
const (
	segmentSize = 64_000_000
	segments    = 5
	commitEvery = 100 * time.Millisecond
)

func (e Etcd) value() int { return e.Entry - 252 }

// Space returns an upper bound for the size of all files in bytes, rounded up to MiB. It allows for two segments more
// than the log keeps. Because bbolt copies the pages that it changes, it also allows for four times the size of the
// keys' entries.
func (e Etcd) Space() int64 {
	const mib = 1 << 20
	return ((segments+2)*segmentSize + 4*int64(e.Keys)*int64(e.Entry) + 17*mib - 1) / mib * mib
}

// TryEtcd begins a short log and a page file in a new directory, and removes the directory. bbolt maps the page file into
// memory, which some shares do not support.
var TryEtcd = agent.New("try the page file of etcd", func(_ context.Context, dir string) (none struct{}, err error) {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return none, err
	}
	j := &journal{dir: dir, size: 1 << 20}
	j.allocate()
	err = j.cut()
	if err == nil {
		_, err = j.append(make([]byte, 512))
	}
	j.close()
	if err == nil {
		var db *bolt.DB
		if db, err = bolt.Open(filepath.Join(dir, "db"), 0o600, &bolt.Options{Timeout: time.Minute}); err == nil {
			err = db.Close()
		}
	}
	return none, errors.Join(err, os.RemoveAll(dir))
})

// DoEtcd does the I/O for Ramp, without measuring it, and then for Length. Then it reads the log and the page file
// back.
var DoEtcd = agent.New("do the I/O of etcd", doEtcd)

// A journal is the write-ahead log.
type journal struct {
	dir     string
	size    int64 // bytes of a segment
	file    *os.File
	at      int64        // position in the file
	number  int          // number of the open segment
	entries []int        // number of entries in each segment, from the first segment on
	next    chan segment // delivers the next segment; nil if its allocation has not started
}

// A segment is an allocated file, or the error of the allocation.
type segment struct {
	file *os.File
	err  error
}

func (j *journal) name(number int) string {
	return filepath.Join(j.dir, fmt.Sprintf("%016x.wal", number))
}

// allocate starts to allocate the next segment in the background.
func (j *journal) allocate() {
	path, next := filepath.Join(j.dir, "next.tmp"), make(chan segment, 1)
	j.next = next
	go func() {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
		if err == nil {
			err = preallocate(f, j.size)
		}
		next <- segment{f, err}
	}()
}

// cut closes the open segment and starts the next one. It removes the oldest segment if more than `segments` exist, and
// starts to allocate another segment.
func (j *journal) cut() error {
	s := <-j.next
	j.next = nil
	if old := j.file; old != nil {
		s.err = errors.Join(s.err, flush(old), old.Close())
		j.number++
	}
	if j.file, j.at = s.file, 0; s.err != nil {
		return s.err
	}
	j.entries = append(j.entries, 0)
	err := os.Rename(filepath.Join(j.dir, "next.tmp"), j.name(j.number))
	if err == nil {
		err = flushDir(j.dir)
	}
	if err == nil && j.number >= segments {
		err = os.Remove(j.name(j.number - segments))
	}
	if err == nil {
		j.allocate()
	}
	return err
}

// close waits for the segment that is being allocated, and closes the files.
func (j *journal) close() {
	if j.next != nil {
		(<-j.next).file.Close() // Close also accepts a nil file
	}
	j.file.Close()
}

var table = crc32.MakeTable(crc32.Castagnoli)

// seal writes a number to the start of an entry, followed by a checksum of all bytes except the checksum itself.
func seal(entry []byte, number uint64) {
	binary.LittleEndian.PutUint64(entry, number)
	binary.LittleEndian.PutUint32(entry[8:], crc32.Update(crc32.Update(0, table, entry[:8]), table, entry[12:]))
}

func sealed(entry []byte, number uint64) bool {
	return binary.LittleEndian.Uint64(entry) == number && binary.LittleEndian.Uint32(entry[8:]) == crc32.Update(crc32.Update(0, table, entry[:8]), table, entry[12:])
}

// append writes an entry and returns how long the flush took.
func (j *journal) append(entry []byte) (flushed time.Duration, err error) {
	if j.at+int64(len(entry)) > j.size {
		if err := j.cut(); err != nil {
			return 0, err
		}
	}
	if _, err := j.file.WriteAt(entry, j.at); err != nil {
		return 0, err
	}
	begun := time.Now()
	if err := flush(j.file); err != nil {
		return 0, err
	}
	j.at += int64(len(entry))
	j.entries[j.number]++
	return time.Since(begun), nil
}

// pages is the page file with its open transaction.
type pages struct {
	db      *bolt.DB
	mu      sync.Mutex
	tx      *bolt.Tx
	commits recorder
	asked   bool // the measurement window has begun: record commits
}

var bucket = []byte("key")

func (p *pages) put(key, value []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.tx.Bucket(bucket).Put(key, value)
}

func (p *pages) commit() (err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	begun := time.Now()
	if err = p.tx.Commit(); err != nil {
		return err
	}
	if p.asked {
		p.commits.add(time.Since(begun))
	}
	p.tx, err = p.db.Begin(true)
	return err
}

func doEtcd(ctx context.Context, e Etcd) (_ *Result, err error) {
	fail := func(op string, err error) error {
		return &iotax.Error{Op: op, On: e.Dir, Err: err}
	}
	if err := errors.Join(os.RemoveAll(e.Dir), os.Mkdir(e.Dir, 0o700)); err != nil {
		return nil, fail("make directory", iotax.Cause(err))
	}
	j := &journal{dir: e.Dir, size: segmentSize}
	j.allocate()
	defer j.close()
	if err := j.cut(); err != nil {
		return nil, fail("begin the log", err)
	}
	db, err := bolt.Open(filepath.Join(e.Dir, "db"), 0o600, &bolt.Options{FreelistType: bolt.FreelistMapType, NoFreelistSync: true})
	if err != nil {
		return nil, fail("open the page file", err)
	}
	defer db.Close()
	p := &pages{db: db}
	if p.tx, err = db.Begin(true); err == nil {
		_, err = p.tx.CreateBucket(bucket)
	}
	if err != nil {
		return nil, fail("open the page file", err)
	}
	defer func() { _ = p.tx.Rollback() }()

	random := rand.NewChaCha8([32]byte{0: 1, 24: byte(e.Seed), 25: byte(e.Seed >> 8), 26: byte(e.Seed >> 16), 27: byte(e.Seed >> 24)})
	entry, key := make([]byte, e.Entry), make([]byte, 8)
	latest := make([]uint64, e.Keys)

	committing, stop := make(chan error, 1), make(chan struct{})
	go func() {
		tick := time.NewTicker(commitEvery)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				committing <- nil
				return
			case <-tick.C:
				if err := p.commit(); err != nil {
					committing <- fail("commit the page file", err)
					return
				}
			}
		}
	}()

	var flushes, requests recorder
	var n uint64
	begun := time.Now()
	measured, end := begun.Add(e.Ramp), begun.Add(e.Ramp+e.Length)
	window := false
	for now := begun; now.Before(end) && err == nil; {
		if !window && !now.Before(measured) {
			window, measured = true, now
			p.mu.Lock()
			p.asked = true
			p.mu.Unlock()
		}
		n++
		k := random.Uint64() % uint64(e.Keys)
		binary.BigEndian.PutUint64(key, k)
		_, _ = random.Read(entry[12:]) // it never fails; random bytes do not compress
		seal(entry, n)
		var flushed time.Duration
		if flushed, err = j.append(entry); err != nil {
			err = fail("append to the log", err)
			break
		}
		if err = p.put(key, bytes.Clone(entry[:e.value()])); err != nil { // bbolt keeps the value until the commit
			err = fail("put into the page file", err)
			break
		}
		latest[k] = n
		before := now
		now = time.Now()
		if window {
			flushes.add(flushed)
			requests.add(now.Sub(before))
		}
		if n%64 == 0 {
			err = context.Cause(ctx)
		}
	}
	ended := time.Now()
	close(stop)
	if err = cmp.Or(<-committing, err); err != nil {
		return nil, err
	}
	if !window || requests.n == 0 {
		return nil, fail("measure", errors.New("no request ended in the window"))
	}
	if err := p.commit(); err != nil {
		return nil, fail("commit the page file", err)
	}
	out := &Result{Calls: map[string]int{}}
	out.called(int(n), "pwrite64") // for the log, without bbolt's calls
	out.called(int(n)+j.number, "fdatasync")
	out.called(j.number+1, "renameat", "fsync")
	out.called(max(0, j.number+1-segments), "unlinkat")
	out.Facts = map[string]string{iotax.FactDirect: "by flushes"} // the rules then require that these bytes reach the device
	out.value(iotax.ValueWriteIOPS, float64(requests.n)/ended.Sub(measured).Seconds(), iotax.PerSecond, iotax.Up)
	out.value("write.bytes", float64(requests.n)*float64(e.Entry), iotax.Bytes, iotax.Neither)
	requests.into(out, "request")
	flushes.into(out, "sync")
	p.commits.into(out, "commit")
	if err := j.verify(entry); err != nil {
		return nil, err
	}
	return out, p.verify(e, latest)
}

// verify reads back all entries in the segments that still exist.
func (j *journal) verify(entry []byte) error {
	number := uint64(1)
	for s, n := range j.entries {
		if s <= j.number-segments {
			number += uint64(n)
			continue
		}
		err := func() error {
			f, err := os.Open(j.name(s))
			if err != nil {
				return err
			}
			defer f.Close()
			for range n {
				if _, err := io.ReadFull(f, entry); err != nil {
					return err
				}
				if !sealed(entry, number) {
					return fmt.Errorf("entry %d is not what was written", number)
				}
				number++
			}
			return nil
		}()
		if err != nil {
			return lost(j.name(s), err)
		}
	}
	return nil
}

// verify checks the length of each key's value in the page file, and the request number at its start.
func (p *pages) verify(e Etcd, latest []uint64) error {
	for k, n := range latest {
		if n == 0 {
			continue
		}
		var key [8]byte
		binary.BigEndian.PutUint64(key[:], uint64(k))
		if v := p.tx.Bucket(bucket).Get(key[:]); len(v) != e.value() || binary.LittleEndian.Uint64(v) != n {
			return lost(e.Dir, fmt.Errorf("key %d of the page file does not hold its latest value", k))
		}
	}
	return nil
}
