package generate

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// SQLite in the agent flushes as often per transaction as the installed SQLite, and removes as many journals.
func TestSQLiteIsSQLites(t *testing.T) {
	const traced = "IOTAX_TRACED"
	s := SQLite{Dir: os.Getenv(traced), Accounts: 500, Transaction: "tpcb", Synchronous: "full", Seed: 5, Length: 50 * time.Millisecond}
	if s.Dir != "" {
		s.Journal = filepath.Base(s.Dir)
		out, err := doSQLite(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		n := int(values(out)["write.bytes"] / sqlPage / 4) // a transaction writes to four tables
		if err := os.WriteFile(s.Dir+".n", []byte(strconv.Itoa(n)), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	for journal, flushes := range map[string]func(n int) int{ // number of flushes for n transactions and the close
		"delete": func(n int) int { return 4 * n }, "persist": func(n int) int { return 5 * n }, "wal": func(n int) int { return n + 4 },
	} {
		t.Run(journal, func(t *testing.T) {
			s.Dir, s.Journal = filepath.Join(t.TempDir(), journal), journal
			if _, err := makeSQLite(t.Context(), s); err != nil {
				t.Fatal(err)
			}
			counts := func(stdin string, args ...string) map[string]int {
				t.Helper()
				log := filepath.Join(t.TempDir(), "strace")
				cmd := exec.Command("strace", append([]string{"-f", "-y", "-qq", "-e", "trace=fsync,fdatasync,unlink,unlinkat", "-o", log}, args...)...)
				cmd.Env, cmd.Stdin = append(os.Environ(), traced+"="+s.Dir), strings.NewReader(stdin)
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Fatalf("%v: %s", err, out)
				}
				b, err := os.ReadFile(log)
				if err != nil {
					t.Fatal(err)
				}
				got, call := map[string]int{}, regexp.MustCompile(`^\d+ +(f(?:data)?sync|unlink(?:at)?)\(.*/`+journal)
				for line := range strings.Lines(string(b)) {
					if m := call.FindStringSubmatch(line); m != nil {
						got[map[bool]string{true: "flush", false: "remove"}[strings.HasSuffix(m[1], "sync")]]++
					}
				}
				return got
			}
			got := counts("", os.Args[0], "-test.run=^TestSQLiteIsSQLites$")
			b, err := os.ReadFile(s.Dir + ".n")
			n, bad := strconv.Atoi(string(b))
			if err != nil || bad != nil || n == 0 {
				t.Fatal(n, err, bad)
			}
			var text strings.Builder
			fmt.Fprintf(&text, "PRAGMA journal_mode=%s; PRAGMA synchronous=full;\n", journal)
			for i := range n {
				text.WriteString("BEGIN;\n")
				for _, st := range s.statements() {
					text.WriteString(strings.NewReplacer("?1", strconv.Itoa(1+i*37%s.Accounts), "?2", strconv.Itoa(1+i%sqlTellers), "?3", strconv.Itoa(i)).Replace(st.text) + ";\n")
				}
				text.WriteString("COMMIT;\n")
			}
			want := counts(text.String(), "sqlite3", filepath.Join(s.Dir, "db"))
			if d := cmp.Diff(want, got); d != "" || want["flush"] != flushes(n) {
				t.Errorf("calls of %d transactions (-sqlite3 +agent): %s\n%v", n, d, want)
			}
		})
	}
}
