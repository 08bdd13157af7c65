package fiojob

import (
	"fmt"

	"iotax"
	"iotax/internal/workload/task"
)

// SmallFiles returns the number of jobs of w, and a description of each job whose files are smaller than scaledBlocks
// blocks.
func SmallFiles(w iotax.Workload) (jobs int, small []string, err error) {
	r, err := w.(*fioJob).resolve(task.Vars())
	if err != nil {
		return 0, nil, err
	}
	for _, one := range r.all() {
		get := map[string]string{}
		for _, s := range one.settings {
			get[s.Key] = s.Value
		}
		jobs++
		if block := surestBlock(get, map[string]int{"bs": 1024}); one.layout.jobs > 0 && one.layout.bytes < scaledBlocks*block {
			small = append(small, fmt.Sprintf("files of %d bytes for blocks of %d", one.layout.bytes, block))
		}
	}
	return jobs, small, nil
}
