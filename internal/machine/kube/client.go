// Package kube is a client of a Kubernetes cluster with kubectl's configuration, contexts and credentials. It runs
// commands in pods, submits Jobs, waits for pods, explains why they do not start, and finds leftovers of runs.
package kube

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/httpstream"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/remotecommand"
	clientexec "k8s.io/client-go/util/exec"
	"k8s.io/klog/v2"

	"iotax"
	"iotax/internal/agent"
	remote "iotax/internal/machine/agent"
)

// Config selects a cluster, a context and a namespace.
type Config struct {
	File      string // kubeconfig; "" means KUBECONFIG, then ~/.kube/config, then the service account of this process's pod
	Context   string // context in that file; "" means its current context
	Namespace string // "" means the namespace of the context
}

// A Client is a connection to one cluster.
type Client struct {
	objects   objects
	REST      *rest.Config
	Namespace string // namespace that the configuration selects
	Server    string // address of the API server
}

// answerTime limits requests that the cluster should answer promptly.
const answerTime = 30 * time.Second

// Connect reads the configuration. It sends no request to the cluster.
func Connect(c Config) (*Client, error) {
	// The library logs connection problems to standard error, where they would break the progress display.
	klog.SetLogger(logr.Discard())
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = c.File
	over := &clientcmd.ConfigOverrides{CurrentContext: c.Context}
	over.Context.Namespace = c.Namespace
	load := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, over)
	fail := func(err error) (*Client, error) {
		on := cmp.Or(c.File, os.Getenv("KUBECONFIG"), "~/.kube/config")
		if c.Context != "" {
			on += ", context " + c.Context
		}
		return nil, &iotax.Error{Op: "read Kubernetes configuration", On: on, Err: err, Hint: "set KUBECONFIG, or kubeconfig: and context: in the plan; `kubectl config get-contexts` lists the contexts"}
	}
	for _, file := range rules.GetLoadingPrecedence() {
		if err := iotax.CheckSize(file, iotax.MaxOutput); err != nil {
			return fail(fmt.Errorf("%s: %w", file, err))
		}
	}
	conf, err := load.ClientConfig()
	if err != nil {
		return fail(err)
	}
	conf.QPS, conf.Burst, conf.UserAgent = 50, 100, "iotax"
	ns, _, err := load.Namespace()
	if err != nil {
		return fail(err)
	}
	objects, err := newObjects(conf)
	if err != nil {
		return fail(err)
	}
	return &Client{objects: objects, REST: conf, Namespace: ns, Server: conf.Host}, nil
}

// Exec returns a Run for a container of a pod. If the container no longer runs, `gone` returns an error with the reason,
// else nil. The Run returns the error of `gone` instead of the connection errors that the end of a pod causes.
func (c *Client) Exec(ns, pod, container string, gone func(context.Context) error) remote.Run {
	return func(ctx context.Context, args []string, s remote.Streams) (int, error) {
		req := c.objects.on("POST", "pods", ns).Name(pod).SubResource("exec").
			VersionedParams(&corev1.PodExecOptions{Container: container, Command: args, Stdin: true, Stdout: true, Stderr: true}, parameters)
		run, err := c.executor(req)
		if err != nil {
			return 0, err
		}
		wanted, done := context.WithCancel(ctx) // canceled at the end of the input, after which errors are ignored
		defer done()
		err = run.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: &input{s.In, done}, Stdout: s.Out, Stderr: s.Err})
		switch {
		case ctx.Err() != nil:
			return 0, context.Cause(ctx)
		case wanted.Err() != nil:
			return 0, nil
		}
		// Wait for the reason: the cluster reports the end of a pod with a delay.
		if why := noticed(wanted, gone); why != nil {
			return 0, why
		}
		var exit clientexec.CodeExitError
		var network net.Error
		switch {
		case err == nil: // a connection that broke inside the cluster ends without an error
			return 0, unreachable{errors.New("the cluster ended the connection")}
		case errors.As(err, &exit):
			return exit.Code, nil
		case errors.As(err, &network) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
			errors.Is(err, net.ErrClosed) || strings.Contains(err.Error(), "websocket: close "):
			return 0, unreachable{fmt.Errorf("the connection to the pod broke (%w)", err)}
		}
		return 0, Plain(err)
	}
}

// An input calls its function `end` when a Read returns an error, such as io.EOF.
type input struct {
	io.Reader
	end func()
}

func (i *input) Read(p []byte) (int, error) {
	n, err := i.Reader.Read(p)
	if err != nil {
		i.end()
	}
	return n, err
}

// unreachable is an error of a connection that can be restored.
type unreachable struct{ error }

func (unreachable) Is(target error) bool { return target == agent.ErrUnreachable }

// noticeTime limits the wait for the cluster to report the end of a pod. It is shorter than the time that the agent's
// session waits for the reason.
const noticeTime = 3 * time.Second

func noticed(ctx context.Context, gone func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, noticeTime)
	defer cancel()
	for {
		if err := gone(ctx); err != nil {
			return err
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return nil
		}
	}
}

