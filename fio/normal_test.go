package fio

import (
	"fmt"
	"maps"
	"strings"
	"testing"
)

func normalOf(t *testing.T, options string) map[string]string {
	t.Helper()
	c, err := ParseCommand("fio --name=a " + options)
	if err != nil {
		t.Fatal(err)
	}
	return Normal(c.Jobs()[0].Settings)
}

// Each element of `lines` lists equivalent ways to write one job. Jobs of different elements do different work.
func TestNormal(t *testing.T) {
	lines := [][]string{
		{"--rw=randread --bs=4k --direct=1", "--readwrite=randread --blocksize=4096 --buffered=0", "--rw=randread --direct=1 --iodepth=1 --numjobs=1 --fsync=0",
			"--rw=randread --bs=4k,8k --direct=1 --rwmixread=70", "--rw=randread --direct=1 --runtime=5 --time_based --filename=/x --randseed=3 --write_bw_log=l --lat_percentiles=1 --group_reporting",
			"--rw=randread --direct=1 --sync=0 --invalidate=1 --norandommap=0"},
		{"--rw=randread --bs=4k", "--rw=randread --direct=0", "--rw=randread --buffered=1"},
		{"--rw=randread --direct=1 --bs=64k"},
		{"--rw=randread --direct=1 --norandommap", "--rw=randread --direct=1 --norandommap=1"},
		{"--rw=randread --direct=1 --ioengine=libaio --iodepth=32", "--rw=randread --direct=1 --ioengine=linuxaio --iodepth=32"},
		{"--rw=randread --direct=1 --ioengine=io_uring --iodepth=32"},
		{"--rw=randwrite --bs=4k"}, {"--rw=randwrite --fsync=1"}, {"--rw=randwrite --fdatasync=1"}, {"--rw=randwrite --end_fsync=1"},
		{"--rw=randwrite --sync=1", "--rw=randwrite --sync=sync"}, {"--rw=randwrite --sync=dsync"},
		{"--rw=randwrite --verify=crc32c"}, {"--rw=randwrite --buffer_compress_percentage=50"}, {"--rw=randwrite --dedupe_percentage=50"},
		{"--rw=randwrite --thinktime=1ms", "--rw=randwrite --thinktime=1000"}, {"--rw=randwrite --rate_iops=100"}, {"--rw=randwrite --random_distribution=zipf:1.2"},
		{"--rw=randrw --rwmixread=70", "--rw=randrw --rwmixwrite=30"}, {"--rw=randrw", "--rw=randrw --rwmixread=50"},
		{"--rw=randrw --bs=4k,64k", "--rw=randrw --bs=4096,65536,65536"}, {"--rw=randrw --bssplit=4k/50:64k/50"},
		{"--rw=randread --bs=8k --cpus_allowed=0"}, {"--rw=randread --bs=8k --cpus_allowed=1"}, {"--rw=randread --bs=8k --numa_cpu_nodes=0"},
		{"--rw=randwrite --bs=8k --buffer_pattern=0"}, {"--rw=randwrite --bs=8k", "--rw=randwrite --bs=8k --verify_backlog=0 --latency_target=0 --thinktime=0 --iodepth_low=0"},
		{"--rw=read:8k", "--rw=read:8192"}, {"--rw=rw:8k", "--rw=readwrite:8192"}, {"--rw=write --bs=512", "--rw=write:0 --bs=512"},
		{"--rw=randread:8 --bs=512", "--rw=randread:08 --bs=512"}, {"--rw=randread --bs=512", "--rw=randread:1 --bs=512"},
		{"--rw=read --bs=1M --size=1G", "--rw=read --bs=1024k --size=1024m", "--bs=1048576 --size=1073741824"}, {"--rw=read --bs=1M --size=2G"}, {"--rw=read --bs=1M --size=10%"},
	}
	key := func(m map[string]string) string {
		var b strings.Builder
		for _, k := range always {
			b.WriteString(k + "=" + m[k] + " ")
		}
		rest := maps.Clone(m)
		for _, k := range always {
			delete(rest, k)
		}
		return b.String() + fmt.Sprint(rest)
	}
	seen := map[string]string{}
	for _, same := range lines {
		first := key(normalOf(t, same[0]))
		if other := seen[first]; other != "" {
			t.Errorf("%q and %q do different work: both are %s", same[0], other, first)
		}
		seen[first] = same[0]
		for _, o := range same[1:] {
			if got := key(normalOf(t, o)); got != first {
				t.Errorf("%q does what %q does: %s, want %s", o, same[0], got, first)
			}
		}
	}
}

// Partly adds no defaults to incomplete options.
func TestPartly(t *testing.T) {
	got := Partly([]Setting{{Key: "rw", Value: "read"}, {Key: "bs", Value: "4k"}, {Key: "ioengine", Value: "libaio"}})
	if want := map[string]string{"rw": "read", "bs": "4096", "ioengine": "libaio"}; !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
