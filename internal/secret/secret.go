// Package secret identifies the environment variables that hold secrets. It keeps iotax's own variables out of the
// environment of child processes, and the values of secrets out of saved data.
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

// own lists the variables that only iotax itself reads.
var own = []string{"IOTAX_SSH_PASSWORD", "IOTAX_SSH_PASSPHRASE", "IOTAX_TOKEN", "IOTAX_STORE", "IOTAX_STORE_PASSWORD", "IOTAX_POD_STORE"}

// others lists variables that the user's commands read too: those of sshpass, and those of clients of object stores
// and databases.
var others = []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "MINIO_ROOT_PASSWORD", "MINIO_SECRET_KEY", "MYSQL_PWD", "PGPASSWORD", "RCLONE_CONFIG_PASS", "REDISCLI_AUTH", "SSHPASS"}

// `named` matches names of variables that hold a secret. Package plan/syntax uses a similar pattern to mask the values
// of keys in plans.
var named = regexp.MustCompile(`(?i)passw|passphrase|_pass|secret|token|_key`)

// Named reports whether a variable with this name holds a secret.
func Named(name string) bool {
	return named.MatchString(name) || slices.Contains(own, name) || slices.Contains(others, name)
}

// refused matches names of variables that a plan may not set. It matches fewer names than the pattern `named`, because
// iotax rejects a plan that sets such a variable.
var refused = regexp.MustCompile(`(?i)(^|_)(passw(or)?d|passphrase|pass|secret|token|(access|secret|api|private)_key)$`)

// Refused reports whether a plan may not set the variable `name` to `value`. It allows absolute paths, and values
// shorter than `shortest`, which are not hidden.
func Refused(name, value string) bool {
	return len(value) >= shortest && !path.IsAbs(value) && !filepath.IsAbs(value) &&
		(refused.MatchString(name) || slices.Contains(own, name) || slices.Contains(others, name))
}

// Lookup returns the value of a variable that a plan's command requests by name. Variables that only iotax reads count
// as unset.
func Lookup(name string) (value string, set bool) {
	if isOwn(name) {
		return "", false
	}
	return os.LookupEnv(name)
}

// inURL matches the user and the password in a URL.
var inURL = regexp.MustCompile(`(://)[^/?#\s:@'"]*:[^/?#\s@'"]+@`)

// inQuery matches a signature or a token in the query of a URL, also where JSON escapes the &.
var inQuery = regexp.MustCompile(`(?i)((?:[?&]|\\u0026)(?:[\w-]*(?:signature|credential|token|secret|passw(?:or)?d|api_?key|access_?key_?id)|sig)=)[^&#\s'"\\]+`)

// Signed reports whether the query of a URL in s contains a signature or a token.
func Signed(s string) bool { return inQuery.MatchString(s) }

// inOptions matches a member of a JSON object that holds a secret.
var inOptions = regexp.MustCompile(`("\w*(?:` + named.String() + `)\w*"\s*:\s*")(?:[^"\\]|\\.)+"`)

// Options returns JSON in which fio lists the options of jobs, without the values of options that hold a secret.
func Options(raw []byte) []byte { return inOptions.ReplaceAll(raw, []byte("${1}"+Hidden+`"`)) }

// Hidden replaces a secret that is not in the environment.
const Hidden = "[…]"

// shortest is the minimum length in bytes of a value to hide. A shorter value may also occur in text that is not
// secret.
const shortest = 8

// Environ returns the environment for child processes: all variables of this process, except those that only iotax
// reads.
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
		if strings.EqualFold(name, o) { // on Windows, names are case-insensitive
			return true
		}
	}
	return false
}

// values returns a Replacer that replaces the value of each secret variable with the name of the variable, unless the
// value is shorter than `shortest` or `plain` returns true for it.
var values = sync.OnceValue(func() *strings.Replacer {
	var pairs [][2]string
	for _, variable := range os.Environ() {
		name, v, _ := strings.Cut(variable, "=")
		if len(v) < shortest || !Named(name) || plain(name, v) {
			continue
		}
		pairs = append(pairs, [2]string{v, "[$" + name + "]"})
		if in, err := json.Marshal(v); err == nil { // the value as JSON escapes it
			pairs = append(pairs, [2]string{string(in[1 : len(in)-1]), "[$" + name + "]"})
		}
	}
	// Put the longest values first: the Replacer takes the first pair that matches, and a secret may begin with
	// another secret.
	slices.SortFunc(pairs, func(x, y [2]string) int { return len(y[0]) - len(x[0]) })
	var words []string
	for _, p := range pairs {
		words = append(words, p[:]...)
	}
	return strings.NewReplacer(words...)
})

// plain reports whether the value is not a secret: an address without user and password, or the name of an existing
// file.
func plain(name, value string) bool {
	if strings.HasSuffix(name, "_STORE") {
		return !strings.Contains(value, "@") && !strings.Contains(value, "password")
	}
	_, err := os.Stat(value)
	return err == nil
}

// Text returns s with the secrets from the environment replaced by the names of their variables, and without the users,
// passwords, signatures and tokens in URLs. Values of variables under eight bytes are not replaced.
func Text(s string) string {
	s = inURL.ReplaceAllString(values().Replace(s), "${1}"+Hidden+"@")
	return inQuery.ReplaceAllString(s, "${1}"+Hidden)
}

// Hide applies Text to the fields of a trial that come from commands.
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

// HideRun applies Text to the fields of a run that come from commands.
func HideRun(r *iotax.Run) {
	hideFindings(r.Findings)
	for k, v := range r.Environment {
		r.Environment[k] = Text(v)
	}
	for i := range r.Targets {
		t := &r.Targets[i]
		t.Err = Text(t.Err)
		for k, v := range t.Facts {
			t.Facts[k] = Text(v)
		}
		hideFindings(t.Findings)
	}
}

func hideFindings(fs []iotax.Finding) {
	for i := range fs {
		fs[i].Evidence, fs[i].Hint = Text(fs[i].Evidence), Text(fs[i].Hint)
	}
}
