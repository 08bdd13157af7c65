// Package serving measures how long the threads of a server are busy, and how long they are in system calls on files.
// Small eBPF programs sum the times in the kernel, so no events can be lost.
package serving

// Times contains sums over the threads of the processes, in seconds. Busy and Calls exclude the time in which a thread waits
// for requests or for another thread.
type Times struct {
	Busy  float64 // on a CPU, ready to run, or in a call that is neither a wait nor on a file
	Calls float64 // in calls on files: reads, writes, flushes
	Count float64 // number of calls on files
}
