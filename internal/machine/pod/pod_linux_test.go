package pod

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"iotax"
	"iotax/internal/machine/kind"
	"iotax/internal/plan"
	"iotax/internal/testenv/kube"
	"iotax/internal/testenv/long"
	"iotax/internal/testenv/machinetest"
)

const testImage = "localhost/iotax-test:1"

// pods opens a pod in the test cluster.
func pods(t *testing.T, c *kube.Cluster, change func(*Spec)) (iotax.Machine, error) {
	t.Helper()
	s := &Spec{Image: testImage, Pull: "never", File: c.Config, Patience: plan.Duration(2 * time.Minute)}
	if change != nil {
		change(s)
	}
	return Kind.Open(t.Context(), s, kind.Options{Name: "pod", Log: t.Logf})
}

// TestPods runs the machine test suite in a pod, and breaks connections to pods.
func TestPods(t *testing.T) {
	long.Test(t)
	c := kube.Start(t, 1, kube.Image{Name: testImage})
	open := func(t *testing.T) iotax.Machine {
		m, err := pods(t, c, nil)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	name := func(m iotax.Machine) string { return strings.TrimPrefix(m.String(), "k8s://pod/default/") }
	machinetest.Run(t, open, machinetest.Options{Patience: time.Minute, Kill: func(m iotax.Machine) error {
		c.Kubectl(t, "", "delete", "pod", name(m), "--grace-period=1", "--wait=false")
		return nil
	}})

	// sleeps counts the commands of this test that run in the pod of m.
	sleeps := func(t *testing.T, m iotax.Machine) int {
		return strings.Count(c.Kubectl(t, "", "exec", name(m), "--", "ps", "-o", "args"), "sleep 1010")
	}
	awaitSleeps := func(t *testing.T, m iotax.Machine, want int) {
		t.Helper()
		n := -1
		for begin := time.Now(); time.Since(begin) < time.Minute; time.Sleep(300 * time.Millisecond) {
			if n = sleeps(t, m); n == want {
				return
			}
		}
		t.Errorf("%d of the commands run there, want %d", n, want)
	}

	t.Run("connection lost", func(t *testing.T) {
		m := open(t)
		defer m.Close(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- m.Run(t.Context(), iotax.Command("sleep", "1010")) }()
		awaitSleeps(t, m, 1)
		c.Proxy.Cut()
		err := <-ended
		var exit *iotax.ExitError
		var e *iotax.Error
		if errors.As(err, &exit) || !errors.As(err, &e) || !strings.Contains(err.Error(), "the agent is gone") {
			t.Errorf("the connection broke, and it says %v", err)
		}
		awaitSleeps(t, m, 0)
		if err := m.Run(t.Context(), iotax.Command("true")); err != nil {
			t.Errorf("the pod is there, and %v", err)
		}
		if again := m.Caps().Reconnected(); len(again) != 1 || !strings.Contains(again[0], "made again within") {
			t.Errorf("connections that were made again: %q", again)
		}
	})

	t.Run("this end dies", func(t *testing.T) {
		m := open(t)
		defer m.Close(context.Background())
		go m.Run(context.Background(), iotax.Command("sleep", "1010"))
		awaitSleeps(t, m, 1)
		c.Proxy.Deaf(true) // no new connection can end the command
		c.Proxy.Cut()
		inside := func() int {
			return strings.Count(c.Inside(t, "ps", "-e", "-o", "args"), "sleep 1010")
		}
		n := -1
		for begin := time.Now(); n != 0 && time.Since(begin) < time.Minute; time.Sleep(200 * time.Millisecond) {
			n = inside()
		}
		if n != 0 {
			t.Errorf("%d commands go on", n)
		}
		c.Proxy.Deaf(false)
	})
}
