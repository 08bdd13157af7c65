package fiojob

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"iotax"
	"iotax/internal/machine"
	"iotax/internal/plan"
	"iotax/internal/volume"
	"iotax/internal/workload/support"
)

func TestSetOption(t *testing.T) {
	for _, c := range []struct{ key, value, want, hint string }{
		{"iodeph", "4", "fio has no option iodeph", `"iodepth"`},
		{"runtime", "10", "iotax sets this option itself", "measure: {trial: 10s}"},
		{"timeout", "10", "iotax sets this option itself", "measure: {trial: 10s}"},
		{"filename", "/dev/sda", "iotax sets this option itself", "the target sets the place"},
		{"http_s3_key", "x", "a secret would be in fio's command line", "bucket: target"},
		{"ioengine", "nosuch", "not an engine that iotax supports", "one of sync, "},
		{"rbd_encryption_passphrase", "x", "a secret would be in fio's command line", ""},
		{"kb_base", "1000", "iotax sets this option itself", "standard units"},
		{"rw", "randraed", `"randraed" is not a direction`, `"randread"`},
		{"size", "1 gig", "unknown unit", ""},
		{"size", "1mb", "unknown unit", `"MB"`},
		{"size", "50%", "is a share", "1GiB"},
		{"size", "0", "can't be 0", ""},
		{"bs", "4k,x", "not a size", ""},
		{"bs", "", "needs a value", ""},
		{"iodepth", "0", "not a whole number from 1 to 1048576", ""},
		{"numjobs", "many", "not a whole number from 1 to 1048576", ""},
	} {
		err := (&Fio{}).SetOption(c.key, c.value)
		var fe *plan.FieldError
		if !errors.As(err, &fe) || fe.Field != c.key || !strings.Contains(fe.Msg, c.want) || !strings.Contains(fe.Hint, c.hint) {
			t.Errorf("%s=%s: got %#v, want %q, %q", c.key, c.value, err, c.want, c.hint)
		}
	}
}

func TestDefaults(t *testing.T) {
	for _, c := range []struct {
		set  string
		want string
	}{
		{"", "rw=randread bs=4k iodepth=1 numjobs=1 size=1GiB direct=1"},
		{"rw=write", "rw=write bs=4k iodepth=1 numjobs=1 size=1GiB direct=1 end_fsync=1"},
		{"rw=randrw fsync=1", "rw=randrw bs=4k iodepth=1 numjobs=1 size=1GiB direct=1 fsync=1"},
		{"numjobs=4", "rw=randread bs=4k iodepth=1 numjobs=4 size=256MiB direct=1"},
		{"numjobs=3", "rw=randread bs=4k iodepth=1 numjobs=3 size=341MiB direct=1"},
		{"buffered=1 blocksize=64KiB readwrite=read", "rw=read bs=64KiB iodepth=1 numjobs=1 size=1GiB buffered=1"},
		{"bssplit=4k/50:64k/50", "rw=randread iodepth=1 numjobs=1 size=1GiB direct=1 bssplit=4k/50:64k/50"},
		{"time_based_not=1 hipri=true", ""},
		{"hipri=true norandommap=", "rw=randread bs=4k iodepth=1 numjobs=1 size=1GiB direct=1 hipri=1 norandommap="},
	} {
		spec := &Fio{}
		bad := false
		for _, kv := range strings.Fields(c.set) {
			k, v, _ := strings.Cut(kv, "=")
			bad = spec.SetOption(k, v) != nil || bad
		}
		if bad != (c.want == "") {
			t.Errorf("%s: error %v", c.set, bad)
		}
		if bad {
			continue
		}
		for range 2 { // a resolved plan resolves to itself
			if err := spec.Validate(); err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, o := range spec.Options() {
				got = append(got, o.Key+"="+o.Value)
			}
			if s := strings.Join(got, " "); s != c.want {
				t.Errorf("%s:\ngot  %s\nwant %s", c.set, s, c.want)
			}
			again := &Fio{}
			for _, o := range spec.Options() {
				if err := again.SetOption(o.Key, o.Value); err != nil {
					t.Error(err)
				}
			}
			spec = again
		}
	}
	for _, bad := range []*Fio{{Section: "a"}, {Env: map[string]string{"a": "b"}}} {
		var fe *plan.FieldError
		if err := bad.Validate(); !errors.As(err, &fe) || !strings.Contains(fe.Hint, "file:") {
			t.Errorf("got %v", err)
		}
	}
}

