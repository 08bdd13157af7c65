package fiojob

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"iotax"
	"iotax/fio"
	"iotax/internal/agent"
	"iotax/internal/leftover"
	"iotax/internal/rules"
	"iotax/internal/secret"
	"iotax/internal/workload/support"
	"iotax/internal/workload/task"
)

// A fio server runs for each target. One client on this host sends each server its job and starts all jobs together. A
// server does what any client requests, with the rights of its own user. So it listens on a Unix socket in a private
// directory, not on a network. iotax reaches the socket of another machine through the agent. The client also does what
// its servers request: it sends files of this host, and writes files of any path. So it runs confined.

// Joins returns nil if the job can run at several targets at the same time, and otherwise an error with the reason.
func (j *fioJob) Joins() error {
	switch {
	case j.spec.BySize:
		return errors.New("its trials end by their size, each at a time of its own")
	case j.spec.open():
		return errors.New("an open loop offers its load to one target at a time")
	}
	return nil
}

// A party is one of several jobs that run at the same time, with its target.
type party struct {
	job    *fioJob
	target *iotax.Target
	noise  bool
}

// parties returns the jobs that run at the same time at t: first the measured jobs, then the noise. It returns an error
// if the noise is not a plain fio job.
func (j *fioJob) parties(t *iotax.Target) ([]party, error) {
	var out []party
	for _, m := range t.Together {
		out = append(out, party{j, m, false})
	}
	if t.Noise != nil {
		work, ok := t.Noise.Work.(*fioJob)
		if !ok || len(work.beside) > 0 || work.spec.open() || work.spec.BySize {
			return nil, &iotax.Error{Op: "check " + j.name + " on", On: t.Name, Err: fmt.Errorf("%s is not a plain fio job, and only such can be started together with others", t.Noise.Name), Hint: "doing: a workload of kind fio, without load: and jointly:"}
		}
		for _, m := range t.Noise.At {
			out = append(out, party{work, m, true})
		}
	}
	return out, nil
}

