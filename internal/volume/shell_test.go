package volume

import (
	"os"
	"strings"
	"testing"
)

// sudo that asks for a password is no sudo, and that is said as such.
func TestAsRoot(t *testing.T) {
	bin := t.TempDir()
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	for name, c := range map[string]struct {
		id, sudo, want string
		status         int
	}{
		"root":           {"0", "exit 9", "done", -1},
		"sudo":           {"1000", `shift; exec "$@"`, "done", -1},
		"sudo of sh":     {"1000", `[ "$2" = sh ] || exit 1; shift; exec "$@"`, "done", -1},
		"sudo that asks": {"1000", "echo a password is required >&2; exit 1", "", 40},
		"no sudo":        {"1000", "exit 127", "", 40},
	} {
		for tool, script := range map[string]string{"id": "echo " + c.id, "sudo": c.sudo} {
			if err := os.WriteFile(bin+"/"+tool, []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		out, err := root(t.Context(), here, quick, `echo "$1"`, "done")
		if strings.TrimSpace(out) != c.want || exit(err) != c.status || err != nil && !says(err, "without a password") {
			t.Errorf("%s: %q, %v", name, out, err)
		}
	}
}
