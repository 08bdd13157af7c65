package serving

import (
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"
)

// Magic numbers of the NBD protocol. Each request and each reply starts with one of them, at the start of the first
// buffer of a system call. See https://github.com/NetworkBlockDevice/nbd/blob/master/doc/proto.md.
const (
	magicRequest         = 0x25609513
	magicExtendedRequest = 0x21e41c71
	magicReply           = 0x67446698
	magicChunk           = 0x668e33ef // a reply may have several chunks
	magicExtendedChunk   = 0x6e8a278c

	typeDisconnect = 2       // a request without a reply
	lastChunk      = 1 << 16 // flag of a chunk, in the first 8 bytes
)

// A tally is the value in the kernel's map of requests. Sum is the sum of the times of all replies minus the sum of the
// times of all requests, in ns of CLOCK_MONOTONIC, modulo 2^64. Sum plus Open times the current time is therefore the
// total time that the requests have spent at the server.
type tally struct {
	Sum      uint64
	Open     int64 // requests without a reply
	Requests uint64
}

// Offsets of the fields of a tally, and its size.
const (
	atSum = 8 * iota
	atOpen
	atRequests
	tallySize
)

// requests returns the total time of the requests at the server, in seconds, and their number. It returns an error if
// there are no requests, or if the numbers of requests and replies differ by more than 1 %.
func requests(tallies *ebpf.Map, now uint64) (s, count float64, err error) {
	var x tally
	if err := tallies.Lookup(uint32(0), &x); err != nil {
		return 0, 0, err
	}
	switch lost := max(x.Open, -x.Open); {
	case x.Requests == 0:
		return 0, 0, fmt.Errorf("it received no NBD request that is known")
	case uint64(lost) > x.Requests/100:
		return 0, 0, fmt.Errorf("of its %d requests, %d have no reply that is known", x.Requests, x.Open)
	}
	return float64(x.Sum+uint64(x.Open)*now) / 1e9, float64(x.Requests), nil
}

// atReply returns the program for sys_enter that counts replies.
func atReply(processes, tallies int) asm.Instructions {
	code := asm.Instructions{
		asm.LoadMem(asm.R6, asm.R1, 8, asm.DWord), // number of the call
		asm.LoadMem(asm.R8, asm.R1, 0, asm.DWord), // registers
		asm.JEq.Imm(asm.R6, unix.SYS_SENDTO, "measured"),
		asm.JEq.Imm(asm.R6, unix.SYS_WRITE, "measured"),
		asm.JNE.Imm(asm.R6, unix.SYS_SENDMSG, "out"),
	}
	code = append(code, first(ofProcess(processes), "measured")...)
	code = append(code, header(unix.SYS_SENDMSG)...)
	code = append(code,
		asm.JEq.Imm(asm.R1, magicReply, "count"),
		asm.JEq.Imm(asm.R1, magicChunk, "chunk"),
		asm.JNE.Imm(asm.R1, magicExtendedChunk, "out"),
		asm.And.Imm(asm.R7, lastChunk).WithSymbol("chunk"),
		asm.JEq.Imm(asm.R7, 0, "out"),
	)
	code = append(code, first(count(tallies), "count")...)
	return append(code,
		asm.AddAtomic.Mem(asm.R0, asm.R8, asm.DWord, atSum),
		asm.Mov.Imm(asm.R1, -1),
		asm.AddAtomic.Mem(asm.R0, asm.R1, asm.DWord, atOpen),
		asm.Mov.Imm(asm.R0, 0).WithSymbol("out"),
		asm.Return(),
	)
}

// atRequest returns the program for sys_exit that counts received requests.
func atRequest(processes, tallies int) asm.Instructions {
	code := asm.Instructions{
		asm.LoadMem(asm.R6, asm.R1, 8, asm.DWord), // result: bytes received
		asm.LoadMem(asm.R8, asm.R1, 0, asm.DWord), // registers
		asm.JSLT.Imm(asm.R6, 8, "out"),
	}
	code = append(code, ofProcess(processes)...)
	code = append(code, load(asm.FnProbeReadKernel, asm.R8, atNumber)...)
	code = append(code,
		asm.Mov.Reg32(asm.R6, asm.R7), // the system call number is an int on some architectures
		asm.JEq.Imm(asm.R6, unix.SYS_RECVFROM, "received"),
		asm.JEq.Imm(asm.R6, unix.SYS_READ, "received"),
		asm.JNE.Imm(asm.R6, unix.SYS_RECVMSG, "out"),
	)
	code = append(code, first(header(unix.SYS_RECVMSG), "received")...)
	code = append(code,
		asm.JEq.Imm(asm.R1, magicRequest, "request"),
		asm.JNE.Imm(asm.R1, magicExtendedRequest, "out"),
		asm.And.Imm(asm.R7, 0xffff).WithSymbol("request"),
		asm.JEq.Imm(asm.R7, typeDisconnect, "out"),
	)
	code = append(code, count(tallies)...)
	return append(code,
		asm.Neg.Imm(asm.R8, 0),
		asm.AddAtomic.Mem(asm.R0, asm.R8, asm.DWord, atSum),
		asm.Mov.Imm(asm.R1, 1),
		asm.AddAtomic.Mem(asm.R0, asm.R1, asm.DWord, atOpen),
		asm.AddAtomic.Mem(asm.R0, asm.R1, asm.DWord, atRequests),
		asm.Mov.Imm(asm.R0, 0).WithSymbol("out"),
		asm.Return(),
	)
}

// header returns the instructions that load the first 8 bytes of a system call's buffer. R6 is the number of the call,
// and R8 the address of its registers. The instructions set R7 to these bytes as a big-endian number, and R1 to its
// upper half, the magic number. The second argument of the call `message` is the address of a struct msghdr. In other
// calls, it is the address of the buffer.
func header(message int32) asm.Instructions {
	const atIOV = 16 // offset of msg_iov in struct msghdr. It points to a struct iovec, which begins with the address of the buffer.
	code := load(asm.FnProbeReadKernel, asm.R8, atSecond)
	code = append(code, asm.JNE.Imm(asm.R6, message, "buffer"))
	code = append(code, load(asm.FnProbeReadUser, asm.R7, atIOV)...)
	code = append(code, load(asm.FnProbeReadUser, asm.R7, 0)...)
	code = append(code, first(load(asm.FnProbeReadUser, asm.R7, 0), "buffer")...)
	return append(code,
		asm.HostTo(asm.BE, asm.R7, asm.DWord),
		asm.Mov.Reg(asm.R1, asm.R7),
		asm.RSh.Imm(asm.R1, 32),
	)
}

// count returns the instructions that set R8 to the time and R0 to the address of the tally.
func count(tallies int) asm.Instructions {
	return asm.Instructions{
		asm.FnKtimeGetNs.Call(),
		asm.Mov.Reg(asm.R8, asm.R0),
		asm.StoreImm(asm.RFP, -4, 0, asm.Word),
		asm.LoadMapPtr(asm.R1, tallies),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, -4),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "out"),
	}
}
