package workload

import (
	"context"
	"fmt"
	"path"
	"strconv"
	"strings"

	"iotax"
	"iotax/internal/plan"
)

// A room is what df tells of the file system of a path.
type room struct {
	on         any    // machine, as identity has it
	device     string // by which stat tells file systems apart; "" when it told nothing
	size, free int64  // bytes; free is -1 when df told nothing
}

// short says how the bytes do not fit into the room, or nil. What iotax.Reserve says stays free.
func (r room) short(need int64, where string) error {
	if reserve := iotax.Reserve(r.size); r.free >= 0 && need > 0 && need+reserve > r.free {
		return &noRoom{fmt.Sprintf("%s needed in %s, %s available, of which %s stay in reserve", plan.Size(need), where, approx(r.free), approx(reserve))}
	}
	return nil
}

type noRoom struct{ msg string }

func (e *noRoom) Error() string { return e.msg }

// roomScript tells the file system of its working directory.
const roomScript = `
n=$(stat -c %d . 2>/dev/null || stat -f %d . 2>/dev/null) && echo "device $n"
df -Pk . 2>/dev/null | while read -r _ size _ free _; do
	case $size$free in *[!0-9]*|''|00) ;; *) echo "free $free $size";; esac
done
`

// read takes a line of roomScript.
func (r *room) read(key, rest string) {
	switch key {
	case "device":
		r.device = rest
	case "free":
		free, size, _ := strings.Cut(rest, " ")
		a, err1 := strconv.ParseInt(free, 10, 64)
		b, err2 := strconv.ParseInt(size, 10, 64)
		if err1 == nil && err2 == nil && b > 0 {
			r.free, r.size = a*1024, b*1024
		}
	}
}

// behindScript goes to the directory of the file or directory $1, and tells the bytes that a file has on the disk.
const behindScript = `
if [ -d "$1" ]; then cd -- "$1" || exit
elif [ -f "$1" ]; then
	stat -c 'blocks %b %B' -- "$1" 2>/dev/null
	cd -- "${1%/*}/" || exit
else exit 0; fi
` + roomScript

// A need is what missing test files take of a room.
type need struct {
	room  room
	where string           // the path that an error names
	bytes int64            // of all of them together
	files map[string]int64 // the bytes of each
}

// needs are those of missing test files at t (bytes by name): of its own file system, and of the one of this host that holds the image
// or directory behind it.
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
	out, err := bounded(ctx, j.env.Host, glanceTime, "sh", "-c", behindScript+"true", "sh", t.Place.Backing)
	if err != nil {
		return nil, err
	}
	r, bytes := room{on: identity(j.env.Host), free: -1}, all
	for line := range strings.Lines(out) {
		key, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		r.read(key, rest)
		var blocks, unit int64
		if _, err := fmt.Sscanf(line, "blocks %d %d", &blocks, &unit); err == nil { // an image grows up to its size
			if size, err := strconv.ParseInt(t.Place.Facts[iotax.FactDiskSize], 10, 64); err == nil {
				bytes = min(bytes, max(0, size-blocks*unit))
			}
		}
	}
	if bytes == 0 {
		return needs, nil // an image that has all its space
	}
	files := map[string]int64{}
	for name, n := range missing {
		files[name] = int64(float64(n) / float64(all) * float64(bytes))
	}
	return append(needs, need{r, path.Dir(t.Place.Backing), bytes, files}), nil
}

// claimAll says whether the missing files of all the parties fit, together with those of the targets that passed their Check before,
// and remembers them until they are written, or until it is known that they will not be (settle): those of all of them, or of none.
func claimAll(parties []party) error {
	var fresh []party // not a part of another target, whose claim stays
	for _, p := range parties {
		st := p.job.states[p.target]
		if st.claimed {
			continue
		}
		st.claimed, fresh = true, append(fresh, p)
		for _, n := range st.needs {
			where, sum := n.where, shared.claim(p.target, n)
			if sum > n.bytes {
				where += " and by other targets on its file system"
			}
			if err := n.room.short(sum, where); err != nil {
				for _, f := range fresh {
					st := f.job.states[f.target]
					shared.settle(f.target, st.job.sizes())
					st.claimed = false
				}
				return &iotax.Error{Op: "check " + p.job.name + " on", On: p.target.Name, Err: err, Hint: hintSpace(err, st.job.total())}
			}
		}
	}
	return nil
}

// A claimKey is a file system; a claim is a file that will be written there.
type claimKey struct {
	on     any
	device string
}

// claim notes the files of a need at t, and returns the sum of the bytes that are to be written to its room.
func (s *sharedState) claim(t *iotax.Target, n need) (sum int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := claimKey{n.room.on, n.room.device}
	if n.room.device == "" {
		key.device = t.Place.Path
	}
	if s.claims[key] == nil {
		s.claims[key] = map[string]int64{}
	}
	for name, bytes := range n.files {
		s.claims[key][fileKey(t, name)] = bytes
	}
	for _, bytes := range s.claims[key] {
		sum += bytes
	}
	return sum
}

// settle forgets claims of files: they are written, or will not be.
func (s *sharedState) settle(t *iotax.Target, files map[string]int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, claims := range s.claims {
		for name := range files {
			delete(claims, fileKey(t, name))
		}
	}
}

// roomFor looks again, right before the files (bytes by name) are written: others may have written in the meantime.
func (j *fioJob) roomFor(ctx context.Context, t *iotax.Target, files map[string]int64) error {
	out, err := bounded(ctx, t.Machine, glanceTime, "sh", "-c", `cd -- "$1" || exit`+roomScript+"true", "sh", t.Place.Path)
	if err != nil {
		return err
	}
	own := room{free: -1}
	for line := range strings.Lines(out) {
		key, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		own.read(key, rest)
	}
	needs, err := j.needs(ctx, t, own, files)
	if err != nil {
		return err
	}
	for _, n := range needs {
		if err := n.room.short(n.bytes, n.where); err != nil {
			return err
		}
	}
	return nil
}
