package shell

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"mvdan.cc/sh/v3/interp"
)

// A call is one use of a tool.
type call struct {
	ctx  context.Context
	dir  string
	in   io.Reader
	out  io.Writer
	args []string
}

// tools are those of the scripts of packages volume, workload and probe, with the options that stand there.
var tools map[string]func(*call) error

func init() {
	tools = map[string]func(*call) error{
		"mkdir": mkdir, "rmdir": rmdir, "rm": rm, "cat": cat, "mv": mv, "df": df, "stat": stat, "mktemp": mktemp, "uname": uname,
		"id": id, "nproc": nproc, "getconf": getconf, "readlink": readlink, "sleep": sleep, "sync": nothing, "chmod": chmod,
		"basename": basename, "dirname": dirname, "iotax-pwd": pwd,
	}
}

// at is a path of the script as this process names it.
func (c *call) at(p string) string {
	if filepath.IsAbs(p) || strings.HasPrefix(p, "/") {
		return filepath.FromSlash(p)
	}
	return filepath.Join(c.dir, p)
}

// flags takes the options off the arguments: letters, those in valued with the value behind them.
func (c *call) flags(known, valued string) (map[byte]string, error) {
	got := map[byte]string{}
	for len(c.args) > 0 && len(c.args[0]) > 1 && c.args[0][0] == '-' {
		word := c.args[0][1:]
		c.args = c.args[1:]
		if word == "-" {
			break
		}
		for i := 0; i < len(word); i++ {
			switch f := word[i]; {
			case strings.IndexByte(valued, f) >= 0:
				v := word[i+1:]
				if v == "" {
					if len(c.args) == 0 {
						return nil, fmt.Errorf("option -%c needs a value", f)
					}
					v, c.args = c.args[0], c.args[1:]
				}
				got[f], i = v, len(word)
			case strings.IndexByte(known, f) >= 0:
				got[f] = "yes"
			default:
				return nil, fmt.Errorf("unknown option -%c", f)
			}
		}
	}
	return got, nil
}

// each does f to every argument and joins what goes wrong.
func (c *call) each(f func(path string) error) error {
	var errs []error
	for _, a := range c.args {
		errs = append(errs, f(c.at(a)))
	}
	return errors.Join(errs...)
}

func nothing(*call) error { return nil }

func mkdir(c *call) error {
	o, err := c.flags("p", "m")
	if err != nil {
		return err
	}
	return c.each(func(p string) error {
		if o['p'] != "" {
			return os.MkdirAll(p, 0o700)
		}
		return os.Mkdir(p, 0o700)
	})
}

func chmod(c *call) error {
	if len(c.args) == 0 {
		return errors.New("a mode is needed")
	}
	mode, err := strconv.ParseUint(c.args[0], 8, 12)
	if err != nil {
		return fmt.Errorf("%q is no octal mode", c.args[0])
	}
	c.args = c.args[1:]
	if _, err := c.flags("", ""); err != nil {
		return err
	}
	return c.each(func(p string) error { return os.Chmod(p, os.FileMode(mode)) })
}

func rmdir(c *call) error {
	if _, err := c.flags("", ""); err != nil {
		return err
	}
	return c.each(func(p string) error {
		if st, err := os.Lstat(p); err != nil {
			return err
		} else if !st.IsDir() {
			return fmt.Errorf("%s: not a directory", filepath.ToSlash(p))
		}
		return os.Remove(p)
	})
}

func rm(c *call) error {
	o, err := c.flags("rf", "")
	if err != nil {
		return err
	}
	return c.each(func(p string) error {
		if o['r'] != "" {
			return os.RemoveAll(p)
		}
		if st, err := os.Lstat(p); err == nil && st.IsDir() {
			return fmt.Errorf("%s: is a directory", filepath.ToSlash(p))
		}
		err := os.Remove(p)
		if o['f'] != "" && errors.Is(err, os.ErrNotExist) {
			return nil
		}
		return err
	})
}

func cat(c *call) error {
	if _, err := c.flags("", ""); err != nil {
		return err
	}
	if len(c.args) == 0 {
		_, err := io.Copy(c.out, c.in)
		return err
	}
	return c.each(func(p string) error {
		f, err := os.Open(p)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = io.Copy(c.out, f)
		return err
	})
}

func mv(c *call) error {
	if _, err := c.flags("f", ""); err != nil {
		return err
	}
	if len(c.args) != 2 {
		return errors.New("two names are needed")
	}
	from, to := c.at(c.args[0]), c.at(c.args[1])
	if st, err := os.Stat(to); err == nil && st.IsDir() {
		to = filepath.Join(to, filepath.Base(from))
	}
	return os.Rename(from, to)
}

