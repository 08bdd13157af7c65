package volume

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"iotax"
	"iotax/internal/agent"
	"iotax/internal/plan"
)

// BucketSpec is `bucket: URL`, a bucket of an existing S3 store, or `bucket: {from: MACHINE}`, a store that iotax
// starts on a machine for the run.
type BucketSpec struct {
	URL         string   `yaml:"url" doc:"existing bucket, as in https://s3.example:9000/bucket; iotax touches only objects under its own prefix"`
	From        string   `yaml:"from" doc:"machine on which a store is started for the run; empty means the target's own"`
	Replicas    []string `yaml:"replicas" doc:"machines that each keep a copy of the store's data, in addition to the one that runs it; a write succeeds when the majority has it"`
	Server      string   `yaml:"server" doc:"store to start" enum:"versitygw,minio"`
	Program     string   `yaml:"program" doc:"path of the store's program on that machine; empty searches its PATH, and on this host also the directory of iotax"`
	Path        string   `yaml:"path" doc:"directory on that machine for the store's objects; empty means /var/tmp, or the directory of a lab's node"`
	Network     bool     `yaml:"network" doc:"allow a path inside a network file system; without this key only its mount point is accepted"`
	Create      bool     `yaml:"create" doc:"make path if it does not exist, and remove it at the end"`
	TLS         bool     `yaml:"tls" doc:"start the store with TLS, with a certificate made for the run"`
	Region      string   `yaml:"region" doc:"region that requests are signed for"`
	Style       string   `yaml:"style" doc:"where requests name the bucket: path, or virtual for the host name; auto decides by the host" enum:"auto,path,virtual"`
	CA          string   `yaml:"ca" doc:"PEM file of certificates to trust in addition to the system's"`
	Credentials string   `yaml:"credentials" doc:"credentials file in the format of the AWS tools; empty means AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY of the environment"`
	Versioned   bool     `yaml:"versioned" doc:"use the bucket although it keeps versions or locks objects: removed objects stay stored and cost money"`
	Address     string   `yaml:"address" doc:"address of the serving machine, if iotax cannot find it"`
	Port        int      `yaml:"port" doc:"port of the started store; 0 picks a free one"`
}

// SetScalar fills the spec from `bucket: URL`.
func (s *BucketSpec) SetScalar(v string) error { s.URL = v; return nil }

func (s *BucketSpec) Traits() plan.Traits {
	can := plan.Traits{
		Directories: []*string{&s.Path}, HostFiles: []*string{&s.CA, &s.Credentials},
		Served: &plan.Served{Key: "from", Machine: s.From, PeersKey: "replicas", Peers: s.Replicas},
	}
	if s.URL == "" && s.Program == "" {
		can.Tools = append(can.Tools, s.Server)
	}
	if len(s.Replicas) > 0 {
		can.Tools = append(can.Tools, "qemu-storage-daemon", "qemu-nbd")
	}
	return can
}

