package plan

import (
	"os"
	"path/filepath"
	"strings"
)

// Absolute makes all host paths absolute, because --resume and clean read the saved plan, and may run in another
// directory. Relative paths start from the directory of the plan file. In a plan from the command line, they start from
// the working directory. ~/ is the home directory.
func (p *Plan) Absolute() error {
	for _, m := range p.Machines {
		if err := inFull(m.Traits().HostFiles, folder(m.Pos.File)); err != nil {
			return err
		}
	}
	for _, t := range p.Targets {
		can := t.Traits()
		paths := can.HostFiles
		if t.servedBy() == Host {
			paths = append(paths, can.Directories...)
		}
		if err := inFull(paths, folder(t.Pos.File)); err != nil {
			return err
		}
	}
	for _, w := range p.Workloads {
		can := w.Traits()
		if err := inFull(append(can.HostFiles, can.Directories...), folder(w.Pos.File)); err != nil {
			return err
		}
	}
	return nil
}

// Folder returns the absolute path of the directory that relative paths in p start from. It is the same for all
// entries.
func (p *Plan) Folder() (string, error) { return filepath.Abs(folder(p.Targets[0].Pos.File)) }

// folder returns the directory that relative paths in a plan file start from. "" is the working directory.
func folder(file string) string {
	if file == "" {
		return ""
	}
	return filepath.Dir(file)
}

func inFull(paths []*string, dir string) error {
	for _, p := range paths {
		if *p == "" || filepath.IsAbs(*p) || strings.HasPrefix(*p, "/") { // a path that begins with / is absolute on Windows, too
			continue
		}
		from, rest := dir, *p
		if under, ok := strings.CutPrefix(rest, "~/"); ok {
			home, err := os.UserHomeDir()
			if err != nil {
				return err
			}
			from, rest = home, under
		}
		abs, err := filepath.Abs(filepath.Join(from, rest))
		if err != nil {
			return err
		}
		*p = abs
	}
	return nil
}

// IsPath reports whether the name of a program is a path. Such a program is not looked up in PATH.
func IsPath(program string) bool { return strings.ContainsAny(program, `/\`) }
