package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"iotax"
	"iotax/internal/testenv/engine"
	"iotax/internal/testenv/kube"
	"iotax/internal/testenv/long"
)

// defaultPodImage is the pod image of the tests. It has the same name as iotax's default image, so that the commands in
// the docs run unchanged. It contains fio, unlike boxImage.
const defaultPodImage = "docker.io/library/busybox:stable"

// podStage makes a stage and a cluster with three storage classes: `local` has prepared local volumes, `fast` creates
// volumes on demand, and `raw` has loop devices. iotax uses the service account of the documented manifest.
func podStage(t *testing.T) (*stage, *kube.Cluster) {
	c := kube.Start(t, 2, kube.Image{Name: defaultPodImage, Content: engine.Content{Fio: true}}, kube.Image{Name: boxImage}, kube.Image{Name: fleetImage, Content: fleetContent(t)})
	s := newStage(t)
	manifest, err := filepath.Abs("../../packaging/kubernetes/rbac.yaml")
	if err != nil {
		t.Fatal(err)
	}
	c.Kubectl(t, "", "apply", "-f", manifest)
	var y strings.Builder
	y.WriteString(`
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: local}
provisioner: kubernetes.io/no-provisioner
volumeBindingMode: WaitForFirstConsumer
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: raw}
provisioner: kubernetes.io/no-provisioner
volumeBindingMode: WaitForFirstConsumer
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: fast}
provisioner: kubernetes.io/host-path
---
apiVersion: v1
kind: Namespace
metadata: {name: tight}
---
apiVersion: v1
kind: ResourceQuota
metadata: {name: tight, namespace: tight}
spec: {hard: {pods: "0"}}
---
apiVersion: v1
kind: Namespace
metadata: {name: strict, labels: {pod-security.kubernetes.io/enforce: restricted}}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: nobody, namespace: iotax}
`)
	volume := func(name, class, mode, path string) {
		fmt.Fprintf(&y, `---
apiVersion: v1
kind: PersistentVolume
metadata: {name: %s}
spec:
  capacity: {storage: 4Gi}
  accessModes: [ReadWriteOnce]
  storageClassName: %s
  volumeMode: %s
  local: {path: %s}
  nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [%s]}]}]}}
`, name, class, mode, path, kube.Node)
	}
	for i := range 4 {
		dir := fmt.Sprintf("%s/volume-%d", c.Dir, i)
		if err := os.Mkdir(dir, 0o777); err != nil {
			t.Fatal(err)
		}
		volume(fmt.Sprintf("local-%d", i), "local", "Filesystem", dir)
	}
	for i := range 2 {
		image := s.path(fmt.Sprintf("raw-%d.img", i))
		must := func(args ...string) string {
			out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
			if err != nil {
				t.Fatalf("%v: %v: %s", args, err, out)
			}
			return strings.TrimSpace(string(out))
		}
		must("truncate", "-s", "64M", image)
		device := must("losetup", "-f", "--show", image)
		t.Cleanup(func() { must("losetup", "-d", device) })
		volume(fmt.Sprintf("raw-%d", i), "raw", "Block", device)
	}
	c.Kubectl(t, y.String(), "apply", "-f", "-")
	s.env["KUBECONFIG"] = account(t, s, c, "iotax")
	return s, c
}

// account writes a kubeconfig for a service account and returns its path.
func account(t *testing.T, s *stage, c *kube.Cluster, name string) string {
	token := strings.TrimSpace(c.Kubectl(t, "", "create", "token", name, "-n", "iotax", "--duration=2h"))
	text := strings.Replace(string(c.ConfigFor("https://"+c.Proxy.Address, token)), "user: tester}", "user: tester, namespace: iotax}", 1)
	return s.write(name+".kubeconfig", text)
}