// Validate returns an error for invalid values, and for keys that cannot be combined.
func (s *BucketSpec) Validate() error {
	errs := []error{checkAddress(s.Address, s.Port)}
	refuse := func(field, msg, hint string) {
		errs = append(errs, &plan.FieldError{Field: field, Msg: msg, Hint: hint})
	}
	if s.Path != "" {
		errs = append(errs, checkPath("directory", s.Path))
	}
	for i, name := range s.Replicas {
		if name == s.From || slices.Contains(s.Replicas[:i], name) {
			refuse("replicas", fmt.Sprintf("%q would keep two copies", name), "name each machine once, and not the one of from:")
		}
	}
	if s.URL == "" {
		if s.Style == "virtual" {
			refuse("style", "a store that iotax starts has no host name for each bucket", "use style: path, or leave it out")
		}
		for _, f := range [][2]string{{"ca", s.CA}, {"credentials", s.Credentials}} {
			if f[1] != "" {
				refuse(f[0], "iotax makes it for a store that it starts", "leave it out, or name an existing bucket: url:")
			}
		}
		return errors.Join(errs...)
	}
	if s.From != "" || len(s.Replicas) > 0 || s.Server != DefaultStore || s.Program != "" || s.Path != "" || s.Network || s.Create || s.TLS || s.Address != "" || s.Port != 0 {
		refuse("url", "iotax does not serve a bucket that exists", "leave from, replicas, server, program, path, network, create, tls, address and port out, or leave url out")
	}
	u, err := url.Parse(s.URL)
	const hint = "as in https://s3.example:9000/bucket"
	switch {
	case err != nil:
		refuse("url", "it is no URL", hint) // the parser's error would quote a password
	case u.User != nil:
		refuse("url", "keys do not belong in a plan: it is stored and shown", "put them in the environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY), or name a file with credentials:")
	case u.Scheme != "http" && u.Scheme != "https":
		refuse("url", fmt.Sprintf("%q is neither http nor https", u.Scheme), hint)
	case u.Host == "" || u.RawQuery != "" || strings.Trim(u.Path, "/") == "" || strings.Contains(strings.Trim(u.Path, "/"), "/"):
		refuse("url", "it does not name one bucket of a host", hint)
	}
	return errors.Join(errs...)
}

func prepareBucket(_ context.Context, s *BucketSpec, e Env) (iotax.Volume, error) {
	return &bucket{life: life{env: e}, spec: *s}, nil
}

// query returns the query parameters of the bucket's s3:// address.
func (s *BucketSpec) query(prefix string) url.Values {
	q := url.Values{"prefix": {prefix}, "region": {s.Region}, "style": {s.Style}}
	if s.Versioned {
		q.Set("versioned", "yes")
	}
	return q
}

// existing returns the s3:// address of the existing bucket, with q as its query. It adds tls to q, and ca and
// credentials if the spec has them.
func (s *BucketSpec) existing(q url.Values) (string, error) {
	u, err := url.Parse(s.URL)
	if err != nil {
		return "", &iotax.Error{Op: "use bucket", Err: errors.New("it is no URL")}
	}
	for key, path := range map[string]string{"ca": s.CA, "credentials": s.Credentials} {
		if path != "" {
			q.Set(key, path)
		}
	}
	q.Set("tls", map[bool]string{true: "on", false: "off"}[u.Scheme == "https"])
	return (&url.URL{Scheme: "s3", Host: u.Host, Path: "/" + strings.Trim(u.Path, "/"), RawQuery: q.Encode()}).String(), nil
}

// Remains returns the place of an existing bucket, which may contain leftovers of crashed runs. ok is false if iotax
// starts the store itself, because its objects are then in a directory of the run.
func (s *BucketSpec) Remains() (p iotax.Place, ok bool, err error) {
	if s.URL == "" {
		return p, false, nil
	}
	path, err := s.existing(s.query(""))
	return iotax.Place{Kind: iotax.PlaceURL, Path: path}, true, err
}

type bucket struct {
	life
	spec   BucketSpec
	copies *replicated // copies on other machines; nil without replicas
}

func (b *bucket) Caps() iotax.VolumeCaps {
	return iotax.VolumeCaps{Processes: b.processes, Findings: b.findings}
}

// ownBucket is the name of the bucket in a store that iotax starts.
const ownBucket = "iotax"

