// Package long names the tests that take long.
package long

import "testing"

// Test skips a test that takes more than about six seconds under -short, which make test sets. make test-all, and so CI, runs it.
func Test(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("it takes long: make test-all runs it")
	}
}
