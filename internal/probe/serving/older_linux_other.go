//go:build linux && !amd64

package serving

var olderWaits []int