// Sizes in a plan are in standard units. fio must not read them by its own rules.
func TestStandardSizes(t *testing.T) {
	for in, want := range map[string]string{
		"4k": "4k", "64KiB": "65536", "1MB": "1000000", "1GiB": "1073741824", "1.5GiB": "1610612736", "1.5k": "1536", "512B": "512",
		"4KiB,8kB": "4096,8000", "4KiB/50:64KiB/50": "4096/50:65536/50", "iops_slope:0.3%": "iops_slope:0.3%", "0-1": "0-1", "10s": "10s",
	} {
		if got := standardSizes(in); got != want {
			t.Errorf("%s: got %s, want %s", in, got, want)
		}
	}
}

func TestMetrics(t *testing.T) {
	for set, want := range map[string]string{
		"rw=randread bs=4k":                     "read.iops",
		"rw=randread bs=1m":                     "read.iops",
		"rw=read bs=1MiB":                       "read.bandwidth",
		"rw=write bs=64k":                       "write.bandwidth",
		"rw=write bs=4k":                        "write.iops",
		"rw=randrw":                             "read.iops write.iops",
		"rw=rw bs=128k":                         "read.bandwidth write.bandwidth",
		"rw=randtrim":                           "trim.iops",
		"rw=trimwrite bs=1m":                    "write.bandwidth trim.bandwidth",
		"rw=readwrite bsrange=64k-1m":           "read.bandwidth write.bandwidth",
		"rw=read:8 bssplit=4k/10:1m/90 size=1g": "read.iops",
	} {
		var kv []string
		for _, f := range strings.Fields(set) {
			k, v, _ := strings.Cut(f, "=")
			kv = append(kv, k, v)
		}
		if got := strings.Join(open(t, kv...).Metrics(), " "); got != want {
			t.Errorf("%s: got %s, want %s", set, got, want)
		}
	}
}

