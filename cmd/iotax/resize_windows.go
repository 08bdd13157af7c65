package main

import "os"

// resizes never reports: the next tick of the clock fits the board.
func resizes() (resized <-chan os.Signal, done func()) { return nil, func() {} }
