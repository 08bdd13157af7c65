package main

import (
	"encoding/csv"
	"flag"
	"image/png"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/rogpeppe/go-internal/testscript"

	"iotax"
	"iotax/internal/agent"
	"iotax/internal/guest"
	"iotax/internal/machine/host"
	"iotax/internal/machine/ssh"
	"iotax/internal/testenv/guesttest"
	"iotax/internal/testenv/long"
)

// programs maps names of commands to their main functions, for testscript.
var programs = map[string]func(){"iotax": main}

func TestMain(m *testing.M) {
	agent.Main(host.Local())
	if guest.IsInit() { // the tests' guests start the test binary as their init
		guest.Main(host.Local())
		return
	}
	ssh.Askpass()
	if strings.HasPrefix(filepath.Base(os.Args[0]), "iotax-") { // the name of a copy of iotax on another machine
		main()
		return
	}
	guesttest.Static()
	testscript.Main(waiting{m}, programs)
}

// waiting lets at least four parallel tests run at the same time, unless -parallel is given, because they mostly wait
// for guests, engines and deadlines.
type waiting struct{ *testing.M }

func (m waiting) Run() int {
	flag.Parse()
	asked := false
	flag.Visit(func(f *flag.Flag) { asked = asked || f.Name == "test.parallel" })
	if n := max(4, runtime.GOMAXPROCS(0)); !asked {
		if err := flag.Set("test.parallel", strconv.Itoa(n)); err != nil {
			panic(err)
		}
	}
	// scripts/need puts programs that distributions lack into bin.
	if bin, err := filepath.Abs("../../bin"); err == nil {
		if err := os.Setenv("PATH", os.Getenv("PATH")+string(filepath.ListSeparator)+bin); err != nil {
			panic(err)
		}
	}
	return guard(m.M.Run)
}

// guard runs the tests and returns the exit status. On Linux, it also looks for loop devices that tests left.
var guard = func(tests func() int) int { return tests() }

// setup gives every script its own home directory. The scripts share the machine's cache, because fetching and
// unpacking a kernel takes minutes.
func setup(e *testscript.Env) error {
	e.Setenv("HOME", e.WorkDir+"/home")
	e.Setenv("XDG_STATE_HOME", e.WorkDir+"/state")
	e.Setenv("XDG_CACHE_HOME", cacheHome())
	e.Setenv("NO_COLOR", "1")
	return nil
}

func cacheHome() string {
	return strings.TrimSuffix(iotax.CacheDir(), "/iotax")
}

func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{Dir: "testdata/script", Setup: setup, Cmds: map[string]func(*testscript.TestScript, bool, []string){
		"leftovers": leftovers,
		"png":       isPicture,
		"same":      sameTable,
	}})
}

// isPicture fails unless its argument is a PNG with the size, colours and share of marks that a plot has.
func isPicture(ts *testscript.TestScript, neg bool, args []string) {
	img, err := png.Decode(strings.NewReader(ts.ReadFile(args[0])))
	ts.Check(err)
	size := img.Bounds().Size()
	ground, other, colours := img.At(0, 0), 0, map[any]bool{}
	for y := range size.Y {
		for x := range size.X {
			c := img.At(x, y)
			colours[c] = true
			if c != ground {
				other++
			}
		}
	}
	if all := size.X * size.Y; size.X < 1000 || size.Y < 200 || len(colours) < 20 || other < all/200 || other > all/2 {
		ts.Fatalf("%s: %v pixels, %d of them not as the first, %d colours", args[0], size, other, len(colours))
	}
}

