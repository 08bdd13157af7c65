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
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gofrs/flock"
	"golang.org/x/sys/unix"

	"iotax/internal/testenv/engine"
)

// A Cluster is Kubernetes on some nodes, in its own network, PID and mount namespaces (except for the nodes that Join
// adds). When its first process ends, its other processes and its mounts end too. A node is a kubelet with a
// containerd. All nodes see the files of this machine.
type Cluster struct {
	Config string // kubeconfig of the administrator
	Server string // address of the API within the cluster
	Proxy  *Proxy // between this machine and the cluster
	Dir    string // directory of all its state; the nodes see it under the same path

	dir        string // directory of the Kubernetes programs
	nodes      []node
	imageFiles []string
	init       *exec.Cmd
	procs      []*exec.Cmd
	client     *http.Client
}

const (
	// Node is the name of the first node. The second is node2.
	Node = "node1"

	address = "10.210.0.2" // of the first node, in the cluster's network
	token   = "admin-of-the-tests"
	path    = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

	// startTime limits how long a component may take to start on a busy machine.
	startTime = 4 * time.Minute
)

// Start starts a cluster with the given number of nodes and the images. The cluster ends with the test.
func Start(t *testing.T, nodes int, images ...Image) *Cluster {
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
	// All clusters on a machine use the same cgroup names for pods, and each kubelet removes unknown cgroups. So only
	// one cluster may run at a time.
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
	// The directory must be on a disk, and not below /tmp, because the cluster mounts its own /tmp.
	dir, err := os.MkdirTemp("/var/tmp", "iotax-kube-")
	must(t, err)
	c := &Cluster{Dir: dir, dir: programs, Config: dir + "/kubeconfig", Server: net.JoinHostPort(address, "6443")}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
		removeGroups(t)
	})
	for _, d := range []string{"log", "tmp", "sysctl", "images"} {
		must(t, os.Mkdir(c.path(d), 0o777))
	}
	must(t, os.Chmod(c.path("tmp"), 0o1777))
	for i := range nodes {
		c.nodes = append(c.nodes, node{fmt.Sprintf("node%d", i+1), fmt.Sprintf("10.210.0.%d", i+2), i})
	}
	c.begin(t, c.nodes)
	c.secrets(t)
	c.images(t, images)
	for _, n := range c.nodes {
		c.containers(t, n)
	}
	c.control(t)
	for _, n := range c.nodes {
		c.kubelet(t, n)
	}
	for _, n := range c.nodes {
		c.ready(t, n)
	}
	return c
}

type node struct {
	name, address string
	index         int
}

// at returns the path of a file that belongs to node n only.
func (c *Cluster) at(n node, name string) string { return c.path(n.name + "/" + name) }