// each calls f for all parties and joins their errors. If `stop` is set, it returns the first error immediately.
func (j *fioJob) each(t *iotax.Target, stop bool, f func(party) error) error {
	all, err := j.parties(t)
	if err != nil {
		return err
	}
	var errs []error
	for _, p := range all {
		if err := f(p); err != nil {
			if stop {
				return err
			}
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// checkTogether checks each job at its target, and that this host has the same version of fio as all targets. It claims
// the space for the missing test files.
func (j *fioJob) checkTogether(ctx context.Context, t *iotax.Target) error {
	all, err := j.parties(t)
	if err != nil {
		return err
	}
	if err := j.each(t, true, func(p party) error { return p.job.check(ctx, p.target) }); err != nil {
		return err
	}
	on := func(err error, hint string) error {
		return &iotax.Error{Op: "check " + j.name + " on", On: t.Name, Err: err, Hint: hint}
	}
	mine, err := exec.LookPath("fio")
	if err != nil {
		return on(errors.New("this host has no fio, the client of targets that work together"), support.InstallHint("linux"))
	}
	version, err := fioVersion(ctx, mine)
	if err != nil {
		return on(err, support.InstallHint("linux"))
	}
	dir, err := leftover.MkdirTemp("")
	if err != nil {
		return on(err, "")
	}
	defer os.RemoveAll(dir)
	argv, err := confined(all, dir, mine)
	if err != nil {
		return on(err, "run iotax on Linux 5.13 or later with Landlock enabled")
	}
	if _, err := fioVersion(ctx, argv...); err != nil {
		return on(fmt.Errorf("%s cannot run confined, as it must for targets on other machines: %w", mine, err), "install fio and its libraries below /usr")
	}
	err = j.each(t, true, func(p party) error {
		if tool := p.job.states[p.target].tool; tool.Version != version {
			return on(fmt.Errorf("%s has %s, and %s here is %s: a client and a server of fio must be of one version", p.target.Machine, tool.Version, mine, version), "install the same version, or none there: this host's is copied then")
		}
		return nil
	})
	if err != nil {
		return err
	}
	return claimAll(all)
}

// confined returns the command that runs `args`, fio's client for the servers of `all`, so that the client uses only
// files in `dir`.
func confined(all []party, dir string, args ...string) ([]string, error) {
	var peers []iotax.Machine
	for _, p := range all {
		peers = append(peers, p.target.Machine)
	}
	return agent.Confine(1, dir, args, peers...)
}

// fioVersion returns the version that the command args of fio prints.
func fioVersion(ctx context.Context, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	var stderr iotax.Capture
	cmd := exec.CommandContext(ctx, args[0], append(args[1:], "--version")...)
	cmd.WaitDelay, cmd.Stderr = time.Second, &stderr
	out, err := iotax.ExecOutput(cmd)
	if text := strings.TrimSpace(stderr.String()); err != nil && text != "" {
		err = fmt.Errorf("%w: %s", err, text)
	}
	return strings.TrimSpace(string(out)), err
}

// startTime limits how long a server may take to listen, and how long fio --version may take on this host.
const startTime = 30 * time.Second

// serve starts argv, a fio server, on p's machine and makes it reachable through the Unix socket `name` in dir. The
// server runs until ctx is done. The caller waits for its end with done.Wait. serve calls `lost` if the server ends
// earlier or if a connection to it fails.
func (j *fioJob) serve(ctx context.Context, p party, argv []string, dir, name string, lost func(error), done *sync.WaitGroup) error {
	m := p.target.Machine
	on := func(err error) error {
		return &iotax.Error{Op: "start a server of fio for " + j.name + " on", On: p.target.Name, Err: err}
	}
	// Use the same prefix as for other directories that a crashed run can leave behind.
	own, err := task.TempDir.On(ctx, m, task.Temp{Prefix: "iotax-log-", Label: leftover.Current().String()})
	if err != nil {
		return on(err)
	}
	socket := own + "/s"
	listening, stop := context.WithTimeoutCause(ctx, startTime, fmt.Errorf("it does not listen after %s", startTime))
	defer stop()
	done.Go(func() {
		err := agent.Keep(ctx, m, agent.Kept{Args: append(argv, "--aux-path="+own, "--server=sock:"+socket), Env: leftover.Environ(), Dir: cmp.Or(support.WorkDir(p.target), own)})
		if ctx.Err() == nil {
			var exit *iotax.ExitError
			if errors.As(err, &exit) {
				if text := fioMessage(exit.Stderr); text != "" {
					err = fmt.Errorf("%s: %s", exitStatus(exit), text)
				}
			}
			lost(on(err))
		}
		clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), support.GlanceTime)
		defer cancel()
		if _, err := task.Remove.On(clean, m, task.Files{Dir: path.Dir(own), Names: []string{path.Base(own)}}); err != nil {
			j.env.Logf("remove %s on %v: %v", own, m, err)
		}
	})
	if _, err := task.AwaitFile.On(listening, m, socket); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return on(err)
	}
	near := filepath.Join(dir, name)
	if iotax.IsLocal(m) {
		return os.Symlink(socket, near)
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "unix", near)
	if err != nil {
		return on(err)
	}
	done.Go(func() { <-ctx.Done(); l.Close() })
	done.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			done.Go(func() {
				defer conn.Close()
				defer context.AfterFunc(ctx, func() { conn.Close() })()
				if err := join(ctx, conn, m, socket); err != nil && ctx.Err() == nil {
					lost(&iotax.Error{Op: "reach the server of fio on", On: p.target.Name, Err: err})
				}
			})
		}
	})
	return nil
}

// join forwards data between conn and a socket of m until the server ends the connection, or ctx is done.
func join(ctx context.Context, conn net.Conn, m iotax.Machine, socket string) error {
	there, err := agent.Dial(ctx, m, "unix", socket)
	if err != nil {
		return err
	}
	defer there.Close()
	defer context.AfterFunc(ctx, func() { there.Close() })()
	go func() {
		_, _ = io.Copy(there, conn)
		_ = there.CloseWrite()
	}()
	_, err = io.Copy(conn, there)
	return err
}

func jobFile(jobs []fio.JobSpec) string {
	var b strings.Builder
	for _, j := range jobs {
		fmt.Fprintf(&b, "[%s]\n", j.Name)
		if i := slices.IndexFunc(j.Settings, func(s fio.Setting) bool { return s.KBBase > 0 && s.KBBase != 1024 }); i >= 0 {
			fmt.Fprintf(&b, "kb_base=%d\n", j.Settings[i].KBBase)
		}
		for _, s := range j.Settings {
			fmt.Fprintln(&b, strings.TrimPrefix(s.String(), "--"))
		}
	}
	return b.String()
}

