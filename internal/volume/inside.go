package volume

import (
	"fmt"
	"strings"

	"iotax/internal/plan"
)

// InsideSpec is `inside: {of: TARGET}`: the place of another target, at which the work is done in a container on that
// one's machine.
type InsideSpec struct {
	Target string   `yaml:"of" doc:"the target whose place it is; a list makes a target of each"`
	Engine string   `yaml:"engine" doc:"what is called there to start the container, as in nerdctl, podman, docker or 'sudo nerdctl'; namespaces makes one of the machine's own files, without an engine"`
	Image  string   `yaml:"image" doc:"what the container is made of: an image with a POSIX shell; for namespaces a directory of the machine, or nothing for its root"`
	Args   []string `yaml:"args" doc:"words added to the engine's run, as in [--security-opt, seccomp=unconfined]"`
}

func newInsideSpec() plan.Spec { return &InsideSpec{Engine: namespaces} }

// namespaces is the engine that is none.
const namespaces = "namespaces"

func (s *InsideSpec) Traits() plan.Traits { return plan.Traits{Of: &s.Target, Encloses: true} }

// SetScalar fills the spec from `inside: TARGET`.
func (s *InsideSpec) SetScalar(v string) error { s.Target = v; return nil }

// Validate finds what no container can be made of.
func (s *InsideSpec) Validate() error {
	words := strings.Fields(s.Engine)
	switch {
	case s.Target == "":
		return &plan.FieldError{Field: "of", Msg: "it is inside of no target", Hint: "of: the target whose place it is"}
	case len(words) == 0:
		return &plan.FieldError{Field: "engine", Msg: "nothing starts the container", Hint: "engine: podman, or namespaces"}
	case s.Engine == namespaces && len(s.Args) > 0:
		return &plan.FieldError{Field: "args", Msg: "there is no engine that takes them, nor a control group that would limit anything", Hint: "leave them out, or name an engine"}
	case s.Engine == namespaces && s.Image != "" && !strings.HasPrefix(s.Image, "/"):
		return &plan.FieldError{Field: "image", Msg: fmt.Sprintf("%q is no directory", s.Image), Hint: "write its path in full, or name an engine"}
	case s.Engine != namespaces && (s.Image == "" || strings.HasPrefix(s.Image, "-")):
		return &plan.FieldError{Field: "image", Msg: fmt.Sprintf("%q is no image", s.Image), Hint: "image: one with a POSIX shell, as in debian:12"}
	}
	return nil
}
