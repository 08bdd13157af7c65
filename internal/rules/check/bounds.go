package check

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// Limits that no machine can exceed, for the sum of all clients of a trial.
const (
	mostIOs   = 1e10 // 1/s; fio's null engine reaches about 1e7 on one CPU
	mostBytes = 1e15 // B/s; the memory of a large server reaches about 1e12
	leastTime = 1e-9 // s; fio's clocks count nanoseconds
)

// impossible describes the first impossible value that the tool reported. It returns "" if there is none.
func (r reading) impossible() string {
	for _, v := range r.t.Values {
		direction, what, _ := strings.Cut(v.Name, ".")
		if direction != "mixed" && !slices.Contains(directions, direction) {
			continue
		}
		least, most := 0.0, math.Inf(1)
		switch what {
		case "iops":
			most = mostIOs
		case "ios":
			most = mostIOs * r.seconds()
		case "bandwidth":
			most = mostBytes
		case "bytes":
			most = mostBytes * r.seconds()
		case "latency.mean":
			if least = leastTime; v.Value == 0 { // the tool did not measure latency
				continue
			}
		default:
			continue
		}
		if most == 0 || strings.HasPrefix(what, "b") && r.diskless() {
			most = math.Inf(1)
		}
		if !(v.Value >= least && v.Value <= most) || math.IsInf(v.Value, 0) {
			return fmt.Sprintf("%s is %.3g %s", v.Name, v.Value, v.Unit)
		}
	}
	return ""
}