// runTogether runs the job at all of t.Together, and the noise at the same time. It fills in out.
func (j *fioJob) runTogether(ctx context.Context, t *iotax.Target, out *iotax.Trial) (err error) {
	fail := func(err error) error {
		return &iotax.Error{Op: "run fio for " + j.name + " on", On: t.Name, Err: err}
	}
	all, err := j.parties(t)
	if err != nil {
		return err
	}
	program, err := exec.LookPath("fio")
	if err != nil {
		return fail(err)
	}
	dir, err := leftover.MkdirTemp("")
	if err != nil {
		return fail(err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()

	inner, cancel := context.WithCancelCause(ctx)
	var servers sync.WaitGroup
	defer func() {
		cancel(nil)
		servers.Wait()
	}()
	args := []string{"--output-format=json+", "--eta=never"}
	for i, p := range all {
		if err := support.GuardFio(ctx, p.target, p.job.states[p.target].job.writes()); err != nil {
			return err
		}
		name := fmt.Sprintf("c%d", i)
		l := p.job.line(p.target, p.job.states[p.target], out)
		jobs := l.jobs()
		for k := range jobs {
			jobs[k].Settings = append(jobs[k].Settings, fio.Setting{Key: "unique_filename", Value: "0"}, // otherwise a server prefixes the file's name with the client's name
				fio.Setting{Key: "write_bw_log", Value: "s"}, fio.Setting{Key: "write_iops_log", Value: "s"}, fio.Setting{Key: "log_avg_msec", Value: "1000"})
		}
		if err := os.WriteFile(filepath.Join(dir, name+".fio"), []byte(jobFile(jobs)), 0o600); err != nil {
			return fail(err)
		}
		argv := slices.Clone(p.job.states[p.target].tool.Argv)
		if l.onlyReads() {
			argv = append(argv, "--readonly") // fio does not pass this option from the client to the server
		}
		if err := j.serve(inner, p, argv, dir, name, cancel, &servers); err != nil {
			return err
		}
		args = append(args, "--client=sock:"+name, name+".fio")
	}
	if out.Facts == nil {
		out.Facts = map[string]string{}
	}
	first := j.states[t.Together[0]]
	j.facts(out.Facts, first, out)
	out.Facts[iotax.FactCommand] = iotax.QuoteAll(append([]string{"fio"}, args...))
	out.Facts["command.client"] = typed(t.Together[0], j.line(t.Together[0], first, out).args())
	out.Facts[iotax.FactClients] = fmt.Sprint(len(t.Together))

	stdout, stderr := iotax.Capture{Limit: outputLimit}, task.Head{Limit: support.MessageLimit}
	// The name of each log that the client fetches ends with the path of the server's socket. The client runs in dir,
	// so that this path contains no slash.
	argv, err := confined(all, dir, append([]string{program}, args...)...)
	if err != nil {
		return fail(err)
	}
	cmd := exec.CommandContext(inner, argv[0], argv[1:]...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = dir, secret.Environ(), &stdout, &stderr, 5*time.Second
	err = cmd.Run()
	out.Raw = stdout.Bytes()
	if over := stdout.Err(); over != nil {
		out.Raw = bytes.Clone(out.Raw[:min(len(out.Raw), support.RawLimit)])
		return fail(outputError(over))
	}
	if cause := context.Cause(inner); cause != nil && err != nil {
		return cause
	}
	r, perr := fio.Parse(out.Raw)
	if err != nil {
		if msg := fioMessage(stderr.String() + "\n" + serversStderr(r.Notes)); msg != "" {
			err = fmt.Errorf("%s (%w)", msg, err)
		}
		return fail(err)
	}
	if perr != nil {
		return fail(perr)
	}
	if err := r.Err(); err != nil {
		return fail(err)
	}
	return j.tally(t, all, r, dir, out, fail)
}

// serversStderr returns the messages of the servers in fio's notes, without progress messages.
func serversStderr(notes []string) string {
	var out []string
	for line := range strings.Lines(strings.Join(notes, "\n")) {
		line = strings.TrimSpace(line)
		if host, rest, ok := strings.Cut(line, "> "); ok && strings.HasPrefix(host, "<") {
			line = strings.TrimSpace(rest)
		} else if strings.HasPrefix(line, "<") && strings.HasSuffix(line, ">") {
			continue
		}
		if strings.Contains(line, ": (g=") || strings.HasPrefix(line, "Starting ") || strings.Contains(line, ": Laying out IO file") {
			continue
		}
		out = append(out, line)
	}
	return strings.Join(out, "\n")
}

func (j *fioJob) tally(t *iotax.Target, all []party, r *fio.Result, dir string, out *iotax.Trial, fail func(error) error) error {
	of := func(keep func(i int) bool) *fio.Result {
		s := *r
		s.Jobs = slices.DeleteFunc(slices.Clone(r.Jobs), func(row fio.Job) bool {
			var i int
			if _, err := fmt.Sscanf(row.Host, "c%d", &i); err != nil {
				return true
			}
			return !keep(i)
		})
		return &s
	}
	n := len(t.Together)
	measured := of(func(i int) bool { return i < n })
	out.Values = append(out.Values, measured.Values()...)
	out.Histograms = append(out.Histograms, measured.Histograms()...)
	out.Findings = append(out.Findings, rules.FioErrors(iotax.AboutTrial(out), measured.Err(), measured.Damaged())...)
	out.Facts[iotax.FactFio], out.Facts["latency"] = r.Version, measured.Latencies
	l := logs{}
	var rates []float64
	for i := range all {
		own := of(func(k int) bool { return k == i })
		if len(own.Jobs) == 0 {
			return fail(fmt.Errorf("fio reported nothing about %s", all[i].target.Name))
		}
		rate := 0.0
		for _, v := range own.Values() {
			if v.Name == "iops" {
				rate = v.Value
			}
			if _, what, _ := strings.Cut(v.Name, "."); i < n && n > 1 && slices.Contains([]string{"iops", "bandwidth", "latency.mean", "latency.p99"}, what) {
				v.Name = fmt.Sprintf("client.%d.%s", i+1, v.Name)
				out.Values = append(out.Values, v)
			}
		}
		if rate == 0 {
			return fail(fmt.Errorf("fio completed no I/O at %s in the measured window", all[i].target.Name))
		}
		if i >= n {
			continue
		}
		rates = append(rates, rate)
		for kind, name := range map[fio.LogKind]string{fio.BandwidthLog: "bw", fio.IOPSLog: "iops"} {
			files, err := fs.Glob(os.DirFS(dir), fmt.Sprintf("s_%s.*.log.c%d", name, i))
			if err != nil {
				return fail(err)
			}
			for _, f := range files {
				text, err := iotax.ReadFile(filepath.Join(dir, f), int64(outputLimit))
				if err != nil {
					return fail(err)
				}
				l[kind] = append(l[kind], text)
			}
		}
	}
	if len(rates) > 1 {
		least, jain := Fairness(rates)
		out.Values = append(out.Values,
			iotax.Value{Name: "fairness.min-max", Value: least, Unit: iotax.RatioUnit, Better: iotax.Up},
			iotax.Value{Name: iotax.ValueFairnessJain, Value: jain, Unit: iotax.RatioUnit, Better: iotax.Up})
	}
	if len(all) > n {
		for _, v := range of(func(i int) bool { return i >= n }).Values() {
			if v.Name == "iops" || v.Name == "bandwidth" {
				v.Name, v.Better = "noise."+v.Name, iotax.Neither
				out.Values = append(out.Values, v)
			}
		}
	}
	series, err := l.series(1)
	if err != nil {
		return fail(err)
	}
	out.Series = append(out.Series, series...)
	return nil
}

// Fairness returns how equal the rates of several clients are: the lowest rate over the highest, and Jain's index (Σx)²
// ÷ (n·Σx²). The index is 1 if all rates are equal, and 1/n if one client gets everything (Jain, Chiu and Hawe,
// DEC-TR-301, 1984).
func Fairness(rates []float64) (minMax, jain float64) {
	var sum, squares float64
	for _, x := range rates {
		sum += x
		squares += x * x
	}
	if squares == 0 {
		return 1, 1 // all rates are 0
	}
	return slices.Min(rates) / slices.Max(rates), sum * sum / (float64(len(rates)) * squares)
}
