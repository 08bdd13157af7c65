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

// Facts adds the path and the SHA-256 of the binary to facts, under keys that start with name. The caller records the
// version.
func (b Binary) Facts(name string, facts map[string]string) {
	facts[name+".path"], facts[name+".sha256"] = b.Path, b.SHA256
}

// Identify finds a program on this system by name or path, and reads its version from --version. It returns an error if
// the program fails.
func Identify(ctx context.Context, name string) (b Binary, err error) {
	if b.Path, err = Tool(name); err != nil {
		return b, err
	}
	f, err := os.Open(b.Path)
	if err != nil {
		return b, err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return b, fmt.Errorf("read %s: %w", b.Path, err)
	}
	b.SHA256 = hex.EncodeToString(h.Sum(nil))
	out, err := Exec(ctx, b.Path, "--version")
	if err != nil {
		return b, fmt.Errorf("%s --version: %w", b.Path, err)
	}
	line, _, _ := strings.Cut(strings.TrimSpace(out), "\n")
	b.Version = strings.TrimSpace(line)
	return b, nil
}

// IdentifyThere runs Identify on any machine.
var IdentifyThere = New("identify program", Identify)
