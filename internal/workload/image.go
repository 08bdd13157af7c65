package workload

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"iotax"
	"iotax/internal/agent"
	"iotax/internal/metric"
	"iotax/internal/object"
	"iotax/internal/plan"
	"iotax/internal/rules"
	"iotax/internal/workload/support"
	"iotax/internal/workload/task"
)

// Image is the spec of `image: {…}`. The workload measures the path of a disk image through an object store: the import
// of the image, and two volumes made from it. With `import`, commands of another VM manager replace these steps.
type Image struct {
	Size   plan.Size    `yaml:"size" doc:"virtual size of the image"`
	Data   plan.Percent `yaml:"data" doc:"share of the image that is written; the rest is a hole"`
	Import string       `yaml:"import" doc:"shell command of another VM manager that imports the raw file $SOURCE as $NAME, instead of qemu-img and the store"`
	First  string       `yaml:"first" doc:"command of that manager that makes the first volume, $NAME-1, from $NAME"`
	Second string       `yaml:"second" doc:"command of that manager that makes the second volume, $NAME-2, from $NAME"`
	Remove string       `yaml:"remove" doc:"command of that manager that removes both volumes and the image, if they exist"`
}

var imageTools = map[string]string{"qemu-img": "qemu-utils"}

func (s *Image) Traits() plan.Traits {
	can := plan.Traits{Scale: s.Scale, Metrics: s.metrics}
	if s.Import == "" {
		can.Tools = slices.Sorted(maps.Keys(imageTools))
	}
	return can
}

func (s *Image) metrics() []metric.Metric {
	all := metric.Of(iotax.Seconds, iotax.Down, "import.duration", "time to import the image", iotax.ValueFirstDuration, "time to make the first volume of it",
		iotax.ValueSecondDuration, "time to make the second volume")
	if s.Import != "" { // the steps within a VM manager are unknown
		return all
	}
	return slices.Concat(all, metric.Of(iotax.Seconds, iotax.Down, "import.convert", "time to convert the image", "import.upload", "time to upload it",
		"first.download", "time to download it", "first.convert", "time to make the volume of the download"),
		metric.Of(iotax.BytesPerSecond, iotax.Up, "import.bandwidth", "bytes of the image per second of the import", "first.bandwidth", "the same of the first volume"))
}

func newImage() plan.Spec { return &Image{Size: 1 << 30, Data: 0.5} }

// Scale multiplies the size of the image by a factor.
func (s *Image) Scale(by float64) { s.Size = max(16<<20, plan.Size(float64(s.Size)*by)>>20<<20) }

// Validate returns an error for an invalid image, or if some of the VM manager's commands are missing.
func (s *Image) Validate() error {
	var errs []error
	if s.Size < 1<<20 || s.Size%(1<<20) != 0 {
		errs = append(errs, &plan.FieldError{Field: "size", Msg: fmt.Sprintf("%v is not a whole number of MiB", s.Size), Hint: "as in 1GiB"})
	}
	if !(s.Data > 0 && s.Data <= 1) {
		errs = append(errs, &plan.FieldError{Field: "data", Msg: "is not more than 0% and at most 100%", Hint: "as in 50%"})
	}
	given := 0
	for _, c := range []string{s.Import, s.First, s.Second, s.Remove} {
		if c != "" {
			given++
		}
	}
	if given != 0 && given != 4 {
		errs = append(errs, &plan.FieldError{Field: "import", Msg: "a VM manager needs all of import, first, second and remove", Hint: "give the others too, or none for qemu-img"})
	}
	return errors.Join(errs...)
}

func openImage(w plan.Workload, s *Image, e support.Env) (iotax.Workload, error) {
	return &imagePath{name: w.Name, spec: *s, env: e, scratches: map[*iotax.Target]*support.Scratch{}, verified: map[*iotax.Target]bool{}}, nil
}

type imagePath struct {
	name      string
	spec      Image
	env       support.Env
	scratches map[*iotax.Target]*support.Scratch
	verified  map[*iotax.Target]bool
}

func (w *imagePath) Metrics() []string {
	return []string{"import.duration", iotax.ValueFirstDuration, iotax.ValueSecondDuration}
}

func (w *imagePath) Caps() iotax.WorkloadCaps {
	size := int64(w.spec.Size)
	return iotax.WorkloadCaps{Space: func() int64 { return size }, Limit: 3 * support.Longest(size)}
}

func (w *imagePath) fail(t *iotax.Target, err error, hint string) error {
	var e *iotax.Error
	if errors.As(err, &e) && e.Hint != "" {
		hint = ""
	}
	if strings.Contains(err.Error(), "No space left") {
		hint = "make room in " + t.Machine.String() + ", or use a smaller size"
	}
	return &iotax.Error{Op: "make volumes from an image for " + w.name + " on", On: t.Name, Err: err, Hint: hint}
}

