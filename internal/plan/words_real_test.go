package plan_test

import (
	"fmt"
	"strings"
	"testing"

	"iotax/internal/plan"
)

// A word of a directory takes the keys of `dir:` behind it, with a kind before the path or without.
func TestWordsOfDirectories(t *testing.T) {
	for word, want := range map[string]string{
		"/x":                               "path: /x; create: false; network: false",
		"/x,network=true":                  "path: /x; create: false; network: true",
		"dir:/x,network=true,create":       "path: /x; create: true; network: true",
		"./x,create=true":                  "path: ./x; create: true; network: false",
		"ssh://h/x?create=true":            "path: /x; create: true; network: false",
		"docker://debian:12/x?create=true": "path: /x; create: true; network: false",
		"/x,network=tru":                   "network takes true or false",
		"dir:/x,nework=true":               `did you mean "network"`,
		"/x,1":                             `unknown key "1"`,
		"/x,":                              "an empty word",
		"/x,path=/y":                       `the key "path" is given twice`,
		"/x,create=true,create=false":      `the key "create" is given twice`,
		"k8s://pod/ns/name/x?path=/y":      `the key "path" is given twice`,
	} {
		p, err := plan.FromWords([]string{word}, nil, plan.Defaults(), realKinds())
		got := fmt.Sprint(err)
		if err == nil {
			y, err := p.YAML()
			if err != nil {
				t.Fatal(err)
			}
			_, got, _ = strings.Cut(string(y), "    dir:\n")
			got, _, _ = strings.Cut(got, "\nworkloads:")
			got = strings.ReplaceAll(strings.TrimSpace(got), "\n      ", "; ")
		}
		if !strings.Contains(got, want) {
			t.Errorf("%s: %s\nwant %s", word, got, want)
		}
	}
}
