package workload

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"fortio.org/fortio/fhttp"
	"fortio.org/log"

	"iotax"
	"iotax/internal/object"
	"iotax/internal/rules"
)

// A page is a URL to fetch. size is the expected size in bytes, or -1 if it is unknown.
type page struct {
	url  string
	size int64
}

// A fetcher is one worker.
type fetcher struct {
	clients  []fhttp.Fetcher
	pages    []page
	next     int
	broken   bool           // the last answer was incomplete
	bins     map[int]uint64 // successful requests, by binOf
	sum      float64        // sum of the times of successful requests in seconds
	bytes    int64
	requests int64
	errors   map[string]int64
}

func (f *fetcher) Write(b []byte) (int, error) { return len(b), nil }

// ReadFrom discards a body, as io.Discard does. It sets f.broken if reading fails, because StreamFetch returns the same
// values for a truncated answer as for a complete one.
func (f *fetcher) ReadFrom(body io.Reader) (int64, error) {
	n, err := io.Copy(io.Discard, body)
	f.broken = err != nil
	return n, err
}

// binWidth is the width of the histogram's bins, relative to their values.
const binWidth = 0.01

func binOf(seconds float64) int { return int(math.Round(math.Log(max(seconds, 1e-9)) / binWidth)) }
func binValue(bin int) float64  { return math.Exp(float64(bin) * binWidth) }

// fetch fetches the next page. It measures the time since `intended`, which is in the past if all workers were busy at
// that time.
func (f *fetcher) fetch(ctx context.Context, intended time.Time) {
	p, c := f.pages[f.next%len(f.pages)], f.clients[f.next%len(f.pages)]
	f.next++
	f.broken = false
	code, size, _ := c.StreamFetch(ctx)
	took := time.Since(intended).Seconds()
	if ctx.Err() != nil {
		return
	}
	f.requests++
	switch {
	case code < 200 || code > 299:
		f.errors[fmt.Sprintf("status %d", code)]++
	case f.broken:
		f.errors["incomplete answer"]++
	case p.size >= 0 && size != p.size:
		f.errors[fmt.Sprintf("%d bytes in place of %d", size, p.size)]++
	default:
		f.bytes += size
		f.sum += took
		f.bins[binOf(took)]++
	}
}

// fetched holds the results of all workers together.
type fetched struct {
	seconds  float64
	cpu      time.Duration // CPU time of this process, which generates the load
	requests int64
	bytes    int64
	sum      float64
	bins     map[int]uint64
	errors   map[string]int64
}

var quietOnce sync.Once

// fetch runs workers for `length`. `rate` is the number of requests per second of all workers together; 0 means a
// closed loop. In an open loop, the next worker that is free takes the next request. fetch returns an error if ctx is
// done, or if no request succeeded.
func fetch(ctx context.Context, pages []page, workers int, rate float64, length time.Duration) (*fetched, error) {
	quietOnce.Do(func() { log.SetLogLevelQuiet(log.Critical) }) // fetch counts and reports the failures itself
	fetchers := make([]*fetcher, workers)
	for i := range fetchers {
		f := &fetcher{pages: pages, next: i * len(pages) / workers, bins: map[int]uint64{}, errors: map[string]int64{}}
		for _, p := range pages {
			o := &fhttp.HTTPOptions{URL: p.url, NumConnections: 1, DisableFastClient: true, HTTPReqTimeOut: 60 * time.Second, DataWriter: f}
			c, err := fhttp.NewClient(o.Init(p.url))
			if err != nil {
				return nil, err
			}
			defer c.Close()
			f.clients = append(f.clients, c)
		}
		fetchers[i] = f
	}
	var slots atomic.Int64 // of an open loop: number of requests that workers took
	begun, cpu := time.Now(), object.CPUTime()
	end := begun.Add(length)
	var all sync.WaitGroup
	for _, f := range fetchers {
		all.Go(func() {
			for ctx.Err() == nil {
				intended := time.Now()
				if rate > 0 {
					intended = begun.Add(time.Duration(float64(slots.Add(1)-1) / rate * float64(time.Second)))
				}
				if wait := min(time.Until(intended), time.Until(end)); wait > 0 {
					select {
					case <-ctx.Done():
						return
					case <-time.After(wait):
					}
				}
				if !time.Now().Before(end) {
					return
				}
				f.fetch(ctx, intended)
			}
		})
	}
	all.Wait()
	out := &fetched{seconds: time.Since(begun).Seconds(), cpu: object.CPUTime() - cpu, bins: map[int]uint64{}, errors: map[string]int64{}}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	for _, f := range fetchers {
		out.requests += f.requests
		out.bytes += f.bytes
		out.sum += f.sum
		for b, n := range f.bins {
			out.bins[b] += n
		}
		for e, n := range f.errors {
			out.errors[e] += n
		}
	}
	if len(out.bins) == 0 {
		err := errors.New("no request was answered")
		for _, e := range slices.Sorted(maps.Keys(out.errors)) {
			err = fmt.Errorf("%w; %s, %d times", err, e, out.errors[e])
		}
		return nil, err
	}
	return out, nil
}

