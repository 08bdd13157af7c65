package workload

import (
	"context"
	"fmt"
	"path"
	"strconv"
	"strings"

	"iotax"
	"iotax/plan"
)

// A room is what df tells of the file system of a path.
type room struct {
	on         any    // machine, as identity has it
	device     string // by which stat tells file systems apart; "" when it told nothing
	size, free int64  // bytes; free is -1 when df told nothing
}

// short says how the bytes do not fit into the room, or nil. A twentieth stays free, as for volumes: a file system that is filled
// to the brim slows down, and breaks whoever else writes to it.
func (r room) short(need int64, where string) error {
	if reserve := r.size / 20; r.free >= 0 && need > 0 && need+reserve > r.free {
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

// rooms are those that missing bytes of test files at t go into: of its own file system, and of the one of this host that holds
// the image or directory behind it, with the bytes that each will lose.
func (j *fioJob) rooms(ctx context.Context, t *iotax.Target, own room, missing int64) (rooms []room, needs []int64, err error) {
	rooms, needs = []room{own}, []int64{missing}
	if j.env.Host == nil || iotax.IsLocal(t.Machine) || t.Place.Backing == "" || missing == 0 {
		return rooms, needs, nil
	}
	out, err := bounded(ctx, j.env.Host, glanceTime, "sh", "-c", behindScript+"true", "sh", t.Place.Backing)
	if err != nil {
		return nil, nil, err
	}
	r, need := room{on: identity(j.env.Host), free: -1}, missing
	for line := range strings.Lines(out) {
		key, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		r.read(key, rest)
		var blocks, unit int64
		if _, err := fmt.Sscanf(line, "blocks %d %d", &blocks, &unit); err == nil { // an image grows up to its size
			if size, err := strconv.ParseInt(t.Place.Facts["disk.size"], 10, 64); err == nil {
				need = min(need, max(0, size-blocks*unit))
			}
		}
	}
	return append(rooms, r), append(needs, need), nil
}

// fits says whether the missing files of t fit, together with those of all the other targets that are known by now, and
// remembers them until they are written (settled). Nobody has written anything by then.
func (j *fioJob) fits(ctx context.Context, t *iotax.Target, own room, missing map[string]int64) error {
	var bytes int64
	for _, n := range missing {
		bytes += n
	}
	rooms, needs, err := j.rooms(ctx, t, own, bytes)
	if err != nil {
		return err
	}
	for i, r := range rooms {
		if needs[i] == 0 {
			continue // an image that has all its space
		}
		sum := shared.claim(r, t, missing, needs[i], bytes)
		where := t.Place.Path
		if i > 0 {
			where = path.Dir(t.Place.Backing)
		}
		if sum > needs[i] {
			where = fmt.Sprintf("%s and by other targets on its file system", where)
		}
		if err := r.short(sum, where); err != nil {
			shared.settle(t, missing)
			return err
		}
	}
	return nil
}

// A claimKey is a file system; a claim is a file that will be written there.
type claimKey struct {
	on     any
	device string
}

// claim notes the files, of which share of whole bytes are taken from the room, and returns the sum of all that is to be
// written there.
func (s *sharedState) claim(r room, t *iotax.Target, files map[string]int64, share, whole int64) (sum int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := claimKey{r.on, r.device}
	if r.device == "" {
		key.device = t.Place.Path
	}
	if s.claims[key] == nil {
		s.claims[key] = map[string]int64{}
	}
	for name, n := range files {
		if whole > share { // of an image that has space already
			n = int64(float64(n) / float64(whole) * float64(share))
		}
		s.claims[key][fileKey(t, name)] = n
	}
	for _, n := range s.claims[key] {
		sum += n
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

// roomFor looks again, right before the bytes are written: others may have written in the meantime.
func (j *fioJob) roomFor(ctx context.Context, t *iotax.Target, bytes int64) error {
	out, err := bounded(ctx, t.Machine, glanceTime, "sh", "-c", `cd -- "$1" || exit`+roomScript+"true", "sh", t.Place.Path)
	if err != nil {
		return err
	}
	own := room{free: -1}
	for line := range strings.Lines(out) {
		key, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		own.read(key, rest)
	}
	rooms, needs, err := j.rooms(ctx, t, own, bytes)
	if err != nil {
		return err
	}
	wheres := []string{t.Place.Path, path.Dir(t.Place.Backing)}
	for i, r := range rooms {
		if err := r.short(needs[i], wheres[i]); err != nil {
			return err
		}
	}
	return nil
}
