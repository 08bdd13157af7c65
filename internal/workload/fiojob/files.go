package fiojob

import (
	"maps"
	"slices"

	"iotax"
	"iotax/internal/workload/task"
)

// Files returns the test files of a job that only reads, so that a read-only file system can be created with them. It
// returns nil if the job writes or has an error, such as a variable without a value. Sizes that depend on the machine
// are computed for this host.
func (j *fioJob) Files() []iotax.File {
	r, err := j.resolve(task.Vars())
	if err != nil || r.writes() {
		return nil
	}
	sizes := r.sizes()
	var files []iotax.File
	for _, name := range slices.Sorted(maps.Keys(sizes)) {
		files = append(files, iotax.File{Name: name, Size: sizes[name]})
	}
	return files
}
