package serving

var olderWaits []int

// Offsets in the kernel's struct pt_regs of the first two arguments of a system call, and of its number.
const (
	atFirst  = 0   // regs[0]
	atSecond = 8   // regs[1]
	atNumber = 280 // syscallno
)
