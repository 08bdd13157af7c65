package workload

import (
	"bytes"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"iotax"
	"iotax/internal/machine/host"
	"iotax/internal/plan"
	"iotax/internal/workload/support"
)

// aStore starts a real S3 server with the bucket `bench`. It returns a target for this bucket, and the directory with
// the bucket's data.
func aStore(t testing.TB) (*iotax.Target, string) {
	t.Helper()
	program := "../../bin/versitygw"
	if _, err := os.Stat(program); err != nil {
		if program, err = exec.LookPath("versitygw"); err != nil {
			t.Fatal("versitygw is not there: scripts/need test")
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	dir := t.TempDir()
	if st, err := os.Stat("/dev/shm"); err == nil && st.IsDir() { // store the data in memory, because the test measures the client
		if dir, err = os.MkdirTemp("/dev/shm", "iotax-store-"); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.RemoveAll(dir) })
	}
	for _, d := range []string{"data/bench", "versions"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	c := exec.Command(program, "--port", addr, "--quiet", "--keep-alive", "posix", "--versioning-dir", filepath.Join(dir, "versions"), filepath.Join(dir, "data"))
	c.Env = append(os.Environ(), "ROOT_ACCESS_KEY=testaccess", "ROOT_SECRET_KEY=testsecret-not-to-be-told")
	var said bytes.Buffer
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
	keys := filepath.Join(dir, "keys")
	if err := os.WriteFile(keys, []byte("[default]\naws_access_key_id = testaccess\naws_secret_access_key = testsecret-not-to-be-told\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return &iotax.Target{Name: "store", Machine: host.Local(), Place: iotax.Place{Kind: iotax.PlaceURL,
		Path: "s3://" + addr + "/bench?prefix=iotax-test/&region=us-east-1&style=path&tls=off&credentials=" + keys}}, filepath.Join(dir, "data", "bench")
}

func TestObject(t *testing.T) {
	target, data := aStore(t)
	spec := newObject().(*Object)
	spec.Size, spec.Count, spec.Clients = 1<<20, 20, 4
	w, err := New(plan.Workload{Name: "objects", Kind: "object", Spec: spec}, support.Env{})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Check(t.Context(), target); err != nil {
		t.Fatal(err)
	}
	out := &iotax.Trial{Seed: 5}
	if err := w.Run(t.Context(), target, out); err != nil {
		t.Fatal(err)
	}
	for _, name := range append(w.Metrics(), "get.ttfb.mean", "upload.cpu", "download.cpu.checking") {
		if v, ok := out.Value(name); !ok || !(v.Value > 0) {
			t.Errorf("%s is %v", name, v.Value)
		}
	}
	for _, m := range spec.Traits().Metrics() {
		if _, ok := out.Value(m.Name); !ok && strings.HasSuffix(m.Name, ".mean") {
			t.Errorf("%s is listed, but not reported", m.Name)
		}
	}
	if _, ok := out.Value("put.latency.p99"); ok {
		t.Error("a 99th percentile of 20 objects")
	}
	var n uint64
	for _, h := range out.Histograms {
		for i, b := range h.Bins {
			if i > 0 && b.Value <= h.Bins[i-1].Value {
				t.Errorf("bins of %s: %v", h.Name, h.Bins)
			}
			n += b.Count
		}
	}
	if n != 60 || out.Facts["payload"] != "signed chunk by chunk" || out.Facts["verified"] != "CRC-64/NVME" || len(out.Raw) == 0 {
		t.Errorf("%d observations, facts %v", n, out.Facts)
	}
	if strings.Contains(string(out.Raw), "not-to-be-told") {
		t.Error("a key is kept with the trial")
	}
	if err := w.Cleanup(t.Context(), target); err != nil {
		t.Error(err)
	}
	if left, _ := filepath.Glob(data + "/iotax-test/*"); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}

	place := target.Place.Path
	for from, to := range map[string][2]string{
		"/bench?":        {"/missing?", "make the bucket"},
		"credentials=/":  {"credentials=/nonexistent/", ""},
		"&credentials=":  {"&x=", "AWS_ACCESS_KEY_ID"},
		"s3://127.0.0.1": {"tcp://127.0.0.1", "bucket:"},
	} {
		t.Setenv("AWS_ACCESS_KEY_ID", "")
		target.Place.Path = strings.Replace(place, from, to[0], 1)
		err := w.Check(t.Context(), target)
		var e *iotax.Error
		if !errors.As(err, &e) || !strings.Contains(e.Hint, to[1]) {
			t.Errorf("%s: %v", to[0], err)
		}
	}
}

func TestObjectSpec(t *testing.T) {
	for field, change := range map[string]func(*Object){
		"":            func(o *Object) {},
		"size":        func(o *Object) { o.Size = 0 },
		"count":       func(o *Object) { o.Count = 0 },
		"clients":     func(o *Object) { o.Clients = -1 },
		"part":        func(o *Object) { o.Part = 1 << 20 },
		"concurrency": func(o *Object) { o.Concurrency = 1000 },
		"payload":     func(o *Object) { o.Payload = "md5" },
		"timeout":     func(o *Object) { o.Timeout = 1 },
	} {
		o := newObject().(*Object)
		change(o)
		err := o.Validate()
		var f *plan.FieldError
		if (field == "") != (err == nil) || err != nil && (!errors.As(err, &f) || f.Field != field) {
			t.Errorf("%q: %v", field, err)
		}
	}
}
