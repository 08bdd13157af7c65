package agent

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"strings"
)

// A Binary describes a program on a machine.
type Binary struct{ Path, Version, SHA256 string }

// Facts adds the path and the SHA-256 of the binary to facts, as NAME.path and NAME.sha256.
func (b Binary) Facts(name string, facts map[string]string) {
	facts[name+".path"], facts[name+".sha256"] = b.Path, b.SHA256
}

// Identify finds a program on this system by name or path, and runs it with flag to read its version.
func Identify(ctx context.Context, name, flag string) (b Binary, err error) {
	if b.Path, err = Tool(name); err != nil {
		return b, err
	}
	if b.SHA256, err = SHA256(b.Path); err != nil {
		return b, err
	}
	out, err := Exec(ctx, b.Path, flag)
	if err != nil {
		return b, fmt.Errorf("%s %s: %w", b.Path, flag, err)
	}
	line, _, _ := strings.Cut(strings.TrimSpace(out), "\n")
	b.Version = strings.TrimSpace(line)
	return b, nil
}

// SHA256 returns the hash of a file of this system, in hexadecimal digits.
func SHA256(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", fmt.Errorf("read %s: %w", path, err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// IdentifyThere runs Identify with --version on any machine.
var IdentifyThere = New("identify program", func(ctx context.Context, name string) (Binary, error) { return Identify(ctx, name, "--version") })
