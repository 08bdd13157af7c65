package pod

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"iotax"
	remote "iotax/internal/machine/agent"
	"iotax/internal/machine/kind"
	"iotax/internal/plan"
	"iotax/internal/testenv/machinetest"
)

// The claims and shares of a pod's targets become volumes of the pod.
func TestVolumes(t *testing.T) {
	s := &Spec{Image: "busybox", Pull: "never", Node: "n1", User: 1000, Runtime: "kata"}
	spec, err := s.pod(kind.Options{Devices: []iotax.Device{
		{ID: "a", Claim: &iotax.Claim{Class: "fast", Size: 1 << 30}},
		{ID: "b", Claim: &iotax.Claim{Class: "fast", Size: 1 << 30, Device: "/dev/claim-fast"}},
		{ID: "c", Claim: &iotax.Claim{NFS: "nas.example:/srv/bench"}},
		{ID: "d", Claim: &iotax.Claim{NFS: "[fd00::5]:/"}},
		{ID: "f", Claim: &iotax.Claim{Name: "data"}},
		{ID: "e", Share: &iotax.Share{Type: "tmpfs"}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	v := map[string]corev1.Volume{}
	for _, x := range spec.Volumes {
		v[x.Name] = x
	}
	if c := v["a"].Ephemeral.VolumeClaimTemplate.Spec; *c.StorageClassName != "fast" || *c.VolumeMode != corev1.PersistentVolumeFilesystem || c.Resources.Requests.Storage().Value() != 1<<30 {
		t.Errorf("a claim: %+v", c)
	}
	if c := v["b"].Ephemeral.VolumeClaimTemplate.Spec; *c.VolumeMode != corev1.PersistentVolumeBlock {
		t.Errorf("a device: %+v", c)
	}
	if n := v["c"].NFS; n == nil || n.Server != "nas.example" || n.Path != "/srv/bench" || n.ReadOnly {
		t.Errorf("an export: %+v", n)
	}
	if n := v["d"].NFS; n == nil || n.Server != "fd00::5" || n.Path != "/" {
		t.Errorf("an export: %+v", n)
	}
	if c := v["f"].PersistentVolumeClaim; c == nil || c.ClaimName != "data" || c.ReadOnly || *spec.RuntimeClassName != "kata" {
		t.Errorf("an existing claim: %+v", c)
	}
	if v["e"].EmptyDir.Medium != corev1.StorageMediumMemory {
		t.Errorf("memory: %+v", v["e"])
	}
	c := spec.Containers[0]
	if len(c.VolumeDevices) != 1 || c.VolumeDevices[0].DevicePath != "/dev/claim-fast" || len(c.VolumeMounts) != 5 || c.ImagePullPolicy != corev1.PullNever || !*c.SecurityContext.RunAsNonRoot {
		t.Errorf("%+v", c)
	}
	if _, err := s.pod(kind.Options{Devices: []iotax.Device{{ID: "x", Disk: &iotax.Disk{}}}}); err == nil || !strings.Contains(err.Error(), "neither virtual disks") {
		t.Errorf("a virtual disk: %v", err)
	}
}

// Validate rejects keys for the image, the start and the node of an existing pod, because the pod already runs.
func TestExistingPod(t *testing.T) {
	for field, change := range map[string]func(*Spec){
		"":              func(s *Spec) { s.Container = "db" },
		"image":         func(s *Spec) { s.Image = "debian:12" },
		"pull":          func(s *Spec) { s.Pull = "never" },
		"start_timeout": func(s *Spec) { s.Patience++ },
		"node":          func(s *Spec) { s.Node = "n1" },
	} {
		s := Kind.New().(*Spec)
		s.Pod = "shop/db-0"
		change(s)
		var f *plan.FieldError
		if err := s.Validate(); (field == "") != (err == nil) || err != nil && (!errors.As(err, &f) || f.Field != field) {
			t.Errorf("%q: %v", field, err)
		}
	}
}

func TestCapsKept(t *testing.T) {
	x := remote.New(&remote.Exec{Name: "x"}, "")
	machinetest.Keeps(t, &pod{Machine: x}, x)
}
