package host

import "golang.org/x/sys/unix"

const zombie = 5 // SZOMB of <sys/proc.h>

// alive returns the running processes of the command. macOS does not show another process's environment, so `alive`
// searches for descendants instead of the tag. A process that was seen once stays in the group after its parent exits.
func (g *group) alive() []int {
	all, err := unix.SysctlKinfoProcSlice("kern.proc.all")
	if err != nil {
		return nil
	}
	for grew := true; grew; {
		grew = false
		for _, p := range all {
			pid := int(p.Proc.P_pid)
			if !g.seen[pid] && (int(p.Eproc.Pgid) == g.id || g.seen[int(p.Eproc.Ppid)]) {
				g.seen[pid], grew = true, true
			}
		}
	}
	var alive []int
	for _, p := range all {
		if pid := int(p.Proc.P_pid); g.seen[pid] && p.Proc.P_stat != zombie {
			alive = append(alive, pid)
		}
	}
	return alive
}
