package kube

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"iotax"
)

// enter makes the files below $1 the root of a mount namespace, which exists until the script's input ends. $2 is the
// node's directory. The script copies that directory to a tmpfs, because containerd's overlays cannot be on an
// overlay. Calling chroot is not enough, because a process that enters the mount namespace starts at the root of the
// namespace. So the script also moves the overlay to /.
const enter = `set -e
mkdir -p /mnt/node /run/node
mount -t tmpfs none /run/node
mkdir /run/node/upper /run/node/work
mount -t overlay -o "lowerdir=$1,upperdir=/run/node/upper,workdir=/run/node/work" none /mnt/node
for d in dev proc sys; do mount --rbind "/$d" "/mnt/node/$d"; done
for d in run tmp; do mount -t tmpfs none "/mnt/node/$d"; done
mount -t cgroup2 none /mnt/node/sys/fs/cgroup || true # where it is mounted already
cp -a "/mnt/node$2" /run/node/own
mount -t tmpfs none "/mnt/node$2"
cp -a /run/node/own/. "/mnt/node$2"
cd /mnt/node
mount --move . /
echo $$ >&3
exec chroot . sh -c 'mount --make-rshared / && echo ready && exec cat'
`

// kubeletPort is the port at which the API server calls kubelets.
const kubeletPort = 10250

// Join adds a node with this name to the cluster. The node runs in the guest m, whose kernel may support file systems
// that this machine's kernel lacks. The guest must reach this machine's loopback interface, and m must be able to
// forward ports to the guest. `address` is the guest's address in its own network. `files` is the directory in the
// guest that contains the files of this machine.
func (c *Cluster) Join(t *testing.T, m iotax.Machine, name, address, files string) {
	t.Helper()
	n := node{name: name, address: address, index: len(c.nodes)}
	c.nodes = append(c.nodes, n)
	c.configure(t, n)
	c.kubeletConfig(t, n, "")
	_, port, err := net.SplitHostPort(c.Proxy.Address)
	must(t, err)
	config := strings.Replace(string(c.ConfigFor("https://"+net.JoinHostPort(m.Caps().HostAddress, port), token)), "certificate-authority:", "tls-server-name: localhost, certificate-authority:", 1)
	must(t, os.WriteFile(c.at(n, "kubeconfig"), []byte(config), 0o600))

	log, err := os.Create(c.log(name + "/root"))
	must(t, err)
	hold, held := io.Pipe()
	told, tell := io.Pipe()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer log.Close()
		err := m.Run(context.Background(), &iotax.Cmd{Args: append([]string{"unshare", "-m", "sh", "-c", "exec 3>&1; " + enter, "sh"}, files, c.at(n, "")), Stdin: hold, Stdout: tell, Stderr: log})
		tell.CloseWithError(fmt.Errorf("the root of %s: %w", name, errors.Join(err, io.ErrUnexpectedEOF)))
	}()
	t.Cleanup(func() { held.Close(); <-ended })
	var pid int
	if _, err := fmt.Fscanf(told, "%d\nready\n", &pid); err != nil {
		said, _ := os.ReadFile(c.log(name + "/root"))
		t.Fatalf("%v: %s", err, said)
	}
	in := []string{"nsenter", "--target", fmt.Sprint(pid), "--mount", "--", "/usr/bin/env", "PATH=" + path}
	sh := func(args ...string) error {
		ctx, cancel := context.WithTimeout(t.Context(), startTime)
		defer cancel()
		if out, err := iotax.Output(ctx, m, append(slices.Clone(in), args...)...); err != nil {
			return fmt.Errorf("%s: %w: %s", name, err, out)
		}
		return nil
	}
	run := func(part string, args ...string) {
		log, err := os.Create(c.log(name + "/" + part))
		must(t, err)
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			defer log.Close()
			if err := m.Run(ctx, &iotax.Cmd{Args: append(slices.Clone(in), args...), Stdout: log, Stderr: log}); err != nil {
				fmt.Fprintln(log, err)
			}
		}()
		t.Cleanup(func() { cancel(); <-ended })
	}
	run("containerd", "containerd", "-c", c.at(n, "containerd.toml"))
	ctr := []string{"ctr", "-a", c.at(n, "containerd.sock"), "-n", "k8s.io"}
	c.await(t, name+"/containerd", func() error { return sh(append(ctr, "version")...) })
	for _, f := range c.imageFiles {
		must(t, sh(append(ctr, "images", "import", f)...))
	}

	// The API server calls the kubelet at the node's address, which exists only in the guest's network.
	there, err := m.Caps().Forward(t.Context(), kubeletPort)
	must(t, err)
	if out, err := c.inside("ip", "addr", "add", address+"/32", "dev", "eth0").CombinedOutput(); err != nil {
		t.Fatalf("ip addr add: %v: %s", err, out)
	}
	var l net.Listener
	must(t, c.within(func() (err error) {
		l, err = net.Listen("tcp", net.JoinHostPort(address, fmt.Sprint(kubeletPort)))
		return err
	}))
	newProxy(t, l, func() (net.Conn, error) { return net.DialTimeout("tcp", there, 10*time.Second) })
	run("kubelet", append([]string{c.dir + "/kubelet", "--kubeconfig=" + c.at(n, "kubeconfig")}, c.kubeletFlags(n)...)...)
	c.ready(t, n)
}
