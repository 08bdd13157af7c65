package object

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"iotax/stat"
)

// plainLoop is what anyone would write: clients that put and get with minio-go as it comes, in the payload mode of e.
func plainLoop(b *testing.B, e Endpoint, batch Batch) (put, get Phase) {
	b.Helper()
	options := minio.PutObjectOptions{PartSize: uint64(batch.Part), NumThreads: uint(batch.Concurrency), DisableContentSha256: e.Payload != "default"}
	if e.Payload == "checksum" {
		options.Checksum = minio.ChecksumCRC32C
	}
	c, err := minio.New(e.Host, &minio.Options{Creds: credentials.NewStaticV4(e.Access, e.Secret, ""), Region: e.Region, BucketLookup: minio.BucketLookupPath, TrailingHeaders: e.Payload == "checksum"})
	if err != nil {
		b.Fatal(err)
	}
	pool := newPool(batch.Seed)
	data := make([][]byte, batch.Count)
	for i := range data {
		if data[i], err = io.ReadAll(objectContent(pool, batch.Seed, i, batch.Size)); err != nil {
			b.Fatal(err)
		}
	}
	all := func(p *Phase, f func(i int, buf []byte) error) {
		var clients sync.WaitGroup
		next := make(chan int)
		cpu, begun := CPUTime(), time.Now()
		for range batch.Clients {
			clients.Go(func() {
				buf := make([]byte, 256<<10)
				for i := range next {
					if err := f(i, buf); err != nil {
						b.Error(err)
					}
				}
			})
		}
		for i := range batch.Count {
			next <- i
		}
		close(next)
		clients.Wait()
		p.Duration, p.CPU = time.Since(begun).Seconds(), (CPUTime() - cpu).Seconds()
	}
	key := func(i int) string { return fmt.Sprintf("plain/%x-%d", batch.Seed, i) }
	all(&put, func(i int, _ []byte) error {
		_, err := c.PutObject(context.Background(), e.Bucket, key(i), bytes.NewReader(data[i]), batch.Size, options)
		return err
	})
	all(&get, func(i int, buf []byte) error {
		o, err := c.GetObject(context.Background(), e.Bucket, key(i), minio.GetObjectOptions{})
		if err != nil {
			return err
		}
		_, err = io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{o}, buf)
		return errors.Join(err, o.Close())
	})
	for i := range batch.Count {
		_ = c.RemoveObject(context.Background(), e.Bucket, key(i), minio.RemoveObjectOptions{})
	}
	return put, get
}

// rcloneCopy copies the same objects up and down by rclone.
func rcloneCopy(b *testing.B, e Endpoint, batch Batch, dir string) (put, get Phase) {
	b.Helper()
	pool := newPool(batch.Seed)
	up, down := filepath.Join(dir, "up"), filepath.Join(dir, "down")
	if err := errors.Join(os.RemoveAll(up), os.RemoveAll(down), os.Mkdir(up, 0o700)); err != nil {
		b.Fatal(err)
	}
	for i := range batch.Count {
		data, err := io.ReadAll(objectContent(pool, batch.Seed, i, batch.Size))
		if err == nil {
			err = os.WriteFile(filepath.Join(up, fmt.Sprint(i)), data, 0o600)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	for _, x := range []struct {
		p        *Phase
		from, to string
	}{{&put, up, "store:bench/rclone"}, {&get, "store:bench/rclone", down}} {
		c := exec.Command("rclone", "copy", "--transfers", fmt.Sprint(batch.Clients), "--s3-no-check-bucket", x.from, x.to)
		c.Env = append(os.Environ(), "AWS_CA_BUNDLE=", "RCLONE_CONFIG=/dev/null", "RCLONE_CONFIG_STORE_TYPE=s3", "RCLONE_CONFIG_STORE_PROVIDER=Other", "RCLONE_CONFIG_STORE_ENDPOINT=http://"+e.Host,
			"RCLONE_CONFIG_STORE_REGION=us-east-1", "RCLONE_CONFIG_STORE_ACCESS_KEY_ID="+e.Access, "RCLONE_CONFIG_STORE_SECRET_ACCESS_KEY="+e.Secret)
		begun := time.Now()
		if out, err := c.CombinedOutput(); err != nil {
			b.Fatalf("%v: %s", err, out)
		}
		x.p.Duration, x.p.CPU = time.Since(begun).Seconds(), (c.ProcessState.UserTime() + c.ProcessState.SystemTime()).Seconds()
	}
	return put, get
}

// BenchmarkAgainstOthers prints the throughput and the CPU time of batches under iotax, over a plain loop of minio-go in the same
// payload mode and, in the default one, over rclone: medians of alternated pairs with their 95 % intervals. Throughput of
// iotax includes its comparing of what came; the CPU time of that is left out, as it is of the loop, which compares nothing.
// go test -run xxx -bench AgainstOthers -benchtime 1x -timeout 30m ./object
func BenchmarkAgainstOthers(b *testing.B) {
	const pairs, rclones = 11, 3
	for _, size := range []struct {
		name  string
		batch Batch
	}{
		{"32x4MiB by 8", Batch{Size: 4 << 20, Count: 32, Clients: 8, Part: 16 << 20, Concurrency: 8, Verify: true}},
		{"256MiB in parts", Batch{Size: 256 << 20, Count: 1, Clients: 1, Part: 16 << 20, Concurrency: 8, Verify: true}},
	} {
		for _, payload := range []string{"default", "unsigned", "checksum"} {
			b.Run(size.name+", "+payload, func(b *testing.B) {
				dir, err := os.MkdirTemp("/dev/shm", "iotax-store-")
				if err != nil {
					b.Fatal(err)
				}
				b.Cleanup(func() { _ = os.RemoveAll(dir) })
				e := serve(b, dir)
				e.Payload = payload
				batch := size.batch
				for b.Loop() {
					ratios := map[string][]float64{}
					for i := range pairs {
						batch.Seed = uint64(i + 1)
						var ours *Result
						var plain, rclone [2]Phase
						steps := []func(){
							func() {
								if ours, err = Do(b.Context(), Job{Op: OpBatch, Endpoint: e, Prefix: "iotax-bench/", Batch: batch}); err != nil {
									b.Fatal(err)
								}
							},
							func() { plain[0], plain[1] = plainLoop(b, e, batch) },
						}
						others := map[string]*[2]Phase{"plain": &plain}
						if payload == "default" && i < rclones {
							steps = append(steps, func() { rclone[0], rclone[1] = rcloneCopy(b, e, batch, dir) })
							others["rclone"] = &rclone
						}
						for k := range steps {
							if i%2 == 1 {
								k = len(steps) - 1 - k
							}
							runtime.GC() // neither pays for what the other one left
							steps[k]()
						}
						for j, mine := range []Phase{ours.Upload, ours.Download} {
							way := []string{"put", "get"}[j]
							for name, other := range others {
								ratios[way+"/"+name+"-speed"] = append(ratios[way+"/"+name+"-speed"], other[j].Duration/mine.Duration)
								ratios[way+"/"+name+"-cpu"] = append(ratios[way+"/"+name+"-cpu"], mine.CPU/other[j].CPU)
							}
						}
					}
					for _, name := range slices.Sorted(maps.Keys(ratios)) {
						m := stat.Median(ratios[name])
						b.Logf("%s: %.3f [%.3f, %.3f] of %d", name, m.Estimate, m.Lo, m.Hi, m.N)
						b.ReportMetric(m.Estimate, name)
					}
				}
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}
