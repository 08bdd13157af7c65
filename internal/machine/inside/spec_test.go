package inside

import (
	"errors"
	"strings"
	"testing"

	"iotax/internal/plan"
)

// If no container can be made from a spec, Validate returns an error that names the field and contains a hint.
func TestSpec(t *testing.T) {
	for _, c := range []struct {
		spec        Spec
		field, hint string
	}{
		{Spec{Engine: " "}, "engine", "podman"},
		{Spec{Engine: "namespaces", Args: []string{"--cpus=1"}}, "args", "name an engine"},
		{Spec{Engine: "namespaces", Image: "debian:12"}, "image", "in full"},
		{Spec{Engine: "podman"}, "image", "debian:12"},
		{Spec{Engine: "podman", Image: "--privileged"}, "image", "debian:12"},
		{Spec{Engine: "namespaces"}, "", ""},
		{Spec{Engine: "namespaces", Image: "/srv/root"}, "", ""},
		{Spec{Engine: "sudo nerdctl", Image: "debian:12", Args: []string{"--cpus=1"}}, "", ""},
	} {
		err := c.spec.Validate()
		var fe *plan.FieldError
		if c.field == "" && err != nil || c.field != "" && (!errors.As(err, &fe) || fe.Field != c.field || !strings.Contains(fe.Hint, c.hint)) {
			t.Errorf("%+v: %v", c.spec, err)
		}
	}
}

// A container spec on one line consists of the words of the engine and the image.
func TestWords(t *testing.T) {
	for words, want := range map[string]Spec{
		"namespaces":             {Engine: "namespaces"},
		"namespaces /srv/root":   {Engine: "namespaces", Image: "/srv/root"},
		"sudo nerdctl debian:12": {Engine: "sudo nerdctl", Image: "debian:12"},
	} {
		var s Spec
		if err := s.SetScalar(words); err != nil || s.Engine != want.Engine || s.Image != want.Image {
			t.Errorf("%q: %+v, %v", words, s, err)
		}
	}
}
