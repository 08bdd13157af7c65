package object

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/minio/crc64nvme"
	"github.com/minio/minio-go/v7"
)

// Do performs j. After an error, the result is nil or contains what Do measured before the error.
func Do(ctx context.Context, j Job) (*Result, error) {
	// Do writes and removes objects under the prefix, so the prefix must be one of iotax.
	if !strings.HasPrefix(j.Prefix, "iotax-") || !strings.HasSuffix(j.Prefix, "/") || strings.Contains(j.Prefix, "..") {
		return nil, &Failure{Op: j.Op, Text: fmt.Sprintf("%q is not a prefix of iotax", j.Prefix)}
	}
	c, err := newClient(j.Endpoint)
	if err != nil {
		return nil, err
	}
	defer c.close()
	r := &Result{Facts: map[string]string{}}
	switch j.Op {
	case OpLook:
		return r, c.look(ctx, r)
	case OpBatch:
		err := c.batch(ctx, j, r)
		if p := c.payload(); p != "" {
			r.Facts["payload"] = p
		}
		return r, err
	case OpMark:
		return r, c.put(ctx, j.Prefix+Marker, strings.NewReader(j.Label+"\n"), int64(len(j.Label))+1, 5<<20, 1)
	case OpClean:
		return r, c.clean(ctx, j.Prefix, j.Keep)
	case OpPutFile, OpGetFile:
		begun := time.Now()
		r.Bytes, err = c.file(ctx, j)
		r.Duration = time.Since(begun).Seconds()
		return r, err
	}
	return nil, &Failure{Op: j.Op, Text: "there is no such operation"}
}

// look checks that the bucket can be used. It creates a missing bucket if Create is set. It reports versioning and
// object lock, which would keep removed objects.
func (c *client) look(ctx context.Context, r *Result) error {
	// List objects instead of sending a HEAD request, whose answer has no body that describes an error.
	_, err := minio.Core{Client: c.Client}.ListObjectsV2(c.e.Bucket, "iotax-", "", "", "/", 1)
	there := minio.ToErrorResponse(err).Code != "NoSuchBucket"
	if err != nil && there {
		return failure("look at bucket "+c.e.Bucket, err)
	}
	if !there && c.e.Create {
		if err := c.MakeBucket(ctx, c.e.Bucket, minio.MakeBucketOptions{Region: c.e.Region}); err != nil {
			return failure("make bucket "+c.e.Bucket, err)
		}
	} else if !there {
		return &Failure{Op: "look at bucket " + c.e.Bucket, Code: "NoSuchBucket", Text: "there is no such bucket", Hint: hints["NoSuchBucket"]}
	}
	// A store without versioning answers that it is not implemented. After any other error, versioning is unknown.
	v, err := c.GetBucketVersioning(ctx, c.e.Bucket)
	switch status := minio.ToErrorResponse(err).StatusCode; {
	case err == nil && v.Status != "":
		r.Facts["versioning"] = v.Status
	case err != nil && status != http.StatusNotImplemented && status != http.StatusMethodNotAllowed && minio.ToErrorResponse(err).Code != "NotImplemented":
		r.Facts["versioning"] = Unknown
	}
	if lock, _, _, _, err := c.GetObjectLockConfig(ctx, c.e.Bucket); err == nil && lock != "" {
		r.Facts["object lock"] = lock
	}
	return nil
}

func (c *client) put(ctx context.Context, key string, body io.Reader, size, part int64, concurrency int) error {
	o := c.options
	o.PartSize, o.NumThreads = uint64(max(part, 5<<20)), uint(max(concurrency, 1))
	o.DisableMultipart = size <= part
	o.ContentType = "application/octet-stream"
	_, err := c.PutObject(ctx, c.e.Bucket, key, body, size, o)
	return failure("upload "+key, err)
}

