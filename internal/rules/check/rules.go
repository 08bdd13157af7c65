// Package check decides whether numbers are valid: it has the rules about the results of a trial (Trial) and of a
// whole run (Run).
package check

// Limits of the rules. docs/dev/method.md has their sources.
const (
	servedBelow     = 0.95  // bytes at the device ÷ bytes of the workload
	foreignAbove    = 0.02  // share of the device's operations
	fewIOs          = 100   // fewer do not show how many of them a layer forwards
	lineSlack       = 1.05  // bandwidth ÷ bandwidth of the line, which was measured too
	stealAbove      = 0.02  // share of the host's CPU time
	clockNote       = 0.001 // |rate of the guest's clock − 1|
	clockWild       = 0.01
	quickLook       = 5.0   // seconds
	fasterThanFlash = 25e-6 // s, of one random read
	stallShare      = 0.01  // of the usual rate: less counts as no I/O
	stallRate       = 10.0  // 1/s: slower work always has pauses
	stallAtEnd      = 3.0   // steps (1 s) without a line; fio leaves out the last one or two
	drainNote       = 0.01  // share of the window by which it may be too long
	windowShort     = 0.95  // window ÷ planned window
	busyThread      = 0.95  // CPU seconds of the generator ÷ thread seconds
	busyShare       = 0.50  // the same, if the host's CPUs are busy
	busyHost        = 0.90  // share of the host's CPU time, which covers more than the window
	submitShare     = 0.80  // time of a thread spent in submission
	submitBusy      = 0.75  // largest CPU share of a thread that waits
	depthUnlike     = 1.5   // depth on one side ÷ depth on the other
	mergeUnlike     = 1.25  // size of an I/O at the device, one side ÷ the other
)
