package plan

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// The golden file contains the resulting plan or error for each command line.
func TestWords(t *testing.T) {
	lines := []string{
		"dir:/var/tmp",
		"/var/tmp ./here ../there . -w seqread-1m",
		"dir:/var/tmp dir:/var/tmp -w randread-4k",
		"dir:/var/tmp device:/dev/vdb -w randread-4k,seqwrite-1m-qd4,randrw-8k-qd16-j4-2GiB",
		"dir:/var/tmp qemu:virtio-blk,cache=none,format=qcow2,aio=io_uring,iothread qemu:virtiofs,cache=auto qemu:9p,msize=512000 -w randread-4k",
		"dir:/var/tmp qemu:disk qemu:nvme,memory=2GiB,cpus=2 qemu:9p,cpus=2,memory=2048MiB qemu:share,type=9p,cpus=3 qemu:dir=/mnt -w randread-4k",
		"dir:/var/tmp ssh://me@db1:2222/mnt/nfs ssh://db1/a%20b ssh://me@db1:2222/other ssh://[::1]/x -w randread-4k",
		"dir:/var/tmp ssh://db1/mnt?port=22 -w randread-4k",
		// Invalid command lines.
		"",
		"qemu:virtio-blk",
		"dirr:/var/tmp",
		"var/tmp",
		"C:/temp",
		"qemuu:virtio-blk",
		"dir:",
		"dir:/var/tmp docker://debian:12/work k8s://default/pod/data nbd://h:10809/v s3://key@h:9000/b http://h/x nfs://h/x",
		"dir:/var/tmp sftp://h/x disk:/dev/vda host:/x",
		"dir:/var/tmp qemu:virtio-bkl",
		"dir:/var/tmp qemu:",
		"dir:/var/tmp qemu:virtio-blk,cach=none",
		"dir:/var/tmp qemu:virtio-blk,cache=writebak,memory=1GiBs,cache=none",
		"dir:/var/tmp qemu:virtio-blk,cache,memory=,=x,,",
		"dir:/var/tmp qemu:virtio-blk,cpus=0",
		"dir:/var/tmp qemu:9p,of=elsewhere",
		"dir:/var/tmp ssh:db1 ssh:// ssh://db1 ssh:///x ssh://a:secret@h/x ssh://h:port/x ssh://-oProxyCommand=x/y ssh://h/%zz ssh://h/x?colour=red",
		"ssh://a:secret@h:port/x s3://key:secret@host/b",
		"dir:/日本/\x1b[31m",
		"dir:/var/tmp -w ranread-4k",
		"dir:/var/tmp -w randread",
		"dir:/var/tmp -w randread-",
		"dir:/var/tmp -w randread-4q",
		"dir:/var/tmp -w randread-0",
		"dir:/var/tmp -w randread-4k-qd8-qd16-deep-1GiBs",
		"dir:/var/tmp -w randread-4k,randread-4k",
		"dir:/var/tmp -w read",
	}
	var out strings.Builder
	for _, l := range lines {
		words, works, _ := strings.Cut(l, " -w ")
		var targets, workloads []string
		if words != "" {
			targets = strings.Split(words, " ")
		}
		if works != "" {
			workloads = strings.Split(works, ",")
		}
		fmt.Fprintf(&out, "$ %q\n", l)
		p, err := FromWords(targets, workloads, Defaults(), testKinds())
		if err != nil {
			var one *Error
			if !errors.As(err, &one) {
				t.Errorf("%q: %T", l, err)
			}
			if strings.Contains(err.Error(), "secret") {
				t.Errorf("%q: the password is shown", l)
			}
			fmt.Fprintf(&out, "%v\n\n", err)
			continue
		}
		y, err := p.YAML()
		if err != nil {
			t.Errorf("%q: %v", l, err)
		}
		head, _, _ := strings.Cut(string(y), "measure:")
		fmt.Fprintf(&out, "%s\n", head)
		again, err := Parse("again.yaml", y, testKinds())
		if err != nil {
			t.Errorf("%q: the plan does not read back: %v\n%s", l, err, y)
			continue
		}
		if z, _ := again.YAML(); string(z) != string(y) {
			t.Errorf("%q: reads back as\n%s\nnot\n%s", l, z, y)
		}
	}
	golden(t, "testdata/words.txt", out.String())
}

func TestWordsTakeTheMeasure(t *testing.T) {
	m := Defaults()
	m.Protocol = "fixed:3x7s"
	p, err := FromWords([]string{"/a", "/b"}, nil, m, testKinds())
	if err != nil {
		t.Fatal(err)
	}
	if p.Measure.Trial != Duration(7e9) || p.Measure.Rounds != (Rounds{3, 3}) || !p.Measure.Fixed() {
		t.Errorf("%+v", p.Measure)
	}
	if len(p.Workloads) != len(DefaultWorkloads) || p.Baseline != "/a" {
		t.Errorf("%+v", p)
	}
	m.Ramp = Duration(8e9)
	if _, err := FromWords([]string{"/a"}, nil, m, testKinds()); err == nil || !strings.Contains(err.Error(), "ramp: 8s is not shorter") {
		t.Errorf("%v", err)
	}
}
