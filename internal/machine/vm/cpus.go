package vm

import (
	"fmt"
	"strconv"
	"strings"
)

// parseCPUs parses a list of CPUs or NUMA nodes in the format of taskset: 0-2,4.
func parseCPUs(s string) (list []int, err error) {
	for part := range strings.SplitSeq(s, ",") {
		from, to, isRange := strings.Cut(part, "-")
		a, err := strconv.ParseUint(from, 10, 16)
		b := a
		if err == nil && isRange {
			b, err = strconv.ParseUint(to, 10, 16)
		}
		if err != nil || b < a || b > 1023 {
			return nil, fmt.Errorf("%q is not a list of numbers such as 0-2,4", s)
		}
		for c := a; c <= b; c++ {
			list = append(list, int(c))
		}
	}
	return list, nil
}

// autoPin is the value of the plan key "pin" that makes iotax choose the CPUs.
const autoPin = "auto"
