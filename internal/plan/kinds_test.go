package plan

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"iotax"
	"iotax/internal/metric"
)

// Sample kinds with fields of different types.

type hostSpec struct{ Plain }

type guestSpec struct {
	Memory Size   `yaml:"memory" doc:"memory of the guest"`
	CPUs   int    `yaml:"cpus" doc:"virtual CPUs"`
	Image  string `yaml:"image" doc:"disk image"`
	Fast   *bool  `yaml:"fast" doc:"a pointer: not said is nil"`
}

func (g *guestSpec) Traits() Traits { return Traits{Nests: true} }

func (g *guestSpec) Validate() error {
	var errs []error
	if g.CPUs < 1 {
		errs = append(errs, &FieldError{Field: "cpus", Msg: "a guest has at least one", Hint: "write cpus: 1"})
	}
	if g.Memory < 64<<20 {
		errs = append(errs, &FieldError{Field: "memory", Msg: fmt.Sprintf("%s is too little", g.Memory), Hint: "give 64MiB or more"})
	}
	return errors.Join(errs...)
}

// boxSpec is a machine that runs on another machine.
type boxSpec struct {
	Plain
	Engine string `yaml:"engine" doc:"what starts it"`
}

func (b *boxSpec) Traits() Traits { return Traits{Encloses: true} }

type sshSpec struct {
	Host string `yaml:"host" doc:"name or address"`
	Port int    `yaml:"port" doc:"TCP port"`
	User string `yaml:"user" doc:"login name"`
}

func (s *sshSpec) SetScalar(v string) error { s.Host = v; return nil }

func (s *sshSpec) Traits() Traits { return Traits{} }

func (s *sshSpec) Validate() error {
	if s.Host == "" {
		return &FieldError{Field: "host", Msg: "is missing", Hint: "write ssh: HOST"}
	}
	return nil
}

type dirSpec struct {
	Path string `yaml:"path" doc:"directory"`
}

func (d *dirSpec) SetScalar(v string) error { d.Path = v; return nil }

func (d *dirSpec) Traits() Traits { return Traits{} }

func (d *dirSpec) Validate() error {
	if d.Path == "" {
		return &FieldError{Field: "path", Msg: "is missing", Hint: "write dir: /path"}
	}
	return nil
}

type common struct {
	Size Size `yaml:"size" doc:"size of the disk"`
}

type diskSpec struct {
	common
	Bus    string   `yaml:"bus" doc:"how the guest sees it" enum:"virtio-blk,virtio-scsi,nvme"`
	Format string   `yaml:"format" doc:"image format" enum:"raw,qcow2"`
	Cache  string   `yaml:"cache" doc:"page cache of the host" enum:"none,writeback,unsafe"`
	AIO    string   `yaml:"aio" doc:"how the host does I/O" enum:"threads,native,io_uring"`
	Thread bool     `yaml:"iothread" doc:"thread of its own"`
	Base   string   `yaml:"of" doc:"target it stands on"`
	Limit  throttle `yaml:"limit" doc:"upper limits"`
}

type throttle struct {
	IOPS  int     `yaml:"iops" doc:"per second"`
	Burst float64 `yaml:"burst" doc:"factor"`
}

func (d *diskSpec) Validate() error { return nil }

func (d *diskSpec) Traits() Traits { return Traits{Of: &d.Base} }

type shareSpec struct {
	Type     string `yaml:"type" doc:"how it is shared" enum:"virtiofs,9p"`
	Cache    string `yaml:"cache" doc:"cache mode" enum:",none,auto,loose"`
	MSize    Size   `yaml:"msize" doc:"largest message"`
	Security string `yaml:"security" doc:"9p security model"`
	Base     string `yaml:"of" doc:"target it stands on"`
}

func (s *shareSpec) Validate() error { return nil }

func (s *shareSpec) Traits() Traits { return Traits{Of: &s.Base} }

type deviceSpec struct {
	Path string `yaml:"path" doc:"which"`
	From string `yaml:"from" doc:"machine that serves it; the target's own when empty"`
}

func (d *deviceSpec) SetScalar(v string) error { d.Path = v; return nil }

