package fiojob

import (
	"context"
	"path"
	"strconv"

	"iotax"
	"iotax/internal/workload/support"
	"iotax/internal/workload/task"
)

// A room is a file system of a machine.
type room struct {
	task.Room
	on any // the machine, as returned by support.Identity
}

// A need is the space that missing test files take in a room.
type need struct {
	room  room
	where string           // path for error messages
	bytes int64            // total of all files
	files map[string]int64 // bytes by name
}

// needs returns the space that missing test files (bytes by name) take at t: in t's own file system, and in the file
// system of this host that holds the image or directory behind t.
func (j *fioJob) needs(ctx context.Context, t *iotax.Target, own room, missing map[string]int64) ([]need, error) {
	var all int64
	for _, n := range missing {
		all += n
	}
	if all == 0 {
		return nil, nil
	}
	needs := []need{{own, t.Place.Path, all, missing}}
	if j.env.Host == nil || iotax.IsLocal(t.Machine) || t.Place.Backing == "" {
		return needs, nil
	}
	var behind *task.Room
	err := support.Limited(ctx, support.GlanceTime, func(ctx context.Context) (err error) {
		behind, err = task.Behind.On(ctx, j.env.Host, t.Place.Backing)
		return err
	})
	if err != nil {
		return nil, err
	}
	r, bytes := room{task.Room{Free: -1}, support.Identity(j.env.Host)}, all
	if behind != nil {
		r.Room = *behind
		if size, err := strconv.ParseInt(t.Place.Facts[iotax.FactDiskSize], 10, 64); err == nil && r.Allocated >= 0 { // an image grows up to its size
			bytes = min(bytes, max(0, size-r.Allocated))
		}
	}
	if bytes == 0 {
		return needs, nil // the image is fully allocated
	}
	files := map[string]int64{}
	for name, n := range missing {
		files[name] = int64(float64(n) / float64(all) * float64(bytes))
	}
	return append(needs, need{r, path.Dir(t.Place.Backing), bytes, files}), nil
}

// claimAll claims the space for the missing files of all parties. It returns an error, and leaves no new claims, if the
// files do not fit together with the files that earlier calls claimed.
func claimAll(parties []party) error {
	var fresh []party // parties that had no claim before this call
	for _, p := range parties {
		st := p.job.states[p.target]
		if st.claimed {
			continue
		}
		st.claimed, fresh = true, append(fresh, p)
		for _, n := range st.needs {
			where, sum := n.where, p.job.shared.claim(p.target, n)
			if sum > n.bytes {
				where += " and by other targets on its file system"
			}
			if err := support.Short(n.room.Room, sum, where); err != nil {
				for _, f := range fresh {
					st := f.job.states[f.target]
					f.job.shared.settle(f.target, st.job.sizes())
					st.claimed = false
				}
				return &iotax.Error{Op: "check " + p.job.name + " on", On: p.target.Name, Err: err, Hint: hintSpace(err, st.job.total())}
			}
		}
	}
	return nil
}

// A claimKey identifies a file system. A claim is a file that will be written there.
type claimKey struct {
	on     any
	device string
}

// claim records the files of a need at t. It returns the total number of bytes that are still to be written to the
// need's room.
func (s *sharedState) claim(t *iotax.Target, n need) (sum int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := claimKey{n.room.on, n.room.Device}
	if n.room.Device == "" {
		key.device = t.Place.Path
	}
	if s.claims == nil {
		s.claims = map[claimKey]map[string]int64{}
	}
	if s.claims[key] == nil {
		s.claims[key] = map[string]int64{}
	}
	for name, bytes := range n.files {
		s.claims[key][support.FileKey(t, name)] = bytes
	}
	for _, bytes := range s.claims[key] {
		sum += bytes
	}
	return sum
}

// settle removes the claims for files that have been written or will not be written.
func (s *sharedState) settle(t *iotax.Target, files map[string]int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, claims := range s.claims {
		for name := range files {
			delete(claims, support.FileKey(t, name))
		}
	}
}

// roomFor checks the space again right before files are written, because other processes may have used it since the
// first check. The values of files are sizes in bytes.
func (j *fioJob) roomFor(ctx context.Context, t *iotax.Target, files map[string]int64) error {
	own := room{on: support.Identity(t.Machine)}
	err := support.Limited(ctx, support.GlanceTime, func(ctx context.Context) (err error) {
		own.Room, err = task.RoomOf.On(ctx, t.Machine, t.Place.Path)
		return err
	})
	if err != nil {
		return err
	}
	needs, err := j.needs(ctx, t, own, files)
	if err != nil {
		return err
	}
	for _, n := range needs {
		if err := support.Short(n.room.Room, n.bytes, n.where); err != nil {
			return err
		}
	}
	return nil
}
