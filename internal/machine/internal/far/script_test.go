//go:build unix

package far

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// Exec returns exactly one line, because the remote shell reads only one line. sh passes the words on unchanged.
func TestExec(t *testing.T) {
	words := []string{"a\nb", "\n", "", "it's $HOME \\ \"x\"", "*"}
	line := Exec(append([]string{"printf", `%s\0`}, words...))
	if strings.Count(line, "\n") != 1 || line[len(line)-1] != '\n' {
		t.Errorf("got %q", line)
	}
	c := exec.Command("sh", "-c", Bootstrap)
	c.Stdin = strings.NewReader(line)
	out, err := c.Output()
	if got := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00"); err != nil || !slices.Equal(got, words) {
		t.Errorf("the program has %q (%v)", got, err)
	}
}
