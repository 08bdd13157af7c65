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
	rollupPeriod = time.Second // at the least
	// rollupCost is the share of a core that reading smaps_rollup may take. The kernel walks the page
	// tables of the process for it, tens of milliseconds with a large guest, and holds a lock on its
	// memory map meanwhile.
	rollupCost = 0.005
	maxSamples = 1200 // kept of a series
)

// A sampler watches the memory of the processes that serve a target while a trial runs.
type sampler struct {
	fs     system
	labels map[string][]int
	begun  time.Time
	stop   chan struct{}
	done   chan struct{}

	at     []float64            // s since begun
	rss    map[string][]float64 // B, by label; "" is all of them
	uss    float64              // B, the most; 0 when it was not read
	pss    float64
	rolls  int
	period time.Duration // of the last rollup
	cost   time.Duration // CPU of the sampling thread

	born map[string]float64 // B, by label; "" is all: the most of processes that began meanwhile and were not sampled
}

// sample begins to watch; it is nil where nothing serves the target, or its memory cannot be read.
func (fs system) sample(ctx context.Context, processes map[string][]int) *sampler {
	s := &sampler{fs: fs, labels: processes, begun: time.Now(), stop: make(chan struct{}), done: make(chan struct{}), rss: map[string][]float64{}}
	if !s.read() {
		return nil
	}
	go s.loop(ctx)
	return s
}

func (s *sampler) loop(ctx context.Context) {
	defer close(s.done)
	defer func(used func() time.Duration) { s.cost = used() }(threadCPU())
	tick := time.NewTicker(rssPeriod)
	defer tick.Stop()
	used := threadTime()
	s.rollup()
	next := s.afterRollup(threadTime() - used)
	for {
		select {
		case <-ctx.Done(): // nobody asks any more
			return
		case <-s.stop:
			s.read()
			return
		case now := <-tick.C:
			s.read()
			if now.After(next) {
				used := threadTime()
				s.rollup()
				next = s.afterRollup(threadTime() - used)
			}
		}
	}
}

func (s *sampler) afterRollup(cost time.Duration) time.Time {
	s.period = max(rollupPeriod, time.Duration(float64(cost)/rollupCost))
	return time.Now().Add(s.period)
}

// read takes one sample of the resident memory: of each label and of all, what processes share counted
// once, as in resident.
func (s *sampler) read() bool {
	found := false
	var private, shared float64
	sums := map[string]float64{}
	for label, pids := range s.labels {
		var own, common float64
		for _, pid := range pids {
			rss, shmem, ok := s.fs.rss(pid)
			if !ok {
				continue // it ended
			}
			found = true
			own += rss - min(rss, shmem)
			common = max(common, min(rss, shmem))
		}
		sums[label] = own + common
		private += own
		shared = max(shared, common)
	}
	if !found {
		return false
	}
	sums[""] = private + shared
	s.at = append(s.at, time.Since(s.begun).Seconds())
	for label, v := range sums {
		s.rss[label] = append(s.rss[label], v)
	}
	return true
}

// rss reads what is resident of a process, and how much of that is shared memory (proc_pid_status(5)).
func (fs system) rss(pid int) (rss, shmem float64, ok bool) {
	text, err := os.ReadFile(filepath.Join(fs.proc, strconv.Itoa(pid), "status"))
	if err != nil {
		return 0, 0, false
	}
	rss, ok = kilobytes(text, "\nVmRSS:")
	shmem, _ = kilobytes(text, "\nRssShmem:")
	return rss, shmem, ok
}

// kilobytes is the number behind a key of a file such as /proc/PID/status, in bytes.
func kilobytes(text []byte, key string) (float64, bool) {
	_, rest, ok := bytes.Cut(text, []byte(key))
	if !ok {
		return 0, false
	}
	line, _, _ := bytes.Cut(rest, []byte("\n"))
	n, err := strconv.ParseUint(string(bytes.TrimSpace(bytes.TrimSuffix(bytes.TrimSpace(line), []byte("kB")))), 10, 64)
	return float64(n) * 1024, err == nil
}

// rollup reads unique and proportional set sizes.
func (s *sampler) rollup() {
	if uss, pss, ok := s.fs.rollup(s.labels); ok {
		s.uss, s.pss = max(s.uss, uss), max(s.pss, pss)
		s.rolls++
	}
}

