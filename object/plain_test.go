package object

import (
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

	"github.com/minio/crc64nvme"
	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"iotax/stat"
)

// plainLoop is what anyone would write: clients that put and get with minio-go as it comes, in the payload mode of e, and make the
// checksum of what they get where the batch is verified. The content is made as iotax makes it, so that the loops are all that differs.
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
		_, err := c.PutObject(context.Background(), e.Bucket, key(i), objectContent(pool, batch.Seed, i, batch.Size), batch.Size, options)
		return err
	})
	all(&get, func(i int, buf []byte) error {
		o, err := c.GetObject(context.Background(), e.Bucket, key(i), minio.GetObjectOptions{})
		if err != nil {
			return err
		}
		to := io.Discard
		if batch.Verify {
			to = crc64nvme.New()
		}
		_, err = io.CopyBuffer(struct{ io.Writer }{to}, struct{ io.Reader }{o}, buf)
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

// BenchmarkAgainstOthers prints the throughput of batches under iotax over that of a plain loop of minio-go in the same payload mode,
// and the CPU time of iotax over that of the loop: both without comparing what came, both with a checksum of it ("verified", where the
// CPU time holds the checksums on both sides), and iotax with it over the loop without ("verified over none"); in the default mode also over
// rclone, whose CPU time holds its start. They are medians of alternated rounds with their 95 % intervals.
// go test -run xxx -bench AgainstOthers -benchtime 1x -timeout 30m ./object
func BenchmarkAgainstOthers(b *testing.B) {
	const rounds, rclones = 31, 6
	for _, size := range []struct {
		name  string
		batch Batch
	}{
		{"32x4MiB by 8", Batch{Size: 4 << 20, Count: 32, Clients: 8, Part: 16 << 20, Concurrency: 8}},
		{"256MiB in parts", Batch{Size: 256 << 20, Count: 1, Clients: 1, Part: 16 << 20, Concurrency: 8}},
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
				for b.Loop() {
					againstOthers(b, e, size.batch, dir, rounds, map[string]int{"default": rclones}[payload])
				}
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

func againstOthers(b *testing.B, e Endpoint, batch Batch, dir string, rounds, rclones int) {
	under := func(verify bool) func() [2]Phase {
		return func() [2]Phase {
			mine := batch
			mine.Verify = verify
			r, err := Do(b.Context(), Job{Op: OpBatch, Endpoint: e, Prefix: "iotax-bench/", Batch: mine})
			if err != nil {
				b.Fatal(err)
			}
			r.Download.CPU += r.Download.Checking
			return [2]Phase{r.Upload, r.Download}
		}
	}
	plain := func(verify bool) func() [2]Phase {
		return func() [2]Phase {
			mine := batch
			mine.Verify = verify
			put, get := plainLoop(b, e, mine)
			return [2]Phase{put, get}
		}
	}
	type side struct {
		name string
		do   func() [2]Phase
	}
	sides := []side{{"iotax", under(false)}, {"plain", plain(false)}, {"plain verified", plain(true)}, {"iotax verified", under(true)}}
	pairs := map[string][2]string{"plain": {"iotax", "plain"}, "plain, verified": {"iotax verified", "plain verified"}, "plain, verified over none": {"iotax verified", "plain"}}
	ratios := map[string][]float64{}
	for i := range rounds {
		batch.Seed = uint64(i + 1)
		round := slices.Clone(sides)
		if i < rclones {
			round = append(round, side{"rclone", func() [2]Phase {
				put, get := rcloneCopy(b, e, batch, dir)
				return [2]Phase{put, get}
			}})
			pairs["rclone"] = [2]string{"iotax verified", "rclone"}
		} else {
			delete(pairs, "rclone")
		}
		if i%2 == 1 {
			slices.Reverse(round)
		}
		got := map[string][2]Phase{}
		for _, s := range round {
			runtime.GC() // none pays for what another one left
			got[s.name] = s.do()
		}
		for name, pair := range pairs {
			for j, way := range []string{"put", "get"} {
				mine, other := got[pair[0]][j], got[pair[1]][j]
				ratios[way+" over "+name+", speed"] = append(ratios[way+" over "+name+", speed"], other.Duration/mine.Duration)
				ratios[way+" over "+name+", CPU"] = append(ratios[way+" over "+name+", CPU"], mine.CPU/other.CPU)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(ratios)) {
		m := stat.Median(ratios[name])
		b.Logf("%s: %.3f [%.3f, %.3f] of %d", name, m.Estimate, m.Lo, m.Hi, m.N)
	}
}
