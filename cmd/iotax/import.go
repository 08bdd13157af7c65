package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"iotax"
	"iotax/internal/ingest"
	"iotax/internal/report/format"
	"iotax/internal/rules"
	"iotax/internal/store"
	"iotax/internal/terminal"
)

// An importOptions holds the flags of import.
type importOptions struct {
	targets, workloads positional
	into               string
	baseline, name     string
}

func (a *app) importCommand() *cobra.Command {
	var o importOptions
	c := &cobra.Command{
		Use:   "import FILE…",
		Short: "Save existing results of fio as a run, for report and compare",
		Long: `import reads the output of fio (JSON, terse, normal text, logs) from files, from
directories and all below them, or from standard input (-). It saves them as one
run. Several results of one job on one target are repetitions.

--as names the target of all files; given several times, of the files after it.
Without --as each file is a target, named after the file without its ending and
repetition number ("host-2.json"). In a directory each folder with files is a
target; if it has one folder whose files repeat a job, each file is a target.`,
		Example: `  iotax import --as host before/*.json --as guest after/*.json
  iotax import host.json guest.json && iotax report
  fio job.fio | iotax import - --as laptop --workload "4k random read"`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return a.importFiles(c.Context(), &o, args) },
	}
	f := c.Flags()
	o.targets.flags, o.workloads.flags = f, f
	f.Var(&o.targets, "as", "target of the files; given several times, of the files after it")
	f.Var(&o.workloads, "workload", "workload of the files (default: the jobs' names); may be repeated like --as")
	f.StringVar(&o.into, "run", "", "add to this imported run")
	completeBy(c, "run", a.completeRuns(1000))
	f.StringVar(&o.baseline, "baseline", "", "target that the others are compared with (default: the first)")
	f.StringVar(&o.name, "name", "", "name of the run")
	return c
}

// A positional flag applies to the arguments after it, up to the next occurrence of the flag. If the flag is given only
// once, it applies to all arguments.
type positional struct {
	flags  *pflag.FlagSet
	values []string
	from   []int // for each value, the number of arguments before it
}

func (p *positional) Set(s string) error {
	if strings.TrimSpace(s) == "" {
		return errors.New("it is empty")
	}
	p.values, p.from = append(p.values, s), append(p.from, p.flags.NArg())
	return nil
}

func (p *positional) String() string { return strings.Join(p.values, ", ") }
func (p *positional) Type() string   { return "name" }

// `of` returns the value for argument i, or "" if no value applies to it.
func (p *positional) of(i int) string {
	if len(p.values) == 1 {
		return p.values[0]
	}
	v := ""
	for k, from := range p.from {
		if from <= i {
			v = p.values[k]
		}
	}
	return v
}

// check returns an error if the flag has several values and one of them applies to no argument.
func (p *positional) check(flag string, args int) error {
	for k, from := range p.from {
		next := args
		if k+1 < len(p.from) {
			next = p.from[k+1]
		}
		if len(p.values) > 1 && from >= next {
			return iotax.Usage(&iotax.Error{Op: "import as", On: p.values[k], Err: errors.New("no file follows it"),
				Hint: fmt.Sprintf("where --%s is given several times, put each before its files", flag)})
		}
	}
	return nil
}

func (a *app) importFiles(ctx context.Context, o *importOptions, args []string) error {
	for flag, p := range map[string]*positional{"as": &o.targets, "workload": &o.workloads} {
		if err := p.check(flag, len(args)); err != nil {
			return err
		}
	}
	var batch ingest.Batch
	for i, arg := range args {
		src := ingest.Source{Name: arg, Target: o.targets.of(i), Workload: o.workloads.of(i)}
		if err := a.readInput(ctx, &batch, src); err != nil {
			return err
		}
	}
	db, err := store.Open(ctx, a.store)
	if err != nil {
		return err
	}
	defer db.Close()
	r, trials, rows, err := o.run(ctx, db, &batch)
	if errors.Is(err, ingest.ErrNothing) {
		if err := a.printImport(nil, nil, rows); err != nil {
			return err
		}
		return &iotax.Error{Op: "import", On: strings.Join(args, " "), Err: err, Hint: "give files that fio wrote; --output-format=json+ has the most values"}
	}
	if err != nil {
		return err
	}
	for _, t := range trials {
		if err := db.Append(ctx, t); err != nil {
			return err
		}
	}
	if err := db.Update(ctx, r); err != nil {
		return err
	}
	return a.printImport(r, trials, rows)
}

