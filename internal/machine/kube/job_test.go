package kube

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"iotax/internal/leftover"
)

func exampleJob() Job {
	return Job{Run: "261121-Zone_7", Plan: []byte("name: p\n"), Store: "postgres://u:hunter2@db/x", Shards: 4, Flags: []string{"--calibrate", "no"}, Refusals: []int32{2, 4},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"mine": "yes"}},
			Spec: corev1.PodSpec{NodeSelector: map[string]string{"disk": "nvme"}, Containers: []corev1.Container{{Name: "iotax", Image: "i"}}}}}
}

func TestJobObjects(t *testing.T) {
	j := exampleJob()
	job, plan, secret := j.Objects(Labelled(leftover.Label{Run: j.Run}))
	if job.Name != "iotax-261121-zone-7" || plan.Name != job.Name || secret.Name != job.Name {
		t.Errorf("names %s, %s, %s", job.Name, plan.Name, secret.Name)
	}
	s := job.Spec
	if *s.Completions != 4 || *s.CompletionMode != batchv1.IndexedCompletion || *s.BackoffLimitPerIndex != attempts ||
		!slices.Equal(s.PodFailurePolicy.Rules[0].OnExitCodes.Values, []int32{2, 4}) || s.PodFailurePolicy.Rules[0].Action != batchv1.PodFailurePolicyActionFailIndex {
		t.Errorf("%+v", s)
	}
	pod := s.Template
	c := pod.Spec.Containers[0]
	if got := strings.Join(append(c.Command, c.Args...), " "); got != "iotax run /etc/iotax-run/plan.yaml --id 261121-Zone_7 --shard $(JOB_COMPLETION_INDEX)/4 --quiet --calibrate no" {
		t.Errorf("the pods run %s", got)
	}
	if pod.Labels["mine"] != "yes" || pod.Spec.NodeSelector["disk"] != "nvme" || pod.Spec.Affinity.PodAntiAffinity == nil || pod.Spec.RestartPolicy != corev1.RestartPolicyNever {
		t.Errorf("%+v", pod)
	}
	if plan.Data[planFile] != "name: p\n" || secret.StringData["IOTAX_STORE"] != j.Store || c.EnvFrom[0].SecretRef.Name != secret.Name {
		t.Errorf("%v, %v", plan.Data, secret.StringData)
	}
	text := job.String() + plan.String()
	if strings.Contains(text, "hunter2") {
		t.Error("the password is outside of the secret")
	}
	if len(j.Template.Spec.Volumes) > 0 || len(j.Template.Spec.Containers[0].Args) > 0 {
		t.Error("the caller's template was changed")
	}
}

// An api is a fake API server for the requests of the tests. It stores objects by path.
type api struct {
	mu      sync.Mutex
	objects map[string]map[string]any
	refuse  string // a resource that can be neither created nor read
	lose    string // a resource for which the answers to the creation are lost
}

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	answer := func(code int, v any) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(v)
	}
	fail := func(code int, reason metav1.StatusReason) {
		answer(code, metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Code: int32(code), Reason: reason, Message: string(reason) + ": " + r.URL.Path})
	}
	resource := path.Base(r.URL.Path)
	switch r.Method {
	case http.MethodPost:
		var o map[string]any
		if err := json.NewDecoder(r.Body).Decode(&o); err != nil {
			fail(http.StatusBadRequest, metav1.StatusReasonBadRequest)
			return
		}
		if resource == a.refuse {
			fail(http.StatusForbidden, metav1.StatusReasonForbidden)
			return
		}
		meta := o["metadata"].(map[string]any)
		if at := r.URL.Path + "/" + meta["name"].(string); resource == a.lose {
			if a.objects[at] == nil {
				a.objects[at] = o
			}
			panic(http.ErrAbortHandler)
		}
		if a.objects[r.URL.Path+"/"+meta["name"].(string)] != nil {
			fail(http.StatusConflict, metav1.StatusReasonAlreadyExists)
			return
		}
		meta["uid"] = "uid-of-" + resource
		a.objects[r.URL.Path+"/"+meta["name"].(string)] = o
		answer(http.StatusCreated, o)
	case http.MethodDelete:
		if a.objects[r.URL.Path] == nil {
			fail(http.StatusNotFound, metav1.StatusReasonNotFound)
			return
		}
		delete(a.objects, r.URL.Path)
		for at, o := range a.objects {
			if owners, ok := o["metadata"].(map[string]any)["ownerReferences"].([]any); ok && owners[0].(map[string]any)["name"] == path.Base(r.URL.Path) {
				delete(a.objects, at)
			}
		}
		answer(http.StatusOK, metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusSuccess})
	case http.MethodGet:
		if a.refuse != "" && (resource == a.refuse || path.Base(path.Dir(r.URL.Path)) == a.refuse) {
			fail(http.StatusForbidden, metav1.StatusReasonForbidden)
			return
		}
		if o := a.objects[r.URL.Path]; o != nil {
			answer(http.StatusOK, o)
			return
		}
		kind := map[string]string{"pods": "PodList", "events": "EventList", "jobs": "JobList", "persistentvolumeclaims": "PersistentVolumeClaimList"}[resource]
		if kind == "" {
			fail(http.StatusNotFound, metav1.StatusReasonNotFound)
			return
		}
		items := []any{}
		for at, o := range a.objects {
			if path.Dir(at) == r.URL.Path {
				items = append(items, o)
			}
		}
		version := map[string]string{"jobs": "batch/v1"}[resource]
		answer(http.StatusOK, map[string]any{"kind": kind, "apiVersion": cmp.Or(version, "v1"), "items": items})
	}
}