func TestLayout(t *testing.T) {
	for _, c := range []struct {
		set   string
		total int64
		names string
	}{
		{"", 1 << 30, "iotax-1GiB.0.0.dat"},
		{"size=1MiB numjobs=2", 2 << 20, "iotax-1MiB.0.0.dat iotax-1MiB.1.0.dat"},
		{"size=2MiB nrfiles=2", 2 << 20, "iotax-1MiB.0.0.dat iotax-1MiB.0.1.dat"},
		{"filesize=1m nrfiles=2", 2 << 20, "iotax-1MiB.0.0.dat iotax-1MiB.0.1.dat"},
		{"size=1MiB numjobs=2 offset_increment=1MiB", 2 << 20, "iotax-2MiB.dat"},
		{"size=1MiB offset=1MiB", 2 << 20, "iotax-2MiB.0.0.dat"},
		{"size=5000", 4096, "iotax-4KiB.0.0.dat"}, // rounded down to a whole block
		{"size=12288", 12288, "iotax-12KiB.0.0.dat"},
		{"size=1g ioengine=null", 0, ""},
	} {
		var kv []string
		for _, f := range strings.Fields(c.set) {
			k, v, _ := strings.Cut(f, "=")
			kv = append(kv, k, v)
		}
		j := open(t, kv...)
		r, err := j.resolve(nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(r.layout.names(), " "); got != c.names || j.Space() != c.total {
			t.Errorf("%s: got %s, %d", c.set, got, j.Space())
		}
	}
	// Files with special data have separate names, but only for jobs that write them.
	name := func(kv ...string) string {
		r, err := open(t, kv...).resolve(nil)
		if err != nil {
			t.Fatal(err)
		}
		return r.layout.names()[0]
	}
	plain := name("rw", "randwrite")
	if plain == name("rw", "randwrite", "zero_buffers", "1") || plain != name("rw", "randread", "zero_buffers", "1") || plain == name("rw", "randtrim") {
		t.Error("special data and names do not fit")
	}
}

func TestArgs(t *testing.T) {
	l := line{fio: []string{"/usr/bin/fio"}, name: "4k random read: ünïcode", place: "/mnt/a:b", engine: "io_uring", seed: 7, runtime: 10000, ramp: 2000}
	show := func(l line, set string) string {
		var kv []string
		for _, f := range strings.Fields(set) {
			k, v, _ := strings.Cut(f, "=")
			kv = append(kv, k, v)
		}
		r, err := open(t, kv...).resolve(nil)
		if err != nil {
			t.Fatal(err)
		}
		l.job = r
		return iotax.QuoteAll(l.args())
	}
	tail := " --lat_percentiles=1 --clat_percentiles=0 --group_reporting=1 --output-format=json+ --eta=never"
	want := `/usr/bin/fio --readonly --name=iotax.4k-random-read---n-code --ioengine=io_uring --rw=randread --bs=4k --iodepth=1 --numjobs=1 --size=1048576 --direct=1 ` +
		`'--filename_format=iotax-1MiB.$jobnum.$filenum.dat' --allow_file_create=0 --invalidate=0 --runtime=10000ms --time_based=1 --ramp_time=2000ms --randrepeat=0 --randseed=7` + tail
	l.keepWarm = true
	got := show(l, "size=1MiB")
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	l.keepWarm, l.ramp = false, 0
	l.fio = []string{"/t/ld.so", "--library-path", "/t/lib", "/t/fio"}
	got = show(l, "rw=randwrite size=1MiB ioengine=libaio norandommap=")
	want = `/t/ld.so --library-path /t/lib /t/fio --name=iotax.4k-random-read---n-code --ioengine=io_uring --rw=randwrite --bs=4k --iodepth=1 --numjobs=1 --size=1048576 --direct=1 --end_fsync=1 --norandommap ` +
		`'--filename_format=iotax-1MiB.$jobnum.$filenum.dat' --allow_file_create=0 --runtime=10000ms --time_based=1 --randrepeat=0 --randseed=7` + tail
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	l.device, l.place = true, "/dev/vdb"
	if got = show(l, "rw=read size=1MiB nrfiles=2"); !strings.Contains(got, " --filename=/dev/vdb ") || strings.Contains(got, "nrfiles") || !strings.Contains(got, "--readonly") || !strings.Contains(got, " --allow_file_create=0 ") {
		t.Error(got)
	}
}

func TestSeeds(t *testing.T) {
	for in, want := range map[uint64]uint64{0: 1, 7: 7, 1<<64 - 1: 1<<63 - 1, 1 << 63: 1} {
		if got := fioSeed(in); got != want {
			t.Errorf("%d: got %d, want %d", in, got, want)
		}
	}
}

// A plan with fio workloads parses and resolves, and its resolved form parses to the same plan.
func TestInAPlan(t *testing.T) {
	k := plan.Kinds{Workloads: []plan.Kind{Kind.Kind}, Volumes: volume.PlanKinds(), Machines: machine.PlanKinds()}
	src := "targets:\n  here: {dir: {path: /tmp}}\nworkloads:\n  a: {fio: {rw: randwrite, bs: [4k, 64KiB], direct: true, time: 1}}\n"
	_, err := plan.Parse("p.yaml", []byte(src), k)
	if err == nil || !strings.Contains(err.Error(), `unknown key "time" of fio`) {
		t.Errorf("got %v", err)
	}
	_, err = plan.Parse("p.yaml", []byte(strings.Replace(src, "time: 1", "runtime: 60", 1)), k)
	if err == nil || !strings.Contains(err.Error(), "iotax sets this option itself") || !strings.Contains(err.Error(), "measure: {trial: 10s}") || !strings.Contains(err.Error(), "p.yaml:4:") {
		t.Errorf("got %v", err)
	}
	p, err := plan.Parse("p.yaml", []byte(strings.Replace(src, ", time: 1", "", 1)), k)
	if err != nil {
		t.Fatal(err)
	}
	text, err := p.YAML()
	if err != nil {
		t.Fatal(err)
	}
	q, err := plan.Parse("q.yaml", text, k)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if len(p.Workloads) != 2 || len(q.Workloads) != 2 {
		t.Fatalf("%d, %d workloads\n%s", len(p.Workloads), len(q.Workloads), text)
	}
	for i := range p.Workloads {
		a, b := fmt.Sprint(p.Workloads[i].Spec.(*Fio).Options()), fmt.Sprint(q.Workloads[i].Spec.(*Fio).Options())
		if a != b || !strings.Contains(a, "{end_fsync 1}") {
			t.Errorf("%s\n%s", a, b)
		}
	}
}

// In a plan, `null` without quotes also selects fio's null engine, although it is YAML's null value.
func TestNullEngine(t *testing.T) {
	k := plan.Kinds{Workloads: []plan.Kind{Kind.Kind}, Volumes: volume.PlanKinds(), Machines: machine.PlanKinds()}
	for _, word := range []string{"null", `"null"`} {
		p, err := plan.Parse("p.yaml", []byte("targets: {here: {dir: /tmp}}\nworkloads: {a: {fio: {ioengine: "+word+", norandommap: }}}\n"), k)
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(p.Workloads[0].Spec.(*Fio).Options()); !strings.Contains(got, "{ioengine null}") || !strings.Contains(got, "{norandommap }") {
			t.Errorf("%s: %s", word, got)
		}
	}
}

func TestJobFile(t *testing.T) {
	dir := t.TempDir()
	text := `[global]
size=2*1024*$mb_memory
ioengine=libaio
direct=1
runtime=60
time_based
stonewall
[random-read]
rw=randread
numjobs=$ncpus
blocksize=4k
[one-file]
rw=write
filename=test
size=1MiB
`
	if err := os.WriteFile(filepath.Join(dir, "j.fio"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	load := func(spec *Fio) (*fioJob, error) {
		w, err := Kind.New(plan.Workload{Name: "w", Kind: "fio", Spec: spec, Pos: plan.Pos{File: filepath.Join(dir, "plan.yaml")}}, support.Env{})
		if err != nil {
			return nil, err
		}
		return w.(*fioJob), nil
	}
	j, err := load(&Fio{File: "j.fio", Section: "random-read", Env: map[string]string{"ncpus": "2"}})
	if err != nil {
		t.Fatal(err)
	}
	r, err := j.resolve(map[string]string{"ncpus": "64", "mb_memory": "1024"})
	if err != nil {
		t.Fatal(err)
	}
	if got := iotax.QuoteAll((line{fio: []string{"fio"}, job: r, name: "w", place: "/d", engine: "libaio", runtime: 1000}).args()); !strings.HasPrefix(got,
		"fio --readonly --name=iotax.w --ioengine=libaio --size=2097152 --direct=1 --rw=randread --numjobs=2 --bs=4k '--filename_format") {
		t.Error(got)
	}
	if fmt.Sprint(j.overridden) != "[--runtime=60 --time_based]" || r.layout.total() != 4<<20 || r.engine != "libaio" {
		t.Error(j.overridden, r.layout.total(), r.engine)
	}
	if f := j.findings(); len(f) != 1 || f[0].Rule != "set-by-iotax" || f[0].Line != 5 || !strings.Contains(f[0].Evidence, "j.fio: iotax decides these itself: runtime=60 (see measure.trial), time_based (see measure.trial)") {
		t.Errorf("%+v", f)
	}

	// Options that the plan sets in addition to `file` override it. Sizes in the file follow fio's rules: its MiB is 10⁶
	// bytes.
	spec := &Fio{File: filepath.Join(dir, "j.fio"), Section: "one-file"}
	if err := spec.SetOption("bs", "64KiB"); err != nil {
		t.Fatal(err)
	}
	if j, err = load(spec); err != nil {
		t.Fatal(err)
	}
	if r, err = j.resolve(nil); err != nil {
		t.Fatal(err)
	}
	if !r.layout.shared || r.layout.bytes != 1000000/65536*65536 || r.bs != 65536 || r.layout.names()[0] != "iotax-960KiB.dat" {
		t.Errorf("%+v %v", r, r.layout.names())
	}

	for _, c := range []struct {
		spec       *Fio
		want, hint string
	}{
		{&Fio{File: "no.fio"}, "no.fio: file does not exist", "folder of the plan"},
		{&Fio{Command: "fio --rw=read"}, "the command has no --name", "--name=test"},
		{&Fio{File: "j.fio"}, "there are several: random-read, one-file", "section: random-read"},
		{&Fio{File: "j.fio", Section: "onefile"}, `there is no section "onefile"`, "section: one-file"},
	} {
		_, err := load(c.spec)
		var e *iotax.Error
		if !errors.As(err, &e) || !strings.Contains(err.Error(), c.want) || !strings.Contains(e.Hint, c.hint) {
			t.Errorf("got %v, want %s", err, c.want)
		}
	}
	for _, bad := range []string{"opendir=/", "create_only=1", "kb_base=3", "read_iolog=x", "bs= 8k", "rw = read", "rw=randraed"} {
		if err := os.WriteFile(filepath.Join(dir, "bad.fio"), []byte("[a]\n"+bad+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := load(&Fio{File: "bad.fio"}); err == nil || !strings.Contains(err.Error(), "line 2") {
			t.Errorf("%s: got %v", bad, err)
		}
	}
	for _, bad := range []string{"size=${NO}", "size=10%", "size=x", "filesize=1m-2m", "numjobs=0", "rw=read", "size=1m\nbs=1.5k", "size=1m\nbs=4k,8x", "size=1m\nnumjobs=x"} {
		if err := os.WriteFile(filepath.Join(dir, "bad.fio"), []byte("[a]\n"+bad+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		j, err := load(&Fio{File: "bad.fio"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := j.resolve(nil); err == nil {
			t.Errorf("%s was taken", bad)
		}
	}
}

// Files have whole blocks. Scaling changes the sizes of the files, but does not shrink them below a few blocks. Jobs
// with different small block sizes have files of the same size.
func TestScale(t *testing.T) {
	for _, c := range []struct {
		command string
		by      []float64
		total   int64
	}{
		{"fio --name=a '--size=2*1024*1024*$mb_memory' '--numjobs=$ncpus'", []float64{0.5}, 2 * 1 << 30},
		{"fio --name=a --size=1g", []float64{0.5, 0.1}, 51 << 20},
		{"fio --name=a --size=16m --offset=4m", []float64{0.25}, 5 << 20},
		{"fio --name=a --bs=1m --size=900m --nrfiles=10", []float64{0.01}, 40 << 20},
		{"fio --name=a --bs=4k --size=900m --nrfiles=10", []float64{0.01}, 40 << 20}, // the same files as in the row above
		{"fio --name=a --bs=4m,8m --rw=write --filesize=1g", []float64{0.001}, 32 << 20},
		{"fio --name=a --bs=4m --size=6m", []float64{0.5}, 4 << 20},
		{"fio --name=a --bs=1m --size=9000k --nrfiles=2 --rw=write", nil, 8 << 20},
		{"fio --name=a --bs=4k --size=9000k", nil, 9000 << 10},
		{"fio --name=a --size=100k", []float64{0.01}, 100 << 10},
		{"fio --name=a --filesize=10m --nrfiles=10", []float64{2}, 200 << 20},
	} {
		spec := &Fio{Command: c.command, Env: map[string]string{"mb_memory": "1024", "ncpus": "2"}}
		for _, by := range c.by {
			spec.Scale(by)
		}
		w, err := openFio(plan.Workload{Name: "x", Kind: "fio", Spec: spec}, spec, support.Env{Shared: &support.Shared{}})
		if err != nil {
			t.Fatal(err)
		}
		if got := w.Caps().Space(); got != c.total {
			t.Errorf("%s by %v: %d bytes, want %d", c.command, c.by, got, c.total)
		}
	}
	bad := &Fio{ScaleBy: -1}
	var fe *plan.FieldError
	if err := bad.Validate(); !errors.As(err, &fe) || fe.Field != "scale" {
		t.Errorf("a negative scale: %v", err)
	}
}

// A job beyond the limits, or with files smaller than a block, is refused when the plan is read, before the names of
// its files are built.
func TestTooManyFiles(t *testing.T) {
	t.Parallel()
	file := func(text string) *Fio {
		name := filepath.Join(t.TempDir(), "j.fio")
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return &Fio{File: name}
	}
	var sections strings.Builder
	for i := range 5 {
		fmt.Fprintf(&sections, "[s%d]\nnumjobs=1000\nsize=1m\n", i)
	}
	for _, c := range []struct {
		options []string
		file    string
		jointly bool
		env     map[string]string
		want    string
	}{
		{options: []string{"numjobs", "1048576", "nrfiles", "1048576"}, want: "numjobs: 1048576 is too many"},
		{options: []string{"nrfiles", "1048576"}, want: "nrfiles: 1048576 is too many"},
		{options: []string{"numjobs", "11", "nrfiles", "100"}, want: "nrfiles: 1100 files are too many"},
		{options: []string{"numjobs", "4096", "size", "1TiB"}, want: "size: the test files would be too large"},
		{options: []string{"filesize", "8388607TiB", "nrfiles", "2"}, want: "too large"},
		{options: []string{"numjobs", "4096", "offset_increment", "1TiB"}, want: "offset_increment: the test files would be too large"},
		{options: []string{"numjobs", "1000", "size", "4KiB"}},
		{options: []string{"bs", "1MiB", "size", "512KiB"}, want: "size: 512KiB is less than one block of 1MiB"},
		{options: []string{"bs", "1MiB", "size", "9MiB", "nrfiles", "10"}, want: "size: each of the 10 files: "},
		{options: []string{"bs", "64k", "filesize", "4KiB"}, want: "filesize: 4KiB is less than one block of 64KiB"},
		{options: []string{"bs", "1MiB", "size", "1GiB", "io_size", "4KiB"}, want: "io_size: 4KiB is less than one block of 1MiB"},
		{options: []string{"bs", "4k,1MiB", "size", "512KiB"}},
		{options: []string{"bs", "4k,1MiB", "size", "512KiB", "rw", "randrw"}, want: "less than one block of 1MiB"},
		{options: []string{"bsrange", "4k-1MiB", "size", "512KiB"}},
		{options: []string{"bssplit", "64k/50:1MiB/50", "size", "32KiB"}, want: "less than one block of 64KiB"},
		{options: []string{"bs", "1MiB", "size", "512KiB", "ioengine", "null"}},
		{file: "[a]\nbs=4m\nsize=1m\n", want: "a: size: 1MiB is less than one block of 4MiB"},
		{options: []string{"numjobs", "4096", "size", "4KiB", "offset_increment", "4KiB"}},
		{file: "[a]\nnumjobs=100000\nsize=1m\n", want: "a: numjobs: 100000 is too many"},
		{file: "[a]\nsize=1m\n[b]\nnrfiles=2000\nsize=1g\n", want: "b: nrfiles: 2000 files are too many"},
		{file: "[a]\nnumjobs=${JOBS}\nsize=1m\n"},
		{file: "[a]\nsize=9999${mb_memory}g\nnumjobs=4096\n"}, // the size depends on the target's memory, which is still unknown
		{file: "[a]\nsize=${mb_memory}g\nnumjobs=4096\n", env: map[string]string{"mb_memory": "100000"}, want: "a: size: the test files would be too large"},
		{file: sections.String()},
		{file: sections.String(), jointly: true, want: "numjobs: 5000 processes are too many"},
	} {
		begin := time.Now()
		var err error
		if c.file != "" {
			spec := file(c.file)
			spec.Jointly, spec.Env = c.jointly, c.env
			_, err = spec.Split("")
		} else {
			spec := newFio().(*Fio)
			for i := 0; i < len(c.options) && err == nil; i += 2 {
				err = spec.SetOption(c.options[i], c.options[i+1])
			}
			err = errors.Join(err, spec.Validate())
		}
		switch {
		case c.want == "" && err != nil, c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%+v: got %v", c, err)
		}
		if d := time.Since(begin); d > time.Second {
			t.Errorf("%+v took %v", c, d)
		}
	}
}