// df prints the line of POSIX's format, in units of 1 KiB.
func df(c *call) error {
	if _, err := c.flags("Pk", ""); err != nil {
		return err
	}
	fmt.Fprintln(c.out, "Filesystem 1024-blocks Used Available Capacity Mounted on")
	return c.each(func(p string) error {
		size, free, err := space(p)
		if err == nil {
			_, err = fmt.Fprintf(c.out, "- %d %d %d %d%% -\n", size>>10, (size-free)>>10, free>>10, 100*(size-free)/max(size, 1))
		}
		return err
	})
}

func stat(c *call) error {
	o, err := c.flags("", "c")
	if err != nil {
		return err
	}
	args := c.args
	for i := range args {
		c.args = args[i : i+1]
		err = errors.Join(err, c.each(func(p string) error {
			st, err := os.Stat(p)
			if err == nil {
				_, err = fmt.Fprintln(c.out, strings.NewReplacer("%s", strconv.FormatInt(st.Size(), 10), "%n", args[i]).Replace(o['c']))
			}
			return err
		}))
	}
	return err
}

func mktemp(c *call) error {
	o, err := c.flags("du", "")
	if err != nil {
		return err
	}
	template := "tmp.XXXXXX"
	if len(c.args) > 0 {
		template = c.args[0]
	}
	base := strings.TrimRight(template, "X")
	for range 100 {
		raw := make([]byte, len(template)-len(base))
		rand.Read(raw) // never fails
		name := base + hex.EncodeToString(raw)[:len(raw)]
		if o['u'] == "" {
			if o['d'] != "" {
				err = os.Mkdir(c.at(name), 0o700)
			} else {
				var f *os.File
				if f, err = os.OpenFile(c.at(name), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600); err == nil {
					err = f.Close()
				}
			}
			if errors.Is(err, os.ErrExist) {
				continue
			}
		}
		if err == nil {
			_, err = fmt.Fprintln(c.out, filepath.ToSlash(name))
		}
		return err
	}
	return fmt.Errorf("%s: every name is taken", template)
}

func uname(c *call) error {
	o, err := c.flags("snrm", "")
	if err != nil {
		return err
	}
	if len(o) == 0 {
		o['s'] = "yes"
	}
	var words []string
	for _, f := range []byte("snrm") {
		if o[f] != "" {
			words = append(words, system()[f])
		}
	}
	_, err = fmt.Fprintln(c.out, strings.Join(words, " "))
	return err
}

// id tells the number of the user. Windows has none; the scripts only want to know that it is not root's.
func id(c *call) error {
	n := os.Getuid()
	if n < 0 {
		n = 1000
	}
	_, err := fmt.Fprintln(c.out, n)
	return err
}

func nproc(c *call) error {
	_, err := fmt.Fprintln(c.out, runtime.NumCPU())
	return err
}

func getconf(c *call) error {
	v, ok := map[string]int{"_NPROCESSORS_ONLN": runtime.NumCPU(), "PAGESIZE": os.Getpagesize()}[strings.Join(c.args, " ")]
	if !ok {
		return fmt.Errorf("no variable %s", strings.Join(c.args, " "))
	}
	_, err := fmt.Fprintln(c.out, v)
	return err
}

func readlink(c *call) error {
	if _, err := c.flags("f", ""); err != nil {
		return err
	}
	return c.each(func(p string) error {
		p, err := filepath.EvalSymlinks(p)
		if err == nil {
			_, err = fmt.Fprintln(c.out, filepath.ToSlash(p))
		}
		return err
	})
}

func pwd(c *call) error {
	p := c.dir
	if slices.Contains(c.args, "-P") {
		var err error
		if p, err = filepath.EvalSymlinks(p); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintln(c.out, filepath.ToSlash(p))
	return err
}

func sleep(c *call) error {
	s, err := strconv.ParseFloat(strings.Join(c.args, ""), 64)
	if err != nil {
		return err
	}
	select {
	case <-time.After(time.Duration(s * float64(time.Second))):
		return nil
	case <-c.ctx.Done():
		return interp.ExitStatus(143)
	}
}

func basename(c *call) error {
	_, err := fmt.Fprintln(c.out, filepath.Base(filepath.FromSlash(strings.Join(c.args, " "))))
	return err
}

func dirname(c *call) error {
	_, err := fmt.Fprintln(c.out, filepath.ToSlash(filepath.Dir(filepath.FromSlash(strings.Join(c.args, " ")))))
	return err
}
