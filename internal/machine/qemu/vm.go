package qemu

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"iotax"
	"iotax/internal/leftover"
	"iotax/internal/leftover/proctable"
)

// tailLines is the number of console lines that an error quotes.
const tailLines = 15

// A VM is a running QEMU with its virtio-fs daemons. Its methods may be called from several goroutines.
type VM struct {
	Config  Config
	Monitor *Monitor
	Started time.Time             // when QEMU was started
	Daemons map[string]*Virtiofsd // by share id
	Plugged time.Time             // when QEMU answered the request to plug in the last hot disk; zero without a hot disk

	console, stderr *Log
	qemu            *process
	daemons         map[string]*process // virtiofsd, by share id
	logs            map[string]*Log
	files           []string // files that Close removes

	mu    sync.Mutex
	why   string // the reason for the guest's end, from a QMP event
	close sync.Once
}

// Binary returns the name of the QEMU program for guests of this host's architecture.
func Binary() string {
	if runtime.GOARCH == "arm64" {
		return "qemu-system-aarch64"
	}
	return "qemu-system-x86_64"
}

func (c Config) arch() string { return cmp.Or(c.Arch, runtime.GOARCH) }

func (c Config) binary() string { return cmp.Or(c.Binary, Binary()) }

// Look returns the path of QEMU. Its error is an *iotax.Error with a hint.
func (c Config) Look() (string, error) {
	p, err := exec.LookPath(c.binary())
	if err != nil {
		pkg := "qemu-system-x86"
		if c.arch() == "arm64" {
			pkg = "qemu-system-arm"
		}
		if c.Binary != "" {
			return "", &iotax.Error{Op: "start machine", On: c.Name, Err: err, Hint: "binary: must be a QEMU of this host"}
		}
		return "", &iotax.Error{Op: "start machine", On: c.Name, Err: err, Hint: "install QEMU: apt install " + pkg + "; `iotax doctor` lists what else is missing"}
	}
	return p, nil
}

// Start starts QEMU and the daemons of its shares, waits until QEMU answers, and plugs in the hot disks. The guest may
// still be booting when Start returns. If line is not nil, one goroutine calls it for each line of the console. Close
// removes the sockets in c.
//
// On Linux, the kernel kills the guest when this process ends for any reason.
func Start(ctx context.Context, c Config, line func(at time.Time, line string)) (_ *VM, err error) {
	if err := c.Validate(); err != nil {
		return nil, &iotax.Error{Op: "start machine", On: c.Name, Err: err, Hint: "use a directory with a shorter path"}
	}
	path, err := c.Look()
	if err != nil {
		return nil, err
	}
	if c.QMP == "" {
		return nil, &iotax.Error{Op: "start machine", On: c.Name, Err: errors.New("no path for its control socket")}
	}
	v := &VM{Config: c, console: &Log{line: line}, stderr: &Log{}, daemons: map[string]*process{}, Daemons: map[string]*Virtiofsd{}, logs: map[string]*Log{}}
	defer func() {
		if err != nil {
			c, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
			defer cancel()
			_ = v.Close(c)
		}
	}()
	for _, s := range c.Shares {
		if s.fill().Type != "virtiofs" {
			continue
		}
		d, err := FindVirtiofsd(ctx, s.Binary)
		if err != nil {
			return nil, err
		}
		v.Daemons[s.ID] = d
		v.files = append(v.files, s.Socket, d.pidFile(s.Socket), s.Socket+".pid")
		p, log, err := d.serve(ctx, s)
		if err != nil {
			return nil, err
		}
		v.daemons[s.ID], v.logs[s.ID] = p, log
	}
	cmd := exec.Command(path, c.Args()...)
	cmd.Stdout, cmd.Stderr = v.console, v.stderr
	v.files = append(v.files, c.QMP, c.Port.Socket)
	v.Started = time.Now()
	if v.qemu, err = spawn(cmd); err != nil {
		return nil, &iotax.Error{Op: "start machine", On: path, Err: err}
	}
	parent := ctx
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	go func() {
		select {
		case <-v.qemu.done:
			cancel()
		case <-ctx.Done():
		}
	}()
	if v.Monitor, err = Dial(ctx, c.QMP, v.event); err != nil {
		cause := fmt.Errorf("QEMU does not answer: %w", err)
		select {
		case <-v.qemu.done:
			cause = v.Err()
		case <-time.After(200 * time.Millisecond): // the socket closes before the process ends
			select {
			case <-parent.Done():
				cause = context.Cause(parent)
			default:
			}
		}
		return nil, &iotax.Error{Op: "start machine", On: c.Name, Err: cause}
	}
	for _, d := range c.Disks {
		if !d.Hot {
			continue
		}
		if err := v.plug(ctx, d.fill()); err != nil {
			return nil, &iotax.Error{Op: "plug disk " + d.ID + " into", On: c.Name, Err: err}
		}
	}
	return v, nil
}

