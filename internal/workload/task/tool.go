package task

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strings"

	"iotax/internal/agent"
)

// A Tool is a program with its libraries that iotax copies to a machine.
type Tool struct {
	Name string // of its directory, as in "fio-0123456789abcdef"
	Size int64  // space that it needs, bytes
}

var (
	// Home returns the directory for a tool. Its parent directory belongs to this user, and programs there can be
	// executed. If the tool does not exist yet (see Dir.Have), the parent directory has enough space for the tool.
	Home = agent.New("home of tool", home)
	// InstallFio installs fio with the first package manager that it finds. sudo must not ask for a password.
	InstallFio = agent.New("install fio", installFio)
	// TempDir creates a temporary directory in the system's default place.
	TempDir = agent.New("temporary directory", tempDir)
	// Accounts returns the agent's user ID, and whether the system has a root user and a root group.
	Accounts = agent.New("accounts", accounts)
	// Unpack creates a directory from a tar archive that is compressed with gzip. It creates the whole directory or
	// nothing.
	Unpack = agent.NewTaker("unpack", unpack)
)

// A Dir is the directory of a tool.
type Dir struct {
	Path string
	Have bool // the tool is already there
}

func home(ctx context.Context, t Tool) (Dir, error) {
	for _, d := range toolDirs() {
		if !runsPrograms(ctx, d) {
			continue
		}
		path := filepath.Join(d, t.Name)
		if st, err := os.Stat(path); err == nil && st.IsDir() {
			return Dir{path, true}, nil
		}
		if r := roomOf(d); r.Free < 0 || r.Free >= t.Size {
			return Dir{Path: path}, nil
		}
	}
	return Dir{}, fmt.Errorf("no directory there holds %d MiB and may run programs", t.Size>>20)
}

func unpack(_ context.Context, dir string, from io.Reader) (_ struct{}, err error) {
	part, err := os.MkdirTemp(filepath.Dir(dir), filepath.Base(dir)+".part")
	if err != nil {
		return struct{}{}, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(part)) }()
	root, err := os.OpenRoot(part)
	if err != nil {
		return struct{}{}, err
	}
	err = errors.Join(extract(root, from), root.Close())
	if err != nil {
		return struct{}{}, err
	}
	if err = os.Rename(part, dir); errors.Is(err, fs.ErrExist) {
		err = nil // another iotax process was faster
	}
	return struct{}{}, err
}

// extract writes files, directories and symbolic links with their permissions. It returns an error for any other type.
func extract(root *os.Root, from io.Reader) error {
	z, err := gzip.NewReader(from)
	if err != nil {
		return err
	}
	t := tar.NewReader(z)
	dirs := map[string]fs.FileMode{}
	for {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		name, mode := filepath.Clean(h.Name), h.FileInfo().Mode().Perm()
		switch h.Typeflag {
		case tar.TypeDir:
			err = root.MkdirAll(name, 0o700)
			dirs[name] = mode
		case tar.TypeSymlink:
			err = root.Symlink(h.Linkname, name)
		case tar.TypeReg:
			var f *os.File
			if f, err = root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o700); err == nil {
				_, err = io.Copy(f, t)
				err = errors.Join(err, f.Chmod(mode), f.Close())
			}
		default:
			err = fmt.Errorf("%s is neither a file, a directory nor a symbolic link", h.Name)
		}
		if err != nil {
			return err
		}
	}
	for name, mode := range dirs { // last, because a directory may be read-only
		if err := root.Chmod(name, mode); err != nil {
			return err
		}
	}
	_, err = io.Copy(io.Discard, z) // reading to the end detects a truncated stream
	return err
}

var installers = [][]string{
	{"apt-get", "install", "-y", "--no-install-recommends"},
	{"dnf", "install", "-y"},
	{"yum", "install", "-y"},
	{"zypper", "--non-interactive", "install"},
	{"apk", "add"},
	{"pacman", "-Sy", "--noconfirm"},
	{"pkg", "install", "-y"},
	{"brew", "install"},
}

func installFio(ctx context.Context, _ struct{}) (struct{}, error) {
	i := slices.IndexFunc(installers, func(args []string) bool { return find(args[0]) != "" })
	if i < 0 {
		return struct{}{}, errors.New("no package manager was found")
	}
	manager := installers[i][0]
	run := func(args ...string) error {
		args = append([]string{"env", "DEBIAN_FRONTEND=noninteractive", manager}, args...)
		if os.Geteuid() != 0 && manager != "brew" {
			args = append([]string{"sudo", "-n"}, args...)
		}
		if _, err := agent.Exec(ctx, args...); err != nil && ctx.Err() == nil {
			lines := strings.Split(err.Error(), "\n")
			return fmt.Errorf("installing it failed: %s", lines[len(lines)-1])
		}
		return context.Cause(ctx)
	}
	install := append(slices.Clone(installers[i][1:]), "fio")
	err := run(install...)
	if err != nil && manager == "apt-get" && ctx.Err() == nil && run("update") == nil {
		err = run(install...)
	}
	return struct{}{}, err
}

// A Temp describes a temporary directory. The label identifies the run, so that iotax finds the directory if the run
// could not remove it.
type Temp struct{ Prefix, Label string }

func tempDir(_ context.Context, t Temp) (string, error) {
	dir, err := os.MkdirTemp("", t.Prefix)
	if err == nil && t.Label != "" {
		err = os.WriteFile(filepath.Join(dir, ".iotax"), []byte(t.Label+"\n"), 0o600)
	}
	if err != nil && dir != "" {
		err = errors.Join(err, os.RemoveAll(dir))
	}
	return dir, err
}

// An Account holds the agent's user ID, and whether a root user and a root group exist.
type Account struct {
	UID                 int
	RootUser, RootGroup bool
}

func accounts(context.Context, struct{}) (a Account, err error) {
	a.UID = os.Getuid()
	_, err = user.Lookup("root")
	a.RootUser = err == nil
	_, err = user.LookupGroup("root")
	a.RootGroup = err == nil
	return a, nil
}
