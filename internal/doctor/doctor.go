// Package doctor finds out what this host can do for a measurement and what would disturb one: the
// tools and whether they really work, limits, permissions, space, and noise. It only looks, and
// removes the little it makes.
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

// Status says what a Check means for the user.
type Status string

const (
	OK      Status = "ok"
	Warn    Status = "warn"    // measuring works, but numbers or features suffer
	Missing Status = "missing" // what needs this cannot be done
)

// A Check is one thing that was looked at.
type Check struct {
	Name   string `json:"name"`
	Status Status `json:"status"`
	Detail string `json:"detail"`         // what was found
	Hint   string `json:"hint,omitempty"` // what to do about it; "" when nothing needs to be done, or nothing is known
}

// Options are what Examine needs from others. A nil function leaves its check out.
type Options struct {
	Host     iotax.Machine // where commands run: this host
	CacheDir string        // its file system needs space for kernels and images
	TempDir  string        // where test files are made and measured; "" is /var/tmp, or the system's own

	// What guests need. Each returns a line for the user, and an error (an iotax.Error with a hint
	// at best) when it is not there. They are called at the same time and given the same deadline.
	Kernel    func(ctx context.Context) (string, error) // kernel and modules
	Accel     func(ctx context.Context) (string, error) // acceleration that really boots
	Virtiofsd func(ctx context.Context) (string, error)
	Store     func(ctx context.Context) (string, error) // the object store that the suite cluster starts

	// What answers as these, and where.
	Docker, Podman, Kubernetes func(ctx context.Context) (string, error)

	// Leftovers tells what crashed runs have left on this host, and what they used elsewhere, which is not asked; ""
	// is nothing.
	Leftovers func(ctx context.Context) (here, elsewhere string, err error)

	Limit time.Duration // no answer takes longer than this in all; 0 is 5 s
}

// Examine makes all checks at once. It returns them in an order fit for reading, after Limit at the
// latest; what has not answered by then is reported so. It never fails: what cannot be found out is a
// Check too.
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

// examiner makes the checks. Below root are the files of the system; tests have their own.
type examiner struct {
	Options
	root string

	facts func() (map[string]string, error) // of probe.Environment, asked once
}

func (e *examiner) path(name string) string { return filepath.Join(e.root, name) }

// all lists the checks in the order in which they are shown: what is needed first, then what more
// there may be, then what disturbs.
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

// ask makes a check of a function that others gave.
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

// engine adds how to install a container engine whose command is not found either.
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

// acceleration warns of emulation, which is an answer and no error: guests run, slowly.
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

// leftovers warns of what clean would remove.
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
		case err != nil: // what was found all the same counts
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

// A check is one entry of the list. Its Check needs no name. When it has nothing to say on this
// system, its Status is empty, and it is left out.
type check struct {
	name string
	run  func(ctx context.Context) Check
}

func (e *examiner) examine(ctx context.Context) []Check {
	ctx, cancel := context.WithTimeout(ctx, e.Limit)
	defer cancel()
	// A little earlier than the rest, so that what was asked can clean up and say why.
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

// failed is the Check for err: its own words and hint, where it has them.
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
