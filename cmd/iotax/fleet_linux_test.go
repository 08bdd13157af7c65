package main

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"iotax/internal/store"
	"iotax/internal/testenv/engine"
	"iotax/internal/testenv/kube"
	"iotax/internal/testenv/storetest"
)

// fleetImage names an image that contains fio and the iotax of these tests.
const fleetImage = "localhost/iotax:1"

func fleetContent(t *testing.T) engine.Content {
	t.Helper()
	exe, err := exec.LookPath("iotax")
	if err != nil {
		t.Fatal(err)
	}
	return engine.Content{Fio: true, Programs: map[string]string{"usr/bin/iotax": exe}}
}

// measuredByCluster measures a plan with an Indexed Job. The pods save to a password-protected PostgreSQL server, which
// they reach at a different address than this host does.
func measuredByCluster(t *testing.T, s *stage, c *kube.Cluster) {
	server, address := postgres(t)
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	database := strings.TrimPrefix(u.Path, "/")
	s.env[storeVariable] = server.URL(storetest.Guarded, storetest.Password, database)
	s.env[podStoreVariable] = fmt.Sprintf("postgres://%s:%s@%s/%s", storetest.Guarded, storetest.Password, c.Lead(t, "unix", server.Socket()), database)
	defer func() { delete(s.env, storeVariable); delete(s.env, podStoreVariable) }()

	const text = `
baseline: overlay
targets: {overlay: {dir: %s}, volume: {dir: %s}}
workloads: {read: {fio: {rw: randread, bs: 4k, size: 1MiB}}, write: {fio: {rw: randwrite, bs: 4k, size: 1MiB}}}
measure: {trial: 300ms, ramp: 20ms, rounds: {min: 2, max: 4}, cold: false}
`
	plan := s.write("fleet.yaml", fmt.Sprintf(text, "/var/tmp", "/data"))
	template := s.write("pod.yaml", `
metadata: {labels: {team: storage}}
spec:
  volumes: [{name: data, emptyDir: {}}]
  containers: [{name: iotax, imagePullPolicy: Never, volumeMounts: [{name: data, mountPath: /data}]}]
`)
	fleet := func(id string, more ...string) []string {
		return append([]string{"run", plan, "--kubernetes", "--pod", template, "--pod-image", fleetImage, "--calibrate=no", "--id", id}, more...)
	}
	// gone waits until the cluster has no objects of these kinds that belong to the run.
	gone := func(id, kinds string) {
		t.Helper()
		var left string
		for end := time.Now().Add(4 * time.Minute); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
			if left = strings.TrimSpace(c.Kubectl(t, "", "get", kinds, "-n", "iotax", "-l", "iotax.run="+id, "-o", "name")); left == "" {
				return
			}
		}
		t.Errorf("left of %s: %s", id, left)
	}
	remove := func(id string) {
		t.Helper()
		c.Kubectl(t, "", "delete", "job", "-n", "iotax", "iotax-"+id, "--cascade=foreground")
		gone(id, "jobs,pods,configmaps,secrets")
	}
	db, err := store.Open(t.Context(), s.env[storeVariable])
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()

	// An interrupted run keeps its trials, and the same command continues it.
	r := s.start(nil, fleet("together", "--shards", "2")...)
	r.said("job iotax/iotax-together measures run together in 2 pods")
	trials := 0
	for end := time.Now().Add(2 * time.Minute); trials == 0 && time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		tally, err := db.Tallies(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		trials = tally["together"].Trials
	}
	r.send(os.Interrupt)
	r.wait().works(t, exitInterrupted, "removing the job", "saved; continue with: iotax run … --id together")
	if left := strings.TrimSpace(c.Kubectl(t, "", "get", "pods", "-n", "iotax", "-l", "iotax.run=together", "-o", "name")); left != "" {
		t.Errorf("left: %s", left)
	}
	gone("together", "jobs,configmaps,secrets")
	s.iotax("list").works(t, exitOK, "interrupted")
	s.iotax("run", "--resume=together").refuses(t, exitUsage, "several processes measure it", "--id together")

	// The two shards run on different nodes.
	done := s.iotax(append(fleet("together", "--shards", "2"), "-o", "fleet.json")...).works(t, exitOK, "2 of 2 shards done")
	if strings.Contains(done.String()+c.Kubectl(t, "", "get", "jobs,pods,configmaps,events", "-n", "iotax", "-o", "yaml"), storetest.Password) {
		t.Error("the password of the store is told")
	}
	if on := strings.Fields(c.Kubectl(t, "", "get", "pods", "-n", "iotax", "-l", "iotax.run=together", "-o", "jsonpath={.items[*].spec.nodeName}")); len(on) != 2 || on[0] == on[1] {
		t.Errorf("the shards were on %v", on)
	}
	alone := s.iotax("run", s.write("alone.yaml", fmt.Sprintf(text, "a", "b")), "--calibrate=no", "--protocol", "fixed:4x300ms", "--id", "alone", "-q", "--json").works(t, exitOK)
	whole, err := os.ReadFile(s.path("fleet.json"))
	if err != nil {
		t.Fatal(err)
	}
	// Ignore the trial counts: the cluster's report also counts the trials of the interrupted round.
	all := regexp.MustCompile(` n=[4-6] `)
	if here, there := all.ReplaceAllString(structure(t, alone.stdout), " "), all.ReplaceAllString(structure(t, string(whole)), " "); here != there {
		t.Errorf("measured here:\n%s\nby the cluster:\n%s", here, there)
	}
	again := s.iotax(fleet("together", "--shards", "2", "--quiet")...).works(t, exitOK)
	if again.stderr != "" {
		t.Errorf("a complete run is not quiet: %s", again)
	}
	hosts, shards := map[string]bool{}, map[string]int{}
	saved, err := db.Trials(t.Context(), "together")
	if err != nil {
		t.Fatal(err)
	}
	for _, tr := range saved {
		hosts[tr.Facts["shard.host"]] = true
		shards[tr.Facts["shard"]]++
	}
	if len(saved) < 16 || shards["0/2"] < 8 || shards["1/2"] < 8 || len(hosts) < 2 {
		t.Errorf("%d trials, by shard %v, on %v", len(saved), shards, hosts)
	}
	remove("together")

	// A shard makes pods itself, with the service account of its own pod.
	s.write("inside.yaml", `
targets: {here: {dir: /var/tmp}, pod: {on: pod, mount: tmpfs}}
machines: {pod: {k8s: {pull: never}}}
workloads: {read: {fio: {rw: randread, bs: 4k, size: 1MiB}}}
measure: {protocol: "fixed:2x300ms", ramp: 20ms}
`)
	host, port, err := net.SplitHostPort(c.Server)
	if err != nil {
		t.Fatal(err)
	}
	account := s.write("inside-pod.yaml", fmt.Sprintf(`
spec:
  serviceAccountName: iotax
  # The cluster of the tests has nothing that leads the address of a service anywhere.
  containers: [{name: iotax, imagePullPolicy: Never, env: [{name: KUBERNETES_SERVICE_HOST, value: %q}, {name: KUBERNETES_SERVICE_PORT, value: %q}]}]
`, host, port))
	s.iotax("run", "inside.yaml", "--kubernetes", "--pod", account, "--pod-image", fleetImage, "--calibrate=no", "--id", "inside").works(t, exitOK, "pod", "1 of 1 shard done")
	remove("inside")

	// The error contains the last output of a shard.
	broken := s.write("broken.yaml", `spec: {containers: [{name: iotax, imagePullPolicy: Never, command: [iotax, nonsense]}]}`)
	s.iotax(append(fleet("broken"), "--pod", broken)...).refuses(t, exitError, "measure in the cluster job iotax/iotax-broken: FailedIndexes",
		"shard 0: its container ended: Error, exit status 2: iotax: unknown command \"nonsense\"", "kubectl logs -n iotax job/iotax-broken")
	remove("broken")
	moved := append(fleet("nowhere"), "--pod-image", "localhost/none:1", "--against", "together")
	moved[1] = s.write("moved.yaml", fmt.Sprintf(text, "/var/tmp", "/data/moved"))
	r = s.start(nil, moved...)
	r.said("volume of together is measured as in run together")
	if got := c.Kubectl(t, "", "get", "configmaps", "-n", "iotax", "-l", "iotax.run=nowhere", "-o", "yaml"); !strings.Contains(got, "volume of together") {
		t.Errorf("the pods get this plan: %s", got)
	}
	r.said("shard 0: the image localhost/none:1 cannot be had: ErrImageNeverPull")
	s.iotax(fleet("nowhere")...).refuses(t, exitError, "a job with this name is already running")
	r.send(os.Interrupt)
	r.wait().refuses(t, exitInterrupted, "removing the job")
	gone("nowhere", "jobs,pods,configmaps,secrets")
}

