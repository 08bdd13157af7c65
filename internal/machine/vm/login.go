package vm

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
)

// login connects to the guest's SSH server. An image may take its time to have one.
func (b *booting) login(ctx context.Context, port int, hostKey string) (*ssh.Client, error) {
	user := "root"
	if b.spec.Image != "" {
		user = b.spec.User
	}
	config := &ssh.ClientConfig{
		User: user, Auth: []ssh.AuthMethod{ssh.PublicKeys(b.signer)},
		HostKeyCallback: func(_ string, _ net.Addr, key ssh.PublicKey) error {
			// The port is one that QEMU, which is ours, listens on, so an image whose host key
			// nobody knows can be no other.
			if hostKey != "" && strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key))) != hostKey {
				return errors.New("the host key is not the one that the guest wrote to its console")
			}
			return nil
		},
	}
	if b.spec.Image == "" {
		// Ciphers that real CPUs have instructions for cost an emulated one twice as much as this
		// one does; and the post-quantum key exchange is lost on a loopback interface.
		config.KeyExchanges = []string{ssh.KeyExchangeCurve25519}
		if b.config.Accel == "tcg" {
			config.Ciphers = []string{ssh.CipherChaCha20Poly1305}
		}
	}
	addr := net.JoinHostPort("127.0.0.1", fmt.Sprint(port))
	// QEMU accepts before anyone in the guest listens, and what was sent then may be lost: an image is
	// tried with little patience first.
	patience := 30 * time.Second
	if b.spec.Image != "" {
		patience = 2 * time.Second
	}
	for ; ; patience = min(patience*3/2, 30*time.Second) {
		conn, err := dialSSH(ctx, addr, patience, config)
		if err == nil {
			return conn, nil
		}
		if b.spec.Image == "" {
			if ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			return nil, b.vm.Fail(err)
		}
		select {
		case <-b.vm.Done():
			return nil, b.vm.Err()
		case <-ctx.Done():
			return nil, b.vm.Fail(fmt.Errorf("%w: %w", context.Cause(ctx), err))
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func dialSSH(ctx context.Context, addr string, patience time.Duration, config *ssh.ClientConfig) (*ssh.Client, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	c, chans, reqs, err := ssh.NewClientConn(conn, addr, config)
	if !stop() && err == nil {
		c.Close()
		err = ctx.Err()
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return ssh.NewClient(c, chans, reqs), nil
}
