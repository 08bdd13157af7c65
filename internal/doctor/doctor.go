// Package doctor checks whether this host is ready for measurements, and what would disturb them: tools, limits,
// permissions, space, and noise. It does not change the host, and removes its temporary files.
package doctor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"iotax"
	"iotax/internal/agent"
	"iotax/internal/probe"
)

// Status is the result of a Check.
type Status string

const (
	OK      Status = "ok"
	Warn    Status = "warn"    // measurements work, but results are less reliable or features are missing
	Missing Status = "missing" // features that depend on the checked property do not work
)

// A Check is one examined property of the host.
type Check struct {
	Name   string `json:"name"`
	Status Status `json:"status"`
	Detail string `json:"detail"`         // what was found
	Hint   string `json:"hint,omitempty"` // how to fix it; "" if no fix is needed or known
}

// Options configures Examine. A nil function skips its check.
type Options struct {
	Host     iotax.Machine // where commands run: this host
	CacheDir string        // its file system needs space for kernels and images
	TempDir  string        // where test files are created and measured; "" means /var/tmp, or os.TempDir on Windows

	// These functions check the requirements of guests, servers and stores. Each returns a line for the user, or an error
	// if the requirement is missing, preferably an iotax.Error with a hint. Examine calls the functions concurrently,
	// with the same deadline.
	Kernel    func(ctx context.Context) (string, error) // kernel and modules
	Accel     func(ctx context.Context) (string, error) // acceleration that can boot a guest
	Virtiofsd func(ctx context.Context) (string, error)
	Serving   func(ctx context.Context) (string, error) // whether eBPF programs can measure servers
	Profile   func(ctx context.Context) (string, error) // whether processes can be profiled
	Store     func(ctx context.Context) (string, error) // the object store that the suite cluster starts

	// These functions return the version and the address of the service.
	Docker, Podman, Kubernetes func(ctx context.Context) (string, error)

	// Leftovers describes what crashed runs left on this host (here), and lists the other places that they used
	// (elsewhere). It does not contact those places. An empty string means none.
	Leftovers func(ctx context.Context) (here, elsewhere string, err error)

	Limit time.Duration // time limit for all checks together; 0 means 5 s
}

// Examine runs all checks concurrently. It returns the results in display order, after Limit at the latest. A check
// that has not finished by then is reported as unanswered. Examine never fails: each error becomes a Check.
func Examine(ctx context.Context, o Options) []Check {
	if o.Limit <= 0 {
		o.Limit = 5 * time.Second
	}
	if o.TempDir == "" {
		o.TempDir = os.TempDir()
		if runtime.GOOS != "windows" {
			o.TempDir = "/var/tmp"
		}
	}
	e := &examiner{Options: o, root: "/"}
	return e.examine(ctx)
}

// examiner runs the checks. root is the root directory of the system; in tests, it is a temporary directory.
type examiner struct {
	Options
	root string

	facts func() (map[string]string, error) // calls probe.Environment once
}

func (e *examiner) path(name string) string { return filepath.Join(e.root, name) }

// all lists the checks in display order.
func (e *examiner) all() []check {
	list := []check{
		{"fio", e.fio},
		{"fio engines", e.engines},
		{"io_uring", e.ioUring},
		{"qemu", e.qemu},
		{"acceleration", acceleration(ask(e.Accel, Warn))},
		{"guest kernel", ask(e.Kernel, Missing)},
		{"virtiofsd", ask(e.Virtiofsd, Missing)},
		{"busybox", e.busybox},
		{"mke2fs", e.mke2fs},
		{"docker", engine("docker", ask(e.Docker, Missing))},
		{"podman", engine("podman", ask(e.Podman, Missing))},
		{"kubernetes", ask(e.Kubernetes, Missing)},
		{"iperf3", e.iperf3},
		{"nbd", e.nbd},
		{"object store", ask(e.Store, Missing)},
		{"space", e.space(e.TempDir)},
		{"cache", e.space(e.CacheDir)},
		{"memory", e.memory},
		{"open files", e.openFiles},
		{"locked memory", e.lockedMemory},
		{"drop caches", e.dropCaches},
		{"cpu governor", e.governor},
		{"cpu turbo", e.turbo},
		{"clock source", e.clockSource},
		{"stage clocks", e.stageClocks},
		{"server clocks", ask(e.Serving, Warn)},
		{"cpu profiles", ask(e.Profile, Warn)},
		{"swap", e.swap},
		{"load", e.load},
		{"virtualisation", e.virtualisation},
		{"leftovers", leftovers(e.Leftovers)},
	}
	kept := list[:0]
	for _, c := range list {
		if c.run != nil {
			kept = append(kept, c)
		}
	}
	return kept
}

