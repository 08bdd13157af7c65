package main

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"iotax"
	"iotax/internal/terminal"
)

// An outlet holds the flags --format and -o. --format is the format of standard output. -o writes a file in the format
// that its ending names. Other endings require an explicit --format. The file "-" is standard output.
type outlet struct {
	formats []string // names, which are also the endings of files
	format  string
	files   []string
	also    bool // write the document to standard output even with -o
}

// spoken maps common names of formats to their endings.
var spoken = map[string]string{"text": "txt", "markdown": "md", "junit": "xml"}

// add defines the flags on c. standard is the default of --format.
func (o *outlet) add(c *cobra.Command, formats []string, standard string) {
	o.formats = slices.Sorted(slices.Values(formats))
	var names, endings []string
	for _, f := range o.formats {
		switch f {
		case "txt":
			names = slices.Insert(names, 0, "text")
		case "xml":
			names = append(names, "junit")
		default:
			names = append(names, f)
		}
		endings = append(endings, "."+f)
	}
	usage := "write to this file instead of standard output"
	if o.also {
		usage = "also write the report to this file"
	}
	f := c.Flags()
	f.StringVar(&o.format, "format", standard, "format of standard output: "+strings.Join(names, ", "))
	f.StringArrayVarP(&o.files, "output", "o", o.files, usage+", in the format of its ending ("+strings.Join(endings, ", ")+"), else of --format; - is standard output; may be repeated")
	group(c, groupOutput, "format", "output")
	complete(c, "format", names...)
}

// formatOf returns the format of a file by its ending, or "" if no format has that ending.
func (o *outlet) formatOf(path string) string {
	return o.known(strings.TrimPrefix(strings.ToLower(filepath.Ext(path)), "."))
}

// `known` returns the format with that name, or "".
func (o *outlet) known(name string) string {
	if s, ok := spoken[name]; ok {
		name = s
	}
	if !slices.Contains(o.formats, name) {
		return ""
	}
	return name
}

// check validates --format and -o before the command does any work. It sets a.json, and replaces a name such as
// "markdown" in o.format with its ending.
func (o *outlet) check(a *app, c *cobra.Command) error {
	chosen := c.Flags().Changed("format")
	if a.json && !chosen {
		o.format = "json"
	}
	format := o.known(o.format)
	if format == "" {
		return iotax.Usage(&iotax.Error{Op: "read --format", On: o.format, Err: fmt.Errorf("%s does not write this format", c.Name()), Hint: o.otherwise(c, o.format)})
	}
	o.format = format
	a.json = format == "json"
	for _, path := range o.files {
		if path == "-" {
			continue
		}
		if o.formatOf(path) == "" && !chosen {
			return iotax.Usage(&iotax.Error{Op: "write", On: path, Err: fmt.Errorf("%s writes no format with the ending %q", c.Name(), filepath.Ext(path)), Hint: o.otherwise(c, strings.TrimPrefix(filepath.Ext(path), "."))})
		}
		if st, err := os.Stat(filepath.Dir(path)); err != nil || !st.IsDir() {
			return iotax.Usage(&iotax.Error{Op: "write", On: path, Err: fmt.Errorf("the directory %s does not exist", filepath.Dir(path)), Hint: "make it first"})
		}
		if st, err := os.Stat(path); err == nil && st.IsDir() {
			return iotax.Usage(&iotax.Error{Op: "write", On: path, Err: errors.New("it is a directory"), Hint: "name a file"})
		}
		if _, _, err := replaced(path); err != nil {
			return &iotax.Error{Op: "write", On: path, Err: iotax.Cause(err), Hint: "name a file in a directory that can be written"}
		}
	}
	if (format == "parquet" || format == "png") && o.prints() && terminal.Is(a.out) {
		return iotax.Usage(&iotax.Error{Op: "write", On: "standard output", Err: fmt.Errorf("%s is not for a terminal", format), Hint: "name a file: -o FILE." + format})
	}
	return nil
}

// otherwise returns a hint for a format that the command c does not write.
func (o *outlet) otherwise(c *cobra.Command, format string) string {
	if _, ok := exports[format]; ok && c.Name() != "export" && format != "json" {
		return "iotax export --format " + format
	}
	return "use one of " + strings.Join(o.formats, ", ")
}

// prints reports whether the document goes to standard output.
func (o *outlet) prints() bool {
	return o.also || len(o.files) == 0 || slices.Contains(o.files, "-")
}

// writes reports whether the document is written in one of these formats.
func (o *outlet) writes(formats ...string) bool {
	return o.prints() && slices.Contains(formats, o.format) ||
		slices.ContainsFunc(o.files, func(path string) bool { return slices.Contains(formats, cmp.Or(o.formatOf(path), o.format)) })
}

// replaced returns the path and the mode of the file that a new file at path replaces. It resolves symbolic links. It
// returns "" for a device or a FIFO, because writing to these must not replace them. The error reports that the directory cannot be written.
func replaced(path string) (file string, mode os.FileMode, err error) {
	old, err := os.Stat(path)
	if err == nil && !old.Mode().IsRegular() {
		return "", 0, nil
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	// The umask or the directory decides the mode of a new file.
	f, err := os.OpenFile(filepath.Join(filepath.Dir(path), ".iotax-"+rand.Text()), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return "", 0, err
	}
	st, err := f.Stat()
	if err = errors.Join(err, f.Close(), os.Remove(f.Name())); err != nil {
		return "", 0, err
	}
	if old != nil {
		st = old
	}
	return path, st.Mode().Perm(), nil
}

// write writes the document to the files of -o and, if o.prints, to standard output. If one of them fails, it still
// writes the others. It returns the names of the files that it wrote.
func (o *outlet) write(a *app, document func(w io.Writer, format string) error) (written []string, err error) {
	var errs []error
	for _, path := range o.files {
		if path == "-" {
			continue
		}
		format := o.formatOf(path)
		if format == "" {
			format = o.format
		}
		mustUndo() // a signal must not leave the temporary file
		write := func(w io.Writer) error { return document(w, format) }
		file, mode, err := replaced(path)
		switch {
		case err != nil:
			err = iotax.Cause(err) // without the name of a temporary file
		case file != "":
			err = iotax.WriteWhole(file, mode, write)
		default:
			var f *os.File
			if f, err = os.OpenFile(path, os.O_WRONLY, 0); err == nil {
				err = errors.Join(write(f), f.Close())
			}
		}
		if err != nil {
			errs = append(errs, &iotax.Error{Op: "write", On: path, Err: err})
			continue
		}
		written = append(written, path)
	}
	if o.prints() {
		errs = append(errs, document(a.out, o.format))
	}
	return written, errors.Join(errs...)
}
