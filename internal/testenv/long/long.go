// Package long marks slow tests.
package long

import "testing"

// Test skips a slow test if -short is set, as in `make test`. A test is slow if it takes more than about six seconds.
func Test(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("it takes long: make test-all runs it")
	}
}
