package generate

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"iotax"
	"iotax/internal/agent"
)

// A Dataload does the I/O of one epoch of training. Workers read each record of all shards once, in random order. A
// loop repeatedly takes a batch of records, and waits for the time of a step. After the last batch, Dataload writes a
// checkpoint, flushes it and reads it back.
type Dataload struct {
	Dir                   string // MakeShards creates it, replacing an old one
	Shards, Records, Size int    // number of files, records per file, bytes per record
	Workers, Batch        int    // number of readers, records per step
	Step                  time.Duration
	Checkpoint            int // bytes
	Seed                  uint64
}

const (
	prefetched = 2                    // batches that the workers read ahead together; in PyTorch's DataLoader, each worker reads 2 batches ahead
	waitedFrom = 1 * time.Millisecond // a shorter wait may be only the handover between goroutines
)

var (
	// MakeShards creates the shards in Dir, replacing an old Dir.
	MakeShards = agent.New("make shards of records", makeShards)
	// DoDataload does the I/O of one epoch on the shards that MakeShards created.
	DoDataload = agent.New("read shards of records", doDataload)
)

// Space returns the space that all files need, in bytes.
func (d Dataload) Space() int64 {
	return int64(d.Shards)*int64(d.Records)*int64(d.Size) + int64(d.Checkpoint) + 4096*int64(2*d.Shards+4)
}

func (d Dataload) shard(i int) string { return filepath.Join(d.Dir, fmt.Sprintf("shard-%05d", i)) }

func makeShards(ctx context.Context, d Dataload) (none struct{}, err error) {
	if err = errors.Join(os.RemoveAll(d.Dir), os.Mkdir(d.Dir, 0o755)); err != nil {
		return none, err
	}
	content, buf := newFiller(d.Seed, d.Size), make([]byte, d.Size)
	for s := range d.Shards {
		f, err := os.OpenFile(d.shard(s), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
		if err != nil {
			return none, err
		}
		for r := 0; r < d.Records && err == nil; r++ {
			if _, err = f.Write(content.fill(buf, s*d.Records+r)); err == nil {
				err = context.Cause(ctx)
			}
		}
		if err = errors.Join(err, f.Close()); err != nil {
			return none, err
		}
	}
	return none, nil
}

func doDataload(ctx context.Context, d Dataload) (_ *Result, err error) {
	fail := func(op string, err error) error {
		return &iotax.Error{Op: op, On: d.Dir, Err: err}
	}
	shards := make([]*os.File, d.Shards)
	defer func() {
		for _, f := range shards {
			if f != nil {
				f.Close()
			}
		}
	}()
	for i := range shards {
		if shards[i], err = os.Open(d.shard(i)); err != nil {
			return nil, fail("open the shards", err)
		}
	}
	order := rand.New(rand.NewPCG(d.Seed, 1)).Perm(d.Shards * d.Records)
	content := newFiller(d.Seed, d.Size)
	reads, errs := make([]recorder, d.Workers), make([]error, d.Workers)
	loaded, stop := make(chan struct{}, prefetched*d.Batch), make(chan struct{})
	var next atomic.Int64
	var all sync.WaitGroup
	begun := time.Now()
	for w := range d.Workers {
		all.Go(func() {
			got := make([]byte, d.Size)
			for {
				n := int(next.Add(1)) - 1
				if n >= len(order) {
					return
				}
				i := order[n]
				before := time.Now()
				_, err := shards[i/d.Records].ReadAt(got, int64(i%d.Records)*int64(d.Size))
				reads[w].add(time.Since(before))
				if err == nil && !content.filled(got, d.Size, i) {
					err = fmt.Errorf("record %d of %s does not hold what was written", i%d.Records, d.shard(i/d.Records))
				}
				if err == nil {
					err = context.Cause(ctx)
				}
				if errs[w] = err; err != nil {
					return
				}
				select {
				case loaded <- struct{}{}:
				case <-stop:
					return
				}
			}
		})
	}
	go func() {
		all.Wait()
		close(loaded)
	}()
	var steps recorder
	waited := 0
	for left := len(order); left > 0; {
		from, batch := time.Now(), min(d.Batch, left)
		for range batch {
			if _, ok := <-loaded; !ok {
				return nil, fail("read a record", cmp.Or(errs...))
			}
		}
		if time.Since(from) > waitedFrom {
			waited++
		}
		left -= batch
		time.Sleep(d.Step)
		steps.add(time.Since(from))
	}
	close(stop)
	took := time.Since(begun)

	out := &Result{Facts: map[string]string{iotax.FactDirect: "by an empty cache"}, Calls: map[string]int{}} // the rules then require that the device read these bytes
	for i := range reads[1:] {
		reads[0].merge(&reads[1+i])
	}
	out.value(iotax.ValueDuration, took.Seconds(), iotax.Seconds, iotax.Down)
	out.value("waited.share", float64(waited)/float64(steps.n), iotax.RatioUnit, iotax.Down)
	out.value("records.rate", float64(len(order))/took.Seconds(), iotax.PerSecond, iotax.Up)
	out.value("read.bytes", float64(len(order))*float64(d.Size), iotax.Bytes, iotax.Neither)
	steps.into(out, "step")
	reads[0].into(out, "record")
	out.called(d.Shards, "openat")
	out.called(len(order), "pread64")
	return out, d.checkpoint(out)
}

// checkpoint writes the state of the model, flushes it and reads it back.
func (d Dataload) checkpoint(out *Result) error {
	path := filepath.Join(d.Dir, "checkpoint")
	content := newFiller(d.Seed, min(d.Checkpoint, 1<<20))
	piece := content.fill(make([]byte, len(content.block)), 0)
	got := make([]byte, len(piece))
	pieces := (d.Checkpoint + len(piece) - 1) / len(piece)
	out.called(1, "openat", "fdatasync")
	out.called(pieces, "write", "pread64")
	begun := time.Now()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return &iotax.Error{Op: "write a checkpoint", On: path, Err: iotax.Cause(err)}
	}
	defer f.Close()
	for at := 0; at < d.Checkpoint && err == nil; at += len(piece) {
		_, err = f.Write(piece[:min(len(piece), d.Checkpoint-at)])
	}
	if err == nil {
		err = flush(f)
	}
	if err != nil {
		return &iotax.Error{Op: "write a checkpoint", On: path, Err: iotax.Cause(err)}
	}
	out.value("checkpoint.write.duration", time.Since(begun).Seconds(), iotax.Seconds, iotax.Down)
	begun = time.Now()
	for at := 0; at < d.Checkpoint; at += len(piece) {
		n := min(len(piece), d.Checkpoint-at)
		if _, err := f.ReadAt(got[:n], int64(at)); err != nil {
			return lost(path, err)
		}
		if !bytes.Equal(got[:n], piece[:n]) {
			return lost(path, fmt.Errorf("%d bytes from byte %d on are not what was written", n, at))
		}
	}
	out.value("checkpoint.read.duration", time.Since(begun).Seconds(), iotax.Seconds, iotax.Down)
	return nil
}
