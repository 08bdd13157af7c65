package far

// signals are the names of the signals that end a command, by their number on Linux; package unix has
// no such table where iotax runs on Windows.
var signals = map[int]string{1: "HUP", 2: "INT", 3: "QUIT", 4: "ILL", 5: "TRAP", 6: "ABRT", 7: "BUS", 8: "FPE", 9: "KILL",
	10: "USR1", 11: "SEGV", 12: "USR2", 13: "PIPE", 14: "ALRM", 15: "TERM", 24: "XCPU", 25: "XFSZ", 31: "SYS"}

// Signal returns the name of the signal that an exit status stands for by the convention of shells
// (128 + its number), or "".
func Signal(code int) string { return signals[code-128] }