// get downloads one object. It calls `take` with pieces of the data that fill buf, except for the last, because one
// checksum of a full buffer costs less CPU time than several of small pieces. first is the time until the first byte.
func (c *client) get(ctx context.Context, key string, size int64, buf []byte, take func([]byte)) (first time.Duration, err error) {
	begun := time.Now()
	body, _, _, err := minio.Core{Client: c.Client}.GetObject(ctx, c.e.Bucket, key, minio.GetObjectOptions{})
	if err != nil {
		return 0, failure("download "+key, err)
	}
	defer body.Close()
	var got int64
	for err == nil {
		n := 0
		for n < len(buf) && err == nil {
			var more int
			more, err = body.Read(buf[n:])
			if more > 0 && got == 0 && n == 0 {
				first = time.Since(begun)
			}
			n += more
		}
		got += int64(n)
		take(buf[:n])
	}
	if !errors.Is(err, io.EOF) {
		return first, failure("download "+key, err)
	}
	if got != size {
		return first, &Failure{Op: "download " + key, Text: fmt.Sprintf("%d bytes came of %d", got, size)}
	}
	return first, nil
}

// batch uploads, downloads and removes the objects. It times only uploads and downloads.
func (c *client) batch(ctx context.Context, j Job, r *Result) (err error) {
	b := j.Batch
	pool := newPool(b.Seed)
	objects := make([]*content, b.Count)
	sums := make([]uint64, b.Count)
	for i := range objects {
		objects[i] = objectContent(pool, b.Seed, i, b.Size)
		if b.Verify {
			sums[i] = objects[i].sum()
		}
	}
	key := func(i int) string { return fmt.Sprintf("%s%x-%04d", j.Prefix, b.Seed, i) }
	defer func() {
		clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*c.e.Timeout)
		defer cancel()
		if cerr := c.remove(clean, b.Count, key); err == nil {
			err = cerr
		}
	}()
	r.Upload.Bytes, r.Download.Bytes = b.Size*int64(b.Count), b.Size*int64(b.Count)
	if err = c.upload(ctx, b, key, objects, &r.Upload); err != nil {
		return err
	}
	return c.download(ctx, b, key, sums, &r.Download)
}

func (c *client) upload(ctx context.Context, b Batch, key func(int) string, objects []*content, p *Phase) error {
	return p.time(ctx, b, 0, func(ctx context.Context, i int, _ []byte, _ *checker) (time.Duration, error) {
		return 0, c.put(ctx, key(i), objects[i].reader(), b.Size, b.Part, b.Concurrency)
	})
}

func (c *client) download(ctx context.Context, b Batch, key func(int) string, sums []uint64, p *Phase) error {
	return p.time(ctx, b, buffer, func(ctx context.Context, i int, buf []byte, check *checker) (time.Duration, error) {
		take := func([]byte) {}
		if b.Verify {
			check.sum = 0
			take = check.add
		}
		first, err := c.get(ctx, key(i), b.Size, buf, take)
		if err == nil && b.Verify && check.sum != sums[i] {
			err = &Failure{Op: "download " + key(i), Text: fmt.Sprintf("what came is not what was sent: %s %016x in place of %016x", Checksum, check.sum, sums[i])}
		}
		return first, err
	})
}

// Checksum is the algorithm that verifies downloads. S3 also supports it. On CPUs with wide carry-less multiplication,
// it takes half the time of CRC-32C.
const Checksum = "CRC-64/NVME"

// A checker computes the checksums of one client's downloads and measures their CPU cost.
type checker struct {
	sum   uint64
	bytes int64
	costs []float64 // seconds per byte, for each of the first 1000 pieces
}

func (k *checker) add(p []byte) {
	if len(p) == 0 {
		return
	}
	begun := time.Now()
	k.sum = crc64nvme.Update(k.sum, p)
	if len(k.costs) < 1000 {
		k.costs = append(k.costs, time.Since(begun).Seconds()/float64(len(p)))
	}
	k.bytes += int64(len(p))
}

// cost returns the CPU time of all checksums in seconds: the number of bytes times the median time per byte. The sum of
// the elapsed times would include the time that clients wait for a core.
func cost(all []*checker) float64 {
	var costs []float64
	var bytes int64
	for _, k := range all {
		costs, bytes = append(costs, k.costs...), bytes+k.bytes
	}
	if len(costs) == 0 {
		return 0
	}
	slices.Sort(costs)
	return costs[len(costs)/2] * float64(bytes)
}

