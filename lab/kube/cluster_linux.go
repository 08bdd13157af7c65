package kube

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gofrs/flock"
	"golang.org/x/sys/unix"

	"iotax/lab/engine"
)

// A Cluster is Kubernetes on one node, in namespaces of its own (network, processes, mounts): it adds
// nothing to this machine's network, and when its first process ends all others and their mounts go with it.
type Cluster struct {
	Config string // kubeconfig of the administrator
	Proxy  *Proxy // between this machine and the cluster
	Dir    string // all its state; the node sees it under the same path

	dir    string // of the programs
	init   *exec.Cmd
	procs  []*exec.Cmd
	client *http.Client
}

const (
	// Node is the name of the only node.
	Node = "node1"

	address = "10.210.0.2" // of the node, in its own network
	token   = "admin-of-the-tests"

	// startTime is how long a part may take to answer on a machine that is busy.
	startTime = 4 * time.Minute
)

// Start starts a cluster that has the images; it ends with the test.
func Start(t *testing.T, images ...Image) *Cluster {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("starting Kubernetes needs root")
	}
	for _, tool := range []string{"containerd", "ctr", "runc", "etcd", "ip", "nsenter"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is missing: scripts/need test", tool)
		}
	}
	programs, err := Build(t.Context(), t.Logf)
	must(t, err)
	// Control groups of pods have one name on a machine, and each kubelet removes those it does not know.
	lock := flock.New(filepath.Join(os.TempDir(), "iotax-kube.lock"))
	if dir := "/run/lock"; unix.Access(dir, unix.W_OK) == nil {
		lock = flock.New(filepath.Join(dir, "iotax-kube"))
	}
	must(t, lock.Lock())
	t.Cleanup(func() {
		if err := lock.Unlock(); err != nil {
			t.Error(err)
		}
	})
	// On a disk, and not below /tmp, which is the cluster's own.
	dir, err := os.MkdirTemp("/var/tmp", "iotax-kube-")
	must(t, err)
	c := &Cluster{Dir: dir, dir: programs, Config: dir + "/kubeconfig"}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
		removeGroups(t)
	})
	for _, d := range []string{"log", "tmp", "sysctl", "cni", "manifests", "images"} {
		must(t, os.Mkdir(c.path(d), 0o777))
	}
	must(t, os.Chmod(c.path("tmp"), 0o1777))
	c.begin(t)
	c.secrets(t)
	c.containers(t, images)
	c.control(t)
	c.node(t)
	return c
}

