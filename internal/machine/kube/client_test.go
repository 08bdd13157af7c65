package kube

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The plan's file overrides KUBECONFIG. The plan's context and namespace override those in the file.
func TestConnect(t *testing.T) {
	dir := t.TempDir()
	file, other := filepath.Join(dir, "config"), filepath.Join(dir, "other")
	for path, text := range map[string]string{
		file: `apiVersion: v1
kind: Config
current-context: a
clusters:
- {name: one, cluster: {server: "https://one.example:6443"}}
- {name: two, cluster: {server: "https://two.example:6443"}}
users:
- {name: u, user: {token: t}}
- {name: v, user: {token: w}}
contexts:
- {name: a, context: {cluster: one, user: u, namespace: first}}
- {name: b, context: {cluster: two, user: v, namespace: second}}
- {name: bare, context: {cluster: two, user: u}}
- {name: torn, context: {cluster: three, user: u}}
`,
		other: `apiVersion: v1
kind: Config
current-context: c
clusters: [{name: three, cluster: {server: "https://three.example:6443"}}]
users: [{name: u, user: {token: t}}]
contexts: [{name: c, context: {cluster: three, user: u, namespace: third}}]
`,
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("KUBECONFIG", other)
	for _, c := range []struct {
		Config
		server, ns, token string
	}{
		{Config{}, "three", "third", "t"},
		{Config{File: file}, "one", "first", "t"},
		{Config{File: file, Context: "b"}, "two", "second", "w"},
		{Config{File: file, Context: "b", Namespace: "mine"}, "two", "mine", "w"},
		{Config{File: file, Namespace: "mine"}, "one", "mine", "t"},
		{Config{File: file, Context: "bare"}, "two", "default", "t"},
	} {
		got, err := Connect(c.Config)
		if err != nil {
			t.Errorf("%+v: %v", c.Config, err)
			continue
		}
		if want := "https://" + c.server + ".example:6443"; got.Server != want || got.Namespace != c.ns || got.REST.BearerToken != c.token {
			t.Errorf("%+v: %s, namespace %s, token %s, want %s, %s, %s", c.Config, got.Server, got.Namespace, got.REST.BearerToken, want, c.ns, c.token)
		}
	}
	for want, c := range map[string]Config{
		"context none":       {File: file, Context: "none"},
		"context torn":       {File: file, Context: "torn"},
		file + "-is-missing": {File: file + "-is-missing"},
	} {
		if _, err := Connect(c); err == nil || !strings.Contains(err.Error(), "read Kubernetes configuration") || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// If the user may not read an object, the value of its fact is the reason.
func TestFactsWithoutTheClusterRole(t *testing.T) {
	ctx := t.Context()
	c, a := cluster(t)
	const forbidden = "unknown: this user may not read it"
	a.put(t, "/api/v1/nodes/n1", &corev1.Node{TypeMeta: metav1.TypeMeta{Kind: "Node", APIVersion: "v1"}, ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{"topology.kubernetes.io/zone": "z"}},
		Status: corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{KubeletVersion: "v1", ContainerRuntimeVersion: "containerd://2", KernelVersion: "6.1"}}})
	a.put(t, "/api/v1/persistentvolumes/pv", &corev1.PersistentVolume{TypeMeta: metav1.TypeMeta{Kind: "PersistentVolume", APIVersion: "v1"}, ObjectMeta: metav1.ObjectMeta{Name: "pv"},
		Spec: corev1.PersistentVolumeSpec{PersistentVolumeSource: corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: "/srv"}}}})
	class := "fast"
	a.put(t, "/api/v1/namespaces/n/persistentvolumeclaims/pvc", &corev1.PersistentVolumeClaim{TypeMeta: metav1.TypeMeta{Kind: "PersistentVolumeClaim", APIVersion: "v1"}, ObjectMeta: metav1.ObjectMeta{Name: "pvc"},
		Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: &class, VolumeName: "pv"}})
	facts := func(refuse string) (node, claim map[string]string) {
		a.refuse = refuse
		return c.Around(ctx, "n1"), c.ClaimFacts(ctx, "n", "pvc")
	}
	allNode := map[string]string{"node.version": "v1", "node.runtime": "containerd://2", "node.kernel": "6.1", "node.zone": "z"}
	allClaim := map[string]string{"claim.class": "fast", "claim.volume": "pv", "claim.type": "local", "claim.path": "/srv"}
	for refuse, want := range map[string][2]map[string]string{
		"":                       {allNode, allClaim},
		"nodes":                  {{"node.version": forbidden}, allClaim},
		"persistentvolumes":      {allNode, {"claim.class": "fast", "claim.volume": "pv", "claim.type": forbidden}},
		"persistentvolumeclaims": {allNode, {"claim": forbidden}},
	} {
		if node, claim := facts(refuse); !maps.Equal(node, want[0]) || !maps.Equal(claim, want[1]) {
			t.Errorf("without %q: %v, %v", refuse, node, claim)
		}
	}
	a.refuse = ""
	if f := c.Around(ctx, "n2"); f["node.version"] != "unknown: NotFound: /api/v1/nodes/n2" {
		t.Errorf("a node that is gone: %v", f)
	}
	a.refuse = "nodes"
	if _, err := c.Nodes(ctx); err == nil || !strings.Contains(err.Error(), Manifest) {
		t.Errorf("all nodes, for one who may not list them: %v", err)
	}
}

// CheckClaim rejects a claim that is missing or has another mode, so that no pod waits for it.
func TestCheckClaim(t *testing.T) {
	c, a := cluster(t)
	block := corev1.PersistentVolumeBlock
	for name, mode := range map[string]*corev1.PersistentVolumeMode{"raw": &block, "files": nil} {
		a.put(t, "/api/v1/namespaces/n/persistentvolumeclaims/"+name, &corev1.PersistentVolumeClaim{TypeMeta: metav1.TypeMeta{Kind: "PersistentVolumeClaim", APIVersion: "v1"},
			ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeClaimSpec{VolumeMode: mode}})
	}
	for _, x := range []struct {
		name   string
		device bool
		want   string
	}{
		{"raw", true, ""},
		{"files", false, ""},
		{"raw", false, "use claim n/raw: it is a raw device, and has no file system"},
		{"files", true, "use claim n/files: it has a file system, and is not a raw device"},
		{"none", false, "use claim n/none: "},
	} {
		if err := c.CheckClaim(t.Context(), "n", x.name, x.device); (err == nil) != (x.want == "") || err != nil && !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s, device %v: %v, want %q", x.name, x.device, err, x.want)
		}
	}
	a.refuse = "persistentvolumeclaims"
	if err := c.CheckClaim(t.Context(), "n", "raw", false); err != nil {
		t.Errorf("for one who may not read claims: %v", err)
	}
}
