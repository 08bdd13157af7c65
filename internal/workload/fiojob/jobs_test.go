package fiojob

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"iotax"
	"iotax/fio"
	"iotax/internal/machine"
	"iotax/internal/machine/host"
	"iotax/internal/plan"
	"iotax/internal/testenv/worktest"
	"iotax/internal/volume"
	"iotax/internal/workload/support"
)

func allKinds() plan.Kinds {
	return plan.Kinds{Workloads: []plan.Kind{Kind.Kind}, Volumes: volume.PlanKinds(), Machines: machine.PlanKinds()}
}

const twoSections = `[global]
size=1m
direct=1
[reader]
rw=randread
iodepth=${QD}
[writer]
rw=randwrite
filename=/mnt/x
runtime=60
[reader]
stonewall
rw=read
bs=128k
`

func TestSectionsAreWorkloads(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "j.fio"), []byte(twoSections), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := plan.Parse(filepath.Join(dir, "p.yaml"), []byte("targets: {a: {dir: /tmp}}\nworkloads:\n  w: {fio: {file: j.fio, env: {QD: 4}, bs: [4k, 8k]}}\n  one: {fio: {file: j.fio, section: writer}}\n"), allKinds())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, w := range p.Workloads {
		got = append(got, fmt.Sprintf("%s %v", w.Name, w.Labels))
	}
	want := `w bs=4k section=reader map[bs:4k section:reader]
w bs=4k section=writer map[bs:4k section:writer]
w bs=4k section=reader#2 map[bs:4k section:reader#2]
w bs=8k section=reader map[bs:8k section:reader]
w bs=8k section=writer map[bs:8k section:writer]
w bs=8k section=reader#2 map[bs:8k section:reader#2]
one map[]`
	if strings.Join(got, "\n") != want {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), want)
	}
	w, err := Kind.New(p.Workloads[0], support.Env{})
	if err != nil {
		t.Fatal(err)
	}
	j := w.(*fioJob)
	if f := j.findings(); len(f) != 1 || f[0].Rule != "jobs-run-alone" || !strings.Contains(f[0].Evidence, "j.fio: without a stonewall between them, fio would run reader, writer at the same time") {
		t.Errorf("%+v", f)
	}
	if fmt.Sprint(j.settings) != "[--size=1m --direct=1 --rw=randread --iodepth=${QD} --bs=4k]" {
		t.Error(j.settings)
	}

	// The resolved plan contains the whole job, and does not need the file.
	text, err := p.YAML()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "j.fio")); err != nil {
		t.Fatal(err)
	}
	q, err := plan.Parse("q.yaml", text, allKinds())
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	again, err := q.YAML()
	if err != nil || string(again) != string(text) {
		t.Errorf("%v\n%s\n%s", err, text, again)
	}
	for i := range p.Workloads {
		a, err := Kind.New(p.Workloads[i], support.Env{})
		if err != nil {
			t.Fatal(err)
		}
		b, err := Kind.New(q.Workloads[i], support.Env{})
		if err != nil {
			t.Fatal(err)
		}
		ra, err := a.(*fioJob).resolve(map[string]string{"QD": "4"})
		if err != nil {
			t.Fatal(err)
		}
		rb, err := b.(*fioJob).resolve(map[string]string{"QD": "4"})
		if err != nil {
			t.Fatal(err)
		}
		la := line{fio: []string{"fio"}, job: ra, name: "w", place: "/d", engine: "psync", runtime: 1}
		lb := la
		lb.job = rb
		if sa, sb := strings.Join(la.args(), " "), strings.Join(lb.args(), " "); sa != sb || !strings.Contains(sa, "--size=1m") {
			t.Errorf("%s\n%s\n%s", p.Workloads[i].Name, sa, sb)
		}
	}
}

