package terminal

import "testing"

func TestHanging(t *testing.T) {
	for columns, want := range map[int]string{0: "ok  one two three four-five", 24: "ok  one two three\n    four-five", 80: "ok  one two three four-five"} {
		if got := Hanging("ok  ", "one two three four-five", columns); got != want {
			t.Errorf("%d columns:\n%s\nwant\n%s", columns, got, want)
		}
	}
}
