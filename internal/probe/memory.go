package probe

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"iotax"
)

const (
	rssPeriod    = 100 * time.Millisecond
	rollupPeriod = time.Second // minimum interval between two reads of smaps_rollup, except for the last one
	// rollupCost is the maximum share of a core for reading smaps_rollup. The kernel walks the page tables of the
	// process, which takes tens of milliseconds for a large guest, and locks its memory map.
	rollupCost = 0.005
	maxSamples = 1200 // maximum number of values in a series
)

// listCost is the maximum share of a core for finding the serving processes: each thread of QEMU is searched for child
// processes.
const listCost = 0.002

// A sampler samples the memory and the CPU time of the processes that serve a target during a trial. They include
// processes that start during the trial, such as a guest that the trial boots.
type sampler struct {
	fs        system
	processes func() map[string][]int // returns the processes by label; called by sample, then only by the sampler's goroutine
	labels    map[string][]int        // last result of processes
	first     map[string][]int        // first result of processes
	begun     time.Time
	stop      chan struct{}
	done      chan struct{}

	at     []float64            // s since begun
	rss    map[string][]float64 // B, by label; "" means all processes
	used   map[int]float64      // s of CPU time of each process, at its last sample
	cpu    []float64            // CPU seconds per second of all processes, in the interval that ends at the sample; the first is 0
	uss    float64              // B, the maximum; 0 if it was not read
	pss    float64
	rolls  int
	period time.Duration // interval between the last read of smaps_rollup and the next one
	cost   time.Duration // CPU time of the sampling thread
}

// sample starts a sampler, which runs until `end` is called or ctx is done.
func (fs system) sample(ctx context.Context, processes func() map[string][]int) *sampler {
	s := &sampler{fs: fs, processes: processes, labels: processes(), begun: time.Now(), stop: make(chan struct{}), done: make(chan struct{}), rss: map[string][]float64{}}
	s.first = s.labels
	s.read()
	go s.loop(ctx)
	return s
}

func (s *sampler) loop(ctx context.Context) {
	defer close(s.done)
	defer func(used func() time.Duration) { s.cost = used() }(threadCPU())
	tick := time.NewTicker(rssPeriod)
	defer tick.Stop()
	var list, roll time.Time
	for {
		now := time.Now()
		if now.After(list) {
			used := threadTime()
			s.labels = s.processes()
			list = now.Add(time.Duration(float64(threadTime()-used) / listCost))
		}
		if now.After(roll) {
			used := threadTime()
			s.rollup()
			s.period = max(rollupPeriod, time.Duration(float64(threadTime()-used)/rollupCost))
			roll = now.Add(s.period)
		}
		select {
		case <-ctx.Done(): // the samples are no longer needed
			return
		case <-s.stop:
			s.labels = s.processes()
			s.read()
			if !maps.EqualFunc(s.labels, s.first, slices.Equal[[]int]) {
				s.rollup() // include processes that started during the trial, whose memory is probably largest now
			}
			return
		case <-tick.C:
			s.read()
		}
	}
}

// read samples the resident memory of each label and of all processes, and the CPU time of the processes. Like
// `resident`, read counts shared memory once.
func (s *sampler) read() {
	found := false
	var private, shared, busy float64
	sums, used := map[string]float64{}, map[int]float64{}
	for label, pids := range s.labels {
		var own, common float64
		for _, pid := range pids {
			rss, shmem, ok := s.fs.rss(pid)
			if !ok {
				continue // the process has ended
			}
			found = true
			if now, ok := s.fs.cpuTime(pid); ok {
				used[pid] = now
				busy += max(0, now-s.used[pid]) // s.used[pid] is 0 for a new process, so all its CPU time counts
			}
			own += rss - min(rss, shmem)
			common = max(common, min(rss, shmem))
		}
		sums[label] = own + common
		private += own
		shared = max(shared, common)
	}
	if !found {
		return
	}
	sums[""] = private + shared
	for label := range sums {
		if s.rss[label] == nil {
			s.rss[label] = make([]float64, len(s.at)) // no process had this label before
		}
	}
	now, last := time.Since(s.begun).Seconds(), 0.0
	if n := len(s.at); n > 0 {
		last = s.at[n-1]
	} else {
		busy = 0
	}
	s.used, s.at, s.cpu = used, append(s.at, now), append(s.cpu, busy/max(1e-3, now-last))
	for label := range s.rss {
		s.rss[label] = append(s.rss[label], sums[label])
	}
}

// rss returns the resident and the shared memory of a process in bytes (proc_pid_status(5)).
func (fs system) rss(pid int) (rss, shmem float64, ok bool) {
	text, err := os.ReadFile(filepath.Join(fs.proc, strconv.Itoa(pid), "status"))
	if err != nil {
		return 0, 0, false
	}
	rss, ok = kilobytes(text, "\nVmRSS:")
	shmem, _ = kilobytes(text, "\nRssShmem:")
	return rss, shmem, ok
}

