package secret

import (
	"os"
	"slices"
	"strings"
	"testing"

	"iotax"
)

func TestSecrets(t *testing.T) {
	t.Setenv("IOTAX_TOKEN", "a token that is long")
	t.Setenv("PGPASSWORD", "swordfish-11")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "short") // too short to hide
	t.Setenv("IOTAX_STORE", "/var/lib/iotax.db")
	t.Setenv("A_TOKEN", "tok-1234") // the value of MY_APP_TOKEN begins with this value
	t.Setenv("MY_APP_TOKEN", "tok-12345678")
	t.Setenv("DB_PASSWD", "correct \"horse\"")
	t.Setenv("HOME_KEY", t.TempDir()) // a file name is not a secret
	env := Environ()
	if i := slices.IndexFunc(env, func(s string) bool { return strings.HasPrefix(s, "IOTAX_TOKEN") || strings.HasPrefix(s, "IOTAX_STORE") }); i >= 0 {
		t.Errorf("a command gets %s", env[i])
	}
	if !slices.Contains(env, "PGPASSWORD=swordfish-11") {
		t.Error("psql of the user has no password")
	}
	trial := &iotax.Trial{Raw: []byte("PGPASSWORD=swordfish-11\nshort\n/var/lib/iotax.db\n"), Err: "exit 1: a token that is long", Discarded: "swordfish-11",
		Facts: map[string]string{"said": "swordfish-11"}, Findings: []iotax.Finding{{Evidence: "swordfish-11", Hint: "swordfish-11"}}}
	Hide(trial)
	for text, want := range map[string]string{
		"curl -H tok-12345678": "curl -H [$MY_APP_TOKEN]", `{"p": "correct \"horse\""}`: `{"p": "[$DB_PASSWD]"}`, os.Getenv("HOME_KEY"): os.Getenv("HOME_KEY"),
		"DATABASE_URL=postgres://me:x@db/a?b=c and http://h:80/@ https://u@h/ http://u:p%40@h": "DATABASE_URL=postgres://[…]@db/a?b=c and http://h:80/@ https://u@h/ http://[…]@h",
	} {
		if got := Text(text); got != want {
			t.Errorf("%s became %s, want %s", text, got, want)
		}
	}
	run := &iotax.Run{Environment: map[string]string{"command": "iotax run http://a:b@c"}, Findings: []iotax.Finding{{Evidence: "swordfish-11"}}, Targets: []iotax.TargetInfo{{Err: "swordfish-11", Findings: []iotax.Finding{{Hint: "http://a:b@c"}}}}}
	HideRun(run)
	if run.Findings[0].Evidence != "[$PGPASSWORD]" || run.Environment["command"] != "iotax run http://[…]@c" || run.Targets[0].Err != "[$PGPASSWORD]" || run.Targets[0].Findings[0].Hint != "http://[…]@c" {
		t.Errorf("%+v", run)
	}
	if got, want := string(trial.Raw), "PGPASSWORD=[$PGPASSWORD]\nshort\n/var/lib/iotax.db\n"; got != want {
		t.Errorf("kept %q, want %q", got, want)
	}
	if trial.Err != "exit 1: [$IOTAX_TOKEN]" || trial.Discarded != "[$PGPASSWORD]" || trial.Facts["said"] != "[$PGPASSWORD]" ||
		trial.Findings[0] != (iotax.Finding{Evidence: "[$PGPASSWORD]", Hint: "[$PGPASSWORD]"}) {
		t.Errorf("%+v", trial)
	}
}

func TestNamed(t *testing.T) {
	for _, name := range []string{"MYSQL_PWD", "SSHPASS", "REDISCLI_AUTH", "PGPASSWORD"} {
		if !Named(name) || !Refused(name, "hunter2222") {
			t.Errorf("%s: %v, %v", name, Named(name), Refused(name, "hunter2222"))
		}
	}
	if Named("PWD") || Named("OLDPWD") {
		t.Error("the working directory is a secret")
	}
}

// A signed URL grants access to whoever reads it.
func TestSignedURL(t *testing.T) {
	for text, want := range map[string]string{
		"get https://b.s3.example/a?X-Amz-Date=1&X-Amz-Credential=AK%2F1&X-Amz-Signature=0af1 : 403": "get https://b.s3.example/a?X-Amz-Date=1&X-Amz-Credential=[…]&X-Amz-Signature=[…] : 403",
		`"https://h/a?AWSAccessKeyId=AK\u0026Signature=x%3D\u0026Expires=7"`:                         `"https://h/a?AWSAccessKeyId=[…]\u0026Signature=[…]\u0026Expires=7"`,
		"https://h/a?sv=1&sig=x%2B#top https://h/?access_token=abc https://h/?token=":                "https://h/a?sv=1&sig=[…]#top https://h/?access_token=[…] https://h/?token=",
		"https://h/?sign=1&size=2&tokens=3&keys=4&signature_version=5":                               "https://h/?sign=1&size=2&tokens=3&keys=4&signature_version=5",
	} {
		if got := Text(text); got != want {
			t.Errorf("%s became %s, want %s", text, got, want)
		}
		if Signed(text) != (text != want) {
			t.Errorf("%s: signed is %v", text, Signed(text))
		}
	}
}

func TestOptions(t *testing.T) {
	raw := `{"global options" : {"http_pass" : "a \"b\" c", "filename" : "/x"}, "jobs" : [{"job options" : {"http_s3_key":"k", "rw" : "read"}}]}`
	want := `{"global options" : {"http_pass" : "[…]", "filename" : "/x"}, "jobs" : [{"job options" : {"http_s3_key":"[…]", "rw" : "read"}}]}`
	if got := string(Options([]byte(raw))); got != want {
		t.Errorf("%s", got)
	}
}
