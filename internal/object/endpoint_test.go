package object

import (
	"bytes"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// jobOnInput tells TestServeJob that a job comes on standard input.
const jobOnInput = "IOTAX_TEST_JOB"

// TestServeJob is the process of TestEndpoints that does a job: what an environment says of proxies is read once in a process.
func TestServeJob(t *testing.T) {
	if os.Getenv(jobOnInput) == "" {
		return
	}
	if err := Serve(t.Context(), os.Stdin, os.Stdout); err != nil {
		t.Fatal(err)
	}
}

// nameServer is a proxy for which every name is the store at address, so that names can be used that nobody serves. hosts are
// those that it was asked for.
func nameServer(t *testing.T, address string) (hosts func() []string, proxy string) {
	t.Helper()
	var mu sync.Mutex
	var asked []string
	forward := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.Out.URL.Host, r.Out.Host = address, r.In.Host }}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		asked = append(asked, r.Host)
		mu.Unlock()
		if r.Method != http.MethodConnect {
			forward.ServeHTTP(w, r)
			return
		}
		to, err := net.Dial("tcp", address)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		defer to.Close()
		w.WriteHeader(http.StatusOK)
		from, buf, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer from.Close()
		go func() { _, _ = io.Copy(to, buf); to.Close() }()
		_, _ = io.Copy(from, to)
	}))
	t.Cleanup(s.Close)
	return func() []string { mu.Lock(); defer mu.Unlock(); return slices.Clone(asked) }, s.URL
}

// A real store is reached by path and by name, over http and over https with an authority of one's own.
func TestEndpoints(t *testing.T) {
	withCertificate := httptest.NewTLSServer(nil) // for example.com and all names in it
	withCertificate.Close()
	made := withCertificate.TLS.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(made.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	ca := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: made.Certificate[0]}))
	dir := t.TempDir()
	cert := filepath.Join(dir, "cert")
	for path, text := range map[string]string{cert: ca, cert + ".key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}))} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, secure := range []bool{false, true} {
		args, payload := []string{}, "signed chunk by chunk"
		if secure {
			args, payload = []string{"--cert", cert, "--key", cert + ".key"}, "unsigned" // TLS protects it
		}
		store := t.TempDir()
		e := serveAs(t, store, append(args, "--virtual-domain", "example.com"))
		for style, host := range map[string]string{"path": "example.com", "virtual": "bench.example.com"} {
			hosts, proxy := nameServer(t, e.Host)
			x := e
			x.Host, x.Style, x.TLS = "example.com", style, secure
			if secure {
				x.CA = ca
			}
			job, err := json.Marshal(Job{Op: OpBatch, Endpoint: x, Prefix: "iotax-test/", Batch: Batch{Size: 12 << 20, Count: 2, Clients: 2, Part: 5 << 20, Concurrency: 2, Seed: 3, Verify: true}})
			if err != nil {
				t.Fatal(err)
			}
			c := exec.Command(os.Args[0], "-test.run=^TestServeJob$")
			c.Env = append(os.Environ(), jobOnInput+"=yes", "HTTP_PROXY="+proxy, "HTTPS_PROXY="+proxy, "NO_PROXY=")
			c.Stdin = bytes.NewReader(job)
			out, err := c.Output()
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			var r Result
			if err := json.NewDecoder(bytes.NewReader(out)).Decode(&r); err != nil || r.Error != nil || r.Facts["payload"] != payload || len(r.Download.FirstByte) != 2 {
				t.Errorf("%s, secure %v: %v, %s", style, secure, err, out)
			}
			asked := hosts()
			for _, h := range asked {
				if name, _, _ := strings.Cut(h, ":"); name != host {
					t.Errorf("%s, secure %v: %s was asked", style, secure, h)
				}
			}
			if len(asked) == 0 {
				t.Error("the store was not asked")
			}
			if left, _ := filepath.Glob(filepath.Join(store, "data", "bench", "iotax-test", "*")); len(left) > 0 {
				t.Errorf("left behind: %q", left)
			}
		}
	}
}
