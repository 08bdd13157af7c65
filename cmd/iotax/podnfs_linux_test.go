package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"iotax"
	"iotax/internal/machine/kind"
	"iotax/internal/machine/vm"
	"iotax/internal/testenv/kube"
)

// nfsNode adds a guest to the cluster as a node, because this machine's kernel may lack an NFS client.
func nfsNode(t *testing.T, c *kube.Cluster) {
	t.Helper()
	const files = "/mnt/files"
	m, err := vm.Kind.Open(t.Context(), &vm.Spec{Memory: 2 << 30, CPUs: 2, Accel: "auto"}, kind.Options{
		Name: "nfs", CacheDir: iotax.CacheDir(), WorkDir: t.TempDir(), Log: t.Logf,
		Devices: []iotax.Device{{ID: "files", Share: &iotax.Share{Path: "/", Type: "9p", Security: "none", ReadOnly: true}}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := m.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	if out, err := iotax.Output(t.Context(), m, "sh", "-c", `mkdir -p "$1" && mount -t 9p -o ro,trans=virtio,version=9p2000.L,msize=512000,cache=loose files "$1"`, "sh", files); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	c.Join(t, m, "guest", "10.0.2.15", files)
}

// exported exports a directory over NFS on the loopback interface, and returns the port.
func exported(t *testing.T, dir string) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	l.Close()
	work := t.TempDir()
	conf := work + "/conf"
	if err := os.WriteFile(conf, fmt.Appendf(nil, `NFS_CORE_PARAM { NFS_Port = %d; Bind_addr = 127.0.0.1; Protocols = 4; Enable_NLM = false; Enable_RQUOTA = false; Enable_UDP = false; }
NFSV4 { Graceless = true; RecoveryBackend = fs; RecoveryRoot = %q; Only_Numeric_Owners = true; }
NFS_KRB5 { Active_krb5 = false; }
EXPORT { Export_Id = 1; Path = %q; Pseudo = /srv; Access_Type = RW; Squash = No_Root_Squash; SecType = sys; Protocols = 4; Transports = TCP; FSAL { Name = VFS; } }
`, port, work, dir), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("ganesha.nfsd", "-F", "-f", conf, "-L", work+"/log", "-p", work+"/pid")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	for end := time.Now().Add(4 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
		if b, _ := os.ReadFile(work + "/log"); strings.Contains(string(b), "NFS SERVER INITIALIZED") {
			return port
		}
		if time.Now().After(end) {
			b, _ := os.ReadFile(work + "/log")
			t.Fatalf("ganesha.nfsd does not serve: %s", b)
		}
	}
}

// podOnNFS measures a claim whose volume is an NFS export that the pod's node mounts. The node stays in the cluster
// after the guest has ended.
func podOnNFS(t *testing.T, c *kube.Cluster) {
	s := newStage(t)
	s.env["KUBECONFIG"] = c.Config
	nfsNode(t, c)
	port := exported(t, s.mkdir("export"))
	c.Kubectl(t, fmt.Sprintf(`
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: nfs}
provisioner: kubernetes.io/no-provisioner
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: nfs-0}
spec:
  capacity: {storage: 4Gi}
  accessModes: [ReadWriteOnce]
  storageClassName: nfs
  mountOptions: [nfsvers=4.2, port=%d, softerr, timeo=300]
  nfs: {server: 10.0.2.2, path: /srv}
`, port), "apply", "-f", "-")
	s.write("nfs.yaml", `
baseline: server disk
machines: {pod on NFS: {k8s: {node: guest, host_network: true, start_timeout: 3m}}}
targets:
  server disk: {dir: export}
  pod NFS:     {on: pod on NFS, claim: nfs}
layers: [[server disk, pod NFS]]
workloads: {4k random read/write: {fio: {rw: randrw, bs: 4k, iodepth: 4, size: 4MiB}}}
measure: {protocol: "fixed:2x500ms", ramp: 100ms}
`)
	s.iotax("run", "nfs.yaml", "--calibrate=no", "--details").works(t, 0, "pod NFS", "Layers")
	run, trials := s.trials()
	for _, tr := range trials {
		read, _ := tr.Value("read.iops")
		write, ok := tr.Value("write.iops")
		if !ok || !(read.Value > 0) || !(write.Value > 0) || tr.Err != "" {
			t.Errorf("%s: %g reads, %g writes a second: %s", tr.Target, read.Value, write.Value, tr.Err)
		}
	}
	if len(trials) != 4 {
		t.Errorf("%d trials", len(trials))
	}
	f := run.Targets[1].Facts
	for k, want := range map[string]string{"filesystem": "nfs4", "claim.class": "nfs", "claim.type": "nfs", "claim.server": "10.0.2.2:/srv",
		"claim.options": fmt.Sprintf("nfsvers=4.2,port=%d,softerr,timeo=300", port), "node": "guest", "filesystem.source": "10.0.2.2:/srv"} {
		if f[k] != want {
			t.Errorf("the fact %s is %q, want %q: %v", k, f[k], want, f)
		}
	}
	if o := f["filesystem.options"]; !strings.Contains(o, "vers=4.2") || !strings.Contains(o, fmt.Sprintf("port=%d", port)) {
		t.Errorf("mounted with %q", o)
	}
	if left, err := os.ReadDir(s.path("export")); err != nil || len(left) > 0 {
		t.Errorf("left on the server: %v, %v", left, err)
	}
}