func (c *Cluster) path(name string) string { return filepath.Join(c.Dir, name) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// sysctls are what kubelet would set for the whole machine. It finds them set, and leaves them.
var sysctls = map[string]string{"vm/overcommit_memory": "1", "vm/panic_on_oom": "0", "kernel/panic": "10", "kernel/panic_on_oops": "1",
	"kernel/keys/root_maxkeys": "1000000", "kernel/keys/root_maxbytes": "25000000"}

// begin starts the first process of the cluster's namespaces. It ends when this process closes its input,
// however that comes about.
func (c *Cluster) begin(t *testing.T) {
	script := `set -e
mount --make-rprivate /
mount -t proc proc /proc
mount --make-rshared /
mount --bind "$1/tmp" /tmp
for f in "$1"/sysctl/*; do
	n=${f##*/}
	mount --bind "$f" "/proc/sys/$(echo "$n" | tr . /)"
done
ip link set lo up
ip link add eth0 type veth peer name eth1
ip addr add ` + address + `/24 dev eth0
ip link set eth0 up
ip link set eth1 up
ip route add default dev eth0
echo 1 >/proc/sys/net/ipv4/ip_forward
echo ready
cat >/dev/null
`
	for name, v := range sysctls {
		must(t, os.WriteFile(c.path("sysctl/"+strings.ReplaceAll(name, "/", ".")), []byte(v+"\n"), 0o644))
	}
	cmd := exec.Command("sh", "-c", script, "sh", c.Dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID, Setpgid: true}
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	var said bytes.Buffer
	cmd.Stderr = &said
	must(t, cmd.Start())
	c.init = cmd
	t.Cleanup(func() {
		in.Close()
		ended := make(chan struct{})
		go func() { cmd.Wait(); close(ended) }()
		select {
		case <-ended:
		case <-time.After(30 * time.Second):
			t.Error("the cluster does not end")
			cmd.Process.Kill()
			<-ended
		}
		for _, p := range c.procs {
			p.Wait()
		}
	})
	line := make([]byte, 16)
	if n, err := out.Read(line); err != nil || strings.TrimSpace(string(line[:n])) != "ready" {
		t.Fatalf("the namespaces of the cluster: %v %s", err, &said)
	}
	c.Proxy = newProxy(t, cmd.Process.Pid, net.JoinHostPort(address, "6443"))
}

// inside returns a command in the cluster's namespaces.
func (c *Cluster) inside(args ...string) *exec.Cmd {
	cmd := exec.Command("nsenter", append([]string{"--target", strconv.Itoa(c.init.Process.Pid), "--net", "--mount", "--pid", "--"}, args...)...)
	cmd.Dir = c.Dir
	cmd.Env = append(os.Environ(), "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "TMPDIR=/tmp")
	return cmd
}

// run starts a part, which goes on until the cluster ends.
func (c *Cluster) run(t *testing.T, name string, args ...string) {
	t.Helper()
	log, err := os.Create(c.path("log/" + name))
	must(t, err)
	defer log.Close()
	cmd := c.inside(args...)
	cmd.Stdout, cmd.Stderr = log, log
	must(t, cmd.Start())
	c.procs = append(c.procs, cmd)
}

// await polls ready.
func (c *Cluster) await(t *testing.T, part string, ready func() error) {
	t.Helper()
	var err error
	for begin := time.Now(); time.Since(begin) < startTime; time.Sleep(200 * time.Millisecond) {
		if err = ready(); err == nil {
			return
		}
	}
	said, _ := os.ReadFile(c.path("log/" + part))
	t.Fatalf("%s is not ready: %v; its log ends:\n%s", part, err, said[max(0, len(said)-3000):])
}

// secrets makes the keys and the configuration that this machine uses.
func (c *Cluster) secrets(t *testing.T) {
	write := func(name, kind string, der []byte) {
		must(t, os.WriteFile(c.path(name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
	}
	key := func(name string) *ecdsa.PrivateKey {
		k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		must(t, err)
		der, err := x509.MarshalECPrivateKey(k)
		must(t, err)
		write(name+".key", "EC PRIVATE KEY", der)
		return k
	}
	ca := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "iotax tests"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	caKey := key("ca")
	der, err := x509.CreateCertificate(rand.Reader, ca, ca, caKey.Public(), caKey)
	must(t, err)
	write("ca.crt", "CERTIFICATE", der)
	server := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "kube-apiserver"}, NotBefore: ca.NotBefore, NotAfter: ca.NotAfter,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IPAddresses: []net.IP{net.ParseIP(address), net.IPv4(127, 0, 0, 1), net.IPv4(10, 96, 0, 1)}, DNSNames: []string{"kubernetes", "kubernetes.default", "localhost"}}
	serverKey := key("server")
	der, err = x509.CreateCertificate(rand.Reader, server, ca, serverKey.Public(), caKey)
	must(t, err)
	write("server.crt", "CERTIFICATE", der)
	accounts := key("accounts")
	der, err = x509.MarshalPKIXPublicKey(accounts.Public())
	must(t, err)
	write("accounts.pub", "PUBLIC KEY", der)
	must(t, os.WriteFile(c.path("tokens.csv"), []byte(token+`,admin,admin,"system:masters"`+"\n"), 0o600))
	must(t, os.WriteFile(c.Config, c.ConfigFor("https://"+c.Proxy.Address, token), 0o600))
	must(t, os.WriteFile(c.path("inside"), c.ConfigFor("https://"+net.JoinHostPort(address, "6443"), token), 0o600))
	pool := x509.NewCertPool()
	pool.AddCert(ca)
	pemCA, err := os.ReadFile(c.path("ca.crt"))
	must(t, err)
	pool.AppendCertsFromPEM(pemCA)
	c.client = &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, DisableKeepAlives: true}}
}

// ConfigFor is a kubeconfig for one who has that token, which may name another server than the proxy.
func (c *Cluster) ConfigFor(server, token string) []byte {
	return fmt.Appendf(nil, `apiVersion: v1
kind: Config
clusters: [{name: tests, cluster: {server: %q, certificate-authority: %q}}]
users: [{name: tester, user: {token: %q}}]
contexts: [{name: tests, context: {cluster: tests, user: tester}}]
current-context: tests
`, server, c.path("ca.crt"), token)
}

// get asks the API for a path.
func (c *Cluster) get(path string, into any) error {
	req, err := http.NewRequest("GET", "https://"+c.Proxy.Address+path, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	res, err := c.client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s: %.300s", path, res.Status, b)
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(b, into)
}

// An Image is one that the node has: busybox and, if asked, fio.
type Image struct {
	Name string
	Fio  bool
}

const pauseImage = "localhost/iotax-pause:1"

// containers starts containerd and gives it the images.
func (c *Cluster) containers(t *testing.T, images []Image) {
	must(t, os.WriteFile(c.path("containerd.toml"), fmt.Appendf(nil, `version = 2
root = %[1]q
state = %[2]q
oom_score = 0
[grpc]
  address = %[3]q
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = %[4]q
  restrict_oom_score_adj = true # machines for tests may lack the privilege
  disable_apparmor = true
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = %[5]q
`, c.path("containerd"), c.path("containerd-state"), c.path("containerd.sock"), pauseImage, c.path("cni")), 0o600))
	must(t, os.WriteFile(c.path("cni/10-tests.conflist"), fmt.Appendf(nil, `{"cniVersion": "0.4.0", "name": "tests", "plugins": [{"type": "bridge", "bridge": "cni0", "isGateway": true,
 "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.211.0.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}], "dataDir": %q}}]}`, c.path("ipam")), 0o600))
	c.run(t, "containerd", "containerd", "-c", c.path("containerd.toml"))
	ctr := func(args ...string) error {
		ctx, cancel := context.WithTimeout(t.Context(), startTime)
		defer cancel()
		cmd := c.inside(append([]string{"ctr", "-a", c.path("containerd.sock"), "-n", "k8s.io"}, args...)...)
		cmd = withContext(ctx, cmd)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("ctr %s: %w: %s", strings.Join(args, " "), err, out)
		}
		return nil
	}
	c.await(t, "containerd", func() error { return ctr("version") })
	pause := c.path("images/pause.tar")
	must(t, engine.WriteImage(pause, pauseImage, false, "sleep", "2147483647"))
	must(t, ctr("images", "import", pause))
	for i, im := range images {
		file := c.path(fmt.Sprintf("images/%d.tar", i))
		must(t, engine.WriteImage(file, im.Name, im.Fio))
		must(t, ctr("images", "import", file))
		must(t, os.Remove(file))
	}
}

// withContext is cmd with a deadline.
func withContext(ctx context.Context, cmd *exec.Cmd) *exec.Cmd {
	c := exec.CommandContext(ctx, cmd.Args[0], cmd.Args[1:]...)
	c.Dir, c.Env, c.WaitDelay = cmd.Dir, cmd.Env, time.Second
	return c
}

// control starts the control plane.
func (c *Cluster) control(t *testing.T) {
	program := func(name string) string { return filepath.Join(c.dir, name) }
	c.run(t, "etcd", "etcd", "--data-dir", c.path("etcd"), "--listen-client-urls", "http://127.0.0.1:2379", "--advertise-client-urls", "http://127.0.0.1:2379",
		"--listen-peer-urls", "http://127.0.0.1:2380", "--unsafe-no-fsync")
	c.run(t, "kube-apiserver", program("kube-apiserver"), "--etcd-servers=http://127.0.0.1:2379", "--bind-address=0.0.0.0", "--secure-port=6443", "--advertise-address="+address,
		"--tls-cert-file="+c.path("server.crt"), "--tls-private-key-file="+c.path("server.key"), "--token-auth-file="+c.path("tokens.csv"), "--authorization-mode=RBAC",
		"--service-cluster-ip-range=10.96.0.0/16", "--service-account-issuer=https://kubernetes.default.svc", "--service-account-key-file="+c.path("accounts.pub"),
		"--service-account-signing-key-file="+c.path("accounts.key"), "--allow-privileged=true", "--kubelet-preferred-address-types=InternalIP", "--profiling=false")
	c.await(t, "kube-apiserver", func() error { return c.get("/readyz", nil) })
	c.run(t, "kube-controller-manager", program("kube-controller-manager"), "--kubeconfig="+c.path("inside"), "--service-account-private-key-file="+c.path("accounts.key"),
		"--root-ca-file="+c.path("ca.crt"), "--leader-elect=false", "--bind-address=127.0.0.1", "--profiling=false", "--enable-hostpath-provisioner=true", "--use-service-account-credentials=false")
	c.run(t, "kube-scheduler", program("kube-scheduler"), "--kubeconfig="+c.path("inside"), "--leader-elect=false", "--bind-address=127.0.0.1", "--profiling=false")
}

// node starts kubelet and waits until the node takes pods.
func (c *Cluster) node(t *testing.T) {
	must(t, os.WriteFile(c.path("kubelet.yaml"), fmt.Appendf(nil, `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: %[1]s
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
cgroupDriver: cgroupfs
failCgroupV1: false
failSwapOn: false
oomScoreAdj: 0
maxOpenFiles: 20000
containerRuntimeEndpoint: unix://%[2]s/containerd.sock
podLogsDir: %[2]s/podlogs
staticPodPath: %[2]s/manifests
volumePluginDir: %[2]s/plugins
resolvConf: ""
clusterDomain: cluster.local
evictionHard: {nodefs.available: "1%%", imagefs.available: "1%%", memory.available: 50Mi}
imageGCHighThresholdPercent: 100
imageGCLowThresholdPercent: 99
enforceNodeAllocatable: [pods]
readOnlyPort: 0
syncFrequency: 2s
`, address, c.Dir), 0o600))
	c.run(t, "kubelet", filepath.Join(c.dir, "kubelet"), "--config="+c.path("kubelet.yaml"), "--kubeconfig="+c.path("inside"), "--root-dir="+c.path("kubelet"),
		"--cert-dir="+c.path("kubelet-pki"), "--hostname-override="+Node, "--node-ip="+address)
	c.await(t, "kubelet", func() error {
		var n struct {
			Spec   struct{ Taints []struct{ Key string } }
			Status struct {
				Conditions []struct{ Type, Status, Message string }
			}
		}
		if err := c.get("/api/v1/nodes/"+Node, &n); err != nil {
			return err
		}
		if len(n.Spec.Taints) > 0 {
			return fmt.Errorf("the node is tainted: %v", n.Spec.Taints)
		}
		for _, x := range n.Status.Conditions {
			if x.Type == "Ready" && x.Status == "True" {
				return nil
			}
		}
		return errors.New("the node is not ready")
	})
	c.await(t, "kube-controller-manager", func() error { return c.get("/api/v1/namespaces/default/serviceaccounts/default", nil) })
	t.Cleanup(func() { // while all parts run: the kubelet takes networks and mounts apart
		for _, kind := range []string{"pods", "persistentvolumeclaims"} {
			var list struct {
				Items []struct {
					Metadata struct {
						Namespace, Name string
						Labels          map[string]string
					}
				}
			}
			if err := c.get("/api/v1/"+kind+"?labelSelector=iotax", &list); err != nil {
				t.Errorf("the cluster does not tell what is left: %v", err)
			}
			for _, x := range list.Items {
				t.Errorf("left in the cluster: %s %s/%s", kind, x.Metadata.Namespace, x.Metadata.Name)
			}
		}
	})
}

// Kubectl runs kubectl as the administrator, with input on its standard input, and returns what it printed.
func (c *Cluster) Kubectl(t *testing.T, input string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(c.dir, "kubectl"), append([]string{"--kubeconfig", c.Config}, args...)...)
	cmd.Stdin = strings.NewReader(input)
	cmd.WaitDelay = time.Second
	cmd.Env = append(os.Environ(), "HOME="+c.Dir)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		t.Errorf("kubectl %s: %v: %s", strings.Join(args, " "), err, &errs)
	}
	return out.String()
}

// removeGroups removes the control groups that kubelet made, once their processes are gone.
func removeGroups(t *testing.T) {
	roots, err := filepath.Glob("/sys/fs/cgroup/*/kubepods")
	must(t, err)
	for _, root := range append(roots, "/sys/fs/cgroup/kubepods") {
		var dirs []string
		filepath.WalkDir(root, func(p string, d os.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				dirs = append(dirs, p)
			}
			return nil
		})
		for i := len(dirs) - 1; i >= 0; i-- {
			if err := unix.Rmdir(dirs[i]); err != nil && !errors.Is(err, unix.ENOENT) {
				t.Logf("remove control group %s: %v", dirs[i], err)
			}
		}
	}
}

// Inside runs a command of this machine among the processes of the cluster, and returns what it printed.
func (c *Cluster) Inside(t *testing.T, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	out, err := withContext(ctx, c.inside(args...)).Output()
	if err != nil {
		t.Errorf("%s: %v", strings.Join(args, " "), err)
	}
	return string(out)
}
