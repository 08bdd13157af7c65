package volume

import (
	"errors"
	"strings"
	"testing"

	"iotax/internal/plan"
)

// What no container can be made of is found in the plan, at its field, with what to write.
func TestInsideSpec(t *testing.T) {
	for _, c := range []struct {
		spec        InsideSpec
		field, hint string
	}{
		{InsideSpec{Engine: "namespaces"}, "of", "of:"},
		{InsideSpec{Target: "disk", Engine: " "}, "engine", "podman"},
		{InsideSpec{Target: "disk", Engine: "namespaces", Args: []string{"--cpus=1"}}, "args", "name an engine"},
		{InsideSpec{Target: "disk", Engine: "namespaces", Image: "debian:12"}, "image", "in full"},
		{InsideSpec{Target: "disk", Engine: "podman"}, "image", "debian:12"},
		{InsideSpec{Target: "disk", Engine: "podman", Image: "--privileged"}, "image", "debian:12"},
		{InsideSpec{Target: "disk", Engine: "namespaces"}, "", ""},
		{InsideSpec{Target: "disk", Engine: "namespaces", Image: "/srv/root"}, "", ""},
		{InsideSpec{Target: "disk", Engine: "sudo nerdctl", Image: "debian:12", Args: []string{"--cpus=1"}}, "", ""},
	} {
		err := c.spec.Validate()
		var fe *plan.FieldError
		if c.field == "" && err != nil || c.field != "" && (!errors.As(err, &fe) || fe.Field != c.field || !strings.Contains(fe.Hint, c.hint)) {
			t.Errorf("%+v: %v", c.spec, err)
		}
	}
}
