//go:build !linux

package vm

import "errors"

type pinning struct{}

func newPinning([]int) (*pinning, error) {
	return nil, errors.New("CPUs can be pinned on Linux only")
}

func lastCPUs(int) (*pinning, error) { return newPinning(nil) }

func (p *pinning) pin(int) error            { return nil }
func (p *pinning) undo() error              { return nil }
func (p *pinning) facts() map[string]string { return nil }
