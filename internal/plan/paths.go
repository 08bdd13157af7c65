package plan

import (
	"os"
	"path/filepath"
	"strings"
)

// Absolute writes all paths of this host in full. Those that are relative count from the folder of the plan file, those of
// the command line from the working directory, and ~/ is the home directory. The plan of a saved run is read again, by --resume
// and clean, wherever these are called.
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

// Folder is the one that relative paths of p count from, in full: all of a plan have it in common.
func (p *Plan) Folder() (string, error) { return filepath.Abs(folder(p.Targets[0].Pos.File)) }

// folder is what relative paths in the plan file of that name count from; "" is the working directory.
func folder(file string) string {
	if file == "" {
		return ""
	}
	return filepath.Dir(file)
}

func inFull(paths []*string, dir string) error {
	for _, p := range paths {
		if *p == "" || filepath.IsAbs(*p) || strings.HasPrefix(*p, "/") { // on Windows, too, this is in full
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

// IsPath reports whether what names a program is the path of one; else it is looked for in the PATH.
func IsPath(program string) bool { return strings.ContainsAny(program, `/\`) }