// `run` creates a run from the imported results, or extends the run that --run names. It saves the run as incomplete.
// The caller saves the returned trials, and then the returned run.
func (o *importOptions) run(ctx context.Context, db *store.Store, batch *ingest.Batch) (*iotax.Run, []*iotax.Trial, []ingest.Row, error) {
	now := time.Now()
	save := db.Create
	var r *iotax.Run
	var trials []*iotax.Trial
	var rows []ingest.Row
	var err error
	if o.into == "" {
		if r, trials, rows, err = batch.Run(version(), now); err != nil {
			return nil, nil, rows, err
		}
		r.ID = store.NewID(now)
		for _, t := range trials {
			t.Run = r.ID
		}
	} else {
		if r, err = db.Get(ctx, o.into); err != nil {
			return nil, nil, nil, err
		}
		if !r.Imported() {
			return nil, nil, nil, &iotax.Error{Op: "import into", On: r.ID, Err: errors.New("iotax measured this run"), Hint: "leave --run out, and compare the two: iotax compare"}
		}
		if r.Status != iotax.Done {
			return nil, nil, nil, &iotax.Error{Op: "import into", On: r.ID, Err: errors.New("another import into it has not ended"), Hint: importAgain(r)}
		}
		have, err := db.Trials(ctx, r.ID)
		if err != nil {
			return nil, nil, nil, err
		}
		if trials, rows, err = batch.Extend(r, have, now); err != nil {
			return nil, nil, rows, err
		}
		save = db.Update
	}
	if o.name != "" {
		r.Name = o.name
	}
	if o.baseline != "" {
		i := slices.IndexFunc(r.Targets, func(t iotax.TargetInfo) bool { return t.Name == o.baseline })
		if i < 0 {
			var names []string
			for _, t := range r.Targets {
				names = append(names, t.Name)
			}
			return nil, nil, nil, iotax.Usage(&iotax.Error{Op: "import", On: "--baseline " + o.baseline, Err: errors.New("no file has a target of this name"), Hint: "use one of " + strings.Join(names, ", ")})
		}
		r.Baseline = o.baseline
	}
	part := *r
	part.Status = iotax.Incomplete
	part.Findings = append(slices.Clip(r.Findings), rules.StoppedEarly.Hinting(importAgain(r)).Found(iotax.AboutRun(), "the import has not ended"))
	return r, trials, rows, save(ctx, &part)
}

func importAgain(r *iotax.Run) string {
	return "if no iotax import runs, remove the run (`iotax rm " + r.ID + "`), and import its files again"
}

// readInput adds a file, standard input, or the files below a directory to the batch. Below a directory, it skips
// hidden files and directories. The batch records why a file cannot be read.
func (a *app) readInput(ctx context.Context, batch *ingest.Batch, src ingest.Source) error {
	if src.Name == "-" {
		if err := batch.Add(src, a.in); err != nil {
			return &iotax.Error{Op: "read", On: "the standard input", Err: err}
		}
		return nil
	}
	st, err := os.Stat(src.Name)
	if err != nil {
		batch.Refuse(src.Name, iotax.Cause(err))
		return nil
	}
	if !st.IsDir() {
		addFile(batch, src)
		return nil
	}
	root := src.Name + string(filepath.Separator) // so that a link to a directory is followed
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			batch.Refuse(path, iotax.Cause(err))
			return ctx.Err()
		}
		hidden := strings.HasPrefix(d.Name(), ".") && path != root
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case hidden && d.IsDir():
			return filepath.SkipDir
		case hidden || d.IsDir():
			return nil
		case !d.Type().IsRegular():
			batch.Refuse(path, errors.New("no regular file"))
			return nil
		}
		s := src
		s.Name = path
		// filepath.Dir may return ".", which is not the name of a folder.
		if dir, err := filepath.Abs(filepath.Dir(path)); err == nil {
			s.Folder = filepath.Base(dir)
		}
		addFile(batch, s)
		return nil
	})
}

