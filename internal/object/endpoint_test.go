package object

import (
	"crypto/x509"
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"iotax/internal/agent"
	"iotax/internal/machine/host"
)

// The test binary also runs jobs in separate processes.
func TestMain(m *testing.M) {
	agent.Main(host.Local())
	os.Exit(m.Run())
}

// nameServer returns a proxy that sends requests for any name to the store at address, so that tests can use names that
// do not resolve. hosts returns the requested names.
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

// A real store is reached with path-style and virtual-hosted-style requests, over HTTP, and over HTTPS with a private
// CA.
func TestEndpoints(t *testing.T) {
	withCertificate := httptest.NewTLSServer(nil) // valid for example.com and its subdomains
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
			args, payload = []string{"--cert", cert, "--key", cert + ".key"}, "unsigned" // TLS protects the payload
		}
		store := t.TempDir()
		e := serveAs(t, store, append(args, "--virtual-domain", "example.com"))
		for style, name := range map[string]string{"path": "example.com", "virtual": "bench.example.com"} {
			hosts, proxy := nameServer(t, e.Host)
			x := e
			x.Host, x.Style, x.TLS = "example.com", style, secure
			if secure {
				x.CA = ca
			}
			// A process reads the proxy variables only once, so each job runs in a new process.
			for variable, value := range map[string]string{"HTTP_PROXY": proxy, "HTTPS_PROXY": proxy, "NO_PROXY": ""} {
				t.Setenv(variable, value)
			}
			r, err := Work.Alone(t.Context(), host.Local(), Job{Op: OpBatch, Endpoint: x, Prefix: "iotax-test/",
				Batch: Batch{Size: 12 << 20, Count: 2, Clients: 2, Part: 5 << 20, Concurrency: 2, Seed: 3, Verify: true}})
			if err != nil || r.Error != nil || r.Facts["payload"] != payload || len(r.Download.FirstByte) != 2 {
				t.Errorf("%s, secure %v: %v, %+v", style, secure, err, r)
			}
			asked := hosts()
			for _, h := range asked {
				if asks, _, _ := strings.Cut(h, ":"); asks != name {
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