func (v *VM) plug(ctx context.Context, d Disk) error {
	answer, err := v.Monitor.Human(ctx, "drive_add 0 "+d.drive())
	if err == nil && strings.TrimSpace(answer) != "OK" {
		err = errors.New(strings.TrimSpace(answer))
	}
	if err == nil {
		err = v.Monitor.Do(ctx, "device_add", map[string]string{"driver": "virtio-blk-pci", "id": "v-" + d.ID, "bus": d.port(), "drive": "d-" + d.ID, "serial": d.ID}, nil)
	}
	v.Plugged = time.Now()
	return err
}

func (v *VM) event(e Event) {
	v.mu.Lock()
	defer v.mu.Unlock()
	switch e.Name {
	case "GUEST_PANICKED":
		v.why = panicked
	case "SHUTDOWN":
		if v.why == "" {
			v.why = "the guest shut down"
			if strings.Contains(string(e.Data), "guest-reset") {
				v.why = "the guest reset itself"
			}
		}
	}
}

// Pid returns QEMU's process id.
func (v *VM) Pid() int { return v.qemu.cmd.Process.Pid }

// CPU returns the total CPU time of QEMU after it has ended, and 0 before.
func (v *VM) CPU() time.Duration {
	select {
	case <-v.qemu.done:
		return v.qemu.cmd.ProcessState.UserTime() + v.qemu.cmd.ProcessState.SystemTime()
	default:
		return 0
	}
}

// Done returns a channel that is closed when QEMU has ended.
func (v *VM) Done() <-chan struct{} { return v.qemu.done }

// Tail returns the last n lines of the guest's console.
func (v *VM) Tail(n int) string { return v.console.Tail(n) }

// Err returns the reason for the guest's end, with the last output of the console and of QEMU. It returns nil while
// QEMU runs.
func (v *VM) Err() error {
	select {
	case <-v.qemu.done:
	default:
		return nil
	}
	v.mu.Lock()
	why := v.why
	v.mu.Unlock()
	// Search all kept lines, because the panic line is often before the quoted ones.
	if p := lastWith(v.Tail(keepLines), "Kernel panic - "); p != "" {
		why = panicked + ": " + p
	}
	if v.qemu.err != nil {
		why = strings.TrimPrefix(why+"; ", "; ") + "QEMU ended: " + v.qemu.err.Error()
	} else if why == "" {
		why = "QEMU ended"
	}
	return errors.New(why + v.quote())
}

// Hint returns a hint for a guest that ended because its kernel panicked, otherwise "".
func (v *VM) Hint() string {
	select {
	case <-v.qemu.done:
	default:
		return ""
	}
	p := lastWith(v.Tail(keepLines), "Kernel panic - ")
	switch {
	case strings.Contains(p, "memory"):
		return "give the guest more memory, as in {qemu: {memory: 1GiB}}"
	case p != "" || v.panicked():
		return "read the console above; without an append: of yours, try another kernel ({qemu: {kernel: /path/to/vmlinuz}}) or more memory"
	}
	return ""
}

func (v *VM) panicked() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.why == panicked
}

const panicked = "the guest's kernel panicked"

// lastWith returns the rest of the line after the last `mark` in text, without "not syncing: ". It returns "" if text
// does not contain `mark`.
func lastWith(text, mark string) string {
	i := strings.LastIndex(text, mark)
	if i < 0 {
		return ""
	}
	line, _, _ := strings.Cut(text[i+len(mark):], "\n")
	return strings.TrimPrefix(line, "not syncing: ")
}

// quote returns the last output of QEMU, of daemons that have ended, and of the console, for an error.
func (v *VM) quote() string {
	var b strings.Builder
	part := func(who, text string) {
		if text != "" {
			b.WriteString("\n" + who + ":\n  " + strings.ReplaceAll(text, "\n", "\n  "))
		}
	}
	part("QEMU printed", v.stderr.Tail(5))
	for id, p := range v.daemons {
		select {
		case <-p.done:
			part("virtiofsd of "+id+" ended and printed", v.logs[id].Tail(5))
		default:
		}
	}
	part("last lines of its console", v.Tail(tailLines))
	return b.String()
}

// Fail wraps cause in an error that quotes the guest's console.
func (v *VM) Fail(cause error) error {
	// A connection often breaks shortly before QEMU has ended.
	select {
	case <-v.qemu.done:
		return fmt.Errorf("%w: %w", cause, v.Err())
	case <-time.After(200 * time.Millisecond):
	}
	return fmt.Errorf("%w%s", cause, v.quote())
}

var forward = regexp.MustCompile(`TCP\[HOST_FORWARD\]\s+\d+\s+127\.0\.0\.1\s+(\d+)\s+\S+\s+(\d+)\s`)

