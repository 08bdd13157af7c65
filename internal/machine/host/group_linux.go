package host

import (
	"bytes"
	"os"
	"strconv"
)

// alive returns the running processes of the command. Zombies count as ended, because a container may never reap them.
func (g *group) alive() []int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var alive []int
	id := []byte(strconv.Itoa(g.id))
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		stat, err := os.ReadFile("/proc/" + e.Name() + "/stat")
		if err != nil {
			continue
		}
		// "pid (name) state ppid pgrp …"; the name may contain any character, so parse from its end.
		f := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		if len(f) < 3 || f[0][0] == 'Z' || f[0][0] == 'X' {
			continue
		}
		if !bytes.Equal(f[2], id) {
			env, err := os.ReadFile("/proc/" + e.Name() + "/environ")
			if err != nil || !bytes.Contains(env, []byte(g.tag)) {
				continue
			}
		}
		alive = append(alive, pid)
	}
	return alive
}
