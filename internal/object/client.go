package object

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// DefaultTimeout limits a request if the Endpoint sets no timeout. A store that has lost too many of its nodes may
// never answer.
const DefaultTimeout = time.Minute

// A client is a connection pool to one endpoint.
type client struct {
	*minio.Client
	e       Endpoint
	close   func()       // closes idle connections
	sent    atomic.Value // how the payload of the first upload was signed
	options minio.PutObjectOptions
}

func newClient(e Endpoint) (*client, error) {
	if e.Timeout <= 0 {
		e.Timeout = DefaultTimeout
	}
	c := &client{e: e}
	t, err := minio.DefaultTransport(e.TLS)
	if err != nil {
		return nil, &Failure{Op: "make S3 client", Text: err.Error()}
	}
	c.close = t.CloseIdleConnections
	t.MaxIdleConnsPerHost, t.MaxIdleConns = 256, 256
	t.DialContext = dial(net.Dialer{Timeout: min(e.Timeout, 10*time.Second)})
	if e.TLS {
		roots, err := x509.SystemCertPool()
		if err != nil {
			roots = x509.NewCertPool()
		}
		if e.CA != "" && !roots.AppendCertsFromPEM([]byte(e.CA)) {
			return nil, &Failure{Op: "read CA", Text: "it holds no certificate", Hint: "ca: names a file of certificates in PEM"}
		}
		t.TLSClientConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	}
	o := &minio.Options{Creds: credentials.NewStaticV4(e.Access, e.Secret, e.Token), Secure: e.TLS, Region: e.Region,
		Transport: &limited{c, t}, MaxRetries: 1}
	switch e.Style {
	case "path":
		o.BucketLookup = minio.BucketLookupPath
	case "virtual":
		o.BucketLookup = minio.BucketLookupDNS
	}
	switch e.Payload {
	case "unsigned":
		c.options.DisableContentSha256 = true
	case "checksum":
		o.TrailingHeaders = true
		c.options.DisableContentSha256, c.options.Checksum = true, minio.ChecksumCRC32C
	}
	if c.Client, err = minio.New(e.Host, o); err != nil {
		return nil, &Failure{Op: "make S3 client", Text: err.Error(), Hint: "write the endpoint as host:port, without a path"}
	}
	return c, nil
}

// limited sets one deadline for each request and the reading of its response. It records how the first upload is
// signed.
type limited struct {
	c *client
	t http.RoundTripper
}

func (l *limited) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodPut {
		l.c.sent.CompareAndSwap(nil, r.Header.Get("X-Amz-Content-Sha256"))
	}
	ctx, cancel := context.WithTimeoutCause(r.Context(), l.c.e.Timeout, fmt.Errorf("no answer within %v", l.c.e.Timeout))
	resp, err := l.t.RoundTrip(r.WithContext(ctx))
	if err != nil {
		if ctx.Err() != nil && r.Context().Err() == nil {
			err = context.Cause(ctx)
		}
		cancel()
		return nil, err
	}
	resp.Body = &endsBody{resp.Body, ctx, cancel}
	return resp, nil
}

// endsBody is a response body that releases the deadline of its request when it is closed.
type endsBody struct {
	io.ReadCloser
	ctx    context.Context
	cancel context.CancelFunc
}

func (b *endsBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) && b.ctx.Err() != nil {
		err = context.Cause(b.ctx)
	}
	return n, err
}

func (b *endsBody) Close() error {
	err := b.ReadCloser.Close()
	b.cancel()
	return err
}

// payload describes how the first upload was signed. It returns "" before the first upload.
func (c *client) payload() string {
	s, _ := c.sent.Load().(string)
	switch {
	case s == "":
		return ""
	case strings.HasPrefix(s, "STREAMING-UNSIGNED"):
		return "unsigned, with a checksum behind it"
	case strings.HasPrefix(s, "STREAMING") && strings.HasSuffix(s, "TRAILER"):
		return "signed chunk by chunk, with a checksum behind it"
	case strings.HasPrefix(s, "STREAMING"):
		return "signed chunk by chunk"
	case s == "UNSIGNED-PAYLOAD":
		return "unsigned"
	}
	return "signed whole (SHA-256)"
}

// hints maps S3 error codes to hints for the user.
var hints = map[string]string{
	"AccessDenied":          "use a key that may list, read and write in the bucket",
	"XAdminUserNotFound":    "check the access key: AWS_ACCESS_KEY_ID, or the file of credentials:", // the code that versitygw returns
	"InvalidAccessKeyId":    "check the access key: AWS_ACCESS_KEY_ID, or the file of credentials:",
	"SignatureDoesNotMatch": "check the secret key: AWS_SECRET_ACCESS_KEY, or the file of credentials:; and the region",
	"RequestTimeTooSkewed":  "set the clocks of this machine and of the server (chronyc tracking)",
	"NoSuchBucket":          "make the bucket, or name another",
	"XMinioStorageFull":     "make room in the store, or use a smaller size",
	"QuotaExceeded":         "make room in the store, or use a smaller size",
	"SlowDown":              "the store refuses the load: fewer clients",
}

// failure converts an error of minio-go to a Failure, with a hint for known causes. If err is nil or already contains
// a Failure, it returns err.
func failure(op string, err error) error {
	var f *Failure
	if err == nil || errors.As(err, &f) {
		return err
	}
	f = &Failure{Op: op, Text: err.Error()}
	var unknown x509.UnknownAuthorityError
	var name x509.HostnameError
	var expired x509.CertificateInvalidError
	var record tls.RecordHeaderError
	var netErr *net.OpError
	switch r := minio.ToErrorResponse(err); {
	case errors.As(err, &unknown):
		f.Text, f.Hint = "the server's certificate is signed by an authority that is not known here", "name the authority's certificate with ca:"
	case errors.As(err, &name):
		f.Hint = "use the name that the certificate is for"
	case errors.As(err, &expired):
		f.Hint = "renew the server's certificate, and check the clocks"
	case errors.As(err, &record) || strings.Contains(err.Error(), "server gave HTTP response to HTTPS client"):
		f.Hint = "the server uses http: write http:// in the URL"
	case errors.As(err, &netErr) && netErr.Op == "dial":
		f.Text, f.Hint = netErr.Error(), "see that the server runs and can be reached from this machine"
	case r.StatusCode > 0 || hints[r.Code] != "":
		f.Code, f.Text, f.Hint = r.Code, strings.TrimSpace(r.Message), hints[r.Code]
	case strings.Contains(err.Error(), "no answer within"):
		f.Hint = "look whether the store lost nodes; timeout: gives it longer"
	}
	return f
}