// hostPort returns the port of 127.0.0.1 that QEMU forwards to a port of the guest. usernet is the output of `info
// usernet`.
func hostPort(usernet string, guest int) (int, error) {
	for _, m := range forward.FindAllStringSubmatch(usernet, -1) {
		if m[2] == strconv.Itoa(guest) {
			return strconv.Atoi(m[1])
		}
	}
	return 0, fmt.Errorf("QEMU forwards no port to port %d of the guest:\n%s", guest, usernet)
}

func (v *VM) forwarded(ctx context.Context, guest int) (int, error) {
	out, err := v.Monitor.Human(ctx, "info usernet")
	if err != nil {
		return 0, err
	}
	return hostPort(out, guest)
}

// Forward returns the port of 127.0.0.1 that leads to a port of the guest. It adds the forwarding if necessary.
func (v *VM) Forward(ctx context.Context, guest int) (int, error) {
	if port, err := v.forwarded(ctx, guest); err == nil {
		return port, nil
	}
	out, err := v.Monitor.Human(ctx, fmt.Sprintf("hostfwd_add net tcp:127.0.0.1:0-:%d", guest))
	if err == nil && strings.TrimSpace(out) != "" {
		err = errors.New(strings.TrimSpace(out))
	}
	if err != nil {
		return 0, err
	}
	return v.forwarded(ctx, guest)
}

// Processes returns the process ids of QEMU and its descendants under "qemu", and of the virtio-fs daemons and their
// descendants under "virtiofsd".
func (v *VM) Processes() map[string][]int {
	all := map[string][]int{}
	add := func(name string, p *process) {
		select {
		case <-p.done:
		default:
			all[name] = append(all[name], proctable.Tree(p.cmd.Process.Pid)...)
		}
	}
	add("qemu", v.qemu)
	for _, p := range v.daemons {
		add("virtiofsd", p)
	}
	return all
}

// DiskTimes returns the counters of a disk of the guest, including flushes and unmaps. QEMU measures a request from its
// start in the device to its completion. Handed is smaller than Requests if QEMU merged requests.
func (v *VM) DiskTimes(ctx context.Context, disk string) (iotax.Passed, error) {
	var all []struct {
		Device string `json:"device"`
		Stats  struct {
			ReadOps     uint64 `json:"rd_operations"`
			WriteOps    uint64 `json:"wr_operations"`
			FlushOps    uint64 `json:"flush_operations"`
			UnmapOps    uint64 `json:"unmap_operations"`
			ReadTime    int64  `json:"rd_total_time_ns"`
			WriteTime   int64  `json:"wr_total_time_ns"`
			FlushTime   int64  `json:"flush_total_time_ns"`
			UnmapTime   int64  `json:"unmap_total_time_ns"`
			ReadMerged  uint64 `json:"rd_merged"`
			WriteMerged uint64 `json:"wr_merged"`
		} `json:"stats"`
	}
	if err := v.Monitor.Do(ctx, "query-blockstats", nil, &all); err != nil {
		return iotax.Passed{}, err
	}
	for _, b := range all {
		if s := b.Stats; b.Device == driveID(disk) {
			n := s.ReadOps + s.WriteOps + s.FlushOps + s.UnmapOps
			return iotax.Passed{Time: time.Duration(s.ReadTime + s.WriteTime + s.FlushTime + s.UnmapTime), Requests: n, Handed: n - s.ReadMerged - s.WriteMerged}, nil
		}
	}
	return iotax.Passed{}, fmt.Errorf("QEMU has no disk %s", disk)
}

// Close ends the guest as a power cut would, except that QEMU flushes its buffers. Then it ends the daemons and
// removes the sockets. It may be called again.
func (v *VM) Close(ctx context.Context) error {
	v.close.Do(func() {
		if v.qemu != nil {
			if v.Monitor != nil {
				q, cancel := context.WithTimeout(ctx, 5*time.Second)
				if v.Monitor.Do(q, "quit", nil, nil) == nil {
					select {
					case <-v.qemu.done:
					case <-q.Done():
					}
				}
				cancel()
				v.Monitor.Close()
			}
			v.qemu.end(2 * time.Second)
		}
		var wg sync.WaitGroup
		for _, p := range v.daemons {
			wg.Go(func() {
				// The daemon exits when QEMU disconnects.
				select {
				case <-p.done:
				case <-time.After(500 * time.Millisecond):
				}
				p.end(time.Second)
			})
		}
		wg.Wait()
		for _, f := range v.files {
			if f != "" {
				_ = os.Remove(f)
			}
		}
	})
	return nil
}

// SocketPath returns a path for a socket that fits into sun_path. If the path in dir is too long, it makes a temporary
// directory `made`, which the caller removes.
func SocketPath(dir, name string) (path, made string, err error) {
	if path = filepath.Join(dir, name); len(path) <= maxSocket {
		return path, "", nil
	}
	if made, err = leftover.MkdirTemp("/tmp"); err != nil {
		return "", "", err
	}
	return filepath.Join(made, name), made, nil
}
