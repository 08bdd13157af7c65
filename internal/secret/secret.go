// Package secret knows which variables of the environment hold secrets, keeps iotax's own from what it starts, and
// the values of all of them out of what is kept.
package secret

import (
	"encoding/json"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"iotax"
)

// own are the variables that only iotax itself reads.
var own = []string{"IOTAX_SSH_PASSWORD", "IOTAX_SSH_PASSPHRASE", "IOTAX_TOKEN", "IOTAX_STORE", "IOTAX_STORE_PASSWORD", "IOTAX_POD_STORE"}

// others are those that commands of the user read too: clients of object stores and of PostgreSQL.
var others = []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "MINIO_ROOT_PASSWORD", "MINIO_SECRET_KEY", "PGPASSWORD", "RCLONE_CONFIG_PASS"}

// named matches names of variables that hold a secret. Package plan masks what stands behind such keys.
var named = regexp.MustCompile(`(?i)passw|passphrase|_pass|secret|token|_key`)

// Named reports whether a variable of that name holds a secret.
func Named(name string) bool {
	return named.MatchString(name) || slices.Contains(own, name) || slices.Contains(others, name)
}

// refused matches names of variables that a plan may not set. It matches fewer names than named, because iotax does not run a
// plan that it refuses.
var refused = regexp.MustCompile(`(?i)(^|_)(passw(or)?d|passphrase|pass|secret|token|(access|secret|api|private)_key)$`)

// Refused reports whether a plan may not set the variable name to value. Paths, and values that are too short to be hidden, are allowed.
func Refused(name, value string) bool {
	return len(value) >= shortest && !path.IsAbs(value) && !filepath.IsAbs(value) &&
		(refused.MatchString(name) || slices.Contains(own, name) || slices.Contains(others, name))
}

// Lookup is the value of a variable for a command of a plan that asks for it by its name; what only iotax reads is not set.
func Lookup(name string) (value string, set bool) {
	if isOwn(name) {
		return "", false
	}
	return os.LookupEnv(name)
}

// inURL finds the user and the password in a URL.
var inURL = regexp.MustCompile(`(://)[^/?#\s:@'"]*:[^/?#\s@'"]+@`)

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
	for _, variable := range os.Environ() {
		name, v, _ := strings.Cut(variable, "=")
		if len(v) < shortest || !Named(name) || plain(name, v) {
			continue
		}
		pairs = append(pairs, v, "[$"+name+"]")
		if in, err := json.Marshal(v); err == nil { // as it stands in JSON
			pairs = append(pairs, string(in[1:len(in)-1]), "[$"+name+"]")
		}
	}
	return strings.NewReplacer(pairs...)
})

// plain reports whether a variable holds an address without a password, or the name of a file, which is no secret.
func plain(name, value string) bool {
	if strings.HasSuffix(name, "_STORE") {
		return !strings.Contains(value, "@") && !strings.Contains(value, "password")
	}
	_, err := os.Stat(value)
	return err == nil
}

// Text is s with the names of the variables in place of the secrets that the environment holds, and without the users and passwords in
// URLs: a command that prints its environment is not to put a password into an error. A value under eight bytes is not looked for.
func Text(s string) string { return inURL.ReplaceAllString(values().Replace(s), "${1}[…]@") }

// Hide does the same to what a trial keeps of commands.
func Hide(t *iotax.Trial) {
	if s := string(t.Raw); s != "" {
		if clean := Text(s); clean != s {
			t.Raw = []byte(clean)
		}
	}
	t.Err, t.Discarded = Text(t.Err), Text(t.Discarded)
	for k, v := range t.Facts {
		t.Facts[k] = Text(v)
	}
	hideFindings(t.Findings)
}

// HideRun does the same to what a run keeps of commands.
func HideRun(r *iotax.Run) {
	hideFindings(r.Findings)
	for k, v := range r.Environment {
		r.Environment[k] = Text(v)
	}
	for i := range r.Targets {
		t := &r.Targets[i]
		t.Err = Text(t.Err)
		hideFindings(t.Findings)
	}
}

func hideFindings(fs []iotax.Finding) {
	for i := range fs {
		fs[i].Evidence, fs[i].Hint = Text(fs[i].Evidence), Text(fs[i].Hint)
	}
}
