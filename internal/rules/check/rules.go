// Package check decides whether numbers are valid. It contains the rules about the results of a trial (Trial) and of
// a whole run (Run).
package check

// Limits of the rules. ../rules.txt explains the rules that use them.
const (
	servedBelow     = 0.95  // bytes at the device ÷ bytes of the workload
	foreignAbove    = 0.02  // share of the device's operations, or bytes, of other processes
	fewIOs          = 100   // with fewer I/Os, the share that reaches the next layer is unreliable
	lineSlack       = 1.05  // bandwidth ÷ measured bandwidth of the line
	stealAbove      = 0.02  // share of the CPU time that a hypervisor took
	clockNote       = 0.001 // |rate of the guest's clock − 1| for a warning
	clockWild       = 0.01  // the same, for a discarded trial
	quickLook       = 5.0   // s; a shorter window gives a finding
	fasterThanFlash = 25e-6 // s for one random read; flash takes longer
	stallShare      = 0.01  // share of the usual rate; less counts as no I/O
	stallRate       = 10.0  // 1/s: slower work always has pauses
	stallAtEnd      = 3.0   // steps of at least 1 s without a log line at the end; fio omits the last one or two lines
	drainNote       = 0.01  // maximum excess of the measured time over the planned time, as a share
	windowShort     = 0.95  // window ÷ planned window
	busyThread      = 0.95  // CPU seconds of the generator ÷ thread seconds
	busyShare       = 0.50  // the same, if the host's CPUs are busy
	busyHost        = 0.90  // share of the host's CPU time, measured over more than the window
	submitShare     = 0.80  // share of a thread's time spent in submission
	submitBusy      = 0.75  // largest CPU share of a thread that is waiting
	depthUnlike     = 1.5   // depth on one side ÷ depth on the other
	mergeUnlike     = 1.25  // size of an I/O at the device, one side ÷ the other
)