// Attach starts the store if the spec has no URL, and returns the bucket's place.
func (b *bucket) Attach(ctx context.Context, m iotax.Machine) (iotax.Place, error) {
	var none iotax.Place
	s := b.spec
	p := iotax.Place{Kind: iotax.PlaceURL, Facts: map[string]string{"s3.region": s.Region, "s3.style": s.Style}}
	q := s.query("iotax-" + randomHex(6) + "/")
	if s.URL != "" {
		var err error
		p.Path, err = s.existing(q)
		return p, err
	}
	address, err := addressFor("start object store", b.env.Server, m, s.Address)
	if err != nil {
		return none, err
	}
	own, err := b.start(ctx, address)
	if err != nil {
		return none, err
	}
	q.Set("credentials", own.credentials)
	q.Set("create", "yes")
	q.Set("style", "path") // an IP address has no subdomains
	q.Set("tls", map[bool]string{true: "on", false: "off"}[s.TLS])
	if s.TLS {
		q.Set("ca", own.ca)
	}
	p.Path = (&url.URL{Scheme: "s3", Host: net.JoinHostPort(address, strconv.Itoa(own.port)), Path: "/" + ownBucket, RawQuery: q.Encode()}).String()
	p.Facts["s3.server"], p.Facts["s3.style"] = s.Server, "path"
	if n := 1 + len(s.Replicas); n > 1 {
		p.Facts[iotax.FactS3Copies] = fmt.Sprintf("%d, of which %d must have a write (quorum of QEMU over NBD), by %s", n, majority(n), strings.Join(s.Replicas, ", "))
	}
	linkFacts(p.Facts, b.env.Server, m, address)
	return p, nil
}

// An ownStore is a store that iotax started for the run.
type ownStore struct {
	port            int
	credentials, ca string // paths on this host; ca is "" without TLS
}

func (b *bucket) start(ctx context.Context, address string) (own ownStore, err error) {
	s, m := b.spec, b.env.Server
	fail := func(err error, hint string) (ownStore, error) {
		return own, &iotax.Error{Op: "start object store", On: fmt.Sprintf("%s on %v", s.Server, m), Err: err, Hint: hint}
	}
	program := s.Program
	if program == "" {
		if program, err = FindStore(ctx, m, s.Server); err != nil {
			return own, err
		}
	}
	inner := guardedDir(m, s.Path, b.env.Need, s.Network, s.Create)
	b.attached.push(inner.Detach)
	in, err := inner.Attach(ctx, m)
	if err != nil {
		return own, err
	}
	// The store gets the keys from its environment. The workload reads them from a file that only its owner can read.
	work, err := os.MkdirTemp(b.env.WorkDir, "iotax-s3-")
	if err != nil {
		return fail(err, "")
	}
	b.attached.push(func(context.Context) error { return os.RemoveAll(work) })
	access, secret := "iotax"+randomHex(6), randomHex(20)
	own.credentials = filepath.Join(work, "credentials")
	text := fmt.Sprintf("[default]\naws_access_key_id = %s\naws_secret_access_key = %s\n", access, secret)
	if err := os.WriteFile(own.credentials, []byte(text), 0o600); err != nil {
		return fail(err, "")
	}
	keys := []string{"ROOT_ACCESS_KEY=" + access, "ROOT_SECRET_KEY=" + secret, "MINIO_ROOT_USER=" + access, "MINIO_ROOT_PASSWORD=" + secret, "MINIO_CI_CD=1"}
	data := in.Path + "/data"
	if len(s.Replicas) > 0 {
		b.copies = &replicated{}
		b.attached.push(b.copies.Detach)
		// The replicated file system and the store need space in addition to the workloads' objects.
		at, err := b.copies.attach(ctx, m, b.env.Peers, b.env.WorkDir, in.Path, b.env.Need*5/4+128<<20)
		if err != nil {
			return own, err
		}
		data = at + "/data"
	}
	if _, err := on(ctx, quick, makeDirs.On, m, []string{data, in.Path + "/certs"}); err != nil {
		return own, err
	}
	var tls []string
	if s.TLS {
		cert, key, err := certificate(address)
		if err != nil {
			return fail(err, "")
		}
		own.ca = filepath.Join(work, "ca.pem")
		err = errors.Join(os.WriteFile(own.ca, cert, 0o600),
			agent.Put(ctx, m, bytes.NewReader(cert), in.Path+"/certs/public.crt", 0o600),
			agent.Put(ctx, m, bytes.NewReader(key), in.Path+"/certs/private.key", 0o600))
		if err != nil {
			return fail(err, "")
		}
		tls = []string{"--cert", in.Path + "/certs/public.crt", "--key", in.Path + "/certs/private.key"}
		if s.Server == "minio" {
			tls = []string{"--certs-dir", in.Path + "/certs"}
		}
	}
	b.server, own.port, err = serveOnPort(s.Port, func(port int) (*server, error) {
		listen := net.JoinHostPort(address, strconv.Itoa(port))
		args := append([]string{program, "--port", listen, "--quiet", "--keep-alive"}, append(tls, "posix", data)...)
		if s.Server == "minio" {
			args = append([]string{program, "server", "--quiet", "--address", listen}, append(tls, data)...)
		}
		srv, err := startServer(ctx, m, in.Path+"/pid", keys, args...)
		if err != nil {
			return nil, err
		}
		srv.name = s.Server
		return srv, srv.awaitPort(ctx, port)
	})
	if err != nil {
		return fail(err, "")
	}
	b.attached.push(b.server.stop)
	return own, nil
}