// podsTogether measures a volume with one pod, and with four pods at the same time.
func podsTogether(t *testing.T, s *stage, c *kube.Cluster) {
	s.write("contention.yaml", `
machines: {p1: {k8s: {}}, p2: {k8s: {}}, p3: {k8s: {}}, p4: {k8s: {}}}
targets:
  client: {on: [p1, p2, p3, p4], mount: volume}
  store:  {group: {of: client, clients: [1, 4]}}
workloads: {4k random read: {fio: {rw: randread, bs: 4k, iodepth: 4, size: 4MiB}}}
measure: {protocol: "fixed:2x300ms", ramp: 100ms}
`)
	s.iotax("run", "contention.yaml", "--calibrate=no", "--details").works(t, exitOK, "Clients · store")
	_, trials := s.trials()
	four := 0
	for _, tr := range trials {
		if tr.Err != "" {
			t.Errorf("%s: %s", tr.Target, tr.Err)
		}
		jain, ok := tr.Value("fairness.jain")
		if !ok {
			continue
		}
		four++
		_, last := tr.Value("client.4.read.iops")
		if j := jain.Value; !last || j < 1./4-1e-9 || j > 1+1e-9 || tr.Facts["clients"] != "4" {
			t.Errorf("four clients: %v %v", tr.Values, tr.Facts)
		}
	}
	if len(trials) != 4 || four != 2 {
		t.Errorf("%d trials, %d of four clients", len(trials), four)
	}
	if left := strings.TrimSpace(c.Kubectl(t, "", "get", "pods", "-n", "iotax", "-o", "name")); left != "" {
		t.Errorf("left: %s", left)
	}
	if running := c.Inside(t, "ps", "-e", "-o", "args"); strings.Contains(running, "--server=sock:") {
		t.Errorf("a server of fio goes on:\n%s", running)
	}
}
