package lint

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"iotax"
	"iotax/internal/rules"
)

// here describes a Linux machine with 16 GiB of memory. Facts about its files and devices are unknown.
var here = Facts{Memory: 16 << 30, OS: "linux"}

func lintText(t *testing.T, text string, facts Facts) []Finding {
	t.Helper()
	fs, err := JobFile("x.fio", func(name string) ([]byte, error) {
		if name != "x.fio" {
			return nil, os.ErrNotExist
		}
		return []byte(text), nil
	}, facts)
	if err != nil {
		t.Fatal(err)
	}
	return fs
}

func about(fs []Finding, rule string) []Finding {
	return slices.DeleteFunc(slices.Clone(fs), func(f Finding) bool { return f.Rule != rule })
}

// Every rule about jobs and plans has an example that breaks it and a similar one that does not.
func TestExamples(t *testing.T) {
	for _, r := range rules.All() {
		if r.In&rules.BeforeRun == 0 || r.In == rules.Result { // TestResults tests the rules about results
			continue
		}
		t.Run(r.ID, func(t *testing.T) {
			judge := func(text string) []Finding {
				if strings.HasPrefix(text, "targets:") || strings.HasPrefix(text, "machines:") {
					return lintPlan(t, text, here)
				}
				return lintText(t, text, here)
			}
			if r.Bad == "" || r.Good == "" || r.Bad == r.Good {
				t.Fatal("no examples")
			}
			bad := about(judge(r.Bad), r.ID)
			if len(bad) != 1 {
				t.Fatalf("%d findings for\n%s", len(bad), r.Bad)
			}
			f := bad[0]
			if f.Line == 0 || f.Column == 0 || f.Width == 0 || f.Source == "" || f.Evidence == "" || f.Hint == "" || f.Severity == "" || f.File != "x.fio" && f.File != "x.yaml" {
				t.Errorf("something is not said: %+v", f)
			}
			if good := about(judge(r.Good), r.ID); len(good) > 0 {
				t.Errorf("a false alarm: %+v for\n%s", good, r.Good)
			}
			// Except for unwritten-file, the right example breaks no other rule either. Findings of severity Info are
			// allowed.
			for _, f := range judge(r.Good) {
				if f.Severity != iotax.Info && r.ID != "unwritten-file" {
					t.Errorf("the right example breaks %s: %s", f.Rule, f.Evidence)
				}
			}
		})
	}
}

