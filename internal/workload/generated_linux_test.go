package workload

import (
	"os"
	"strings"
	"testing"

	"iotax/internal/machine/host"
	"iotax/internal/plan"
	"iotax/internal/testenv/worktest"
)

// Check refuses a place that cannot hold the files, although it has space and can be written. The paths of this one are
// too long.
func TestGeneratedRehearsal(t *testing.T) {
	const most = 4095 // bytes of a path
	dir := t.TempDir()
	for left := most - 30 - len(dir); left > 1; left = most - 30 - len(dir) {
		dir += "/" + strings.Repeat("d", min(left-1, 200))
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	git := newGit().(*Git)
	git.Program = true
	for kind, spec := range map[string]plan.Spec{"metadata": newMetadata(), "node_modules": newModules(), "build": newBuild(), "git": newGit(), "git itself": git, "etcd": newEtcd()} {
		t.Run(kind, func(t *testing.T) {
			kind, _, _ = strings.Cut(kind, " ")
			err := made(t, kind, spec).Check(worktest.CtxFor(t), worktest.Target(host.Local(), dir))
			if err == nil || !strings.Contains(err.Error(), "too long") {
				t.Error(err)
			}
			if left, _ := os.ReadDir(dir); len(left) > 0 {
				t.Errorf("Check left %v", left)
			}
		})
	}
}