func TestCommandIsAWorkload(t *testing.T) {
	src := `targets: {a: {dir: /tmp}}
workloads:
  w:
    fio:
      command: |
        sudo fio --name=a --rw=randread --filename=/dev/sdb --runtime=30 \
          --bs=4k --kb_base=1000 --size=8k --output=x.json | tee log
      iodepth: 8
`
	p, err := plan.Parse("p.yaml", []byte(src), allKinds())
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Workloads) != 1 || p.Workloads[0].Name != "w" {
		t.Fatalf("%+v", p.Workloads)
	}
	w, err := Kind.New(p.Workloads[0], support.Env{})
	if err != nil {
		t.Fatal(err)
	}
	j := w.(*fioJob)
	f := j.findings()
	if len(f) != 1 || !strings.Contains(f[0].Evidence, "the command: iotax decides these itself: filename=/dev/sdb, runtime=30 (see measure.trial), --output=x.json, | tee log") {
		t.Errorf("%+v", f)
	}
	r, err := j.resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	if r.bs != 4096 || r.layout.bytes != 4096 { // size=8k is 8000 bytes with kb_base=1000, rounded down to whole blocks
		t.Errorf("%+v", r)
	}
	got := strings.Join((line{fio: []string{"fio"}, job: r, name: "w", place: "/d", engine: "psync", runtime: 1}).args(), " ")
	if !strings.HasPrefix(got, "fio --readonly --name=iotax.w --ioengine=psync --rw=randread --bs=4k --kb_base=1000 --size=4096 --kb_base=1024 --iodepth=8 ") &&
		!strings.HasPrefix(got, "fio --readonly --name=iotax.w --ioengine=psync --rw=randread --bs=4k --kb_base=1000 --size=4096 --iodepth=8 ") {
		t.Error(got)
	}
}

func TestJobErrorsInPlans(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"bad.fio": "[a]\nrw=read\n[b\n", "empty.fio": "[global]\n", "j.fio": twoSections} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for spec, want := range map[string]string{
		"file: no.fio":                            "no.fio: file does not exist",
		"file: bad.fio":                           `bad.fio: line 3: "[b" has no closing bracket`,
		"file: empty.fio":                         "has no job besides [global]",
		"file: j.fio, section: rader":             `there is no section "rader"; there is reader, writer, reader#2`,
		"file: j.fio, command: fio --name=a":      "not both",
		"command: fio --rw=read":                  "the command has no --name",
		"command: dd if=x":                        "no fio command",
		"command: fio --name=a --client=x":        "with --client=x fio would not run the job here",
		"command: fio --name=a j.fio":             "a --name and the job file j.fio",
		"command: fio j.fio bad.fio":              "several job files",
		"command: fio j.fio --section=x":          "no section x",
		"command: 'fio --name=a --direct --rw=w'": "--direct has no value",
	} {
		_, err := plan.Parse(filepath.Join(dir, "p.yaml"), []byte("targets: {a: {dir: /tmp}}\nworkloads:\n  w: {fio: {"+spec+"}}\n"), allKinds())
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "p.yaml:3:") || !strings.Contains(err.Error(), "hint:") || strings.Count(err.Error(), "hint:") != 1 {
			t.Errorf("%s: got %v, want %s", spec, err, want)
		}
	}
	// The caret points at the word.
	_, err := plan.Parse("p.yaml", []byte("targets: {a: {dir: /tmp}}\nworkloads:\n  w: {fio: {command: 'fio --name=a --direct --rw=w'}}\n"), allKinds())
	var es plan.Errors
	if !errors.As(err, &es) || es[0].Column != 36 {
		t.Errorf("%v", err)
	}
	p, err := plan.Parse(filepath.Join(dir, "p.yaml"), []byte("targets: {a: {dir: /tmp}}\nworkloads:\n  w: {fio: {command: fio --bs=16k j.fio --section=writer}}\n"), allKinds())
	if err != nil {
		t.Fatal(err)
	}
	w, err := Kind.New(p.Workloads[0], support.Env{})
	if err != nil || fmt.Sprint(w.(*fioJob).settings) != "[--bs=16k --size=1m --direct=1 --rw=randwrite]" {
		t.Error(w, err)
	}
}

// The errors for a job with a secret do not contain the secret.
func TestJobsWithSecrets(t *testing.T) {
	file := filepath.Join(t.TempDir(), "j.fio")
	if err := os.WriteFile(file, []byte("[a]\nrw=read\nhttp_s3_key=MARKED\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, word := range []string{file, "fio --name=a --rw=read --http_s3_key=MARKED"} {
		p, err := plan.FromWords([]string{"dir:/tmp"}, []string{word}, plan.Defaults(), allKinds())
		if err == nil {
			_, err = Kind.New(p.Workloads[0], support.Env{Log: t.Logf})
		}
		if err == nil || !strings.Contains(err.Error(), "a secret would be in fio's command line") || strings.Contains(err.Error(), "MARKED") {
			t.Errorf("%s: %v", word, err)
		}
	}
}

func TestJobsAsWords(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "j.fio")
	if err := os.WriteFile(file, []byte(twoSections), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := plan.FromWords([]string{"dir:/tmp"}, []string{"fio --name=x --rw=read --size=1m", file, "randread-4k", "fio --name=b --size=1m \\\n --name=c --size=2m"}, plan.Defaults(), allKinds())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, w := range p.Workloads {
		got = append(got, w.Name)
	}
	if strings.Join(got, " ") != "x reader writer reader#2 randread-4k b c" {
		t.Error(got)
	}
	for word, want := range map[string]string{
		"fio --rw=read":              "  fio --rw=read\n  ^^^^^^^^^^^^^\n",
		"fio --name=a --direct --rw": "  fio --name=a --direct --rw\n               ^\n",
		"/no/such.fio":               "file does not exist",
	} {
		_, err := plan.FromWords([]string{"dir:/tmp"}, []string{word}, plan.Defaults(), allKinds())
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", word, err)
		}
	}
}