// buffer is the number of bytes of a download that are read before they are checked. The last bytes of each buffer
// usually need a further read call. So a buffer of 128 KiB costs a tenth more CPU time than one of 512 KiB.
const buffer = 512 << 10

// gcPercent is the value of GOGC while requests are timed. The heap is only a few megabytes. Compared with the default
// of 100, 400 saves 5 % of an upload's CPU time if the payload is signed or checksummed in chunks. 1600 saves no more.
const gcPercent = 400

// time calls f for every object until a call fails. It runs at most b.Clients clients in parallel. Each client has its
// own buffer of `buffer` bytes, allocated before timing starts.
func (p *Phase) time(ctx context.Context, b Batch, buffer int, f func(ctx context.Context, i int, buf []byte, check *checker) (first time.Duration, err error)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	next := make(chan int)
	var mu sync.Mutex
	var checkers []*checker
	var clients sync.WaitGroup
	buffers := make([][]byte, min(b.Clients, b.Count))
	for i := range buffers {
		buffers[i] = make([]byte, buffer)
	}
	// Signing allocates memory for each object. The heap is small, so the collector would otherwise run every few
	// megabytes.
	defer debug.SetGCPercent(debug.SetGCPercent(gcPercent))
	cpu, begun := CPUTime(), time.Now()
	for _, buf := range buffers {
		check := &checker{}
		checkers = append(checkers, check)
		clients.Go(func() {
			for i := range next {
				start := time.Now()
				first, err := f(ctx, i, buf, check)
				took := time.Since(start)
				if err != nil {
					cancel(err)
					return
				}
				mu.Lock()
				p.Latencies = append(p.Latencies, took.Seconds())
				if first > 0 {
					p.FirstByte = append(p.FirstByte, first.Seconds())
				}
				mu.Unlock()
			}
		})
	}
	for i := range b.Count {
		select {
		case next <- i:
		case <-ctx.Done():
		}
	}
	close(next)
	clients.Wait()
	p.Duration = time.Since(begun).Seconds()
	used := CPUTime() - cpu
	p.Checking = cost(checkers)
	p.CPU = max(0, used.Seconds()-p.Checking)
	return context.Cause(ctx)
}

func (c *client) remove(ctx context.Context, n int, key func(int) string) error {
	var errs []error
	for i := range n {
		if err := c.RemoveObject(ctx, c.e.Bucket, key(i), minio.RemoveObjectOptions{}); err != nil {
			errs = append(errs, failure("remove "+key(i), err))
			if len(errs) == 3 {
				break // further errors are probably the same
			}
		}
	}
	return errors.Join(errs...)
}

// clean removes objects and unfinished uploads under the prefix. It keeps the marker if keep is true or an error
// occurs.
func (c *client) clean(ctx context.Context, prefix string, keep bool) error {
	ctx, cancel := context.WithCancel(ctx) // stops a listing that is not read to its end
	defer cancel()
	var errs []error
	marked := false
	for o := range c.ListObjects(ctx, c.e.Bucket, minio.ListObjectsOptions{Prefix: prefix, Recursive: true}) {
		err := o.Err
		if err == nil && o.Key == prefix+Marker { // removed last, so that iotax can still find the rest after an interrupted cleanup
			marked = true
			continue
		}
		if err == nil {
			err = c.RemoveObject(ctx, c.e.Bucket, o.Key, minio.RemoveObjectOptions{})
		}
		if err != nil {
			errs = append(errs, failure("remove what is under "+prefix, err))
			break
		}
	}
	for u := range c.ListIncompleteUploads(ctx, c.e.Bucket, prefix, true) {
		err := u.Err
		if err == nil {
			err = c.RemoveIncompleteUpload(ctx, c.e.Bucket, u.Key)
		}
		if err != nil {
			errs = append(errs, failure("end uploads under "+prefix, err))
			break
		}
	}
	if marked && !keep && len(errs) == 0 {
		errs = append(errs, failure("remove what is under "+prefix, c.RemoveObject(ctx, c.e.Bucket, prefix+Marker, minio.RemoveObjectOptions{})))
	}
	return errors.Join(errs...)
}

