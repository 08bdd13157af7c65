// Package secret knows which variables of the environment hold secrets, keeps iotax's own from what it starts, and
// the values of all of them out of what is kept.
package secret

import (
	"encoding/json"
	"os"
	"strings"
	"sync"

	"iotax"
)

// own are the variables that only iotax itself reads.
var own = []string{"IOTAX_SSH_PASSWORD", "IOTAX_SSH_PASSPHRASE", "IOTAX_TOKEN", "IOTAX_STORE", "IOTAX_STORE_PASSWORD", "IOTAX_POD_STORE"}

// others are those that commands of the user read too: clients of object stores and of PostgreSQL.
var others = []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "MINIO_ROOT_PASSWORD", "MINIO_SECRET_KEY", "PGPASSWORD", "RCLONE_CONFIG_PASS"}

// shortest is the length in bytes from which a value is looked for: a shorter one stands in much that is no secret.
const shortest = 8

// Environ is the environment of this process for a command that it starts: without what only iotax reads.
func Environ() []string {
	var env []string
	for _, v := range os.Environ() {
		name, _, _ := strings.Cut(v, "=")
		if !isOwn(name) {
			env = append(env, v)
		}
	}
	return env
}

func isOwn(name string) bool {
	for _, o := range own {
		if strings.EqualFold(name, o) { // Windows asks for names in any case
			return true
		}
	}
	return false
}

// values replaces the value of each variable by its name.
var values = sync.OnceValue(func() *strings.Replacer {
	var pairs []string
	for _, names := range [][]string{own, others} {
		for _, name := range names {
			if v := os.Getenv(name); len(v) >= shortest && !plain(name, v) {
				pairs = append(pairs, v, "[$"+name+"]")
				if in, err := json.Marshal(v); err == nil { // as it stands in JSON
					pairs = append(pairs, string(in[1:len(in)-1]), "[$"+name+"]")
				}
			}
		}
	}
	return strings.NewReplacer(pairs...)
})

// plain reports whether a variable holds an address without a password, which is no secret.
func plain(name, value string) bool {
	return strings.HasSuffix(name, "_STORE") && !strings.Contains(value, "@")
}

// Text is s with the names of the variables in place of the secrets that the environment holds: a command that prints its
// environment is not to put a password into an error. A value under eight bytes is not looked for.
func Text(s string) string { return values().Replace(s) }

// Hide does the same to what a trial keeps of commands.
func Hide(t *iotax.Trial) {
	r := values()
	if s := string(t.Raw); s != "" {
		if clean := r.Replace(s); clean != s {
			t.Raw = []byte(clean)
		}
	}
	t.Err, t.Void = r.Replace(t.Err), r.Replace(t.Void)
	for k, v := range t.Facts {
		t.Facts[k] = r.Replace(v)
	}
	for i := range t.Findings {
		f := &t.Findings[i]
		f.Evidence, f.Mend = r.Replace(f.Evidence), r.Replace(f.Mend)
	}
}
