package volume

import (
	"strings"
	"testing"

	"iotax/internal/plan"
)

// Traits returns a spec's options in the syntax of other programs.
func TestElsewhere(t *testing.T) {
	for _, c := range []struct {
		spec plan.Spec
		want string
	}{
		{diskSpec(func(s *DiskSpec) {
			s.IOThread, s.NumQueues, s.QueueSize, s.Discard, s.DetectZeroes = true, 4, 1024, "unmap", "unmap"
		}), "libvirt: <iothreads>1</iothreads>\nlibvirt: <driver name='qemu' type='raw' cache='none' io='threads' discard='unmap' detect_zeroes='unmap' queues='4' queue_size='1024' iothread='1'/>"},
		{diskSpec(func(s *DiskSpec) { s.Bus, s.NumQueues, s.QueueSize, s.AIO = "virtio-scsi", 4, 1024, "native" }),
			"libvirt: <controller type='scsi' model='virtio-scsi'><driver queues='4' virtqueue_size='1024'/></controller>\nlibvirt: <driver name='qemu' type='raw' cache='none' io='native'/>"},
		{diskSpec(func(s *DiskSpec) { s.Format, s.ClusterSize, s.LazyRefcounts = "qcow2", 1<<20, true }),
			"libvirt: <driver name='qemu' type='qcow2' cache='none' io='threads'/>\nimage: qemu-img create -f qcow2 -o cluster_size=1048576,lazy_refcounts=on IMAGE SIZE"},
		{shareSpec(func(s *ShareSpec) { s.Cache, s.ThreadPoolSize = "always", 64 }), "libvirt: <driver type='virtiofs'/><binary><cache mode='always'/><thread_pool size='64'/></binary>"},
		{shareSpec(func(s *ShareSpec) { s.Cache, s.Writeback = "auto", true }), "libvirt: <driver type='virtiofs'/>\nlibvirt: <binary path='SCRIPT'> for the other options of virtiofsd: a script that adds them"},
		{shareSpec(func(s *ShareSpec) { s.Type, s.Cache, s.Security, s.MSize = "9p", "mmap", "none", 128<<10 }), "Lima: mountType: 9p, and for each of mounts: 9p: {securityModel: none, cache: mmap, msize: 128KiB}"},
		{nfsSpec(func(s *NFSSpec) { s.OfTarget, s.Server, s.Options = "", "nas:/x", "nconnect=4" }), "StorageClass: mountOptions: [nfsvers=4.2, nconnect=4]\nfstab: nas:/x /mnt nfs nfsvers=4.2,nconnect=4 0 0"},
		{&ClaimSpec{Class: "fast"}, "PersistentVolumeClaim: storageClassName: fast"},
		{&ClaimSpec{}, ""},
	} {
		var got []string
		for _, s := range c.spec.Traits().Elsewhere {
			got = append(got, s.For+": "+s.Text)
		}
		if all := strings.Join(got, "\n"); all != c.want {
			t.Errorf("%+v:\n%s\nwant\n%s", c.spec, all, c.want)
		}
	}
}