func (a *api) put(t *testing.T, at string, v any) {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var o map[string]any
	if err := json.Unmarshal(b, &o); err != nil {
		t.Fatal(err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.objects[at] = o
}

func (a *api) has(at string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.objects[at] != nil
}

// cluster returns a client of a new api.
func cluster(t *testing.T) (*Client, *api) {
	t.Helper()
	a := &api{objects: map[string]map[string]any{}}
	s := httptest.NewServer(a)
	t.Cleanup(s.Close)
	file := filepath.Join(t.TempDir(), "config")
	text := fmt.Sprintf("apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{name: c, cluster: {server: %q}}]\nusers: [{name: u, user: {token: t}}]\ncontexts: [{name: c, context: {cluster: c, user: u, namespace: \"n\"}}]\n", s.URL)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := Connect(Config{File: file})
	if err != nil {
		t.Fatal(err)
	}
	return c, a
}

// The Job owns its ConfigMap and Secret. If the Secret cannot be created, Submit removes the Job.
func TestSubmit(t *testing.T) {
	ctx := t.Context()
	c, a := cluster(t)
	j := exampleJob()
	job := "/apis/batch/v1/namespaces/n/jobs/" + j.Name()
	secret := "/api/v1/namespaces/n/secrets/" + j.Name()
	if err := c.Submit(ctx, "n", j, Labelled(leftover.Label{Run: j.Run})); err != nil {
		t.Fatal(err)
	}
	if !a.has(job) || !a.has(secret) || !a.has("/api/v1/namespaces/n/configmaps/"+j.Name()) {
		t.Fatalf("%v", a.objects)
	}
	owner := fmt.Sprint(a.objects[secret]["metadata"].(map[string]any)["ownerReferences"])
	if !strings.Contains(owner, "kind:Job") || !strings.Contains(owner, "uid:uid-of-jobs") {
		t.Errorf("the secret belongs to %s", owner)
	}
	for range 2 { // the second removal finds no job, which is not an error
		if err := c.RemoveJob(ctx, "n", j.Name()); err != nil || a.has(job) {
			t.Errorf("withdraw: %v", err)
		}
	}
	a.refuse = "secrets"
	err := c.Submit(ctx, "n", j, Labelled(leftover.Label{}))
	if err == nil || !strings.Contains(err.Error(), Manifest) || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("a secret that is refused: %v", err)
	}
	if a.has(job) {
		t.Error("the job is left")
	}
}

// If the answer to the creation of the Job is lost, Submit removes the Job, but not another process's Job of the same
// name.
func TestSubmitLost(t *testing.T) {
	ctx := t.Context()
	c, a := cluster(t)
	j := exampleJob()
	at := "/apis/batch/v1/namespaces/n/jobs/" + j.Name()
	mine, other := leftover.Label{Run: j.Run}, leftover.Label{Run: j.Run}
	mine.Runner.PID, other.Runner.PID = 1, 2
	a.lose = "jobs"
	if err := c.Submit(ctx, "n", j, Labelled(mine)); err == nil || a.has(at) {
		t.Errorf("%v; the job is there: %v", err, a.has(at))
	}
	a.put(t, at, &batchv1.Job{TypeMeta: metav1.TypeMeta{Kind: "Job", APIVersion: "batch/v1"}, ObjectMeta: metav1.ObjectMeta{Name: j.Name(), Annotations: Labelled(other).Annotations}})
	if err := c.Submit(ctx, "n", j, Labelled(mine)); err == nil || !a.has(at) {
		t.Errorf("%v; the job of another process is there: %v", err, a.has(at))
	}
}

func TestLook(t *testing.T) {
	ctx := t.Context()
	c, a := cluster(t)
	j := exampleJob()
	if _, err := c.Look(ctx, "n", j); err == nil {
		t.Error("a job that is not there was seen")
	}
	if err := c.Submit(ctx, "n", j, Labelled(leftover.Label{Run: j.Run})); err != nil {
		t.Fatal(err)
	}
	a.put(t, "/api/v1/namespaces/n/pods/p", &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", CreationTimestamp: metav1.NewTime(time.Now().Add(-time.Hour)), Labels: map[string]string{nameLabel: j.Name(), indexLabel: "3"}},
		Status: corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "0/1 nodes are available"}}}})
	p, err := c.Look(ctx, "n", j)
	if err != nil || p.Over || !strings.Contains(p.Why, "shard 3: no node takes it: 0/1 nodes are available") {
		t.Errorf("%+v, %v", p, err)
	}
	a.put(t, "/apis/batch/v1/namespaces/n/jobs/"+j.Name(), &batchv1.Job{TypeMeta: metav1.TypeMeta{Kind: "Job", APIVersion: "batch/v1"}, ObjectMeta: metav1.ObjectMeta{Name: j.Name()},
		Status: batchv1.JobStatus{Succeeded: 3, Failed: 1, Conditions: []batchv1.JobCondition{{Type: batchv1.JobFailed, Status: corev1.ConditionTrue, Reason: "FailedIndexes", Message: "1 index failed"}}}})
	if p, err := c.Look(ctx, "n", j); err != nil || !p.Over || p.Done != 3 || p.Failed != 1 || !strings.Contains(p.Why, "FailedIndexes: 1 index failed") {
		t.Errorf("%+v, %v", p, err)
	}
}