func (d *deviceSpec) Validate() error { return nil }

func (d *deviceSpec) Traits() Traits { return Traits{Served: &Served{Key: "from", Machine: d.From}} }

type fioSpec struct {
	File    string            `yaml:"file" doc:"job file"`
	Engines []string          `yaml:"engines" doc:"tried in order"`
	Env     map[string]string `yaml:"env" doc:"environment of the job file"`
	Warm    Percent           `yaml:"warm" doc:"part read before"`
	Think   Duration          `yaml:"think" doc:"pause"`
	options []Option
}

var fioOptions = []string{"rw", "bs", "iodepth", "numjobs", "size", "direct", "ioengine", "rwmixread"}

func (f *fioSpec) Validate() error { return nil }

func (f *fioSpec) Traits() Traits {
	metrics := func() []metric.Metric {
		rw := "read"
		for _, o := range f.options {
			if o.Key == "rw" {
				rw = strings.TrimPrefix(o.Value, "rand")
			}
		}
		return append(metric.Of(iotax.PerSecond, iotax.Up, rw+".iops", "I/Os"), metric.Latency(rw+".latency", "I/Os")...)
	}
	return Traits{Metrics: metrics, Options: &Options{Names: func() []string { return fioOptions }, Set: f.SetOption, List: func() []Option { return f.options }}}
}

func (f *fioSpec) SetOption(key, value string) error {
	if !slices.Contains(fioOptions, key) {
		return fmt.Errorf("fio has no option %s", key)
	}
	if key == "rw" && !slices.Contains([]string{"read", "write", "rw", "randread", "randwrite", "randrw"}, value) {
		return &FieldError{Field: key, Msg: fmt.Sprintf("%q is not a pattern of fio", value), Hint: "write randread"}
	}
	if strings.ContainsAny(value, "\n") {
		return errors.New("an option is one line")
	}
	for i := range f.options {
		if f.options[i].Key == key {
			f.options[i].Value = value
			return nil
		}
	}
	f.options = append(f.options, Option{Key: key, Value: value})
	return nil
}

// noteSpec keeps its options in an inline map.
type noteSpec struct {
	Text    string            `yaml:"text" doc:"what to say"`
	Options map[string]string `yaml:",inline"`
}

func (n *noteSpec) Validate() error { return nil }

func (n *noteSpec) Traits() Traits {
	return Traits{Options: &Options{Names: func() []string { return nil }, Set: n.SetOption}}
}

func (n *noteSpec) SetOption(key, value string) error {
	if n.Options == nil {
		n.Options = map[string]string{}
	}
	n.Options[key] = value
	return nil
}

func testKinds() Kinds {
	return Kinds{
		Layouts: []string{"tart", "repetitions"}, Published: []string{"lima", "tart"},
		Machines: []Kind{
			{Name: "host", Doc: "this host", New: func() Spec { return new(hostSpec) }},
			{Name: "ssh", Doc: "another host", New: func() Spec { return new(sshSpec) }},
			{Name: "qemu", Doc: "a guest", New: func() Spec { return &guestSpec{Memory: 1 << 30, CPUs: 1} }},
			{Name: "box", Doc: "a container on another machine", New: func() Spec { return new(boxSpec) }},
		},
		Volumes: []Kind{
			{Name: "dir", Doc: "a directory", New: func() Spec { return new(dirSpec) }},
			{Name: "device", Doc: "a block device", New: func() Spec { return new(deviceSpec) }},
			{Name: "disk", Doc: "a disk of a guest", On: []string{"qemu"}, New: func() Spec {
				return &diskSpec{Bus: "virtio-blk", Format: "raw", Cache: "none", AIO: "threads"}
			}},
			{Name: "share", Doc: "a shared folder", On: []string{"qemu"}, New: func() Spec { return &shareSpec{Type: "virtiofs"} }},
		},
		Workloads: []Kind{
			{Name: "fio", Doc: "a fio job", New: func() Spec { return new(fioSpec) }},
			{Name: "note", Doc: "says something", New: func() Spec { return new(noteSpec) }},
		},
	}
}