// ask turns a function from Options into the run function of a check. If the function fails before the deadline, the
// Check has the status `without`.
func ask(find func(ctx context.Context) (string, error), without Status) func(ctx context.Context) Check {
	if find == nil {
		return nil
	}
	return func(ctx context.Context) Check {
		detail, err := find(ctx)
		if err != nil {
			return failed(ctx, without, err, "")
		}
		return Check{Status: OK, Detail: detail}
	}
}

// engine adds a hint to install a container engine if the check fails and the engine's command is missing.
func engine(tool string, find func(ctx context.Context) Check) func(ctx context.Context) Check {
	if find == nil {
		return nil
	}
	return func(ctx context.Context) Check {
		c := find(ctx)
		if _, err := agent.Tool(tool); c.Status == Missing && err != nil {
			c.Hint = strings.TrimPrefix(c.Hint+"; or ", "; or ") + install(tool)
		}
		return c
	}
}

// acceleration warns about emulation. Emulation is not an error: guests run, but slowly.
func acceleration(found func(ctx context.Context) Check) func(ctx context.Context) Check {
	if found == nil {
		return nil
	}
	return func(ctx context.Context) Check {
		c := found(ctx)
		if c.Status == OK && strings.HasPrefix(c.Detail, "tcg") {
			c.Status = Warn
			c.Hint = "guests are emulated, and cost several times more CPU: use a host whose /dev/kvm works (nested virtualisation switched on, the user in group kvm)"
		}
		return c
	}
}

// leftovers warns about leftovers that iotax clean would remove.
func leftovers(find func(ctx context.Context) (here, elsewhere string, err error)) func(ctx context.Context) Check {
	if find == nil {
		return nil
	}
	return func(ctx context.Context) Check {
		here, elsewhere, err := find(ctx)
		if elsewhere != "" {
			elsewhere = "; " + elsewhere + " was not asked, iotax clean --remote does"
		}
		switch {
		case err != nil: // report what was found despite the error
			c := failed(ctx, Warn, err, "")
			if here != "" {
				here = "; " + here
			}
			c.Detail += here + elsewhere
			return c
		case here != "":
			return Check{Status: Warn, Detail: here + elsewhere, Hint: "iotax clean lists them, iotax clean --yes removes them"}
		}
		return Check{Status: OK, Detail: "none of crashed runs" + elsewhere}
	}
}

// A check is one entry of the list that examiner.all returns. run need not set the Name of the Check that it returns.
// An empty Status means that the check does not apply to this system.
type check struct {
	name string
	run  func(ctx context.Context) Check
}

func (e *examiner) examine(ctx context.Context) []Check {
	ctx, cancel := context.WithTimeout(ctx, e.Limit)
	defer cancel()
	// The checks get an earlier deadline, so that they can clean up and report why they failed.
	early, stop := context.WithTimeout(ctx, e.Limit*9/10)
	defer stop()
	e.facts = sync.OnceValues(func() (map[string]string, error) { return probe.Environment(early, e.Host) })
	all := e.all()
	type answer struct {
		at int
		c  Check
	}
	answers := make(chan answer, len(all))
	for i, c := range all {
		go func() {
			r := c.run(early)
			r.Name = c.name
			answers <- answer{i, r}
		}()
	}
	found := make([]Check, len(all))
	for i, c := range all {
		found[i] = Check{Name: c.name, Status: Warn, Detail: fmt.Sprintf("no answer within %s", e.Limit)}
	}
	for range all {
		select {
		case a := <-answers:
			found[a.at] = a.c
			continue
		case <-ctx.Done():
		}
		break
	}
	kept := found[:0]
	for _, c := range found {
		if c.Status != "" {
			kept = append(kept, c)
		}
	}
	return kept
}

// failed returns the Check for err. The text and hint of an iotax.Error take precedence. If ctx is done, the Check
// reports a timeout instead.
func failed(ctx context.Context, status Status, err error, hint string) Check {
	c := Check{Status: status, Detail: err.Error(), Hint: hint}
	if e := (*iotax.Error)(nil); errors.As(err, &e) {
		c.Detail = (&iotax.Error{Op: e.Op, On: e.On, Err: e.Err}).Error()
		if e.Hint != "" {
			c.Hint = e.Hint
		}
	}
	if ctx.Err() != nil {
		c.Status, c.Detail, c.Hint = Warn, "no answer in time", ""
	}
	return c
}