// TestKubernetes runs iotax against a cluster. Unless a subtest sets another kubeconfig, iotax has only the rights that
// the docs require.
func TestKubernetes(t *testing.T) {
	long.Test(t)
	t.Parallel()
	s, c := podStage(t)
	short := []string{"-w", "randread-4k-8MiB", "--trial", "300ms", "--ramp", "0s", "--rounds", "2", "--calibrate=no"}
	run := func(args ...string) result { return s.iotax(append(append([]string{"run"}, args...), short...)...) }
	pods := func() string {
		return strings.TrimSpace(c.Kubectl(t, "", "get", "pods,pvc,jobs", "-n", "iotax", "-o", "name"))
	}
	release := func() { // a released volume can be claimed again only after its claimRef is removed
		c.Kubectl(t, "", "patch", "pv", "raw-0", "raw-1", "--type=merge", `-p={"spec":{"claimRef":null}}`)
	}

	t.Run("two storage classes in one line", func(t *testing.T) {
		run("k8s://storageclass/local", "k8s://storageclass/fast").works(t, 0, "k8s://storageclass/fast")
		r, trials := s.trials()
		if len(trials) != 4 {
			t.Errorf("%d trials", len(trials))
		}
		types := map[string]string{}
		for _, info := range r.Targets {
			f := info.Facts
			types[f["claim.class"]] = f["claim.type"]
			if f["node"] != kube.Node || f["engine"] != "kubernetes" || f["node.version"] != kube.Version || f["image"] == "" {
				t.Errorf("facts of %s: %v", info.Name, f)
			}
		}
		if types["local"] != "local" || types["fast"] != "hostPath" {
			t.Errorf("types of the classes: %v", types)
		}
		if left := pods(); left != "" {
			t.Errorf("left: %s", left)
		}
	})

	t.Run("an existing claim and a runtime class", func(t *testing.T) {
		c.Kubectl(t, `
apiVersion: node.k8s.io/v1
kind: RuntimeClass
metadata: {name: plain}
handler: runc
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data, namespace: iotax}
spec: {accessModes: [ReadWriteOnce], storageClassName: fast, resources: {requests: {storage: 1Gi}}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: device, namespace: iotax}
spec: {accessModes: [ReadWriteOnce], storageClassName: raw, volumeMode: Block, resources: {requests: {storage: 32Mi}}}
`, "apply", "-f", "-")
		defer func() {
			c.Kubectl(t, "", "delete", "-n", "iotax", "pvc/data", "pvc/device")
			release()
		}()
		s.write("claim.yaml", `
machines: {pod: {k8s: {runtime_class: plain}}}
targets: {claim: {on: pod, claim: {name: data}}, device: {on: pod, claim: {name: device, mode: block}}}
workloads: {read: {fio: {rw: randread, bs: 4k, iodepth: 4, size: 8MiB}}}
measure: {protocol: "fixed:2x300ms", ramp: 50ms}
`)
		s.iotax("run", "claim.yaml", "--calibrate=no").works(t, 0)
		r, _ := s.trials()
		f := r.Targets[0].Facts
		if f["runtime_class"] != "plain" || f["claim.class"] != "fast" || f["claim.type"] != "hostPath" {
			t.Errorf("facts %v", f)
		}
		if d := r.Targets[1]; d.Place != "/dev/claim-device" || d.Facts["claim.class"] != "raw" || d.Facts["claim.mode"] != "block" {
			t.Errorf("the raw device: %s, facts %v", d.Place, d.Facts)
		}
		s.write("claim.yaml", strings.Replace(s.read("claim.yaml"), "{name: device, mode: block}", "{name: device}", 1))
		s.iotax("run", "claim.yaml", "--calibrate=no").refuses(t, 1, "use claim iotax/device: it is a raw device", "mode: block")
		if left := pods(); left != "persistentvolumeclaim/data\npersistentvolumeclaim/device" {
			t.Errorf("left: %s", left)
		}
		if files := c.Inside(t, "ls", "-A", f["claim.path"]); strings.TrimSpace(files) != "" {
			t.Errorf("left in the claim: %s", files)
		}
	})

	t.Run("every place of a pod", func(t *testing.T) {
		c.Kubectl(t, `
apiVersion: v1
kind: Pod
metadata: {name: mine, namespace: iotax}
spec:
  terminationGracePeriodSeconds: 1
  containers: [{name: main, image: "`+defaultPodImage+`", command: [sleep, "100000"]}]
`, "apply", "-f", "-")
		c.Kubectl(t, "", "wait", "-n", "iotax", "--for=condition=Ready", "pod/mine", "--timeout=90s")
		s.write("plan.yaml", `
baseline: host
machines:
  pod: {k8s: {cpus: 1, memory: 256MiB, seccomp: RuntimeDefault}}
  mine: {k8s: {pod: iotax/mine}}
targets:
  host: {dir: a}
  overlay: {on: pod, dir: /var/tmp}
  empty: {on: pod, mount: volume}
  memory: {on: pod, mount: tmpfs}
  claim: {on: pod, claim: fast}
  raw: {on: pod, claim: {class: raw, mode: block, size: 32MiB}}
  mine: {on: mine, dir: /var/tmp}
workloads: {read: {fio: {rw: randread, bs: 4k, iodepth: 4, size: 8MiB}}}
measure: {protocol: "fixed:2x300ms", ramp: 50ms}
`)
		s.iotax("run", "plan.yaml", "--calibrate=no", "--details").works(t, 0, "overlay", "empty", "memory", "claim", "raw", "mine")
		r, trials := s.trials()
		seen := map[string]int{}
		for _, tr := range trials {
			if _, ok := tr.Value("read.iops"); ok && tr.Err == "" {
				seen[tr.Target]++
			} else {
				t.Errorf("%s: %s", tr.Target, tr.Err)
			}
		}
		if len(seen) != 7 {
			t.Errorf("trials of %v", seen)
		}
		for _, info := range r.Targets {
			f := info.Facts
			switch info.Name {
			case "memory":
				if info.Durability != iotax.Volatile {
					t.Errorf("memory is %s", info.Durability)
				}
			case "overlay":
				if f["limit.cpus"] != "1" || f["limit.memory"] != "268435456" || f["qos"] != "Guaranteed" || f["seccomp"] != "RuntimeDefault" {
					t.Errorf("facts: %v", f)
				}
			case "raw":
				if info.Place != "/dev/claim-raw" || f["claim.mode"] != "block" {
					t.Errorf("the block device: %s %v", info.Place, f)
				}
			}
		}
		if left := pods(); left != "pod/mine" {
			t.Errorf("left: %s", left)
		}
		if out := c.Kubectl(t, "", "exec", "-n", "iotax", "mine", "--", "ls", "-a", "/var/tmp"); strings.Contains(out, "iotax") {
			t.Errorf("left in the pod that exists: %s", out)
		}
		run("k8s://pod/iotax/mine", "k8s://pod/iotax/mine/var/tmp").works(t, 0)
		c.Kubectl(t, "", "delete", "pod", "mine", "-n", "iotax", "--grace-period=1")
		run("dir:"+s.path("a"), "k8s://pod/iotax/mine").refuses(t, 1, `pods "mine" not found`, "kubectl get pods")
	})

	t.Run("a raw device is written only by name", func(t *testing.T) {
		write := []string{"run", "k8s:claim=raw,mode=block,size=32MiB", "k8s:tmpfs", "-w", "randwrite-4k-8MiB", "--trial", "300ms", "--ramp", "0s", "--rounds", "2", "--calibrate=no"}
		s.iotax(write...).refuses(t, 1, "block devices are only read, and the job writes", "iotax run --destroy pod:/dev/claim-raw")
		s.iotax(append(write, "--destroy", "/dev/claim-raw")...).refuses(t, 2, "no target of the plan is this block device", "pod:/dev/claim-raw")
		named := func() result {
			release()
			return s.iotax(append(write, "--destroy", "pod:/dev/claim-raw")...)
		}
		// A pod cannot see the node's processes, mounts and files. iotax must detect other uses of the device
		// nevertheless.
		images := func(script string) string { // runs script for both images, because the claim may get either
			out, err := exec.Command("sh", "-ec", "for f in "+s.path("raw-0.img")+" "+s.path("raw-1.img")+"; do d=$(losetup -n -O NAME -j $f | head -n 1); "+script+"; done").CombinedOutput()
			if err != nil {
				t.Fatalf("%s: %s", script, out)
			}
			return string(out)
		}
		images(`mkfs.ext4 -q -F "$d"`)
		full := images(`sha256sum "$f"`)
		named().refuses(t, 1, "overwrite block device /dev/claim-raw", "it carries a signature of ext")
		if images(`sha256sum "$f"`) != full {
			t.Fatal("a device has changed")
		}
		const others = `[ ! -s "$f.other" ] || losetup -d "$(cat "$f.other")"; rm -f "$f.other"`
		t.Cleanup(func() { images(others) })
		images(`blkdiscard -fz "$d"; losetup -f --show "$f" >"$f.other"`)
		named().refuses(t, 1, "overwrite block device /dev/claim-raw", "its file "+s.path("raw-"), "is behind /dev/loop")
		images(others)
		named().works(t, 0, "everything on /dev/claim-raw")
	})

	t.Run("one target a node", func(t *testing.T) {
		r := run("dir:"+s.path("a"), "k8s:tmpfs", "--nodes", "all").works(t, 0, "node="+kube.Node, "node=node2")
		info, trials := s.trials()
		nodes := map[string]int{}
		for _, tr := range trials {
			nodes[tr.Labels["node"]]++
		}
		if len(trials) != 6 || nodes[kube.Node] != 2 || nodes["node2"] != 2 {
			t.Errorf("%d trials, by node %v: %s", len(trials), nodes, r)
		}
		for _, target := range info.Targets { // each target must be on the node in its label
			if want := target.Labels["node"]; target.Facts["node"] != want {
				t.Errorf("%s is on %s", target.Name, target.Facts["node"])
			}
		}
		run("dir:"+s.path("a"), "dir:"+s.path("b"), "--nodes", "all").refuses(t, 2, "the plan makes no pod")
	})

	t.Run("what the cluster refuses", func(t *testing.T) {
		host := "dir:" + s.path("a")
		run(host, "k8s:tmpfs,cpus=900,start_timeout=2s").refuses(t, 1, "no node takes it", "Insufficient cpu", "hint: ask for less")
		run(host, "k8s:tmpfs,node=elsewhere,start_timeout=2s").refuses(t, 1, "no node takes it", "ffinity")
		run(host, "k8s:tmpfs,image=localhost/none:1,pull=never").refuses(t, 1, "cannot be had: ErrImageNeverPull", "hint: check its name")
		run(host, "k8s:tmpfs,image=127.0.0.1:9/none:1").refuses(t, 1, "the image 127.0.0.1:9/none:1 cannot be had: ", "hint: check its name")
		run(host, "k8s://storageclass/none?start_timeout=3s").refuses(t, 1, `storageclass.storage.k8s.io "none" not found`)
		run(host, "k8s:tmpfs,namespace=tight,kubeconfig="+c.Config).refuses(t, 1, "exceeded quota: tight", "kubectl describe quota")
		run(host, "k8s:tmpfs,job=true,namespace=tight,start_timeout=6s,kubeconfig="+c.Config).refuses(t, 1, "it has no pod after 6s", "FailedCreate", "exceeded quota")
		run(host, "k8s:tmpfs,namespace=strict,kubeconfig="+c.Config).refuses(t, 1, "violates PodSecurity", "user: 1000")
		run(host, "k8s:volume,namespace=strict,user=1000,image="+boxImage+",pull=never,kubeconfig="+c.Config).works(t, 0, "copying fio")
		run(host, "k8s:tmpfs,namespace=default").refuses(t, 1, "cannot create resource \"pods\"", "rbac.yaml")
		run(host, "k8s:tmpfs,kubeconfig="+account(t, s, c, "nobody")).refuses(t, 1, "cannot create resource \"pods\"", "rbac.yaml")
		run(host, "k8s:tmpfs,context=nowhere").refuses(t, 1, "nowhere", "kubectl config get-contexts")
		// The mount fails, because no NFS server runs on the node or its kernel has no NFS client. The error contains
		// the node's event.
		s.write("nfs.yaml", `
machines: {pod: {k8s: {start_timeout: 12s}}}
targets: {host: {dir: a}, NFS: {on: pod, claim: {nfs: "127.0.0.1:/srv"}}}
workloads: {read: {fio: {size: 1MiB}}}
`)
		s.iotax("run", "nfs.yaml", "--calibrate=no").refuses(t, 1, "FailedMount", "-t nfs", "hint: the node mounts NFS: it needs the kernel's client")
		run(host, "k8s:bind").refuses(t, 1, "neither virtual disks nor directories of this host")
		c.Proxy.Deaf(true)
		run(host, "k8s:tmpfs").refuses(t, 1, "make pod", "kubectl version")
		c.Proxy.Deaf(false)
		if left := pods(); left != "" {
			t.Errorf("left: %s", left)
		}
	})

	t.Run("measured by the cluster", func(t *testing.T) { measuredByCluster(t, s, c) })
	t.Run("four pods at the same moment", func(t *testing.T) { podsTogether(t, s, c) })

	long := []string{"run", "dir:" + s.path("a"), "k8s://storageclass/fast", "-w", "randread-4k-8MiB", "--trial", "2s", "--ramp", "0s", "--rounds", "2", "--calibrate=no"}
	fios := func() (n int) {
		for line := range strings.Lines(c.Inside(t, "ps", "-e", "-o", "args")) {
			if strings.Contains(line, "fio") && strings.Contains(line, "--runtime=2000ms") {
				n++
			}
		}
		return n
	}
	// measuring waits until fio runs in the pod.
	measuring := func(t *testing.T, r *running) {
		t.Helper()
		r.said("round 1/2")
		for end := time.Now().Add(4 * time.Minute); fios() == 0; time.Sleep(50 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("fio does not begin in the pod")
			}
		}
	}
	told := func(t *testing.T, text string) {
		t.Helper()
		_, trials := s.trials()
		for _, tr := range trials {
			if strings.Contains(tr.Err, text) {
				return
			}
		}
		t.Errorf("no trial tells %q: %d trials", text, len(trials))
	}

	byJob := slices.Clone(long)
	byJob[2] += "?job=true"
	t.Run("interrupted", func(t *testing.T) {
		r := s.start(nil, byJob...)
		measuring(t, r)
		r.send(os.Interrupt)
		r.wait().works(t, 130, "interrupted")
		if left := pods(); left != "" || fios() > 0 {
			t.Errorf("left: %s", left)
		}
	})

	// With IOTAX_FAULTS_DOC=docs/dev/reliability.md, this subtest updates the row about pods in that file.
	t.Run("faults", func(t *testing.T) {
		rows := []fault{{name: "the pod deleted while it measures", codes: []int{0, 1}, fails: true,
			setup: func(*stage) []string {
				return []string{"dir:a", "k8s://storageclass/fast", "--trial", "2s", "--rounds", "2"}
			},
			inject: func(s *stage, r *running, _ *rand.Rand) bool {
				measuring(t, r)
				return strings.Contains(c.Kubectl(t, "", "delete", "pods", "--all", "-n", "iotax", "--grace-period=1"), "deleted")
			}}}
		results := make([]aftermath, len(rows))
		for i, f := range rows {
			results[i] = f.try(s, rand.New(rand.NewPCG(1, uint64(i))))
			if left := pods(); left != "" || fios() > 0 {
				results[i].left++
				t.Errorf("%s: left: %s", f.name, left)
			}
		}
		told(t, "the pod is")
		tabulate(t, rows, results)
	})

	t.Run("the connection breaks", func(t *testing.T) {
		r := s.start(nil, long...)
		measuring(t, r)
		c.Proxy.Cut()
		if r := r.wait(); !strings.Contains(r.stdout+r.stderr, "fail") {
			t.Errorf("the connection broke, and nothing is said: %s", r)
		}
		told(t, "the connection to the pod broke")
		if fios() > 0 || pods() != "" {
			t.Errorf("left: %s", pods())
		}
	})

	t.Run("the runner is killed", func(t *testing.T) {
		r := s.start(nil, byJob...)
		measuring(t, r)
		r.send(syscall.SIGKILL)
		r.wait()
		for end := time.Now().Add(4 * time.Minute); fios() > 0; time.Sleep(50 * time.Millisecond) {
			if time.Now().After(end) {
				t.Error("fio goes on in the pod of a run that was killed")
				break
			}
		}
		s.cleans("--remote").works(t, 0, "pod", "iotax-", "left by run")
		s.cleans("--remote", "--yes").works(t, 0, "removed")
		for end := time.Now().Add(4 * time.Minute); pods() != ""; time.Sleep(200 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("left: %s", pods())
			}
		}
		run, _ := s.trials()
		if left := s.leftBy(run.ID, "--remote"); len(left) > 0 {
			t.Errorf("after clean: %q", left)
		}
	})

	// A queue or, as here, a quota may keep a Job without a pod for hours.
	t.Run("killed before its job has a pod", func(t *testing.T) {
		jobs := func() string { return strings.TrimSpace(c.Kubectl(t, "", "get", "jobs", "-n", "tight", "-o", "name")) }
		r := s.start(nil, "run", "dir:"+s.path("a"), "k8s:tmpfs,job=true,namespace=tight,start_timeout=5m,kubeconfig="+c.Config, "-w", "randread-4k-8MiB", "--rounds", "1", "--calibrate=no")
		for end := time.Now().Add(4 * time.Minute); jobs() == ""; time.Sleep(100 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("no job is made")
			}
		}
		r.send(syscall.SIGKILL)
		r.wait()
		s.cleans("--remote").works(t, 0, "job", strings.TrimPrefix(jobs(), "job.batch/"), "left by run")
		s.cleans("--remote", "--yes").works(t, 0, "removed")
		if left := jobs(); left != "" {
			t.Errorf("left: %s", left)
		}
	})

	t.Run("a claim on NFS", func(t *testing.T) { podOnNFS(t, c) })
}