// cpuTime returns the CPU time of a process in seconds, including threads that have ended. The resolution is 10 ms
// (proc_pid_stat(5)).
func (fs system) cpuTime(pid int) (float64, bool) {
	text, err := os.ReadFile(filepath.Join(fs.proc, strconv.Itoa(pid), "stat"))
	if err != nil {
		return 0, false
	}
	// The name is in parentheses and may contain any character. The state follows the name. The times are 11 and 12
	// fields after the state.
	f := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(f) < 13 {
		return 0, false
	}
	user, err1 := strconv.ParseUint(string(f[11]), 10, 64)
	system, err2 := strconv.ParseUint(string(f[12]), 10, 64)
	return float64(user+system) / userHZ, err1 == nil && err2 == nil
}

// kilobytes returns the number of kilobytes after a key in a file such as /proc/PID/status, converted to bytes.
func kilobytes(text []byte, key string) (float64, bool) {
	_, rest, ok := bytes.Cut(text, []byte(key))
	if !ok {
		return 0, false
	}
	line, _, _ := bytes.Cut(rest, []byte("\n"))
	n, err := strconv.ParseUint(string(bytes.TrimSpace(bytes.TrimSuffix(bytes.TrimSpace(line), []byte("kB")))), 10, 64)
	return float64(n) * 1024, err == nil
}

// rollup reads the unique and the proportional set sizes, and keeps their maxima.
func (s *sampler) rollup() {
	if uss, pss, ok := s.fs.rollup(s.labels); ok && len(s.labels) > 0 {
		s.uss, s.pss = max(s.uss, uss), max(s.pss, pss)
		s.rolls++
	}
}

// rollup sums the unique and the proportional set sizes of processes, in bytes. ok is false if one of the processes has
// ended or cannot be read.
func (fs system) rollup(processes map[string][]int) (uss, pss float64, ok bool) {
	for _, pids := range processes {
		for _, pid := range pids {
			text, err := os.ReadFile(filepath.Join(fs.proc, strconv.Itoa(pid), "smaps_rollup"))
			if err != nil {
				return 0, 0, false
			}
			clean, _ := kilobytes(text, "\nPrivate_Clean:")
			dirty, _ := kilobytes(text, "\nPrivate_Dirty:")
			share, _ := kilobytes(text, "\nPss:")
			uss += clean + dirty
			pss += share
		}
	}
	return uss, pss, true
}

// end stops the sampling and adds the results to seen. Without samples, it adds nothing.
func (s *sampler) end(seen *iotax.Seen) {
	close(s.stop)
	<-s.done
	if len(s.at) == 0 {
		return
	}
	took := time.Since(s.begun)
	add := func(name string, v float64) {
		seen.Values = append(seen.Values, iotax.Value{Name: name, Value: v, Unit: iotax.Bytes, Better: iotax.Down})
	}
	labels := slices.Sorted(maps.Keys(s.rss))
	for _, label := range labels {
		name := iotax.ValueMemoryHostPeak
		if label != "" {
			name += "." + label
		}
		add(name, slices.Max(s.rss[label]))
	}
	how := fmt.Sprintf("resident memory every %v", rssPeriod)
	if s.rolls > 0 {
		add(iotax.ValueMemoryHostUSS, s.uss)
		add(iotax.ValueMemoryHostPSS, s.pss)
		how += fmt.Sprintf(", smaps_rollup every %v", s.period.Round(100*time.Millisecond))
	}
	seen.Facts["watch.memory"] = how
	seen.Facts[iotax.ValueWatchCost] = fmt.Sprintf("%.2g %% of a core", 100*s.cost.Seconds()/took.Seconds())
	seen.Values = append(seen.Values, iotax.Value{Name: iotax.ValueWatchCost, Value: s.cost.Seconds() / took.Seconds(), Unit: iotax.RatioUnit, Better: iotax.Down})
	for _, label := range labels {
		name := iotax.ValueMemoryHostRSS
		if label != "" {
			name += "." + label
		}
		if label == "" || len(labels) > 2 {
			t, v := thin(s.at, s.rss[label], slices.Max[[]float64])
			seen.Series = append(seen.Series, iotax.Series{Name: name, Unit: iotax.Bytes, T: t, V: v})
		}
	}
	if len(s.at) > 1 {
		t, v := thin(s.at[1:], s.cpu[1:], mean)
		seen.Series = append(seen.Series, iotax.Series{Name: iotax.ValueCPUHost, Unit: iotax.RatioUnit, T: t, V: v})
	}
}

func mean(v []float64) float64 {
	sum := 0.0
	for _, x := range v {
		sum += x
	}
	return sum / float64(len(v))
}

// thin merges adjacent values of a series that is longer than maxSamples. `of` combines the values.
func thin(at, v []float64, of func([]float64) float64) ([]float64, []float64) {
	per := (len(v) + maxSamples - 1) / maxSamples
	if per <= 1 {
		return at, v
	}
	var t, out []float64
	for i := 0; i < len(v); i += per {
		end := min(i+per, len(v))
		t, out = append(t, at[end-1]), append(out, of(v[i:end]))
	}
	return t, out
}