// cases covers edge cases of the rules about jobs. want is the severity of the rule's only finding, or "" for no
// finding.
var cases = []struct {
	rule, text string
	want       iotax.Severity
	facts      *Facts
}{
	{"filename-colon", "[a]\nfilename=192.168.11.100:/srv/nfs/x", "error", nil},
	{"filename-colon", "[a]\nfilename=nas.local:/srv/x", "error", nil},
	{"filename-colon", `[a]` + "\n" + `filename=192.168.11.100\:/srv/nfs/x`, "", nil},
	{"filename-colon", "[a]\nfilename=/dev/sda:/dev/sdb", "", nil},
	{"filename-colon", "[a]\nfilename=one:two:three", "", nil},
	{"filename-colon", "[a]\nioengine=nbd\nfilename=nbd://localhost/x", "error", nil},
	{"filename-colon", `[a]` + "\n" + `filename=C:\x`, "error", nil},
	{"filename-colon", `[a]` + "\n" + `filename=C\:\x`, "", nil},
	{"filename-colon", "[a]\nfilename=run-12:30", "error", nil},
	{"filename-colon", "[a]\ndirectory=nas:/export", "error", nil},
	{"filename-colon", "[a]\ndirectory=/mnt/a:/mnt/b", "", nil},

	{"device-overwritten", "[a]\nrw=randwrite\nfilename=/dev/sdb", "warning", nil},
	{"device-overwritten", "[a]\nrw=randtrim\nfilename=/dev/sdb", "warning", nil},
	{"device-overwritten", "[a]\nrw=randread\nfilename=/dev/sdb", "", nil},
	{"device-overwritten", "[a]\nrw=write\nfilename=/dev/null", "", nil},
	{"device-overwritten", "[a]\nrw=write\nfilename=/dev/shm/x", "", nil},
	{"device-overwritten", "[a]\nrw=write\nfilename=/dev/nullb0", "", nil},
	{"device-overwritten", "[a]\nrw=write\nfilename=/dev/sdb", "error", &Facts{Holds: func(d string) string { return "mounted on /srv" }}},
	{"device-overwritten", "[a]\nrw=write\nfilename=/dev/sdb", "warning", &Facts{Holds: func(d string) string { return "" }}},

	{"jobs-compete", "[a]\nsize=1g\nrw=randread\nbs=4k\n[b]\nsize=1g\nrw=randread\nbs=4096", "", nil},
	{"jobs-compete", "[a]\nsize=1g\nrw=randread\nbs=4k,8k\n[b]\nsize=1g\nrw=randread\nblocksize=4k,16k", "", nil}, // reads only
	{"jobs-compete", "[a]\nsize=1g\nrw=randread\n[b]\nsize=1g\nrw=randread\nbs=4k\niodepth=1\nnumjobs=1", "", nil},
	{"jobs-compete", "[a]\nsize=1g\nrw=randread\ndirect=1\n[b]\nsize=1g\nrw=randread\nbuffered=0", "", nil},
	{"jobs-compete", "[a]\nsize=1g\nrw=rw\n[b]\nsize=1g\nrw=readwrite", "", nil},
	{"jobs-compete", "[a]\nsize=1g\nrw=randread\nbs=4k\n[b]\nsize=1g\nrw=randread\nbs=4k\nkb_base=1000", "warning", nil},
	{"jobs-compete", "[a]\nsize=1g\nrw=randread\nbs=4k\ndirect=1\n[b]\nsize=1g\nrw=randread\nbs=4096\ndirect=0", "info", nil},
	{"jobs-compete", "[a]\nrw=read\n[b]\nrw=write", "warning", nil},
	{"jobs-compete", "[a]\nrw=read\n[b]\nstonewall\nrw=write", "", nil},
	{"jobs-compete", "[a]\nrw=read\n[b]\nnew_group\nrw=write", "", nil},
	{"jobs-compete", "[a]\nrw=read\n[b]\nwait_for=a\nrw=write", "", nil},
	{"jobs-compete", "[a]\nrw=read\nbs=4k\n[b]\nrw=read\nbs=1m", "warning", nil},
	{"jobs-compete", "[global]\nrw=read\n[a]\nfilename=x\n[b]\nfilename=y", "", nil},
	{"jobs-compete", "[a]\nrw=read\nflow=1\n[b]\nrw=write\nflow=2", "", nil},
	{"jobs-compete", "[global]\ngroup_reporting\n[a]\nrw=read\n[b]\nrw=write", "warning", nil},
	{"jobs-compete", "[a]\nrw=${MODE}\n[b]\nrw=write", "", nil},
	{"jobs-compete", "[a]\nrw=read", "", nil},
	{"jobs-compete", "[a]\nrw=read\n[b]\nrw=read\niodepth=4", "info", nil},
	{"jobs-compete", "[a]\nrw=read\n[b]\nrw=read\noffset=1g", "", nil},
	{"jobs-compete", "[a]\nrw=read\n[b]\nrw=write\nverify=md5", "", nil},
	{"jobs-compete", "[a]\nrw=read\n[b]\nrw=write\n[c]\nrw=write\nverify=md5", "warning", nil},

	{"jobs-overwrite", "[a]\nrw=write\nnumjobs=2\nfilename=x", "warning", nil},
	{"jobs-overwrite", "[a]\nrw=randwrite\nnumjobs=2\nfilename=x", "info", nil},
	{"jobs-overwrite", "[a]\nrw=randwrite\nnumjobs=2\nfilename=x\nverify=md5", "warning", nil},
	{"jobs-overwrite", "[a]\nrw=randwrite\nnumjobs=2\nfilename=x\nverify=md5\ndo_verify=0", "info", nil},
	{"jobs-overwrite", "[a]\nrw=write\nnumjobs=2\ndirectory=/srv", "", nil},
	{"jobs-overwrite", "[a]\nrw=write\nnumjobs=1\nfilename=x", "", nil},
	{"jobs-overwrite", "[a]\nrw=read\nnumjobs=2\nfilename=x", "", nil},

	{"libaio-buffered", "[a]\nioengine=libaio\niodepth=8", "warning", nil},
	{"libaio-buffered", "[a]\nioengine=libaio\niodepth=8\ndirect=0", "warning", nil},
	{"libaio-buffered", "[a]\nioengine=libaio\niodepth=8\nbuffered=0", "", nil},
	{"libaio-buffered", "[a]\nioengine=libaio\niodepth=8\ndirect=1\nbuffered=1", "warning", nil},
	{"libaio-buffered", "[a]\nioengine=libaio\niodepth=8\ndirect", "", nil},
	{"libaio-buffered", "[a]\nioengine=libaio", "info", nil},
	{"libaio-buffered", "[a]\nioengine=libaio\ndirect=1", "", nil},
	{"libaio-buffered", "[a]\nioengine=libaio\niodepth=8\nverify=md5", "", nil},
	{"libaio-buffered", "[a]\nioengine=libaio\niodepth=${D}", "", nil},
	{"libaio-buffered", "[a]\nioengine=io_uring\niodepth=8", "", nil},

	{"depth-of-sync-engine", "[a]\niodepth=8", "info", nil},                // unless fio gets --ioengine
	{"depth-of-sync-engine", "[a]\niodepth=8\nmd_per_io_size=64", "", nil}, // an option of engines: --ioengine must name one
	{"depth-of-sync-engine", "[a]\nioengine=mmap\niodepth=8", "warning", nil},
	{"depth-of-sync-engine", "[a]\nioengine=vsync\niodepth=2", "warning", nil},
	{"depth-of-sync-engine", "[a]\nioengine=psync\niodepth=1", "", nil},
	{"depth-of-sync-engine", "[a]\nioengine=psync\niodepth=8\nio_submit_mode=offload", "", nil},
	{"depth-of-sync-engine", "[a]\niodepth=8", "", &Facts{OS: "windows"}},
	{"depth-of-sync-engine", "[a]\nioengine=null\niodepth=8", "", nil},

	{"posixaio-depth", "[a]\nioengine=posixaio\niodepth=8", "warning", nil},
	{"posixaio-depth", "[a]\nioengine=posixaio\niodepth=17", "warning", &Facts{OS: "darwin"}},
	{"posixaio-depth", "[a]\nioengine=posixaio\niodepth=16", "", &Facts{OS: "darwin"}},
	{"posixaio-depth", "[a]\nioengine=posixaio\niodepth=8\nthread\nnumjobs=4", "warning", &Facts{OS: "darwin"}},
	{"posixaio-depth", "[a]\nioengine=posixaio\niodepth=32", "info", &Facts{}},
	{"posixaio-depth", "[a]\nioengine=posixaio\niodepth=8", "", &Facts{}},

	{"file-fits-memory", "[a]\nsize=1g\nrw=randread\ntime_based\nruntime=60", "warning", nil},
	{"file-fits-memory", "[a]\nsize=1g\nrw=randread\ntime_based\nruntime=60", "info", &Facts{}},
	{"file-fits-memory", "[a]\nsize=32g\nrw=randread\ntime_based\nruntime=60", "", nil},
	{"file-fits-memory", "[a]\nsize=1g\nrw=read", "info", nil},
	{"file-fits-memory", "[a]\nsize=1g\nrw=read", "", &Facts{}},
	{"file-fits-memory", "[a]\nsize=32g\nrw=read", "", nil},
	{"file-fits-memory", "[a]\nsize=1g\nrw=read\ndirect=1", "", nil},
	{"file-fits-memory", "[a]\nsize=1g\nrw=read\nloops=3", "warning", nil},
	{"file-fits-memory", "[a]\nsize=1g\nrw=read\nnumjobs=4\nfilename=x", "warning", nil},
	{"file-fits-memory", "[a]\nsize=1g\nrw=read\nnumjobs=4", "info", nil},
	{"file-fits-memory", "[a]\nsize=1g\nrw=write\nloops=3", "", nil},
	{"file-fits-memory", "[a]\nsize=2*1024*1024*$mb_memory\nrw=randread\ntime_based\nruntime=60", "", nil},
	{"file-fits-memory", "[a]\nioengine=null\nsize=1g\nloops=3", "", nil},

	{"buffered-write-unsynced", "[a]\nrw=write", "warning", nil},
	{"buffered-write-unsynced", "[a]\nrw=randrw", "warning", nil},
	{"buffered-write-unsynced", "[a]\nrw=randwrite\nfdp=1", "", nil},
	{"buffered-write-unsynced", "[a]\nrw=write\nend_fsync=0", "warning", nil},
	{"buffered-write-unsynced", "[a]\nrw=write\nend_fsync", "", nil},
	{"buffered-write-unsynced", "[a]\nrw=write\nfsync=32", "", nil},
	{"buffered-write-unsynced", "[a]\nrw=write\nsync=dsync", "", nil},
	{"buffered-write-unsynced", "[a]\nrw=write\nsync=none", "warning", nil},
	{"buffered-write-unsynced", "[a]\nrw=write\ndirect=1", "", nil},
	{"buffered-write-unsynced", "[a]\nrw=read", "", nil},
	{"buffered-write-unsynced", "[a]\nrw=randtrim\nfilename=/dev/sdb", "", nil},
	{"buffered-write-unsynced", "[a]\nioengine=net\nrw=write", "", nil},

	{"randrepeat", "[a]\nrw=randread", "info", nil},
	{"randrepeat", "[a]\nrw=randread\nrandrepeat=1", "warning", nil},
	{"randrepeat", "[a]\nrw=randread\nallrandrepeat=1", "warning", nil},
	{"randrepeat", "[a]\nrw=randread\nrandrepeat=0", "", nil},
	{"randrepeat", "[a]\nrw=randread\nrandseed=7", "", nil},
	{"randrepeat", "[a]\nrw=read\nrandrepeat=1", "", nil},
	{"randrepeat", "[a]\nrw=randwrite", "", nil},

	{"short-run", "[a]\nruntime=4", "warning", nil},
	{"short-run", "[a]\nruntime=4000ms", "warning", nil},
	{"short-run", "[a]\nruntime=5", "", nil},
	{"short-run", "[a]\nruntime=1m", "", nil},
	{"short-run", "[a]\nruntime=0", "", nil},
	{"short-run", "[a]\nioengine=cpuio\ncpuload=50\nruntime=1", "", nil},

	{"ends-by-size", "[a]\nrw=read\nbs=1m\nsize=512m\nruntime=60", "warning", nil},
	{"ends-by-size", "[a]\nrw=read\nbs=1m\nsize=512m", "info", nil},
	{"ends-by-size", "[a]\nrw=read\nbs=1m\nsize=512m\nruntime=60\ntime_based", "", nil},
	{"ends-by-size", "[a]\nrw=read\nbs=1m\nsize=10g\nruntime=60", "", nil},
	{"ends-by-size", "[a]\nrw=read\nbs=1m\nsize=512m\nloops=100", "", nil},
	{"ends-by-size", "[a]\nrw=read\nbs=1m\nsize=512m\nrate=1m", "", nil},
	{"ends-by-size", "[a]\nrw=read\nbs=1m\nsize=512m\ntime_based", "warning", nil},
	{"ends-by-size", "[a]\nrw=read\nsize=20%\nruntime=60", "", nil},
	{"ends-by-size", "[a]\nioengine=http\nrw=write\nsize=64k", "", nil},

	{"ramp-not-shorter", "[a]\nsize=64g\ntime_based\nruntime=10\nramp_time=10", "warning", nil},
	{"ramp-not-shorter", "[a]\nsize=64m\nruntime=10\nramp_time=10", "warning", nil},
	{"ramp-not-shorter", "[a]\nsize=64g\ntime_based\nruntime=10\nramp_time=9", "", nil},
	{"ramp-not-shorter", "[a]\nsize=64g\ntime_based\nruntime=1m\nramp_time=10", "", nil},
	{"ramp-not-shorter", "[a]\nsize=64g\nramp_time=10", "", nil},
	{"ramp-not-shorter", "[a]\nrw=read\nbs=1m\nsize=1g\nramp_time=10\nruntime=60", "warning", nil},
	{"ramp-not-shorter", "[a]\nrw=read\nbs=1m\nsize=1g\nramp_time=10", "warning", nil},
	{"ramp-not-shorter", "[a]\nrw=read\nbs=1m\nsize=1g\nramp_time=10\nruntime=60\ntime_based", "", nil},

	{"zero-buffers", "[a]\nrw=write\nzero_buffers=1", "warning", nil},
	{"zero-buffers", "[a]\nrw=write\nzero_buffers=0", "", nil},
	{"zero-buffers", "[a]\nrw=read\nzero_buffers", "", nil},
	{"zero-buffers", "[a]\nrw=write\nbuffer_compress_percentage=100", "warning", nil},
	{"zero-buffers", "[a]\nrw=write\nbuffer_compress_percentage=50", "info", nil},
	{"zero-buffers", "[a]\nrw=write\ndedupe_percentage=30", "info", nil},
	{"zero-buffers", "[a]\nrw=write\nbuffer_pattern=0xdeadbeef", "warning", nil},
	{"zero-buffers", "[a]\nrw=write\nbuffer_pattern=0xdeadbeef\nverify=pattern", "", nil},
	{"zero-buffers", "[a]\nrw=write\nscramble_buffers=0", "warning", nil},
	{"zero-buffers", "[a]\nrw=write\nscramble_buffers=0\nrefill_buffers", "", nil},

	{"unwritten-file", "[a]\nrw=read\nfilename=sparse", "warning", &Facts{Written: func(string) (float64, bool) { return 0.1, true }}},
	{"unwritten-file", "[a]\nrw=read\nfilename=full", "", &Facts{Written: func(string) (float64, bool) { return 1, true }}},
	{"unwritten-file", "[a]\nrw=read\nfilename=none", "", &Facts{Written: func(string) (float64, bool) { return 0, false }}},
	{"unwritten-file", "[a]\nrw=write\nfilename=sparse\n[b]\nstonewall\nrw=read\nfilename=sparse", "", &Facts{Written: func(string) (float64, bool) { return 0.1, true }}},
	{"unwritten-file", "[a]\nrw=randread\nfilename=/dev/sdb", "info", nil},
	{"unwritten-file", "[a]\nrw=randwrite\nfilename=/dev/sdb", "", nil},

	{"size-units", "[a]\nbs=4KiB", "warning", nil},
	{"size-units", "[a]\nsize=1GiB", "warning", nil},
	{"size-units", "[a]\nsize=1GB", "", nil},
	{"size-units", "[a]\nsize=1Gi", "", nil},
	{"size-units", "[a]\nkb_base=1000\nsize=1GiB", "", nil},
	{"size-units", "[a]\nkb_base=1000\nbs=4k", "warning", nil},
	{"size-units", "[a]\nkb_base=1000\nbs=4Ki", "", nil},
	{"size-units", "[a]\nkb_base=1000\nsize=100k", "", nil},

	{"gtod-reduce", "[a]\ngtod_reduce=1", "info", nil},
	{"gtod-reduce", "[a]\ngtod_reduce=1\nlat_percentiles=1", "warning", nil},
	{"gtod-reduce", "[a]\ngtod_reduce=1\nlat_percentiles=0", "info", nil},
	{"gtod-reduce", "[a]\ngtod_reduce=0\nlat_percentiles=1", "", nil},

	{"unknown-option", "[a]\niodepht=1", "error", nil},
	{"unknown-option", "[a]\nioengine=rbd\nclientname=admin", "", nil},
	{"unknown-option", "[a]\nioengine=rbd\niodepht=1", "error", nil},
	{"unknown-option", "[a]\nrw=read\nqueue=1", "info", nil},
	{"unknown-option", "[a]\nrw=read\nqueue=1", "error", &Facts{Version: "fio-3.33"}},
	{"unknown-option", "[a]\nblocksize=4k\nreadwrite=read", "", nil},
	{"unknown-option", "[a]\nrw=read\nrate_process=poisson", "error", &Facts{Version: "fio-2.0"}},
	{"unknown-option", "[a]\nrw=read\nrate_process=poisson", "", &Facts{Version: "fio-3.33"}},
	{"unknown-option", "[a]\nrw=read\ngpu_dev_id=0", "", nil},
	{"unknown-option", "[a]\nrw=read\ngpu_dev_id=0", "error", &Facts{Version: "fio-3.33", Options: []string{"rw"}}}, // needs CUDA
	{"unknown-option", "[a]\nrw=read\nmem_align=4k\nsoftrandommap=1", "", &Facts{Version: "fio-3.33", Options: []string{"rw"}}},
	{"unknown-option", "[a]\nrw=read\nnewoption=2", "", &Facts{Version: "fio-9.0", Options: []string{"rw", "newoption"}}},

	{"unknown-option", "[a]\nthreads=1", "warning", nil},
	{"unknown-option", "[a]\nthread=1", "", nil},
	{"unknown-option", "[a]\nioengine=dfs\ncont=x", "", nil},
	{"unknown-option", "[a]\nioengine=libhipfile\ngpu_dev_ids=0\nrocm_io=posix", "", &Facts{Options: []string{"rw", "ioengine"}}}, // newer than the tables

	{"bad-value", "[a]\nrw=raed", "error", nil},
	{"bad-value", "[a]\nrw=read:8k", "", nil},
	{"bad-value", "[a]\nrw=${MODE}", "info", nil},
	{"bad-value", "[a]\nbs=${BS}\nioengine=${ENGINE}\nsize=${GIB}Gi\nfilename=${FILE}", "info", nil}, // one finding for all of them
	{"bad-value", "[a]\nfilename=${DIR}/x", "", nil},
	{"bad-value", "[a]\nrw=rand${MODE}", "info", nil},
	{"bad-value", "[a]\nbuffer_pattern='p.bin'", "info", nil},
	{"bad-value", "[a]\nverify=pattern\nverify_pattern=0xff\"x\"'p.bin'", "info", nil},
	{"bad-value", "[a]\nbuffer_pattern=\"it's\"", "", nil},
	{"bad-value", "[a]\nrw=$MODE", "error", nil},
	{"bad-value", "[a]\niodepth=0", "error", nil},
	{"bad-value", "[a]\nnumjobs=many", "error", nil},
	{"bad-value", "[a]\nsize=10%", "", nil},
	{"misread-value", "[a]\nsize=110%", "warning", nil},
	{"bad-value", "[a]\nio_size=110%", "error", nil},
	{"bad-value", "[a]\ndirect=yes", "error", nil},
	{"bad-value", "[a]\ndirect", "error", nil},
	{"bad-value", "[a]\nbs=0", "error", nil},
	{"bad-value", "[a]\nfilename=", "error", nil},
	{"bad-value", "[a]\nrwmixread=150", "error", nil},
	{"bad-value", "[a]\nzonemode=foo", "error", nil},
	{"bad-value", "[a]\nrw= read", "error", nil},
	{"bad-value", "[global]\ndirect=yes\n[a]\ndirect=1", "error", nil},
	{"bad-value", "[a]\nioengine=iouring", "error", nil},
	{"bad-value", "[a]\nioengine=libaoi", "error", nil},
	{"bad-value", "[a]\nioengine=linuxaio", "", nil},
	{"bad-value", "[a]\nioengine=./own.so", "info", nil},
	{"bad-value", "[a]\nioengine=external:/opt/own.so", "info", nil},
	{"bad-value", "[a]\nioengine=spdk_bdev", "info", nil},
	{"bad-value", "[a]\nioengine=nebd", "info", nil}, // of Curve, not a misspelt nbd
	{"bad-value", "[a]\nioengine=nebd", "warning", &Facts{Engines: []string{"psync"}}},
	{"bad-value", "[a]\nioengine=spdk_bdev", "warning", &Facts{Engines: []string{"psync"}}},
	{"bad-value", "[a]\nioengine={{ioengine}}", "error", nil},
	{"bad-value", "[a]\nioengine=iouring", "error", &Facts{Engines: []string{"psync"}}},
	{"bad-value", "[a]\nioengine=libhdfs", "", nil},
	{"bad-value", "[a]\nioengine=page_fault", "", nil},
	{"bad-value", "[a]\nioengine=libhdfs", "error", &Facts{Engines: []string{"psync"}}},
	{"bad-value", "[a]\nverify=crc32c-intel", "", nil},
	{"bad-value", "[a]\nmem=cudamalloc", "", nil},
	{"bad-value", "[a]\nmem=cudamalloc", "error", &Facts{Version: "fio-3.33"}},
	{"misread-value", "[a]\nbs=4k,foo", "warning", nil},

	{"unknown-option", "[a]\nioengine=libaio\nsqthread_poll=1", "error", nil},
	{"unknown-option", "[global]\nsqthread_poll=1\n[a]\nioengine=io_uring", "error", nil},
	{"unknown-option", "[global]\nioengine=io_uring\n[a]\nsqthread_poll=1", "", nil},
	{"unknown-option", "[a]\nsqthread_poll=1\nioengine=io_uring", "", nil},

	{"options-refused", "[a]\nbs=4m\nsize=1m", "error", nil},
	{"options-refused", "[a]\nbs=4m,4k\nsize=1m", "", nil},
	{"options-refused", "[a]\nsize=1k", "error", nil},
	{"options-refused", "[a]\nsize=10%\nbs=1m", "", nil},
	{"options-refused", "[a]\nrate=1m\nrate_iops=100", "error", nil},
	{"options-refused", "[a]\nzonemode=strided", "error", nil},
	{"options-refused", "[a]\ndirect=1\nioengine=sync", "error", &Facts{OS: "windows"}},
	{"options-refused", "[a]\ndirect=1", "", &Facts{OS: "windows"}},

	{"device-overwritten", "[/dev/sdb]\nrw=write", "warning", nil},
	{"device-overwritten", "[/dev/sdb]\nrw=write\nfilename=x", "", nil},
	{"device-overwritten", "[a]\nrw=rw\nrwmixread=100\nfilename=/dev/sdb", "", nil},
	{"device-overwritten", "[a]\nrw=rw\nrwmixread=100\nrwmixwrite=1\nfilename=/dev/sdb", "warning", nil},
	{"buffered-write-unsynced", "[a]\nrw=randrw\nrwmixread=100", "", nil},
	{"libaio-buffered", "[a]\nioengine=aio\niodepth=8", "warning", nil},
	{"depth-of-sync-engine", "[a]\niodepth=8\nfilename=\\\\.\\PhysicalDrive1", "", nil},
	{"depth-of-sync-engine", `[a]` + "\niodepth=8\ndirectory=C\\:\\x", "", nil},
	{"posixaio-depth", "[a]\nioengine=posixaio\niodepth=16\nfilename=/dev/rdisk4", "", nil},
	{"depth-of-sync-engine", "[a]\nioengine=libzbc\niodepth=8", "warning", nil},
	{"zero-buffers", "[a]\nrw=write\nbuffer_pattern=0xdeadbeef\nbuffer_compress_percentage=50", "info", nil},
	{"overwritten-in-cache", "[a]\nrw=randwrite\nsize=1g\ntime_based\nruntime=60\nend_fsync=1", "warning", nil},
	{"overwritten-in-cache", "[a]\nrw=randwrite\nsize=32g\ntime_based\nruntime=60\nend_fsync=1", "", nil},
	{"overwritten-in-cache", "[a]\nrw=randwrite\nsize=1g\nend_fsync=1", "", nil},
	{"overwritten-in-cache", "[a]\nrw=write\nsize=1g\nloops=10\nfsync_on_close=1", "", nil}, // each pass ends with a flush
	{"overwritten-in-cache", "[a]\nrw=randwrite\nsize=1g\nnorandommap\nend_fsync=1", "", nil},
	{"overwritten-in-cache", "[a]\nrw=write\nsize=1g\nfilename=x\nnumjobs=4\nend_fsync=1", "warning", nil},
	{"overwritten-in-cache", "[a]\nrw=randwrite\nsize=1g\nend_fsync=1\ninvalidate=0", "", nil},
	{"memory-target", "[a]\nrw=randwrite\ndirectory=/dev/shm/x", "warning", nil},
	{"memory-target", "[a]\nrw=randwrite\nfilename=/run/media/me/disk/x", "", nil},
	{"memory-target", "[a]\nrw=randwrite\ndirectory=/dev/shm/x", "", &Facts{OS: "darwin"}},
	{"not-a-job", "[global]\nrw=read", "error", nil},
	{"not-a-job", "[a]\nrw=write\ninclude gone.inc", "error", nil},
	{"buffered-write-unsynced", "[a]\nrw=write\ninclude gone.inc", "", nil},
	{"bad-value", "[a]\nbs=4k,8k,16k", "", nil},
	{"bad-value", "[a]\nbs=,8k", "", nil},
	{"misread-value", "[a]\nbs=4q", "warning", nil},
	{"bad-value", "[a]\nbs=q", "error", nil},
	{"bad-value", "[a]\nruntime=long", "error", nil},
	{"misread-value", "[a]\nruntime=1fortnight", "warning", nil},
	{"misread-value", "[a]\nruntime=60sec", "warning", nil},
	{"misread-value", "[a]\nruntime=60s", "", nil},
	{"bad-value", "[a]\nfilesize=4k-64k", "", nil},

	{"misread-value", "[a]\nruntime=0.5", "warning", nil},
	{"misread-value", "[a]\nsize=1.5g", "warning", nil},
	{"misread-value", "[a]\nfilename=a.1.5", "", nil},
	{"misread-value", "[a]\nrandom_distribution=zipf:1.2", "", nil},

	{"not-a-job", "[a]\nrw=read\n[b\nrw=write", "warning", nil}, // fio drops the b, so the job has no name
	{"not-a-job", "[a]\nrw=read\n[\nrw=write", "error", nil},
	{"not-a-job", "[a]\n; rw=read [b", "", nil},
}

