package object

import (
	"bytes"
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/metrics"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/minio/crc64nvme"
	"github.com/minio/minio-go/v7"

	"iotax/internal/machine/host"
)

// versitygw returns the path of versitygw, a real S3 server that checks signatures. scripts/need builds it.
func versitygw(t testing.TB) string {
	t.Helper()
	for _, p := range []string{"../../bin/versitygw", "versitygw"} {
		if path, err := exec.LookPath(p); err == nil || errors.Is(err, exec.ErrDot) {
			path, err = filepath.Abs(path)
			if err != nil {
				t.Fatal(err)
			}
			return path
		}
	}
	t.Fatal("versitygw is not there: scripts/need test")
	return ""
}

const access, secret = "testaccess", "testsecret-not-to-be-told"

// serve starts a store with an empty bucket. args are arguments for the store's backend.
func serve(t testing.TB, dir string, args ...string) Endpoint { return serveAs(t, dir, nil, args...) }

// serveAs is like serve, and also passes the arguments `own` to the store itself.
func serveAs(t testing.TB, dir string, own []string, args ...string) Endpoint {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	data := filepath.Join(dir, "data")
	if err := os.MkdirAll(filepath.Join(data, "bench"), 0o700); err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	c := exec.Command(versitygw(t), slices.Concat([]string{"--port", addr, "--quiet", "--keep-alive"}, own, []string{"posix"}, args, []string{data})...)
	c.Env = append(os.Environ(), "ROOT_ACCESS_KEY="+access, "ROOT_SECRET_KEY="+secret)
	c.Stdout, c.Stderr = &said, &said
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if conn, err := net.Dial("tcp", addr); err == nil {
			conn.Close()
			break
		}
		if time.Now().After(end) {
			t.Fatalf("the store does not serve: %s", said.String())
		}
	}
	return Endpoint{Host: addr, Bucket: "bench", Region: "us-east-1", Style: "path", Access: access, Secret: secret, Timeout: 20 * time.Second}
}

