// Package long marks slow tests.
package long

import "testing"

// Test skips a slow test if -short is set. A test is slow if it takes more than about six seconds. The target test of
// the Makefile sets -short. The target test-all and CI do not.
func Test(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("it takes long: make test-all runs it")
	}
}