// sameTable fails unless a CSV file and a Parquet file have the same rows, at least 50.
func sameTable(ts *testscript.TestScript, neg bool, args []string) {
	lines, err := csv.NewReader(strings.NewReader(ts.ReadFile(args[0]))).ReadAll()
	ts.Check(err)
	file := ts.ReadFile(args[1])
	type row struct {
		Run      string   `parquet:"run"`
		Target   string   `parquet:"target"`
		Workload string   `parquet:"workload"`
		Seq      int32    `parquet:"seq"`
		Metric   *string  `parquet:"metric"`
		Value    *float64 `parquet:"value"`
		Unit     *string  `parquet:"unit"`
	}
	rows, err := parquet.Read[row](strings.NewReader(file), int64(len(file)))
	ts.Check(err)
	if len(rows) != len(lines)-1 || len(rows) < 50 {
		ts.Fatalf("%d rows in %s, %d in %s", len(lines)-1, args[0], len(rows), args[1])
	}
	at := map[string]int{}
	for i, name := range lines[0] {
		at[name] = i
	}
	values := 0
	for i, r := range rows {
		word := func(s *string) string {
			if s == nil {
				return ""
			}
			return *s
		}
		cells := map[string]string{"run": r.Run, "target": r.Target, "workload": r.Workload, "seq": strconv.Itoa(int(r.Seq)), "metric": word(r.Metric), "unit": word(r.Unit), "value": ""}
		if r.Value != nil {
			cells["value"] = strconv.FormatFloat(*r.Value, 'g', -1, 64)
			values++
		}
		for name, got := range cells {
			if want := lines[i+1][at[name]]; got != want {
				ts.Fatalf("row %d: %s is %q in %s and %q in %s", i, name, want, args[0], got, args[1])
			}
		}
	}
	if values == 0 {
		ts.Fatalf("%s has no value", args[1])
	}
}

// leftovers fails if iotax left a directory in one of its arguments.
func leftovers(ts *testscript.TestScript, neg bool, args []string) {
	for _, dir := range args {
		entries, err := os.ReadDir(ts.MkAbs(dir))
		ts.Check(err)
		for _, e := range entries {
			if strings.HasPrefix(e.Name(), "iotax-") {
				ts.Fatalf("%s/%s was left behind", dir, e.Name())
			}
		}
	}
}

var (
	consoleBlock = regexp.MustCompile("(?s)```console\n(.*?)```")
	fileBlock    = regexp.MustCompile("(?s)```(?:yaml|ini|text)\n[#;] (\\S+\\.\\w+)\n(.*?)```")
)

// TestReadme runs every `$ iotax …` line of the user pages. A line must succeed, or fail if it ends in a comment such
// as "# exit 2". A block of the page that begins with a comment with a file name provides that file.
func TestReadme(t *testing.T) {
	long.Test(t)
	dir := t.TempDir()
	n := 0
	for name, text := range userPages(t) {
		var script strings.Builder
		for _, block := range consoleBlock.FindAllStringSubmatch(text, -1) {
			for _, line := range strings.Split(block[1], "\n") {
				cmd, ok := strings.CutPrefix(line, "$ iotax ")
				if !ok {
					continue
				}
				n++
				neg := ""
				if i := strings.Index(cmd, "  # exit "); i >= 0 {
					cmd, neg = cmd[:i], "! "
				}
				script.WriteString(neg + "exec iotax " + cmd + "\n")
			}
		}
		if script.Len() == 0 {
			continue
		}
		for _, f := range fileBlock.FindAllStringSubmatch(text, -1) {
			script.WriteString("-- " + f[1] + " --\n" + f[2])
		}
		short := strings.ReplaceAll(strings.TrimSuffix(name, ".md"), "/", "-")
		if err := os.WriteFile(filepath.Join(dir, short+".txtar"), []byte(script.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if n < 40 {
		t.Errorf("only %d commands were found", n)
	}
	testscript.Run(t, testscript.Params{Dir: dir, Setup: setup})
}

// An invalid plan causes exit status 2, like an invalid command line. A missing directory causes 1, as in iotax run.
func TestWrongPlanIsAMistake(t *testing.T) {
	for text, want := range map[string]int{
		"targets: {a: {dri: /tmp}}\nworkloads: {x: {fio: {rw: read}}}\n":                                                  exitUsage,
		"targets: {a: {dir: /tmp}}\nworkloads: {x: {fio: {rw: read}}}\n":                                                  exitOK,
		"targets: {a: {dir: /tmp}, b: {dir: /no/such}}\nworkloads: {x: {fio: {rw: read}}}\n":                              exitError,
		"targets: {a: {dir: /tmp}, b: {dir: {path: /no/such, create: true}}}\nworkloads: {x: {fio: {rw: read}}}\n":        exitOK,
		"targets: {a: {dir: /tmp}, b: {dir: /no/such}}\nworkloads: {x: {fio: {rw: read}}}\nmeasure: {keep_going: true}\n": exitOK,
	} {
		file := filepath.Join(t.TempDir(), "p.yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := Main(t.Context(), []string{"plan", file}, strings.NewReader(""), io.Discard, io.Discard); got != want {
			t.Errorf("%q: exit status %d, want %d", text, got, want)
		}
	}
}