// executor returns an executor that uses WebSocket, and falls back to SPDY for old clusters and proxies.
func (c *Client) executor(req *rest.Request) (remotecommand.Executor, error) {
	ws, err := remotecommand.NewWebSocketExecutor(c.REST, "GET", req.URL().String())
	if err != nil {
		return nil, err
	}
	spdy, err := remotecommand.NewSPDYExecutor(c.REST, "POST", req.URL())
	if err != nil {
		return nil, err
	}
	return remotecommand.NewFallbackExecutor(ws, spdy, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	})
}

// Manifest is the path of the RBAC manifest with the rights that iotax needs.
const Manifest = "packaging/kubernetes/rbac.yaml"

// Refused wraps an error from the cluster in an iotax.Error with a suitable hint. An error for a missing object also
// matches iotax.ErrGone.
func Refused(op, on string, err error) error {
	e := &iotax.Error{Op: op, On: on, Err: Plain(err)}
	text := err.Error()
	switch {
	case strings.Contains(text, "exceeded quota"):
		e.Hint = "ask for less (cpus:, memory:, the size of claims), use another namespace:, or have the quota raised: kubectl describe quota"
	case strings.Contains(text, "must specify limits") || strings.Contains(text, "must specify requests") || strings.Contains(text, "failed quota"):
		e.Hint = "the namespace's quota wants cpus: and memory: given"
	case strings.Contains(text, "violates PodSecurity"):
		e.Hint = "user: 1000 makes the pod one that restricted namespaces take; a privileged one needs another namespace:"
	case apierrors.IsForbidden(err):
		e.Hint = "this user lacks the right; the least that iotax needs: kubectl apply -f " + Manifest
	case apierrors.IsUnauthorized(err):
		e.Hint = "log in to the cluster again, or use another context:"
	case apierrors.IsNotFound(err):
		e.Err = iotax.Gone(e.Err)
		e.Hint = "`kubectl get pods --all-namespaces` lists the pods"
	default:
		e.Hint = "check that kubectl reaches the cluster: kubectl version"
	}
	return e
}

// Plain returns the message of an API error without the library's wrapping. It returns other errors unchanged.
func Plain(err error) error {
	var s *apierrors.StatusError
	if errors.As(err, &s) && s.ErrStatus.Message != "" {
		return errors.New(s.ErrStatus.Message)
	}
	return err
}

// Nodes returns the names of the nodes that accept new pods.
func (c *Client) Nodes(ctx context.Context) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	var list corev1.NodeList
	if err := c.objects.list(ctx, "nodes", "", metav1.ListOptions{}, &list); err != nil {
		return nil, Refused("list nodes", c.Server, err)
	}
	var names []string
	for _, n := range list.Items {
		ready := slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
		})
		barred := slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Effect != corev1.TaintEffectPreferNoSchedule })
		if ready && !barred && !n.Spec.Unschedulable {
			names = append(names, n.Name)
		}
	}
	if len(names) == 0 {
		return nil, &iotax.Error{Op: "list nodes", On: c.Server, Err: fmt.Errorf("none of the %d nodes is ready and accepts pods", len(list.Items)), Hint: "kubectl get nodes"}
	}
	slices.Sort(names)
	return names, nil
}

// An event is a warning that the cluster recorded.
type event struct{ of, reason, message string } // of: the object of the event; "" means the queried object

// withEvents appends the events to why. It skips an event if its message already appears in the result.
func withEvents(why string, events []event) string {
	text, listed := why, ""
	for _, e := range events {
		if e.message != "" && strings.Contains(text, e.message) {
			continue
		}
		line := strings.TrimSuffix(e.reason+": "+e.message, ": ")
		if e.of != "" {
			line = e.of + ": " + line
		}
		listed += "; " + line
		text += "; " + line
	}
	if listed == "" {
		return why
	}
	return why + " (events: " + strings.TrimPrefix(listed, "; ") + ")"
}

// events returns the last three different warnings about an object, the newest last, or nil if they cannot be read.
func (c *Client) events(ctx context.Context, ns, name string) []event {
	var list corev1.EventList
	if err := c.objects.list(ctx, "events", ns, metav1.ListOptions{FieldSelector: "involvedObject.name=" + name}, &list); err != nil {
		return nil
	}
	at := func(e corev1.Event) time.Time {
		if !e.LastTimestamp.IsZero() {
			return e.LastTimestamp.Time
		}
		return e.EventTime.Time
	}
	slices.SortStableFunc(list.Items, func(a, b corev1.Event) int { return at(a).Compare(at(b)) })
	var warnings []event
	for _, e := range list.Items {
		x := event{reason: e.Reason, message: strings.Join(strings.Fields(e.Message), " ")}
		if e.Type == corev1.EventTypeWarning {
			warnings = append(slices.DeleteFunc(warnings, func(y event) bool { return y == x }), x)
		}
	}
	return warnings[max(0, len(warnings)-3):]
}
