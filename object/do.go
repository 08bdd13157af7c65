package object

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/minio/minio-go/v7"
)

// Do does j. What it had found until an error is in the result.
func Do(ctx context.Context, j Job) (*Result, error) {
	// Nothing outside its own prefix is ever written or removed.
	if !strings.HasPrefix(j.Prefix, "iotax-") || !strings.HasSuffix(j.Prefix, "/") || strings.Contains(j.Prefix, "..") {
		return nil, &Failure{Op: j.Op, Text: fmt.Sprintf("%q is no prefix of iotax", j.Prefix)}
	}
	c, err := newClient(j.Endpoint)
	if err != nil {
		return nil, err
	}
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
	case OpClean:
		return r, c.clean(ctx, j.Prefix)
	case OpPutFile, OpGetFile:
		begun := time.Now()
		r.Bytes, err = c.file(ctx, j)
		r.Duration = time.Since(begun).Seconds()
		return r, err
	}
	return nil, &Failure{Op: j.Op, Text: "there is no such operation"}
}

// look refuses buckets in which a removed object would stay.
func (c *client) look(ctx context.Context, r *Result) error {
	// A listing, for the answer to a HEAD has no body that says what is wrong.
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
		return &Failure{Op: "look at bucket " + c.e.Bucket, Code: "NoSuchBucket", Text: "there is no such bucket", Mend: mends["NoSuchBucket"]}
	}
	// A store that knows no versions answers with an error. Who may not ask does not know.
	v, err := c.GetBucketVersioning(ctx, c.e.Bucket)
	switch status := minio.ToErrorResponse(err).StatusCode; {
	case err == nil && v.Status != "":
		r.Facts["versioning"] = v.Status
	case err != nil && (status == http.StatusForbidden || status == http.StatusUnauthorized):
		r.Facts["versioning"] = Unknown
	}
	if lock, _, _, _, err := c.GetObjectLockConfig(ctx, c.e.Bucket); err == nil && lock != "" {
		r.Facts["object lock"] = lock
	}
	return nil
}

// put uploads one content.
func (c *client) put(ctx context.Context, key string, body io.Reader, size, part int64, concurrency int) error {
	o := c.options
	o.PartSize, o.NumThreads = uint64(max(part, 5<<20)), uint(max(concurrency, 1))
	o.DisableMultipart = size <= part
	o.ContentType = "application/octet-stream"
	_, err := c.PutObject(ctx, c.e.Bucket, key, body, size, o)
	return failure("upload "+key, err)
}

// get downloads one object and returns when its first byte came.
func (c *client) get(ctx context.Context, key string, size int64, buf []byte, take func([]byte)) (first time.Duration, err error) {
	begun := time.Now()
	body, _, _, err := minio.Core{Client: c.Client}.GetObject(ctx, c.e.Bucket, key, minio.GetObjectOptions{})
	if err != nil {
		return 0, failure("download "+key, err)
	}
	defer body.Close()
	var got int64
	for {
		n, err := body.Read(buf)
		if n > 0 && got == 0 {
			first = time.Since(begun)
		}
		got += int64(n)
		take(buf[:n])
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return first, failure("download "+key, err)
		}
	}
	if got != size {
		return first, &Failure{Op: "download " + key, Text: fmt.Sprintf("%d bytes came of %d", got, size)}
	}
	return first, nil
}

// batch uploads and downloads the objects, and removes them. Only the requests are timed.
func (c *client) batch(ctx context.Context, j Job, r *Result) (err error) {
	b := j.Batch
	pool := newPool(b.Seed)
	objects := make([]*content, b.Count)
	sums := make([]uint32, b.Count)
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
	err = r.Upload.time(ctx, b, func(ctx context.Context, i int, _ []byte) (time.Duration, time.Duration, error) {
		return 0, 0, c.put(ctx, key(i), objects[i], b.Size, b.Part, b.Concurrency)
	})
	if err != nil {
		return err
	}
	return r.Download.time(ctx, b, func(ctx context.Context, i int, buf []byte) (first, checking time.Duration, err error) {
		var sum uint32
		first, err = c.get(ctx, key(i), b.Size, buf, func(p []byte) {
			if b.Verify {
				began := time.Now()
				sum = crc32.Update(sum, castagnoli, p)
				checking += time.Since(began)
			}
		})
		if err == nil && b.Verify && sum != sums[i] {
			err = &Failure{Op: "download " + key(i), Text: fmt.Sprintf("what came is not what was sent: CRC-32C %08x in place of %08x", sum, sums[i])}
		}
		return first, checking, err
	})
}

// time runs f for every object, by as many clients as the batch has, until one fails.
func (p *Phase) time(ctx context.Context, b Batch, f func(ctx context.Context, i int, buf []byte) (first, checking time.Duration, err error)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	next := make(chan int)
	var mu sync.Mutex
	var checked time.Duration
	var clients sync.WaitGroup
	cpu, begun := CPUTime(), time.Now()
	for range min(b.Clients, b.Count) {
		clients.Go(func() {
			buf := make([]byte, 256<<10)
			for i := range next {
				start := time.Now()
				first, checking, err := f(ctx, i, buf)
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
				checked += checking
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
	p.Checking = checked.Seconds()
	p.CPU = (CPUTime() - cpu).Seconds() - p.Checking
	return context.Cause(ctx)
}

func (c *client) remove(ctx context.Context, n int, key func(int) string) error {
	var errs []error
	for i := range n {
		if err := c.RemoveObject(ctx, c.e.Bucket, key(i), minio.RemoveObjectOptions{}); err != nil {
			errs = append(errs, failure("remove "+key(i), err))
			if len(errs) == 3 {
				break // they all fail alike
			}
		}
	}
	return errors.Join(errs...)
}

// clean removes what is left under the prefix: objects, and uploads that were cut off.
func (c *client) clean(ctx context.Context, prefix string) error {
	var errs []error
	for o := range c.ListObjects(ctx, c.e.Bucket, minio.ListObjectsOptions{Prefix: prefix, Recursive: true}) {
		err := o.Err
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
	return errors.Join(errs...)
}

// file uploads or downloads one file.
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
	n, err := io.CopyBuffer(struct{ io.Writer }{f}, body, make([]byte, 1<<20))
	err = errors.Join(failure("download "+key, err), body.Close(), f.Close())
	return n, err
}