// Check returns an error if the bucket cannot be used or qemu-img is missing. With a VM manager, it checks nothing.
func (w *imagePath) Check(ctx context.Context, t *iotax.Target) error {
	if w.spec.Import != "" {
		return nil
	}
	if err := support.MissingTool(ctx, t.Machine, imageTools); err != nil {
		return err
	}
	inner, cancel := context.WithTimeout(ctx, 2*object.DefaultTimeout)
	defer cancel()
	_, _, err := askStore(inner, t, w.env, object.OpLook, nil)
	return err
}

// Prepare creates the raw image. Unless the plan has a VM manager, it first marks the bucket.
func (w *imagePath) Prepare(ctx context.Context, t *iotax.Target) error {
	data := int64(float64(w.spec.Size)*float64(w.spec.Data)) >> 20 << 20
	if w.spec.Import == "" {
		inner, cancel := context.WithTimeout(ctx, 2*object.DefaultTimeout)
		defer cancel()
		if err := markStore(inner, t, w.env); err != nil {
			return err
		}
	}
	// Need covers the raw image, the new and the downloaded qcow2 file, and the first volume.
	s, err := support.NewScratch(ctx, w.env, t.Machine, support.Lodging{Need: 3*data + int64(w.spec.Size)})
	if err != nil {
		return w.fail(t, err, "")
	}
	w.scratches[t] = s
	err = support.Limited(ctx, support.Longest(data), func(ctx context.Context) error {
		_, err := task.Random.On(ctx, t.Machine, task.RandomFile{Path: s.Path + "/source.raw", Data: data, Size: int64(w.spec.Size)})
		return err
	})
	if err != nil {
		return w.fail(t, err, "")
	}
	return nil
}

// Run runs all steps once. qemu-img converts with direct I/O, which bypasses the machine's page cache.
func (w *imagePath) Run(ctx context.Context, t *iotax.Target, out *iotax.Trial) (err error) {
	s := w.scratches[t]
	if s == nil {
		return w.fail(t, errors.New("the image was not prepared"), "")
	}
	size := int64(w.spec.Size)
	add := func(name string, d time.Duration) {
		out.Values = append(out.Values, iotax.Value{Name: name, Value: d.Seconds(), Unit: iotax.Seconds, Better: iotax.Down})
	}
	out.Values = append(out.Values, iotax.Value{Name: iotax.ValueOperations, Value: 1, Unit: iotax.Count})
	out.Facts["size"], out.Facts["data"] = w.spec.Size.String(), w.spec.Data.String()
	defer func() {
		clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Minute)
		defer cancel()
		if cerr := w.clear(clean, t, s); err == nil && cerr != nil {
			err = w.fail(t, cerr, "")
		}
	}()
	if w.spec.Import != "" {
		return w.runCommands(ctx, t, s, out, add)
	}
	convert := func(from, to string, files ...string) (time.Duration, error) {
		return s.Run(ctx, support.Longest(size), nil, append([]string{"qemu-img", "convert", "-q", "-T", "none", "-t", "none", "-f", from, "-O", to}, files...)...)
	}
	ask := func(op, file string, bytes int64) (time.Duration, error) {
		begun := time.Now()
		_, _, err := askStore(ctx, t, w.env, op, func(j *object.Job) {
			j.File, j.Object = s.Path+"/"+file, "image.qcow2"
			j.Batch = object.Batch{Size: bytes, Part: 16 << 20, Concurrency: 8}
			j.Endpoint.Timeout = support.Longest(size)
		})
		return time.Since(begun), err
	}
	converted, err := convert("raw", "qcow2", "source.raw", "image.qcow2")
	if err != nil {
		return w.fail(t, err, "")
	}
	sent, err := ask(object.OpPutFile, "image.qcow2", 0)
	if err != nil {
		return w.fail(t, err, "")
	}
	add("import.convert", converted)
	add("import.upload", sent)
	add("import.duration", converted+sent)
	sizes, err := task.Sizes.On(ctx, t.Machine, task.Files{Dir: s.Path, Names: []string{"image.qcow2"}})
	if err != nil {
		return w.fail(t, err, "")
	}
	moved := sizes["image.qcow2"]
	out.Facts["moved"] = plan.Size(moved).String()
	// The rate is the number of bytes moved, divided by the time of the whole step, conversions included.
	rate := func(name string, d time.Duration) {
		out.Values = append(out.Values, iotax.Value{Name: name, Value: float64(moved) / d.Seconds(), Unit: iotax.BytesPerSecond, Better: iotax.Up})
	}
	rate("import.bandwidth", converted+sent)
	fetched, err := ask(object.OpGetFile, "base.qcow2", moved)
	if err != nil {
		return w.fail(t, err, "")
	}
	if err := sameImage(ctx, t.Machine, s.Path+"/base.qcow2", size); err != nil {
		return w.fail(t, err, "check that no other client writes to the bucket, and that the store returns objects unchanged")
	}
	written, err := convert("qcow2", "raw", "base.qcow2", "volume-1.raw")
	if err != nil {
		return w.fail(t, err, "")
	}
	add("first.download", fetched)
	add("first.convert", written)
	add(iotax.ValueFirstDuration, fetched+written)
	rate("first.bandwidth", fetched+written)
	cloned, err := s.Run(ctx, time.Minute, nil, "qemu-img", "create", "-q", "-f", "qcow2", "-F", "qcow2", "-b", "base.qcow2", "volume-2.qcow2")
	if err != nil {
		return w.fail(t, err, "")
	}
	add(iotax.ValueSecondDuration, cloned)
	if !w.verified[t] { // once, and not timed: both volumes must equal the image
		for file, format := range map[string]string{"volume-1.raw": "raw", "volume-2.qcow2": "qcow2"} {
			if _, err := s.Run(ctx, support.Longest(size), nil, "qemu-img", "compare", "-q", "-f", "raw", "-F", format, "source.raw", file); err != nil {
				return w.fail(t, fmt.Errorf("a volume is not what the image was: %w", err), "")
			}
		}
		w.verified[t] = true
	}
	w.judge(out, cloned, fetched+written)
	return nil
}

