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

// A loop transfers a batch, either with iotax's code or with a plain client.
type loop struct {
	put, get func() Phase // put keeps the objects, so that get can run several times
	end      func()
}

// plainLoop is a straightforward client of minio-go with its default settings, in the payload mode of e. It computes
// the checksum of downloads if the batch is verified. It makes the content as iotax does, so that only the loops
// differ.
func plainLoop(b *testing.B, e Endpoint, batch Batch) loop {
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
	all := func(f func(i int, buf []byte) error) (p Phase) {
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
		return p
	}
	key := func(i int) string { return fmt.Sprintf("plain/%x-%v-%d", batch.Seed, batch.Verify, i) }
	return loop{
		put: func() Phase {
			return all(func(i int, _ []byte) error {
				_, err := c.PutObject(context.Background(), e.Bucket, key(i), objectContent(pool, batch.Seed, i, batch.Size).reader(), batch.Size, options)
				return err
			})
		},
		get: func() Phase {
			return all(func(i int, buf []byte) error {
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
		},
		end: func() {
			for i := range batch.Count {
				_ = c.RemoveObject(context.Background(), e.Bucket, key(i), minio.RemoveObjectOptions{})
			}
		},
	}
}

// ourLoop transfers a batch as Do does.
func ourLoop(b *testing.B, e Endpoint, batch Batch) loop {
	b.Helper()
	c, err := newClient(e)
	if err != nil {
		b.Fatal(err)
	}
	pool := newPool(batch.Seed)
	objects, sums := make([]*content, batch.Count), make([]uint64, batch.Count)
	for i := range objects {
		objects[i] = objectContent(pool, batch.Seed, i, batch.Size)
		if batch.Verify {
			sums[i] = objects[i].sum()
		}
	}
	key := func(i int) string { return fmt.Sprintf("iotax-bench/%x-%v-%d", batch.Seed, batch.Verify, i) }
	timed := func(f func(p *Phase) error) func() Phase {
		return func() (p Phase) {
			if err := f(&p); err != nil {
				b.Fatal(err)
			}
			p.CPU += p.Checking
			return p
		}
	}
	return loop{
		put: timed(func(p *Phase) error { return c.upload(b.Context(), batch, key, objects, p) }),
		get: timed(func(p *Phase) error { return c.download(b.Context(), batch, key, sums, p) }),
		end: func() {
			if err := c.remove(b.Context(), batch.Count, key); err != nil {
				b.Error(err)
			}
		},
	}
}

// rcloneCopy uploads and downloads the objects of the batch with rclone.
func rcloneCopy(b *testing.B, e Endpoint, batch Batch, dir string) (put, get Phase) {
	b.Helper()
	pool := newPool(batch.Seed)
	up, down := filepath.Join(dir, "up"), filepath.Join(dir, "down")
	if err := errors.Join(os.RemoveAll(up), os.RemoveAll(down), os.Mkdir(up, 0o700)); err != nil {
		b.Fatal(err)
	}
	for i := range batch.Count {
		data, err := io.ReadAll(objectContent(pool, batch.Seed, i, batch.Size).reader())
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

// BenchmarkAgainstOthers compares iotax with a plain loop of minio-go in the same payload mode. It prints the ratios
// of throughput and of CPU time: iotax divided by the other client. Downloads are compared without checksums, with
// checksums on both sides ("verified"), and with checksums in iotax only ("verified over none"). In the default mode,
// iotax with checksums is also compared with rclone. The CPU time of rclone includes its start. Each ratio is the
// median over alternating transfers, with its 95 % interval.
//
//	go test -run xxx -bench AgainstOthers -benchtime 1x -timeout 30m ./internal/object
func BenchmarkAgainstOthers(b *testing.B) {
	const rclones = 6
	for _, size := range []struct {
		name            string
		batch           Batch
		rounds, uploads int
	}{
		{"32x4MiB by 8", Batch{Size: 4 << 20, Count: 32, Clients: 8, Part: 16 << 20, Concurrency: 8}, 12, 16},
		{"256MiB in parts", Batch{Size: 256 << 20, Count: 1, Clients: 1, Part: 16 << 20, Concurrency: 8}, 10, 4},
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
					againstOthers(b, e, size.batch, dir, size.rounds, size.uploads, map[string]int{"default": rclones}[payload])
				}
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

func againstOthers(b *testing.B, e Endpoint, batch Batch, dir string, rounds, uploads, rclones int) {
	const downloads = 10
	pairs := map[string][2]string{"plain": {"iotax", "plain"}, "plain, verified": {"iotax verified", "plain verified"}, "plain, verified over none": {"iotax verified", "plain"}}
	ratios := map[string][]float64{}
	note := func(way, over string, mine, other Phase) {
		ratios[way+" over "+over+", speed"] = append(ratios[way+" over "+over+", speed"], other.Duration/mine.Duration)
		ratios[way+" over "+over+", CPU"] = append(ratios[way+" over "+over+", CPU"], mine.CPU/other.CPU)
	}
	order := []string{"iotax", "plain", "plain verified", "iotax verified"}
	for i := range rounds {
		batch.Seed = uint64(i + 1)
		verified := batch
		verified.Verify = true
		sides := map[string]loop{"iotax": ourLoop(b, e, batch), "plain": plainLoop(b, e, batch), "plain verified": plainLoop(b, e, verified), "iotax verified": ourLoop(b, e, verified)}
		each := func(do func(loop) Phase) map[string]Phase {
			slices.Reverse(order)
			got := map[string]Phase{}
			for _, name := range order {
				runtime.GC() // so that no side collects another's garbage
				got[name] = do(sides[name])
			}
			return got
		}
		var put, get map[string]Phase
		for range uploads {
			put = each(func(l loop) Phase { return l.put() })
			note("put", "plain", put["iotax"], put["plain"])
			note("put", "plain", put["iotax verified"], put["plain verified"]) // another sample of the same ratio: uploads are not verified
		}
		for range downloads {
			get = each(func(l loop) Phase { return l.get() })
			for over, pair := range pairs {
				note("get", over, get[pair[0]], get[pair[1]])
			}
		}
		if i < rclones {
			up, down := rcloneCopy(b, e, batch, dir)
			note("put", "rclone", put["iotax verified"], up)
			note("get", "rclone", get["iotax verified"], down)
		}
		for _, l := range sides {
			l.end()
		}
	}
	for _, name := range slices.Sorted(maps.Keys(ratios)) {
		m := stat.Median(ratios[name])
		b.Logf("%s: %.3f [%.3f, %.3f] of %d", name, m.Estimate, m.Lo, m.Hi, m.N)
	}
}
