package machine

import (
	"context"
	"testing"
	"time"

	"iotax"
	"iotax/guest/guesttest"
)

// openGuest boots a guest for t.
func openGuest(t *testing.T, change func(*QEMU), devices ...iotax.Device) *qemuGuest {
	t.Helper()
	s := qemuKind.New().(*QEMU)
	s.Accel = "tcg"
	if change != nil {
		change(s)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	m, err := qemuKind.Open(ctx, s, Options{Name: "guest", Devices: devices, CacheDir: guesttest.CacheDir(t), WorkDir: t.TempDir(), Log: t.Logf, Init: guesttest.Init(t)})
	if err != nil {
		t.Fatal(err)
	}
	return m.(*qemuGuest)
}

func TestGuestFirst(t *testing.T) {
	start := time.Now()
	g := openGuest(t, nil)
	t.Log(time.Since(start))
	defer g.Close(context.Background())
	for _, c := range []string{"true", "uname -a; cat /run/iotax/boot; df; mount; ls -l /dev/disk/by-id; free -m; lsmod; ps", "fio --version; mkfs.ext4 -V; dmesg | tail -20"} {
		s := time.Now()
		out, err := iotax.Output(context.Background(), g, "sh", "-c", c)
		t.Logf("%v %v\n%s", err, time.Since(s), out)
	}
	t.Log(g.Boot(), g.Facts(), g.Processes())
}
