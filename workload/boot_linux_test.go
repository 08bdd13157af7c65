package workload

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"iotax"
	"iotax/guest/guesttest"
	"iotax/machine"
	"iotax/plan"
)

// A real guest boots again beside itself, mounts its share, and starts a program there.
func TestBoot(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	dir := t.TempDir()
	var kind machine.Kind
	for _, k := range machine.Kinds() {
		if k.Name == "qemu" {
			kind = k
		}
	}
	s := kind.New().(*machine.QEMU)
	s.Memory = 256 << 20
	g, err := machine.Open(ctx, plan.Machine{Name: "guest", Kind: "qemu", Spec: s}, machine.Options{CacheDir: guesttest.CacheDir(t), WorkDir: t.TempDir(), Init: guesttest.Init(t), Log: t.Logf,
		Devices: []iotax.Device{{ID: "share", Share: &iotax.Share{Path: dir, Type: "9p", Security: "none"}}}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := g.Close(context.WithoutCancel(ctx)); err != nil {
			t.Error(err)
		}
	}()
	tgt := &iotax.Target{Name: "9p", Machine: g, Place: iotax.Place{Kind: iotax.PlaceDir, Path: "/tmp",
		Facts: map[string]string{"filesystem": "9p", "filesystem.source": "share", "filesystem.options": "rw,relatime,access=client,trans=virtio,version=9p2000.L,msize=131072"}}}
	w := made(t, "boot", &Boot{Mount: true, Timeout: plan.Duration(time.Minute)})
	out, err := attempt(t, w, tgt)
	if err != nil {
		t.Fatal(err)
	}
	d, _ := out.Value("duration")
	last := 0.0
	for _, phase := range []string{"kernel", "init", "network", "ready"} {
		v, ok := out.Value("boot." + phase)
		if !ok || v.Value < last || v.Value > d.Value {
			t.Errorf("phase %s at %g s (%v), after %g, of %g", phase, v.Value, ok, last, d.Value)
		}
		last = v.Value
	}
	want(t, out, "mount.duration", 1e-6, 30)
	t.Log(out.Values)
	if files := w.(iotax.ColdReader).ColdFiles(tgt); len(files) != 3 {
		t.Errorf("it boots from %v", files)
	}
	if _, err := iotax.Output(ctx, g, "true"); err != nil {
		t.Errorf("the first guest is gone: %v", err)
	}

	// A program in the guest, reached through a port of this host.
	out, err = attempt(t, made(t, "app", appOf(`exec busybox nc -ll -p {port} -e sh -c 'read x; printf "HTTP/1.0 200 OK\r\n\r\nhello"'`, func(s *App) { s.Shell = true })), tgt)
	if err != nil {
		t.Fatal(err)
	}
	want(t, out, "duration", 0.001, 60)

	// What is no share, and what cannot be booted, is said before anything is measured.
	tgt.Place.Facts["filesystem"] = "ext4"
	var e *iotax.Error
	if err := w.Check(ctx, tgt); !errors.As(err, &e) || !strings.Contains(e.Err.Error(), "ext4") {
		t.Errorf("got %v", err)
	}
	if err := w.Check(ctx, target(machine.Local(), dir)); !errors.As(err, &e) || !strings.Contains(e.Mend, "guests") {
		t.Errorf("got %v", err)
	}
}
