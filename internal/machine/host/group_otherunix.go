//go:build unix && !linux && !darwin

package host

import "golang.org/x/sys/unix"

// alive only checks the process group as a whole.
func (g *group) alive() []int {
	if unix.Kill(-g.id, 0) != nil {
		return nil
	}
	return []int{-g.id}
}