func TestEdges(t *testing.T) {
	for _, c := range cases {
		facts := here
		if c.facts != nil {
			facts = *c.facts
		}
		found := about(lintText(t, c.text, facts), c.rule)
		got := iotax.Severity("")
		if len(found) > 0 {
			got = found[0].Severity
		}
		if got != c.want || len(found) > 1 {
			t.Errorf("%s: %q, want %q, for\n%s\n%+v", c.rule, got, c.want, c.text, found)
		}
	}
}

// An option in [global] gives one finding, however many jobs use it.
func TestOneMistakeOfManyJobs(t *testing.T) {
	fs := about(lintText(t, "[global]\nioengine=libaio\niodepth=32\nrw=randread\n[a]\n[b]\n[c]\ndirect=1\n[d]\n[e]\n[f]\n", here), "libaio-buffered")
	if len(fs) != 1 || !strings.HasSuffix(fs[0].Evidence, "(a, b, d and 2 more)") || fs[0].Line != 2 || fs[0].Source != "ioengine=libaio" || fs[0].Width != 15 {
		t.Errorf("%+v", fs)
	}
	fs = about(lintText(t, "[global]\nioengine=libaio\niodepth=32\n[a]\n[b]\n", here), "libaio-buffered")
	if len(fs) != 1 || !strings.HasSuffix(fs[0].Evidence, "(both jobs)") {
		t.Errorf("%+v", fs)
	}
}