// In every payload mode, a batch is downloaded as it was uploaded, the result records the mode, and no object remains.
func TestBatch(t *testing.T) {
	dir := t.TempDir()
	e := serve(t, dir)
	foreign := filepath.Join(dir, "data", "bench", "someone.txt")
	if err := os.WriteFile(foreign, []byte("theirs"), 0o600); err != nil {
		t.Fatal(err)
	}
	for payload, want := range map[string]string{"default": "signed chunk by chunk", "unsigned": "unsigned", "checksum": "unsigned, with a checksum behind it"} {
		for _, size := range []int64{1, 4 << 20, 12<<20 + 5} { // the last size takes three parts
			e := e
			e.Payload = payload
			r, err := Do(t.Context(), Job{Op: OpBatch, Endpoint: e, Prefix: "iotax-test/", Batch: Batch{Size: size, Count: 3, Clients: 2, Part: 5 << 20, Concurrency: 2, Seed: 7, Verify: true}})
			if err != nil {
				t.Fatalf("%s, %d bytes: %v", payload, size, err)
			}
			if r.Facts["payload"] != want || len(r.Upload.Latencies) != 3 || len(r.Download.FirstByte) != 3 || r.Upload.Bytes != 3*size || !(r.Download.Duration > 0) || !(r.Upload.CPU > 0) {
				t.Errorf("%s, %d bytes: %+v", payload, size, r)
			}
			for i, first := range r.Download.FirstByte {
				if first > slices.Max(r.Download.Latencies) {
					t.Errorf("first byte %d after %v s, the slowest object after %v", i, first, slices.Max(r.Download.Latencies))
				}
			}
		}
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "data", "bench", "iotax-test", "*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}

	// clean removes the objects and unfinished uploads that a crashed process left under the prefix, and nothing else.
	c, err := newClient(e)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.put(t.Context(), "iotax-test/left", strings.NewReader("x"), 1, 5<<20, 1); err != nil {
		t.Fatal(err)
	}
	core := minio.Core{Client: c.Client}
	id, err := core.NewMultipartUpload(t.Context(), "bench", "iotax-test/cut-off", minio.PutObjectOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Do(t.Context(), Job{Op: OpClean, Endpoint: e, Prefix: "iotax-test/"}); err != nil {
		t.Fatal(err)
	}
	if _, err := core.ListObjectParts(t.Context(), "bench", "iotax-test/cut-off", id, 0, 10); err == nil {
		t.Error("the upload still stands")
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "data", "bench", "iotax-test", "*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if b, err := os.ReadFile(foreign); string(b) != "theirs" {
		t.Errorf("someone's object: %q, %v", b, err)
	}
	for _, prefix := range []string{"", "/", "iotax", "other/", "iotax-../x/"} {
		if _, err := Do(t.Context(), Job{Op: OpClean, Endpoint: e, Prefix: prefix}); err == nil || !strings.Contains(err.Error(), "not a prefix of iotax") {
			t.Errorf("prefix %q: %v", prefix, err)
		}
	}

	// Files are uploaded and downloaded completely.
	up, down := filepath.Join(dir, "up"), filepath.Join(dir, "down")
	want := bytes.Repeat([]byte("0123456789abcdef"), 400<<10)
	if err := os.WriteFile(up, want, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, j := range []Job{{Op: OpPutFile, File: up}, {Op: OpGetFile, File: down}} {
		j.Endpoint, j.Prefix, j.Object, j.Batch = e, "iotax-test/", "image", Batch{Size: int64(len(want)), Part: 5 << 20, Concurrency: 2}
		if r, err := Do(t.Context(), j); err != nil || r.Bytes != int64(len(want)) {
			t.Fatalf("%s: %v, %+v", j.Op, err, r)
		}
	}
	if got, err := os.ReadFile(down); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes came back, %v", len(got), err)
	}
	for _, size := range []int64{1 << 20, 16 << 20} {
		short := Job{Op: OpGetFile, Endpoint: e, Prefix: "iotax-test/", Object: "image", File: fmt.Sprint(down, size), Batch: Batch{Size: size}}
		if r, err := Do(t.Context(), short); err == nil || r.Bytes > size+1 {
			t.Errorf("an object of another size than %d: %+v, %v", size, r, err)
		}
	}
}

// wantFailure checks the code or text of an error and its hint. It also checks that the error does not contain the
// secret key.
func wantFailure(t *testing.T, err error, what, hint string) {
	t.Helper()
	var f *Failure
	if !errors.As(err, &f) || !strings.Contains(f.Error(), what) || !strings.Contains(f.Hint, hint) {
		t.Errorf("got %v (%+v), want %q with the hint %q", err, f, what, hint)
	}
	if err != nil && strings.Contains(err.Error(), secret) {
		t.Errorf("a key is told: %v", err)
	}
}

func TestRefusals(t *testing.T) {
	dir := t.TempDir()
	e := serve(t, dir, "--versioning-dir", t.TempDir())
	look := func(change func(*Endpoint)) (*Result, error) {
		x := e
		change(&x)
		return Do(t.Context(), Job{Op: OpLook, Endpoint: x, Prefix: "iotax-test/"})
	}
	if r, err := look(func(*Endpoint) {}); err != nil || len(r.Facts) > 0 {
		t.Errorf("a bucket as it should be: %v, %v", r, err)
	}
	_, err := look(func(e *Endpoint) { e.Secret = "wrong" })
	wantFailure(t, err, "", "key")
	_, err = look(func(e *Endpoint) { e.Access = "nobody" })
	wantFailure(t, err, "", "key")
	_, err = look(func(e *Endpoint) { e.Bucket = "missing" })
	wantFailure(t, err, "NoSuchBucket", "make the bucket")
	_, err = look(func(e *Endpoint) { e.TLS = true })
	wantFailure(t, err, "", "http://")
	_, err = look(func(e *Endpoint) { e.Host = "127.0.0.1:1" })
	wantFailure(t, err, "refused", "server runs")
	_, err = look(func(e *Endpoint) { e.Host = "http://x/y" })
	wantFailure(t, err, "", "host:port")
	_, err = look(func(e *Endpoint) { e.TLS, e.CA = true, "no certificate" })
	wantFailure(t, err, "no certificate", "PEM")

	c, err := newClient(e)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.EnableVersioning(t.Context(), "bench"); err != nil {
		t.Fatal(err)
	}
	if r, err := look(func(*Endpoint) {}); err != nil || r.Facts["versioning"] != "Enabled" {
		t.Errorf("a bucket that keeps versions: %+v, %v", r, err)
	}
	if r, err := look(func(e *Endpoint) { e.Bucket, e.Create = "newone", true }); err != nil || len(r.Facts) > 0 {
		t.Errorf("a bucket to make: %v, %v", r, err)
	}
}

// A real server refuses a request whose signature is dated years before the server's time. In a synctest bubble, the
// clock starts in the year 2000.
func TestSkewedClock(t *testing.T) {
	e := serve(t, t.TempDir())
	job := func(op string) Job {
		return Job{Op: op, Endpoint: e, Prefix: "iotax-test/", Batch: Batch{Size: 1000, Count: 1, Clients: 1, Part: 5 << 20, Concurrency: 1}}
	}
	if _, err := Do(t.Context(), job(OpBatch)); err != nil {
		t.Fatalf("by the right clock: %v", err)
	}
	synctest.Test(t, func(t *testing.T) {
		for _, op := range []string{OpLook, OpBatch} {
			_, err := Do(t.Context(), job(op))
			wantFailure(t, err, "RequestTimeTooSkewed", "clocks")
		}
	})
}

// TestFaultyStores simulates faults that are rare in real servers, such as answers that never end, changed content, and
// a full store.
func TestFaultyStores(t *testing.T) {
	wrong := func(w http.ResponseWriter, code string, status int) {
		w.Header().Set("Content-Type", "application/xml")
		w.WriteHeader(status)
		fmt.Fprintf(w, `<?xml version="1.0"?><Error><Code>%s</Code><Message>said by a test</Message></Error>`, code)
	}
	for _, c := range []struct {
		name        string
		answer      http.HandlerFunc
		cause, hint string
	}{
		{"full", func(w http.ResponseWriter, r *http.Request) { wrong(w, "XMinioStorageFull", 507) }, "XMinioStorageFull", "room"},
		{"hangs", func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
		}, "no answer within 300ms", "lost nodes"},
		{"hangs within an object", func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			w.Header().Set("ETag", `"x"`)
			w.Header().Set("Last-Modified", time.Now().UTC().Format(http.TimeFormat))
			if r.Method == http.MethodGet {
				w.Header().Set("Content-Length", "1000")
				_, _ = w.Write(make([]byte, 10))
				_ = http.NewResponseController(w).Flush()
				<-r.Context().Done()
			}
		}, "no answer within 2s", "lost nodes"},
		{"changes content", func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			w.Header().Set("ETag", `"x"`)
			w.Header().Set("Last-Modified", time.Now().UTC().Format(http.TimeFormat))
			if r.Method == http.MethodGet {
				w.Header().Set("Content-Length", "1000")
				_, _ = w.Write(make([]byte, 1000))
			}
		}, "not what was sent", ""},
		{"loses content", func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			w.Header().Set("ETag", `"x"`)
			w.Header().Set("Last-Modified", time.Now().UTC().Format(http.TimeFormat))
			if r.Method == http.MethodGet {
				_, _ = w.Write(make([]byte, 10))
			}
		}, "10 bytes came of 1000", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := httptest.NewServer(c.answer)
			defer s.Close()
			e := Endpoint{Host: strings.TrimPrefix(s.URL, "http://"), Bucket: "bench", Region: "us-east-1", Style: "path", Access: access, Secret: secret, Timeout: 20 * time.Second}
			switch c.name { // the other cases need a long timeout on a busy machine
			case "hangs":
				e.Timeout = 300 * time.Millisecond
			case "hangs within an object": // leave enough time for the upload, which must succeed
				e.Timeout = 2 * time.Second
			}
			_, err := Do(t.Context(), Job{Op: OpBatch, Endpoint: e, Prefix: "iotax-test/", Batch: Batch{Size: 1000, Count: 1, Clients: 1, Part: 5 << 20, Concurrency: 1, Verify: true}})
			wantFailure(t, err, c.cause, c.hint)
		})
	}
	t.Run("unknown authority", func(t *testing.T) {
		s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { wrong(w, "NoSuchBucket", 404) }))
		defer s.Close()
		e := Endpoint{Host: strings.TrimPrefix(s.URL, "https://"), Bucket: "bench", TLS: true, Region: "us-east-1", Style: "path", Access: access, Secret: secret}
		_, err := Do(t.Context(), Job{Op: OpLook, Endpoint: e, Prefix: "iotax-test/"})
		wantFailure(t, err, "authority that is not known", "ca:")
		e.CA = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))
		_, err = Do(t.Context(), Job{Op: OpLook, Endpoint: e, Prefix: "iotax-test/"})
		wantFailure(t, err, "NoSuchBucket", "make the bucket")
	})
}

