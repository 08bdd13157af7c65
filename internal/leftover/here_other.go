//go:build !linux

package leftover

var here = table