// rollup sums the unique and the proportional set sizes of processes, in bytes; ok is false when one of them has
// ended, or is not ours to read.
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

// addBorn counts those of the processes that serve the target now and did not when the sampling began: a guest that
// is booted in the trial. What the kernel knows as the peak of their life is that of the trial; to it is added
// what was sampled of the others, although the two need not have come at the same moment. Their unique memory is
// read now, once.
func (s *sampler) addBorn(processes map[string][]int) {
	known := map[int]bool{}
	for _, pids := range s.labels {
		for _, pid := range pids {
			known[pid] = true
		}
	}
	begun := map[string][]int{}
	s.born = map[string]float64{}
	all := map[int]usage{}
	for label, pids := range processes {
		of := map[int]usage{}
		for _, pid := range pids {
			if known[pid] {
				continue
			}
			if u, ok := s.fs.usage(pid); ok {
				of[pid], all[pid] = u, u
				begun[label] = append(begun[label], pid)
			}
		}
		if len(of) > 0 {
			s.born[label] = resident(of)
		}
	}
	if len(all) == 0 {
		return
	}
	s.born[""] = resident(all)
	if uss, pss, ok := s.fs.rollup(begun); ok {
		s.uss, s.pss = s.uss+uss, s.pss+pss
		s.rolls = max(s.rolls, 1)
	}
}

// peak is the most that was resident of the processes behind a label, in bytes; "" is all of them.
func (s *sampler) peak(label string) float64 {
	peak := s.born[label]
	if v := s.rss[label]; len(v) > 0 {
		peak += slices.Max(v)
	}
	return peak
}

// end stops the sampling and tells what was seen, also of those processes that serve the target only now: peaks as
// values, the series, and as facts how often it was looked and what that cost.
func (s *sampler) end(seen *iotax.Seen, processes map[string][]int) {
	close(s.stop)
	<-s.done
	took := time.Since(s.begun)
	s.addBorn(processes)
	add := func(name string, v float64) {
		seen.Values = append(seen.Values, iotax.Value{Name: name, Value: v, Unit: iotax.Bytes, Better: iotax.Down})
	}
	add("memory.host.peak", s.peak(""))
	labels := slices.Collect(maps.Keys(s.rss))
	for label := range s.born {
		if !slices.Contains(labels, label) {
			labels = append(labels, label)
		}
	}
	slices.Sort(labels)
	for _, label := range labels {
		if label != "" {
			add("memory.host.peak."+label, s.peak(label))
		}
	}
	how := fmt.Sprintf("resident memory every %v", rssPeriod)
	if s.rolls > 0 {
		add("memory.host.uss", s.uss)
		add("memory.host.pss", s.pss)
		how += fmt.Sprintf(", smaps_rollup every %v", s.period.Round(100*time.Millisecond))
	}
	seen.Facts["watch.memory"] = how
	seen.Facts["watch.cost"] = fmt.Sprintf("%.2g %% of a core", 100*s.cost.Seconds()/took.Seconds())
	seen.Values = append(seen.Values, iotax.Value{Name: "watch.cost", Value: s.cost.Seconds() / took.Seconds(), Unit: iotax.RatioUnit, Better: iotax.Down})
	for _, label := range slices.Sorted(maps.Keys(s.rss)) {
		name := "memory.host.rss"
		if label != "" {
			name += "." + label
		}
		if v := s.rss[label]; len(v) == len(s.at) && (label == "" || len(s.labels) > 1) {
			t, v := thin(s.at, v)
			seen.Series = append(seen.Series, iotax.Series{Name: name, Unit: iotax.Bytes, T: t, V: v})
		}
	}
}

// thin keeps the largest of neighbours where a series is long.
func thin(at, v []float64) ([]float64, []float64) {
	per := (len(v) + maxSamples - 1) / maxSamples
	if per <= 1 {
		return at, v
	}
	var t, out []float64
	for i := 0; i < len(v); i += per {
		end := min(i+per, len(v))
		t, out = append(t, at[end-1]), append(out, slices.Max(v[i:end]))
	}
	return t, out
}