// Marks returns the labels that it can read, even if this user may not read the others.
func TestMarksThatCannotBeRead(t *testing.T) {
	var all strings.Builder
	for i := range 6 {
		fmt.Fprintf(&all, "<CommonPrefixes><Prefix>iotax-%d/</Prefix></CommonPrefixes>", i)
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status, text := http.StatusForbidden, "<Error><Code>AccessDenied</Code></Error>"
		switch {
		case r.URL.Query().Has("list-type"):
			status, text = http.StatusOK, "<ListBucketResult><IsTruncated>false</IsTruncated>"+all.String()+"</ListBucketResult>"
		case strings.HasSuffix(r.URL.Path, "/iotax-4/"+Marker):
			status, text = http.StatusNotFound, "<Error><Code>NoSuchKey</Code></Error>"
		case strings.HasSuffix(r.URL.Path, "/iotax-5/"+Marker):
			status, text = http.StatusOK, "run=a runner=b\n"
			w.Header().Set("ETag", `"x"`)
			w.Header().Set("Last-Modified", time.Now().UTC().Format(http.TimeFormat))
		}
		w.Header().Set("Content-Length", fmt.Sprint(len(text)))
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text)
	}))
	defer s.Close()
	e := Endpoint{Host: strings.TrimPrefix(s.URL, "http://"), Bucket: "bench", Region: "us-east-1", Style: "path", Access: access, Secret: secret, Timeout: 20 * time.Second}
	marks, err := Marks(t.Context(), e)
	if len(marks) != 1 || marks["iotax-5/"] != "run=a runner=b" {
		t.Errorf("found %v", marks)
	}
	if err == nil || strings.Count(err.Error(), "AccessDenied") != 3 || !strings.Contains(err.Error(), "iotax-2/") || !strings.Contains(err.Error(), "1 more") {
		t.Errorf("told: %v", err)
	}
}