// Marker is the name of the object that contains a run's label, under each prefix of the run.
const Marker = ".iotax"

// marks returns the labels under iotax's prefixes, by prefix. It skips prefixes without a label. If it cannot read a
// label, for example because another user owns it, it returns an error and the labels that it could read.
func (c *client) marks(ctx context.Context) (map[string]string, error) {
	found := map[string]string{}
	var errs []error
	unread := 0
	ctx, cancel := context.WithCancel(ctx) // stops a listing that is not read to its end
	defer cancel()
	for o := range c.ListObjects(ctx, c.e.Bucket, minio.ListObjectsOptions{Prefix: "iotax-"}) {
		if o.Err != nil {
			errs = append(errs, failure("list the prefixes of bucket "+c.e.Bucket, o.Err))
			break
		}
		if !strings.HasSuffix(o.Key, "/") {
			continue // an object that is not under a prefix
		}
		label, err := c.mark(ctx, o.Key)
		answer := minio.ToErrorResponse(err)
		switch {
		case err == nil:
			found[o.Key] = label
		case answer.Code == "NoSuchKey":
		case answer.StatusCode == 0: // the store does not answer, so more requests would only time out
			return found, errors.Join(append(errs, failure("read "+o.Key+Marker, err))...)
		default:
			if unread++; unread <= 3 { // report only three, because further errors are probably the same
				errs = append(errs, failure("read "+o.Key+Marker, err))
			}
		}
	}
	if unread > 3 {
		errs = append(errs, &Failure{Op: "read labels in bucket " + c.e.Bucket, Text: fmt.Sprintf("%d more could not be read", unread-3)})
	}
	return found, errors.Join(errs...)
}

func (c *client) mark(ctx context.Context, prefix string) (string, error) {
	body, _, _, err := minio.Core{Client: c.Client}.GetObject(ctx, c.e.Bucket, prefix+Marker, minio.GetObjectOptions{})
	if err != nil {
		return "", err
	}
	defer body.Close()
	text, err := io.ReadAll(io.LimitReader(body, maxLabel))
	return strings.TrimSpace(string(text)), err
}

// maxLabel limits the bytes that are read from a marker.
const maxLabel = 4 << 10

// Marks returns the labels that runs left in a bucket, by the prefix of their objects.
func Marks(ctx context.Context, e Endpoint) (map[string]string, error) {
	c, err := newClient(e)
	if err != nil {
		return nil, err
	}
	defer c.close()
	return c.marks(ctx)
}

// file uploads or downloads one file and returns the number of bytes.
func (c *client) file(ctx context.Context, j Job) (int64, error) {
	key := j.Prefix + j.Object
	if j.Op == OpPutFile {
		f, err := os.Open(j.File)
		if err != nil {
			return 0, &Failure{Op: "upload " + j.File, Text: err.Error()}
		}
		defer f.Close()
		st, err := f.Stat()
		if err != nil {
			return 0, &Failure{Op: "upload " + j.File, Text: err.Error()}
		}
		return st.Size(), c.put(ctx, key, f, st.Size(), j.Batch.Part, j.Batch.Concurrency)
	}
	f, err := os.OpenFile(j.File, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return 0, &Failure{Op: "download to " + j.File, Text: err.Error()}
	}
	body, _, _, err := minio.Core{Client: c.Client}.GetObject(ctx, c.e.Bucket, key, minio.GetObjectOptions{})
	if err != nil {
		return 0, errors.Join(failure("download "+key, err), f.Close())
	}
	n, err := io.CopyBuffer(struct{ io.Writer }{f}, io.LimitReader(body, j.Batch.Size+1), make([]byte, 1<<20))
	err = errors.Join(failure("download "+key, err), body.Close(), f.Close())
	if err == nil && n != j.Batch.Size {
		err = &Failure{Op: "download " + key, Text: fmt.Sprintf("the store does not return the %d bytes that were uploaded", j.Batch.Size)}
	}
	return n, err
}