// sameImage returns an error if a downloaded image uses other files or has another size. With such an image, a hostile
// store could make qemu-img read any file of the machine, or fill the machine's disk.
func sameImage(ctx context.Context, m iotax.Machine, file string, size int64) error {
	out, err := iotax.Output(ctx, m, "qemu-img", "info", "--output=json", "-f", "qcow2", file)
	if err != nil {
		return err
	}
	var info struct {
		Size    int64  `json:"virtual-size"`
		Backing string `json:"backing-filename"`
		Of      struct {
			Data struct {
				File string `json:"data-file"`
			} `json:"data"`
		} `json:"format-specific"`
	}
	if err := json.Unmarshal(out, &info); err != nil {
		return fmt.Errorf("qemu-img info: %w", err)
	}
	const another = "the store returned another image than the uploaded one: "
	if other := cmp.Or(info.Backing, info.Of.Data.File); other != "" {
		return fmt.Errorf(another+"it uses the file %q", other)
	}
	if info.Size != size {
		return fmt.Errorf(another+"its virtual size is %d bytes instead of %d", info.Size, size)
	}
	return nil
}

// fastClone is the minimum speedup of the second volume over the first that counts as a fast clone.
const fastClone = 10

// judge adds a finding if the second volume was not fastClone times as fast as the first.
func (w *imagePath) judge(out *iotax.Trial, second, first time.Duration) {
	if second*fastClone > first {
		out.Findings = append(out.Findings, rules.CloneNotFast.Found(iotax.AboutTrial(out), "the second volume took %v, the first %v", second.Round(time.Millisecond), first.Round(time.Millisecond)))
	}
}

// runCommands runs the steps of the plan's VM manager.
func (w *imagePath) runCommands(ctx context.Context, t *iotax.Target, s *support.Scratch, out *iotax.Trial, add func(string, time.Duration)) error {
	took := map[string]time.Duration{}
	for _, step := range []struct{ value, command string }{{"import.duration", w.spec.Import}, {iotax.ValueFirstDuration, w.spec.First}, {iotax.ValueSecondDuration, w.spec.Second}} {
		d, err := w.manager(ctx, s, support.Longest(int64(w.spec.Size)), step.command)
		if err != nil {
			return w.fail(t, fmt.Errorf("%s: %w", step.command, err), "")
		}
		add(step.value, d)
		took[step.value] = d
	}
	w.judge(out, took[iotax.ValueSecondDuration], took[iotax.ValueFirstDuration])
	return nil
}

// manager runs a command of the VM manager with $SOURCE and $NAME in its environment.
func (w *imagePath) manager(ctx context.Context, s *support.Scratch, limit time.Duration, command string) (time.Duration, error) {
	goos, err := support.System(ctx, s.M)
	if err != nil {
		return 0, err
	}
	env := []string{"SOURCE=" + s.Path + "/source.raw", "NAME=" + path.Base(s.Path)}
	return s.Run(ctx, limit, env, agent.Shell(goos, command)...)
}

// clear removes the image and the volumes of a trial.
func (w *imagePath) clear(ctx context.Context, t *iotax.Target, s *support.Scratch) error {
	if w.spec.Import != "" {
		_, err := w.manager(ctx, s, time.Minute, w.spec.Remove)
		return err
	}
	_, err := task.Remove.On(ctx, t.Machine, task.Files{Dir: s.Path, Names: []string{"image.qcow2", "base.qcow2", "volume-1.raw", "volume-2.qcow2"}})
	_, _, cerr := askStore(ctx, t, w.env, object.OpClean, func(j *object.Job) { j.Keep = true })
	return errors.Join(err, cerr)
}

func (w *imagePath) Cleanup(ctx context.Context, t *iotax.Target) error {
	s := w.scratches[t]
	delete(w.scratches, t)
	var err error
	if w.spec.Import == "" {
		err = cleanStore(ctx, t, w.env)
	}
	return errors.Join(err, s.Remove(ctx))
}
