package bisect

import (
	"fmt"

	"iotax"
	"iotax/internal/statefile"
)

// Resume returns the state saved in dir, or a new one. It returns an error if the saved state belongs to another
// bisection.
func Resume(dir *statefile.Dir, good, bad, what string) (*State, error) {
	s := &State{Good: good, Bad: bad, What: what}
	var old State
	if found, err := dir.Read(&old); err != nil || !found {
		return s, err
	}
	if old.Good != good || old.Bad != bad || old.What != what {
		return nil, &iotax.Error{Op: "resume bisection", On: dir.Path, Err: fmt.Errorf("it is of other versions, another build script or another workload (%s to %s)", old.Good, old.Bad),
			Hint: "give the same arguments to resume it, or start anew with --reset"}
	}
	return &old, nil
}
