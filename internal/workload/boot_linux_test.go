package workload

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"iotax"
	"iotax/internal/machine"
	"iotax/internal/machine/host"
	"iotax/internal/machine/inside"
	"iotax/internal/machine/vm"
	"iotax/internal/plan"
	"iotax/internal/testenv/guesttest"
	"iotax/internal/testenv/worktest"
	"iotax/internal/workload/command"
)

// A second instance of a real guest boots and mounts the share. This host reaches a program in the first guest, and in
// a container on that guest.
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
	s := kind.New().(*vm.Spec)
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
	out, err := worktest.Attempt(t, w, tgt)
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
	worktest.Want(t, out, "mount.duration", 1e-6, 30)
	if len(tgt.Serving) > 0 {
		t.Errorf("a guest that has gone still serves: %v", tgt.Serving)
	}
	t.Log(out.Values)
	if files := w.Caps().ColdFiles(tgt); len(files) != 3 {
		t.Errorf("it boots from %v", files)
	}
	if _, err := iotax.Output(ctx, g, "true"); err != nil {
		t.Errorf("the first guest is gone: %v", err)
	}

	// A program in the guest is reached through a port of this host.
	out, err = worktest.Attempt(t, made(t, "app", webApp()), tgt)
	if err != nil {
		t.Fatal(err)
	}
	worktest.Want(t, out, "duration", 0.001, 60)

	// The program can also run in a container on the guest, if the container uses the guest's network.
	box, err := inside.Kind.Open(ctx, inside.Kind.New(), machine.Options{Name: "box", On: g, Place: tgt.Place})
	if err != nil {
		t.Fatal(err)
	}
	in := *tgt
	in.Machine = box
	out, err = worktest.Attempt(t, made(t, "app", webApp()), &in)
	if err != nil {
		t.Fatal(err)
	}
	worktest.Want(t, out, "duration", 0.001, 60)
	if err := box.Close(ctx); err != nil {
		t.Error(err)
	}

	// A place that is not a share and a machine that cannot boot are refused before anything is measured.
	tgt.Place.Facts["filesystem"] = "ext4"
	var e *iotax.Error
	if err := w.Check(ctx, tgt); !errors.As(err, &e) || !strings.Contains(e.Err.Error(), "ext4") {
		t.Errorf("got %v", err)
	}
	if err := w.Check(ctx, worktest.Target(host.Local(), dir)); !errors.As(err, &e) || !strings.Contains(e.Hint, "guests") {
		t.Errorf("got %v", err)
	}
}

func TestBootSpec(t *testing.T) {
	for _, c := range []struct {
		spec        Boot
		field, hint string
	}{
		{Boot{}, "timeout", "5m"},
		{Boot{Run: "app {port}"}, "run", "root:"},
		{Boot{Root: "python", Run: "app {port}"}, "run", "leave it out"},
		{Boot{Root: "python", Mount: true}, "mount", "leave it out"},
		{Boot{Root: "srv", Run: "app {port}"}, "root", "./root"},
		{Boot{Root: "/srv/root"}, "run", "{port}"},
		{Boot{Root: "/srv/root", Run: "app | tee {port}"}, "run", "{port}"},
		{Boot{Root: "/srv/root", Run: "/usr/bin/java -jar /srv/app.jar {port}"}, "", ""},
		{Boot{Root: "python"}, "", ""},
	} {
		if c.field != "timeout" {
			c.spec.Timeout = plan.Duration(time.Minute)
		}
		err := c.spec.Validate()
		var fe *plan.FieldError
		if c.field == "" && err != nil || c.field != "" && (!errors.As(err, &fe) || fe.Field != c.field || !strings.Contains(fe.Hint, c.hint)) {
			t.Errorf("%+v: %v", c.spec, err)
		}
	}
}

// rootTree.on describes a place for a second guest: by the first guest's mount or the serial number of its disk, and by
// the directory inside the file system.
func TestRootOn(t *testing.T) {
	dir := t.TempDir()
	r := &rootTree{from: dir, run: "/bin/app --port={port}", frozen: map[*iotax.Target]bool{}}
	if f, err := r.file(); err != nil || f.Tree != dir || f.Size <= 0 {
		t.Fatal(f, err)
	}
	for _, c := range []struct {
		facts                 map[string]string
		kind, source, options string
	}{
		{map[string]string{"filesystem": "nfs4", "filesystem.source": "10.0.2.2:/iotax", "filesystem.options": "rw,relatime,vers=4.2,namlen=255,softerr,softreval,proto=tcp,port=2049,addr=10.0.2.2"},
			"nfs4", "10.0.2.2:/iotax", "vers=4.2,softerr,proto=tcp,port=2049,addr=10.0.2.2"},
		{map[string]string{"filesystem": "9p", "filesystem.source": "tag", "filesystem.options": "rw,relatime,access=client,trans=virtio,msize=131072"}, "9p", "tag", "trans=virtio,access=client,msize=131072"},
		{map[string]string{"filesystem": "virtiofs", "filesystem.source": "tag", "filesystem.options": "rw,relatime"}, "virtiofs", "tag", ""},
		{map[string]string{"filesystem": "ext4", "filesystem.source": "/dev/vdb", "filesystem.options": "rw,relatime", "disk.serial": "iotax-t1"}, "ext4", "serial:iotax-t1", ""},
		{map[string]string{"filesystem": "ramfs", "filesystem.source": "none"}, "", "", ""},
	} {
		c.facts["filesystem.mount"] = "/mnt/x"
		got, err := r.on(&iotax.Target{Name: "t", Place: iotax.Place{Kind: iotax.PlaceDir, Path: "/mnt/x/iotax-1", Facts: c.facts}})
		if c.kind == "" {
			if err == nil || !strings.Contains(err.Error(), "ramfs") {
				t.Errorf("%v: %v", c.facts, err)
			}
			continue
		}
		if err != nil || got.Type != c.kind || got.Source != c.source || got.Options != c.options || got.Path != "iotax-1/"+r.known.Name || strings.Join(got.Run, " ") != "/bin/app --port=8000" {
			t.Errorf("%v: %+v, %v", c.facts, got, err)
		}
	}
}

// webApp returns the spec of a web server that needs only busybox.
func webApp() *command.App {
	s := command.NewApp().(*command.App)
	s.Run, s.Shell = `exec busybox nc -ll -p {port} -e sh -c 'read x; printf "HTTP/1.0 200 OK\r\n\r\nhello"'`, true
	return s
}
