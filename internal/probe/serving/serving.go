// Package serving measures what the threads of a server do, by their system calls. Small eBPF programs add up the times in the
// kernel, so that there are no events that could be lost.
package serving

// Times are sums over the threads of the processes, in seconds. A thread that waits for requests, or for another thread, is in
// neither.
type Times struct {
	Busy  float64 // on a CPU, ready to run, or in another call than those below
	Calls float64 // in calls at files: reads, writes, flushes
	Count float64 // of these calls
}