func TestPlaces(t *testing.T) {
	fs := lintText(t, "; a comment\n[a]\n\tiodepth = 8   ; deep\nrw=randread\nrandrepeat=0\ndirect=1\n", here)
	if len(fs) != 1 || fs[0].Line != 3 || fs[0].Column != 2 || fs[0].File != "x.fio" || fs[0].Source != "\tiodepth = 8   ; deep" {
		t.Errorf("%+v", fs)
	}
	files := map[string]string{"d/x.fio": "[global]\ninclude y.inc\n[a]\nrw=read\n", "d/y.inc": "direct=1\niodepth=8\n"}
	fs, err := JobFile("d/x.fio", func(n string) ([]byte, error) {
		if text, ok := files[n]; ok {
			return []byte(text), nil
		}
		return nil, fmt.Errorf("no file %s", n)
	}, here)
	if err != nil || len(fs) != 1 || fs[0].File != "d/y.inc" || fs[0].Line != 2 || fs[0].Source != "iodepth=8" {
		t.Errorf("%+v, %v", fs, err)
	}
}

func TestCommand(t *testing.T) {
	fs, err := Commands("command", "sudo fio --name=a --rw=randread --randrepeat=0 \\\n   --ioengine=libaio --iodepth=32 --size=64g", nil, here)
	if err != nil || len(fs) != 1 || fs[0].Rule != "libaio-buffered" || fs[0].Line != 2 || fs[0].Column != 4 || fs[0].Width != len("--ioengine=libaio") {
		t.Errorf("%+v, %v", fs, err)
	}
	fs, err = Commands("command", "echo hello", nil, here)
	if err != nil || len(fs) != 1 || fs[0].Rule != "not-a-job" {
		t.Errorf("%+v, %v", fs, err)
	}
}

func FuzzJobFile(f *testing.F) {
	for _, c := range cases {
		f.Add(c.text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		fs, err := JobFile("x.fio", func(string) ([]byte, error) { return []byte(text), nil }, here)
		for _, x := range fs {
			if _, ok := rules.Explain(x.Rule); !ok || x.Evidence == "" {
				t.Errorf("%+v", x)
			}
		}
		_ = err // JobFile may return an error, but must not panic
	})
}