// DefaultStore is the store that iotax starts unless the plan names another store.
const DefaultStore = "versitygw"

// stores maps each store to the package and version for go install, because distributions do not package these stores.
var stores = map[string]string{"versitygw": "github.com/versity/versitygw/cmd/versitygw@v1.8.0", "minio": "github.com/minio/minio@latest"}

// beside returns the directory that contains the iotax program, or a nonexistent path if the location of the program is
// unknown.
func beside() string {
	exe, err := os.Executable()
	if err != nil {
		return "/nonexistent"
	}
	return filepath.Dir(exe)
}

// BuildStore returns the command that builds a store on this host, or "" for an unknown store. The command installs the
// store next to the iotax program, where FindStore finds it regardless of HOME and PATH.
func BuildStore(name string) string {
	if stores[name] == "" {
		return ""
	}
	return iotax.QuoteAll([]string{"env", "GOBIN=" + beside(), "CGO_ENABLED=0", "go", "install", stores[name]})
}

// FindStore returns the path of a store's program on m, or an error if it is not installed. On this host, it first
// searches the directory of the iotax program.
func FindStore(ctx context.Context, m iotax.Machine, name string) (path string, err error) {
	at, get := "/nonexistent", "go install "+stores[name]+", and put it into the PATH of "+m.String()
	if iotax.IsLocal(m) {
		at, get = beside(), BuildStore(name)
	}
	path, err = on(ctx, quick, findProgram.On, m, program{name, []string{at, at + "/bin"}, []string{"/usr/local/bin", "~/go/bin"}})
	if err != nil || path != "" {
		return path, err
	}
	return "", &iotax.Error{Op: "start object store", On: fmt.Sprintf("%s on %v", name, m), Err: errors.New("it is not installed there"),
		Hint: get + "; or name a store that runs: bucket: http://HOST:PORT/BUCKET"}
}

// certificate makes a self-signed certificate for the address, valid for 30 days. It returns the certificate and its
// private key as PEM.
func certificate(address string) (cert, key []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	t := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "iotax"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(30 * 24 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, IsCA: true, BasicConstraintsValid: true}
	if ip := net.ParseIP(address); ip != nil {
		t.IPAddresses = []net.IP{ip}
	} else {
		t.DNSNames = []string{address}
	}
	der, err := x509.CreateCertificate(rand.Reader, t, t, &private.PublicKey, private)
	if err != nil {
		return nil, nil, err
	}
	k, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return nil, nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: k}), nil
}

// processes returns the IDs of the processes on this host that run the store and its replicas, by program name.
func (b *bucket) processes() map[string][]int {
	all := b.server.processes()
	if b.copies != nil {
		all = b.copies.processes()
		maps.Copy(all, b.server.processes())
	}
	return all
}

func (b *bucket) findings() []iotax.Finding {
	found := b.server.death("the object store")
	if b.copies != nil {
		found = append(found, b.copies.findings()...)
	}
	return found
}