func (c *Cluster) path(name string) string { return filepath.Join(c.Dir, name) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// sysctls are settings that kubelet would change for the whole machine. The cluster mounts files with these values over
// the kernel's files, so that kubelet does not change the kernel's settings.
var sysctls = map[string]string{"vm/overcommit_memory": "1", "vm/panic_on_oom": "0", "kernel/panic": "10", "kernel/panic_on_oops": "1",
	"kernel/keys/root_maxkeys": "1000000", "kernel/keys/root_maxbytes": "25000000"}

// begin starts the first process of the cluster's namespaces, and c.Proxy. The process ends when its standard input is
// closed. The kernel closes that input if the test process is killed.
func (c *Cluster) begin(t *testing.T, nodes []node) {
	script := `set -e
mount --make-rprivate /
mount -t proc proc /proc
# A mount of another test stays busy while these namespaces have a copy of it.
tac /proc/self/mountinfo | while read -r _ _ _ _ at _; do
	case $at in /tmp/*|/var/tmp/*) umount -l "$(printf %b "$at")" || : ;; esac # it may be gone by now
done
mount --make-rshared /
mount --bind "$1/tmp" /tmp
for f in "$1"/sysctl/*; do
	n=${f##*/}
	mount --bind "$f" "/proc/sys/$(echo "$n" | tr . /)"
done
ip link set lo up
ip link add eth0 type veth peer name eth1
shift
for a; do ip addr add "$a/24" dev eth0; done
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
	args := []string{"-c", script, "sh", c.Dir}
	for _, n := range nodes {
		args = append(args, n.address)
	}
	cmd := exec.Command("sh", args...)
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
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	c.Proxy = newProxy(t, l, func() (there net.Conn, err error) {
		err = c.within(func() error { there, err = net.Dial("tcp", c.Server); return err })
		return there, err
	})
}

// Lead makes an address of this machine reachable from pods. It returns an address in the cluster's network from which
// connections are forwarded to the address `to`.
func (c *Cluster) Lead(t *testing.T, network, to string) (host string) {
	t.Helper()
	var l net.Listener
	must(t, c.within(func() (err error) { l, err = net.Listen("tcp", net.JoinHostPort(address, "0")); return err }))
	return newProxy(t, l, func() (net.Conn, error) { return net.Dial(network, to) }).Address
}

// within calls f on a thread in the cluster's network namespace.
func (c *Cluster) within(f func() error) error {
	done := make(chan error, 1)
	go func() {
		// The thread returns to its namespace instead of ending, because programs that the thread started may end with the
		// thread (Pdeathsig).
		runtime.LockOSThread()
		done <- func() error {
			var spaces [2]int
			for i, path := range []string{"/proc/thread-self/ns/net", fmt.Sprintf("/proc/%d/ns/net", c.init.Process.Pid)} {
				fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
				if err != nil {
					return err
				}
				defer unix.Close(fd)
				spaces[i] = fd
			}
			if err := unix.Setns(spaces[1], unix.CLONE_NEWNET); err != nil {
				return err
			}
			err := f()
			if back := unix.Setns(spaces[0], unix.CLONE_NEWNET); back != nil {
				return errors.Join(err, back) // the goroutine stays locked, so the thread ends
			}
			runtime.UnlockOSThread()
			return err
		}()
	}()
	return <-done
}

// inside returns a command that runs in the cluster's namespaces.
func (c *Cluster) inside(args ...string) *exec.Cmd {
	cmd := exec.Command("nsenter", append([]string{"--target", strconv.Itoa(c.init.Process.Pid), "--net", "--mount", "--pid", "--"}, args...)...)
	cmd.Dir = c.Dir
	cmd.Env = append(os.Environ(), "PATH="+path, "TMPDIR=/tmp")
	return cmd
}

func (c *Cluster) log(part string) string { return c.path("log/" + strings.ReplaceAll(part, "/", "-")) }

// run starts a component of the cluster. The component runs until the cluster ends.
func (c *Cluster) run(t *testing.T, name string, args ...string) {
	t.Helper()
	log, err := os.Create(c.log(name))
	must(t, err)
	defer log.Close()
	cmd := c.inside(args...)
	cmd.Stdout, cmd.Stderr = log, log
	must(t, cmd.Start())
	c.procs = append(c.procs, cmd)
}

// await calls `ready` repeatedly until it returns nil. It fails the test after startTime.
func (c *Cluster) await(t *testing.T, part string, ready func() error) {
	t.Helper()
	var err error
	for begin := time.Now(); time.Since(begin) < startTime; time.Sleep(200 * time.Millisecond) {
		if err = ready(); err == nil {
			return
		}
	}
	said, _ := os.ReadFile(c.log(part))
	t.Fatalf("%s is not ready: %v; its log ends:\n%s", part, err, said[max(0, len(said)-3000):])
}

// secrets creates the keys, the certificates, the kubeconfigs, and the HTTP client of the API.
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
	must(t, os.WriteFile(c.path("inside"), c.ConfigFor("https://"+c.Server, token), 0o600))
	pool := x509.NewCertPool()
	pool.AddCert(ca)
	pemCA, err := os.ReadFile(c.path("ca.crt"))
	must(t, err)
	pool.AppendCertsFromPEM(pemCA)
	c.client = &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, DisableKeepAlives: true}}
}

// ConfigFor returns a kubeconfig for the user with the token. `server` need not be the address of the proxy.
func (c *Cluster) ConfigFor(server, token string) []byte {
	return fmt.Appendf(nil, `apiVersion: v1
kind: Config
clusters: [{name: tests, cluster: {server: %q, certificate-authority: %q}}]
users: [{name: tester, user: {token: %q}}]
contexts: [{name: tests, context: {cluster: tests, user: tester}}]
current-context: tests
`, server, c.path("ca.crt"), token)
}

// get requests a path from the API and decodes the answer into `into`, unless that is nil.
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

// An Image is a container image that is loaded on every node.
type Image struct {
	Name string
	engine.Content
}

const pauseImage = "localhost/iotax-pause:1"

func (c *Cluster) images(t *testing.T, images []Image) {
	for i, im := range append([]Image{{pauseImage, engine.Content{Command: []string{"sleep", "2147483647"}}}}, images...) {
		file := c.path(fmt.Sprintf("images/%d.tar", i))
		must(t, engine.WriteImage(file, im.Name, im.Content))
		c.imageFiles = append(c.imageFiles, file)
	}
}

// configure writes the configuration of a node's containerd and of the network of its pods.
func (c *Cluster) configure(t *testing.T, n node) {
	for _, d := range []string{"", "cni", "manifests"} {
		must(t, os.Mkdir(c.at(n, d), 0o777))
	}
	must(t, os.WriteFile(c.at(n, "containerd.toml"), fmt.Appendf(nil, `version = 2
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
`, c.at(n, "containerd"), c.at(n, "containerd-state"), c.at(n, "containerd.sock"), pauseImage, c.at(n, "cni")), 0o600))
	must(t, os.WriteFile(c.at(n, "cni/10-tests.conflist"), fmt.Appendf(nil, `{"cniVersion": "0.4.0", "name": "tests", "plugins": [{"type": "bridge", "bridge": "cni%[1]d", "isGateway": true,
 "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.211.%[1]d.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}], "dataDir": %[2]q}}]}`, n.index, c.at(n, "ipam")), 0o600))
}

// containers starts a node's containerd and imports the images into it.
func (c *Cluster) containers(t *testing.T, n node) {
	c.configure(t, n)
	c.run(t, n.name+"/containerd", "containerd", "-c", c.at(n, "containerd.toml"))
	ctr := func(args ...string) error {
		ctx, cancel := context.WithTimeout(t.Context(), startTime)
		defer cancel()
		cmd := c.inside(append([]string{"ctr", "-a", c.at(n, "containerd.sock"), "-n", "k8s.io"}, args...)...)
		cmd = withContext(ctx, cmd)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("ctr %s: %w: %s", strings.Join(args, " "), err, out)
		}
		return nil
	}
	c.await(t, n.name+"/containerd", func() error { return ctr("version") })
	for _, file := range c.imageFiles {
		must(t, ctr("images", "import", file))
	}
}

// withContext returns a copy of cmd that is killed when ctx is done.
func withContext(ctx context.Context, cmd *exec.Cmd) *exec.Cmd {
	c := exec.CommandContext(ctx, cmd.Args[0], cmd.Args[1:]...)
	c.Dir, c.Env, c.WaitDelay = cmd.Dir, cmd.Env, time.Second
	return c
}

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

func (c *Cluster) kubelet(t *testing.T, n node) {
	groups := ""
	if n.index > 0 { // a kubelet removes unknown pod cgroups next to its own, so the other nodes get their own parent
		groups = groupRoot + "/" + n.name
		makeGroups(t, groups)
	}
	c.kubeletConfig(t, n, groups)
	c.run(t, n.name+"/kubelet", append([]string{filepath.Join(c.dir, "kubelet"), "--kubeconfig=" + c.path("inside")}, c.kubeletFlags(n)...)...)
}

// kubeletConfig writes the configuration of a node's kubelet. groups is the parent cgroup of its pods.
func (c *Cluster) kubeletConfig(t *testing.T, n node, groups string) {
	must(t, os.WriteFile(c.at(n, "kubelet.yaml"), fmt.Appendf(nil, `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: %[1]s
healthzPort: 0
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
cgroupDriver: cgroupfs
cgroupRoot: %[3]q
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
`, n.address, c.path(n.name), groups), 0o600))
}

func (c *Cluster) kubeletFlags(n node) []string {
	return []string{"--config=" + c.at(n, "kubelet.yaml"), "--root-dir=" + c.at(n, "kubelet"), "--cert-dir=" + c.at(n, "kubelet-pki"), "--hostname-override=" + n.name, "--node-ip=" + n.address}
}

// ready waits until the node accepts pods. For the first node, it also waits for the default service account, and
// checks for leftovers at the end of the test.
func (c *Cluster) ready(t *testing.T, node node) {
	c.await(t, node.name+"/kubelet", func() error {
		var n struct {
			Spec   struct{ Taints []struct{ Key string } }
			Status struct {
				Conditions []struct{ Type, Status, Message string }
			}
		}
		if err := c.get("/api/v1/nodes/"+node.name, &n); err != nil {
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
	if node.index > 0 {
		return
	}
	c.await(t, "kube-controller-manager", func() error { return c.get("/api/v1/namespaces/default/serviceaccounts/default", nil) })
	t.Cleanup(func() { // runs before the cluster ends, because it queries the API server
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

// Kubectl runs kubectl as the administrator with the given standard input, and returns its output.
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

// groupRoot is the parent of the cgroups of all nodes but the first.
const groupRoot = "/iotax-kube"

// makeGroups makes a cgroup in every hierarchy. With cgroup v2, it also enables all controllers for the cgroup.
func makeGroups(t *testing.T, group string) {
	const unified = "/sys/fs/cgroup"
	list, err := os.ReadFile(unified + "/cgroup.controllers")
	if err != nil { // cgroup v1: a hierarchy for each controller
		trees, err := filepath.Glob(unified + "/*/cgroup.procs")
		must(t, err)
		for _, tree := range trees {
			must(t, os.MkdirAll(filepath.Dir(tree)+group, 0o755))
		}
		return
	}
	must(t, os.MkdirAll(unified+group, 0o755))
	for dir := filepath.Dir(group); ; dir = filepath.Dir(dir) {
		defer func() { // deferred, so that the controllers are enabled from the root down
			for controller := range strings.FieldsSeq(string(list)) {
				if err := os.WriteFile(filepath.Join(unified, dir, "cgroup.subtree_control"), []byte("+"+controller), 0o644); err != nil {
					t.Logf("%s: %v", dir, err)
				}
			}
		}()
		if dir == "/" {
			return
		}
	}
}

// removeGroups removes the cgroups that the kubelets and makeGroups made. The processes in these cgroups must have
// ended.
func removeGroups(t *testing.T) {
	var roots []string
	for _, name := range []string{"/kubepods", groupRoot} {
		trees, err := filepath.Glob("/sys/fs/cgroup/*" + name)
		must(t, err)
		roots = append(append(roots, trees...), "/sys/fs/cgroup"+name)
	}
	for _, root := range roots {
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

// Inside runs a command of this machine in the cluster's namespaces and returns its output.
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
