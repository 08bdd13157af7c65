package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"iotax"
	"iotax/internal/report"
	"iotax/internal/report/output"
	"iotax/internal/store"
)

func (a *app) reportCommand() *cobra.Command {
	var format string
	var outputs []string
	var rd reading
	c := &cobra.Command{
		Use:   "report [RUN]",
		Short: "Print the report of a saved run (default: the latest)",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if format != "" && !slices.Contains(formatNames(), format) {
				return usageError{fmt.Errorf("--format %s: not a report format; there are %s", format, strings.Join(formatNames(), ", "))}
			}
			if err := a.fitForTerminal(format); err != nil {
				return err
			}
			for _, o := range outputs {
				if err := checkOutput(o); err != nil {
					return err
				}
			}
			if err := rd.read(); err != nil {
				return err
			}
			db, err := openStore(c.Context(), a.store)
			if err != nil {
				return err
			}
			defer db.Close()
			r, err := db.Get(c.Context(), idOrLatest(args))
			if err != nil {
				return err
			}
			rep, err := reportOf(c.Context(), db, r)
			if err != nil {
				return err
			}
			trials := db.Each(c.Context(), r.ID, store.Brief)
			if err := rd.apply(rep); err != nil {
				return err
			}
			for _, o := range outputs {
				if err := a.writeReport(o, rep, r, trials); err != nil {
					return err
				}
			}
			switch {
			case format != "" && format != "txt":
				return a.writeFormat(a.out, format, rep, r, trials)
			case len(outputs) > 0:
				return nil
			}
			return a.print(rep)
		},
	}
	c.Flags().StringVar(&format, "format", "", strings.Join(formatNames(), ", "))
	c.Flags().StringArrayVarP(&outputs, "output", "o", nil, "write the report to this file, in the format of its ending: "+endings(formatNames()))
	a.detailsFlag(c)
	rd.add(c)
	return c
}

// detailsFlag adds --details to a command that prints a report.
func (a *app) detailsFlag(c *cobra.Command) {
	c.Flags().BoolVar(&a.details, "details", false, "print the whole report: every table, interval and note")
}

// fitForTerminal refuses to send a binary format to one.
func (a *app) fitForTerminal(format string) error {
	if (format == "parquet" || format == "png") && isTerminal(a.out) {
		return usageError{fmt.Errorf("--format %s: not for a terminal; name a file with -o, or send it into one", format)}
	}
	return nil
}

func idOrLatest(args []string) string {
	if len(args) == 0 {
		return "latest"
	}
	return args[0]
}

func formatNames() []string {
	return slices.Sorted(slices.Values(slices.AppendSeq(output.Formats(), maps.Keys(rawFormats))))
}

// endings lists the endings of files in those formats.
func endings(formats []string) string { return "." + strings.Join(formats, ", .") }

func formatOf(path string) string {
	return strings.TrimPrefix(strings.ToLower(filepath.Ext(path)), ".")
}

// checkOutput finds a bad report file before anything is measured.
func checkOutput(path string) error { return checkOutputOf(path, formatNames()) }

func checkOutputOf(path string, formats []string) error {
	if !slices.Contains(formats, formatOf(path)) {
		return usageError{&iotax.Error{Op: "write report", On: path, Err: fmt.Errorf("no format has the ending %q", filepath.Ext(path)),
			Hint: "end the name in " + endings(formats)}}
	}
	if st, err := os.Stat(filepath.Dir(path)); err != nil || !st.IsDir() {
		return usageError{&iotax.Error{Op: "write report", On: path, Err: fmt.Errorf("the directory %s does not exist", filepath.Dir(path)), Hint: "make it first"}}
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".iotax-*")
	if err != nil {
		return &iotax.Error{Op: "write report", On: path, Err: errors.Unwrap(err), Hint: "name a file in a directory that can be written"}
	}
	f.Close()
	return os.Remove(f.Name())
}

// reportOf makes the report of a saved run. db must stay open until it is written: what only pictures show is read then.
func reportOf(ctx context.Context, db *store.Store, r *iotax.Run) (*report.Report, error) {
	return report.From(r, db.Parts(ctx, r.ID, "", store.Full))
}

func (a *app) writeReport(path string, rep *report.Report, r *iotax.Run, trials iter.Seq2[*iotax.Trial, error]) error {
	return writeWhole(path, func(w io.Writer) error { return a.writeFormat(w, formatOf(path), rep, r, trials) })
}

// writeWhole writes path whole or not at all.
func writeWhole(path string, write func(io.Writer) error) error {
	fail := func(err error) error { return &iotax.Error{Op: "write report", On: path, Err: err} }
	mustUndo() // removes the temporary file
	f, err := os.CreateTemp(filepath.Dir(path), ".iotax-*")
	if err != nil {
		return fail(err)
	}
	defer os.Remove(f.Name())
	err = write(f)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Chmod(f.Name(), 0o644)
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return fail(err)
	}
	return nil
}
