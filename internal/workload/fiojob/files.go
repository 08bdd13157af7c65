package fiojob

import (
	"maps"
	"slices"

	"iotax"
	"iotax/internal/workload/task"
)

// Files are the test files of a job that only reads, which a read-only file system is made with. A job
// whose files depend on the machine it runs on is sized for this host; Check finds it out where they differ.
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