func addFile(batch *ingest.Batch, src ingest.Source) {
	f, err := os.Open(src.Name)
	if err != nil {
		batch.Refuse(src.Name, iotax.Cause(err))
		return
	}
	defer f.Close()
	if err := batch.Add(src, f); err != nil {
		batch.Refuse(src.Name, iotax.Cause(err))
	}
}

// printImport lists the recognised inputs and the rejected ones. r is nil if no input was recognised.
func (a *app) printImport(r *iotax.Run, trials []*iotax.Trial, rows []ingest.Row) error {
	if a.json {
		var brief []iotax.Trial
		for _, t := range trials {
			b := *t
			b.Series, b.Histograms = nil, nil // iotax export writes them
			brief = append(brief, b)
		}
		return writeJSON(a.out, struct {
			Run    *iotax.Run    `json:"run"` // null if no input was recognised
			Trials []iotax.Trial `json:"trials"`
			Parts  []ingest.Row  `json:"parts"`
		}{r, list(brief), list(rows)})
	}
	dir := commonDir(rows)
	place := func(row ingest.Row) string {
		s := terminal.Clean(strings.TrimPrefix(row.File, dir))
		if row.Line > 1 {
			s += fmt.Sprintf(":%d", row.Line)
		}
		return s
	}
	if dir != "" {
		fmt.Fprintf(a.out, "files below %s\n\n", terminal.Clean(dir))
	}
	if r != nil && !a.quiet {
		w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
		fmt.Fprintln(w, "TRIAL\tTARGET\tWORKLOAD\tFORM\tRESULT\tFILE")
		for _, row := range rows {
			if row.Trial >= 0 {
				fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%s\t%s\n", row.Trial+1, terminal.Clean(row.Target), terminal.Clean(row.Workload), row.Kind, row.Note, place(row))
			}
		}
		if err := w.Flush(); err != nil {
			return err
		}
		var notes []string
		logs := map[string]int{}
		for _, row := range rows {
			if row.Trial < 0 && row.Reason == "" {
				if logs[row.Note]++; logs[row.Note] == 1 {
					notes = append(notes, row.Note)
				}
			}
		}
		for i, n := range notes {
			if i == 0 {
				fmt.Fprintln(a.out)
			}
			fmt.Fprintf(a.out, "%s %s\n", format.Plural(logs[n], "log"), strings.ReplaceAll(terminal.Clean(n), terminal.Clean(dir), ""))
		}
	}
	heading := false
	for _, row := range rows {
		if row.Reason == "" {
			continue
		}
		if !heading {
			heading = true
			fmt.Fprintln(a.out, "\nnot recognised, or not whole:")
		}
		fmt.Fprintf(a.out, "  %s: %s\n", place(row), terminal.Clean(row.Reason))
	}
	if r == nil {
		return nil
	}
	s := fmt.Sprintf("\nsaved %s as run %s", format.Plural(len(trials), "trial"), r.ID)
	if len(r.Targets) > 1 {
		s += "; baseline: " + terminal.Clean(r.Baseline)
	}
	_, err := io.WriteString(a.out, s+"\nreport: iotax report "+r.ID+"\n")
	return err
}

// commonDir returns the directory that all files share, with its trailing separator. It returns "" if that is shorter
// than 10 bytes.
func commonDir(rows []ingest.Row) string {
	dir := ""
	for i, row := range rows {
		d := row.File[:strings.LastIndexAny(row.File, `/\`)+1]
		if i == 0 {
			dir = d
		}
		for !strings.HasPrefix(d, dir) {
			dir = dir[:strings.LastIndexAny(dir[:len(dir)-1], `/\`)+1]
		}
	}
	if len(dir) < 10 {
		return ""
	}
	return dir
}
