// Package long marks slow tests.
package long

import "testing"

// Test skips a test that takes more than about six seconds if -short is set. make test sets it. make test-all and CI do not.
func Test(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("it takes long: make test-all runs it")
	}
}