// OfJob finds the pod of a Job, and the error about a missing pod contains the reason. RemoveJob waits until the pod is
// gone.
func TestJobOfOnePod(t *testing.T) {
	ctx := t.Context()
	c, a := cluster(t)
	meta := Labelled(leftover.Label{Run: "r"})
	meta.Name = "iotax-1"
	if err := c.MakeJob(ctx, "n", meta, corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "c", Image: "i"}}}); err != nil {
		t.Fatal(err)
	}
	a.put(t, "/api/v1/namespaces/n/events/e", &corev1.Event{Type: corev1.EventTypeWarning, Reason: "FailedCreate", Message: "exceeded quota"})
	if _, err := c.OfJob(ctx, "n", "iotax-1", 0); err == nil || !strings.Contains(err.Error(), "it has no pod after 0s (events: FailedCreate: exceeded quota)") {
		t.Errorf("a job without a pod: %v", err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "iotax-1-x7", Labels: map[string]string{nameLabel: "iotax-1"}}}
	a.put(t, "/api/v1/namespaces/n/pods/iotax-1-x7", pod)
	if name, err := c.OfJob(ctx, "n", "iotax-1", time.Minute); err != nil || name != pod.Name {
		t.Errorf("%q, %v", name, err)
	}
	short, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
	defer cancel()
	if err := c.RemoveJob(short, "n", "iotax-1"); err == nil || a.has("/apis/batch/v1/namespaces/n/jobs/iotax-1") {
		t.Errorf("the job is removed, and its pod is there: %v", err)
	}
}

