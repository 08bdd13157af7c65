//go:build !windows

package main

import (
	"os"
	"os/signal"
	"syscall"
)

// resizes returns a channel that receives when the size of the terminal changes, until done is called.
func resizes() (resized <-chan os.Signal, done func()) {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGWINCH)
	return c, func() { signal.Stop(c) }
}
