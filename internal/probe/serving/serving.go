// Package serving measures how long requests are at a server, and how long its threads are in system calls on files. It
// also profiles processes. Small eBPF programs sum times and count samples in the kernel, so there is no buffer of
// events that could overflow.
package serving

// A Protocol determines how the requests of a server are detected.
type Protocol string

const (
	// Threads measures any server by its threads. It assumes that a thread has a request whenever it does not wait.
	Threads Protocol = ""
	// SFTP measures the threads of sftp-server, which uses read and write for files and for requests and replies. Reads
	// and writes of the standard descriptors count as requests and replies, all others as calls on files.
	SFTP Protocol = "sftp"
	// NBD measures each request of an NBD server from its receipt until the server begins to send the reply, even if no
	// thread works on it.
	NBD Protocol = "nbd"
)

// Times contains sums over the requests or the threads of the processes.
type Times struct {
	Busy     float64 // s with a request; for Threads and SFTP, excluding the time in which a thread waits for another thread
	Requests float64 // number of requests; 0 if they are not counted
	Calls    float64 // s that threads spent in calls on files, such as reads, writes and flushes
	Count    float64 // number of calls on files
}