// `iotax clean` does not remove a foreign Job that a pod of a run names as its owner.
func TestLeftOfForeignJob(t *testing.T) {
	c, a := cluster(t)
	l := leftover.Label{Run: "r", Runner: leftover.Self()}
	l.Runner.Start++ // the process no longer exists
	jobs, pods := "/apis/batch/v1/namespaces/n/jobs/", "/api/v1/namespaces/n/pods/"
	yes := true
	for name, meta := range map[string]metav1.ObjectMeta{"own": Labelled(l), "foreign": {}, "live": Labelled(leftover.Label{Run: "live", Runner: leftover.Self()})} {
		meta.Name = name
		a.put(t, jobs+name, &batchv1.Job{ObjectMeta: meta, Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{}}}}}})
		pod := Labelled(l)
		pod.Name, pod.OwnerReferences = "of-"+name, []metav1.OwnerReference{{Kind: "Job", Name: name, Controller: &yes}}
		a.put(t, pods+pod.Name, &corev1.Pod{ObjectMeta: pod, Spec: corev1.PodSpec{Containers: []corev1.Container{{}}}})
	}
	items, err := c.Left(t.Context(), "n")
	if err != nil || len(items) != 4 {
		t.Fatalf("%+v, %v", items, err)
	}
	slices.SortFunc(items, func(a, b leftover.Item) int { return strings.Compare(a.Name, b.Name) }) // of-own must be last: its removal waits until its Job has no pods, and the fake server lists all pods as pods of every Job
	for _, i := range items {
		if i.State == leftover.Alive {
			continue
		}
		if err := i.Remove(t.Context()); err != nil {
			t.Error(err)
		}
	}
	for at, want := range map[string]bool{jobs + "own": false, jobs + "foreign": true, jobs + "live": true, pods + "of-own": false, pods + "of-foreign": false, pods + "of-live": false} {
		if a.has(at) != want {
			t.Errorf("%s is there: %v", at, !want)
		}
	}
}

// A resumed run replaces its own Job if that Job has ended. It does not replace any other Job.
func TestSubmitAgain(t *testing.T) {
	ctx := t.Context()
	c, a := cluster(t)
	j := exampleJob()
	at := "/apis/batch/v1/namespaces/n/jobs/" + j.Name()
	meta := Labelled(leftover.Label{Run: j.Run})
	if err := c.Submit(ctx, "n", j, meta); err != nil {
		t.Fatal(err)
	}
	if err := c.Submit(ctx, "n", j, meta); err == nil || !strings.Contains(err.Error(), "is already running") || !a.has(at) {
		t.Errorf("a job that measures: %v", err)
	}
	over := &batchv1.Job{TypeMeta: metav1.TypeMeta{Kind: "Job", APIVersion: "batch/v1"}, ObjectMeta: metav1.ObjectMeta{Name: j.Name()},
		Status: batchv1.JobStatus{Conditions: []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}}}
	for _, labels := range []map[string]string{nil, {"app": "somebody's"}, Labelled(leftover.Label{Run: "another"}).Labels} {
		over.Labels = labels
		a.put(t, at, over)
		if err := c.Submit(ctx, "n", j, meta); err == nil || !strings.Contains(err.Error(), "belongs to another run") || !a.has(at) {
			t.Errorf("a job with the labels %v: %v", labels, err)
		}
	}
	job, _, _ := j.Objects(meta)
	over.Labels = job.Labels
	a.put(t, at, over)
	if err := c.Submit(ctx, "n", j, meta); err != nil {
		t.Errorf("a job that has ended: %v", err)
	}
	if p, err := c.Look(ctx, "n", j); err != nil || p.Over {
		t.Errorf("it is the old one: %+v, %v", p, err)
	}
}

func TestLastWords(t *testing.T) {
	for text, want := range map[string]string{
		"exec: \"sh\": executable file not found": "exec: \"sh\": executable file not found",
		"a\nb\nc\nd\n": "b c d",
		"table\niotax: run: it broke\nhint: do\n": "iotax: run: it broke hint: do",
	} {
		if got := lastWords(text); got != want {
			t.Errorf("%q: %q", text, got)
		}
	}
}