// All blocks of 4 KiB in a batch differ, so larger blocks differ too. Reading the same range of an object always
// returns the same data.
func TestContentIsUnique(t *testing.T) {
	pool := newPool(3)
	seen := map[string]string{}
	for i := range 3 {
		c := objectContent(pool, 3, i, 3<<20+17)
		all, err := io.ReadAll(c.reader())
		if err != nil || int64(len(all)) != c.size {
			t.Fatalf("%d bytes, %v", len(all), err)
		}
		for at := 0; at+stamp <= len(all); at += stamp {
			where := fmt.Sprintf("object %d at %d", i, at)
			if before := seen[string(all[at:at+stamp])]; before != "" {
				t.Fatalf("%s is as %s", where, before)
			}
			seen[string(all[at:at+stamp])] = where
		}
		for _, r := range [][2]int64{{0, 7}, {4090, 20}, {1<<20 - 3, 9}, {c.size - 5, 5}, {12345, 4096}} {
			part := make([]byte, r[1])
			if _, err := c.ReadAt(part, r[0]); err != nil && !errors.Is(err, io.EOF) || !bytes.Equal(part, all[r[0]:r[0]+r[1]]) {
				t.Errorf("at %d: %v", r[0], err)
			}
		}
		if c.sum() != crc64nvme.Checksum(all) {
			t.Error("the sum is not that of the content")
		}
	}
}

// The cost does not include the time that a client waits for a core in the middle of a piece.
func TestCostOfChecksums(t *testing.T) {
	busy := []*checker{{bytes: 3000, costs: []float64{2e-9, 2e-9, 5e-6}}, {bytes: 1000, costs: []float64{2e-9, 1e-9}}, {}}
	if got := cost(busy); math.Abs(got-8e-6) > 1e-9 {
		t.Errorf("%v s for 4000 bytes at 2 ns", got)
	}
	if got := cost(nil); got != 0 {
		t.Errorf("%v s for nothing", got)
	}
	k := &checker{}
	for _, p := range []string{"1234", "", "56789"} {
		k.add([]byte(p))
	}
	if k.sum != crc64nvme.Checksum([]byte("123456789")) || k.sum != 0xae8b14860a799888 || k.bytes != 9 || len(k.costs) != 2 {
		t.Errorf("%+v", k)
	}
}

// GOGC is gcPercent while requests are timed. The previous setting is restored, even if the requests fail.
func TestCollectorWhileTimed(t *testing.T) {
	percent := func() uint64 {
		s := []metrics.Sample{{Name: "/gc/gogc:percent"}}
		metrics.Read(s)
		return s[0].Value.Uint64()
	}
	before := percent()
	for _, want := range []error{nil, errors.New("refused")} {
		var p Phase
		var while uint64
		err := p.time(t.Context(), Batch{Count: 1, Clients: 1}, 0, func(context.Context, int, []byte, *checker) (time.Duration, error) {
			while = percent()
			return 0, want
		})
		if !errors.Is(err, want) || while != gcPercent || percent() != before {
			t.Errorf("%d, then %d, then %d; %v", before, while, percent(), err)
		}
	}
}

// The result contains the failure, without the secret key, even if the job ran in a separate process.
func TestWorkFails(t *testing.T) {
	r, err := Work.Alone(t.Context(), host.Local(), Job{Op: "dance", Prefix: "iotax-x/", Endpoint: Endpoint{Host: "h:1", Access: "a", Secret: secret}})
	if err != nil || r.Error == nil || strings.Contains(r.Error.Error(), secret) {
		t.Errorf("%v, %+v", err, r)
	}
}
