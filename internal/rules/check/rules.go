// Package check decides whether numbers are valid: rules on the results of one trial (Trial) and
// on those of a whole run (Run). It only reads, and returns findings.
package check

// Limits of the rules. Their sources are in docs/dev/method.md.
const (
	servedBelow     = 0.95  // bytes at the device ÷ bytes of the workload
	foreignAbove    = 0.02  // share of the device's operations
	fewIOs          = 100   // fewer say nothing about how many of them a layer passes on
	lineSlack       = 1.05  // bandwidth ÷ that of the line: it was measured too
	stealAbove      = 0.02  // share of the host's CPU time
	clockNote       = 0.001 // |rate of the guest's clock − 1|
	clockWild       = 0.01
	quickLook       = 5.0   // seconds
	fasterThanFlash = 25e-6 // s, of one random read
	stallShare      = 0.01  // of the usual rate: less is nothing
	stallRate       = 10.0  // 1/s: slower work has pauses of its own
	stallAtEnd      = 3.0   // steps (1 s) without a line; fio leaves out the last one or two
	drainNote       = 0.01  // share of the window's length by which it may be longer than asked for
	windowShort     = 0.95  // window ÷ window asked for
	busyThread      = 0.95  // CPU seconds of the generator ÷ thread seconds
	busyShare       = 0.50  // the same, where the host has hardly any CPU left
	busyHost        = 0.90  // share of the host's CPU time: it was watched for longer than the window
	submitShare     = 0.80  // time of a thread spent in submission
	submitBusy      = 0.75  // CPU share of a thread that really waits, at most
	depthUnlike     = 1.5   // depth on one side ÷ depth on the other
	mergeUnlike     = 1.25  // size of an I/O at the device, one side ÷ the other
)
