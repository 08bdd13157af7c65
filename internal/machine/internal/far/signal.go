package far

// signals maps the Linux numbers of signals that may end a command to their names. Package unix, which has such a
// table, is not available on Windows.
var signals = map[int]string{1: "HUP", 2: "INT", 3: "QUIT", 4: "ILL", 5: "TRAP", 6: "ABRT", 7: "BUS", 8: "FPE", 9: "KILL",
	10: "USR1", 11: "SEGV", 12: "USR2", 13: "PIPE", 14: "ALRM", 15: "TERM", 24: "XCPU", 25: "XFSZ", 31: "SYS"}

// Signal returns the name of the signal that an exit status encodes by the convention of shells (128 + its number), or
// "".
func Signal(code int) string { return signals[code-128] }
