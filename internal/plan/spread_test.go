package plan_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"iotax/internal/plan"
)

// Spread replaces the last target with all combinations of the built-in list of its kind. The target's own
// values come first.
func TestSpread(t *testing.T) {
	for word, want := range map[string]string{
		"qemu:virtio-blk,cache=writeback":  "16 aio threads, cache writeback, iothread false, queue_size 0",
		"qemu:nvme":                        "4 aio threads, cache none",
		"qemu:virtio-blk,aio=native":       "12 aio native, iothread false, queue_size 0",
		"qemu:virtiofs,thread_pool_size=8": "36 allow_direct_io false, cache auto, thread_pool_size 8, writeback false",
		"qemu:9p":                          "8 cache none, msize 512kB, security mapped-xattr",
		"nfs://nas/x":                      "6 options , version 4.2",
		"dir:/b":                           "no built-in list",
	} {
		p, err := plan.FromWords([]string{"dir:/a", word}, []string{"randread-4k"}, plan.Defaults(), realKinds())
		if err != nil {
			t.Fatalf("%s: %v", word, err)
		}
		out, err := p.Spread(realKinds())
		if err != nil {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v", word, err)
			}
			continue
		}
		var first []string
		_, axes := out.Targets[1].Axes()
		for _, x := range axes {
			first = append(first, x.Key+" "+x.Value)
		}
		slices.Sort(first)
		if got := fmt.Sprintf("%d %s", len(out.Targets)-1, strings.Join(first, ", ")); got != want {
			t.Errorf("%s: %s, want %s", word, got, want)
		}
	}
}