// Options that a target's fio does not accept are reported before any measurement.
func TestUnknownOptions(t *testing.T) {
	out, err := exec.Command("fio", "--version").Output()
	if err != nil {
		t.Fatal(err)
	}
	version := strings.TrimSpace(string(out))
	const newer = "end_syncfs=1"
	dir := t.TempDir()
	file := filepath.Join(dir, "j.fio")
	for option, want := range map[string][2]string{
		newer:       {"j.fio, line 5: the option end_syncfs came with fio 3.42; here is " + version, "fio 3.42 or later"},
		"iodeph=4":  {"j.fio: line 5: fio has no option iodeph", `"iodepth"`},
		"hipri=1":   {"j.fio, line 5: the option hipri is one of the engine", "ioengine: "},
		"iodepth=x": {version + ": failed parsing iodepth=x", "correct the option"},
	} {
		if o, _ := fio.LookupOption("end_syncfs"); option == newer && !o.NewerThan(version) {
			continue
		}
		if err := os.WriteFile(file, []byte("[a]\nrw=read\nioengine=psync\nsize=64k\n"+option+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		w, err := Kind.New(plan.Workload{Name: "w", Kind: "fio", Spec: &Fio{File: file}}, support.Env{})
		if err == nil {
			err = w.Check(worktest.CtxFor(t), worktest.Target(host.Local(), dir))
		}
		var e *iotax.Error
		if !errors.As(err, &e) || !strings.Contains(err.Error(), want[0]) || !strings.Contains(e.Hint, want[1]) {
			t.Errorf("%s: got %v, want %s", option, err, want)
		}
	}
}

// Jobs that fio would run at the same time form one workload if the plan sets `jointly`.
func TestJointly(t *testing.T) {
	dir := t.TempDir()
	text := "[global]\nioengine=psync\nsize=1m\n[reader]\nrw=randread\n[writer]\nrw=write\nbs=64k\nsize=2m\nioengine=sync\n[reader]\nstonewall\nrw=randread\nfilename=x\n[writer]\nrw=randwrite\nfilename=x\nsize=2m\n"
	if err := os.WriteFile(filepath.Join(dir, "j.fio"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := plan.Parse(filepath.Join(dir, "p.yaml"), []byte("targets: {a: {dir: /tmp}}\nworkloads:\n  w: {fio: {file: j.fio, jointly: true, direct: 0}}\n"), allKinds())
	if err != nil {
		t.Fatal(err)
	}
	yaml, err := p.YAML()
	if err != nil {
		t.Fatal(err)
	}
	q, err := plan.Parse("q.yaml", yaml, allKinds())
	if err != nil || len(q.Workloads) != 2 || q.Workloads[0].Name != "w section=reader+writer" || q.Workloads[1].Name != "w section=reader#2+writer#2" {
		t.Fatalf("%v\n%s", err, yaml)
	}
	for i, want := range []struct {
		total int64
		files string
	}{{3 << 20, "iotax-1MiB.0.0.dat iotax-2MiB-beside1.0.0.dat"}, {2 << 20, "iotax-2MiB.dat"}} {
		w, err := Kind.New(q.Workloads[i], support.Env{CacheDir: worktest.Cache, Shared: worktest.Shared})
		if err != nil {
			t.Fatal(err)
		}
		j := w.(*fioJob)
		if got := strings.Join(j.Metrics(), " "); got != []string{"read.iops write.bandwidth", "read.iops write.iops"}[i] || j.Space() != want.total {
			t.Error(got, j.Space())
		}
		place := t.TempDir()
		on, ctx := worktest.Target(host.Local(), place), worktest.CtxFor(t)
		if _, err := j.Settle(ctx, []*iotax.Target{on}); err != nil {
			t.Fatal(err)
		}
		if err := j.Check(ctx, on); err != nil {
			t.Fatal(err)
		}
		if err := j.Prepare(ctx, on); err != nil {
			t.Fatal(err)
		}
		var names []string
		entries, err := os.ReadDir(place)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			names = append(names, e.Name())
		}
		if got := strings.Join(names, " "); got != want.files {
			t.Errorf("files %s, want %s", got, want.files)
		}
		trial := &iotax.Trial{Length: 200 * time.Millisecond, Seed: 1}
		if err := j.Run(ctx, on, trial); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"read.iops", "write.iops"} {
			if v, ok := trial.Value(name); !ok || v.Value <= 0 {
				t.Errorf("%s: %v", name, v)
			}
		}
		if f := trial.Facts; i == 0 && (f["rw"] != "randread + write" || f["numjobs"] != "1 + 1" || f["size"] != "1m + 2m" ||
			!strings.Contains(f["command"], "--name=iotax.w-section-reader-writer --ioengine=psync ") || !strings.Contains(f["command"], "--name=iotax.w-section-reader-writer.writer --ioengine=sync ")) {
			t.Errorf("%v", f)
		}
		if err := j.Cleanup(ctx, on); err != nil {
			t.Fatal(err)
		}
		if entries, err := os.ReadDir(place); err != nil || len(entries) > 0 {
			t.Error(entries, err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "j.fio"), []byte("[a]\nsize=1m\n[b]\nsize=1m\nwait_for=a\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for spec, want := range map[string]string{"file: j.fio, jointly: true": "b waits for a (wait_for)", "rw: read, jointly: true": "only the jobs of a job file"} {
		_, err := plan.Parse(filepath.Join(dir, "p.yaml"), []byte("targets: {a: {dir: /tmp}}\nworkloads:\n  w: {fio: {"+spec+"}}\n"), allKinds())
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", spec, err)
		}
	}
}

// Two jobs that name the same file can run jointly, even if the engine of the first one uses no file.
func TestJointlyWithoutFile(t *testing.T) {
	dir := t.TempDir()
	text := "[global]\nfilename=x\nsize=1m\n[idle]\nrw=read\nioengine=null\n[reader]\nrw=randread\nioengine=psync\n"
	if err := os.WriteFile(filepath.Join(dir, "j.fio"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := plan.Parse(filepath.Join(dir, "p.yaml"), []byte("targets: {a: {dir: /tmp}}\nworkloads:\n  w: {fio: {file: j.fio, jointly: true, direct: 0}}\n"), allKinds())
	if err != nil {
		t.Fatal(err)
	}
	w, err := Kind.New(p.Workloads[0], support.Env{CacheDir: worktest.Cache, Shared: worktest.Shared})
	if err != nil {
		t.Fatal(err)
	}
	out, err := worktest.Attempt(t, w, worktest.Target(host.Local(), t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	if v, ok := out.Value("read.iops"); !ok || !(v.Value > 0) {
		t.Errorf("%v", v)
	}
}

// A job with by_size writes its size once, and no runtime cuts it off.
func TestFioBySize(t *testing.T) {
	spec := &Fio{Command: "fio --name=sync-test --rw=write --ioengine=sync --fdatasync=1 --size=64k --bs=2300", BySize: true}
	if err := spec.Validate(); err != nil {
		t.Fatal(err)
	}
	w, err := Kind.New(plan.Workload{Name: "sync test", Kind: "fio", Spec: spec}, support.Env{CacheDir: worktest.Cache, Shared: worktest.Shared, Log: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	if limit := w.Caps().Limit; limit < time.Minute {
		t.Fatalf("a trial by size may take %v", limit)
	}
	out, err := worktest.Attempt(t, w, worktest.Target(host.Local(), worktest.OnDisk(t)))
	if err != nil {
		t.Fatal(err)
	}
	const whole = 64 << 10 / 2300 * 2300
	if v, ok := out.Value("write.bytes"); !ok || v.Value < whole || v.Value > 64<<10 {
		t.Errorf("%g bytes were written (%v), %d are its size", v.Value, ok, 64<<10)
	}
	// The job flushes after each block. The number of flushes that fio reports may be lower than the number of blocks.
	if v, ok := out.Value("sync.latency.mean"); !ok || v.Value <= 0 {
		t.Errorf("the mean latency of a flush is %g (%v)", v.Value, ok)
	}
	if v, ok := out.Value("sync.ios"); !ok || v.Value < 64<<10/2300/2 {
		t.Errorf("%g flushes (%v)", v.Value, ok)
	}
	if c := out.Facts["command"]; strings.Contains(c, "time_based") || strings.Contains(c, "runtime") {
		t.Error(c)
	}
	if err := w.Caps().Joins(); err == nil {
		t.Error("it is done at several targets at the same moment")
	}
	bad := newFio().(*Fio)
	bad.BySize, bad.Load = true, "60%"
	var fe *plan.FieldError
	if err := bad.Validate(); !errors.As(err, &fe) || fe.Field != "by_size" {
		t.Errorf("got %v", err)
	}
}
