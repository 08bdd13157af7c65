package main

import "testing"

// A command line that may contain a password is not saved.
func TestRepeatable(t *testing.T) {
	for arg, want := range map[string]string{"dir:/a b": "iotax 'dir:/a b'", "postgres://u:x@db/x": "", "postgres://db/x?password=x": "", "host=db password = x": ""} {
		if got := repeatable([]string{arg}); got != want {
			t.Errorf("%s: %q", arg, got)
		}
	}
}