// generatorLimit is the CPU utilization above which the load generator counts as the bottleneck. It is below 1, because
// the threads of the garbage collector leave some CPU time idle.
const generatorLimit = 0.9

// report adds the results to a trial. The latencies are those of successful requests.
func (r *fetched) report(out *iotax.Trial, rate float64) {
	h := iotax.Histogram{Name: "http.latency", Unit: iotax.Seconds}
	var good uint64
	for _, b := range slices.Sorted(maps.Keys(r.bins)) {
		h.Bins = append(h.Bins, iotax.Bin{Value: binValue(b), Count: r.bins[b]})
		good += r.bins[b]
	}
	out.Histograms = append(out.Histograms, h)
	var bad int64
	for _, e := range slices.Sorted(maps.Keys(r.errors)) {
		bad += r.errors[e]
		out.Facts["errors: "+e] = fmt.Sprint(r.errors[e])
	}
	add := func(name string, v float64, unit string, better iotax.Better) {
		out.Values = append(out.Values, iotax.Value{Name: name, Value: v, Unit: unit, Better: better})
	}
	done := float64(good) / r.seconds
	add(iotax.ValueHTTPRequests, done, iotax.PerSecond, iotax.Up)
	add("http.bandwidth", float64(r.bytes)/r.seconds, iotax.BytesPerSecond, iotax.Up)
	add("http.latency.mean", r.sum/float64(good), iotax.Seconds, iotax.Down)
	add("http.errors", float64(bad)/float64(max(r.requests, 1)), iotax.RatioUnit, iotax.Down)
	add("duration", r.seconds, iotax.Seconds, iotax.Neither)
	add("operations", float64(good), iotax.Count, iotax.Neither)
	own := r.cpu.Seconds() / r.seconds
	if own > 0 { // the CPU time is unknown on some systems
		add("cpu.generator", own, iotax.RatioUnit, iotax.Neither)
	}
	if bad > 0 {
		out.Findings = append(out.Findings, rules.HTTPErrors.Found(iotax.AboutTrial(out), "%d of %d requests failed", bad, r.requests))
	}
	if n := float64(runtime.GOMAXPROCS(0)); own > generatorLimit*n {
		out.Findings = append(out.Findings, rules.GeneratorBound.Only("more CPUs").Found(iotax.AboutTrial(out), "the load generator used %.2g of its %.0f CPUs", own, n))
	}
	// Compare numbers of requests, not rates: r.seconds may be longer than out.Length, because it includes the wait for
	// the last answers.
	if asked := rate * out.Length.Seconds(); rate > 0 && float64(good) < 0.95*asked {
		out.Findings = append(out.Findings, rules.LoadNotReached.Without("load:", true).Found(iotax.AboutTrial(out), "%d of %.0f requests were answered in time", good, asked))
	}
}
