// Package far holds how a command is begun and ended on the other side of a channel that carries
// only standard streams: an SSH session, an exec of a container. It asks of the other side a POSIX sh.
//
// Such channels tell no process id, and do not end a command when they close. So every command is
// started by a few lines of sh that make it the leader of a process group and report that group's
// id; to end it, a second channel finds and kills its processes and sees them gone.
package far

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"

	"iotax"
	"iotax/internal/machine/internal/proc"
)

// Bootstrap is what the login shell is asked to run, the same for every command: it reads one line
// from standard input and evaluates it. It is so written that fish and csh take it too, for any
// login shell may be there; "exec" keeps that shell from staying in between. The command itself
// comes over standard input because there nobody sees its environment in a list of processes, and
// its length has no limit but that of its arguments.
const Bootstrap = `exec sh -c '` + Script + `'`

// Script is Bootstrap's script alone, for channels that take an argument vector.
const Script = `IFS= read -r iotax_s && eval "$iotax_s"`

// States that the prologue reports instead of starting the command.
const (
	StateDir   = "dir"   // the directory cannot be entered
	StateGroup = "group" // no process group of its own to be had
)

// Exec is a line for Bootstrap that replaces the shell by args, with its newline.
func Exec(args []string) string {
	line := "exec"
	for _, a := range args {
		line += " " + quote(a)
	}
	return newline + line + "\n"
}

// newline sets the variable that quote uses.
const newline = `iotax_n=$(printf "\nx"); iotax_n=${iotax_n%x}; `

// Prologue is the line that Bootstrap evaluates, with its newline. It reports the shell's process
// id, which after exec is the command's and its group's.
func Prologue(c *iotax.Cmd, tag string) string {
	var b strings.Builder
	var args []string
	if len(c.Env) > 0 {
		// env(1), for names that a shell cannot export and for shells whose UID is read-only.
		args = append(args, "env", "--")
		args = append(args, c.Env...)
		if strings.Contains(c.Args[0], "=") {
			args = append(args, "sh", "-c", `exec "$0" "$@"`)
		}
	}
	args = append(args, c.Args...)
	if strings.Contains(strings.Join(args, "")+c.Dir, "\n") {
		b.WriteString(newline)
	}

	// A process that leads a group has its id as the group's. OpenSSH starts every session so;
	// Dropbear does not, and killing the group would kill the server.
	b.WriteString(`iotax_e=; if kill -0 -$$ 2>/dev/null; then :; ` +
		`elif command -v setsid >/dev/null 2>&1; then exec setsid sh -c "$iotax_s"; else iotax_e=` + StateGroup + `; fi; `)
	if c.Dir != "" {
		dir := c.Dir
		if dir[0] == '-' {
			dir = "./" + dir // "cd -" is something else
		}
		fmt.Fprintf(&b, `CDPATH= cd -- %s || iotax_e=%s; `, quote(dir), StateDir)
	}
	fmt.Fprintf(&b, `printf "%%s\n" "%s $$ $iotax_e" >&2; if [ -n "$iotax_e" ]; then exit 125; fi; `, tag)
	fmt.Fprintf(&b, `%s=%s; export %[1]s; `, proc.TagName, tag)
	for _, name := range proc.LabelNames {
		if v := os.Getenv(name); v != "" {
			fmt.Fprintf(&b, `%s=%s; export %[1]s; `, name, quote(v))
		}
	}
	b.WriteString("exec")
	for _, a := range args {
		b.WriteByte(' ')
		b.WriteString(quote(a))
	}
	b.WriteByte('\n')
	return b.String()
}

// quote quotes s for sh on one line: newlines come from a variable.
func quote(s string) string {
	parts := strings.Split(s, "\n")
	for i, p := range parts {
		parts[i] = iotax.Quote(p)
	}
	return strings.Join(parts, `"$iotax_n"`)
}

// EndScript returns the script that ends the processes of a command and waits until they are gone.
// It prints "left:" and the ones that could not be ended.
//
// A process belongs to the command when it is of its group or has its tag in its environment; where
// there is no /proc (macOS, BSD), descent from the group stands in for the tag. One that has ended
// and waits to be reaped counts as gone: in a container nobody may ever reap it.
func EndScript(pid int, tag string) string {
	const text = `g=%d; t=%s=%s; grace=%d; limit=%d; seen=
alive() {
	l=
	if [ -r /proc/self/stat ]; then
		for d in /proc/[0-9]*; do
			{ IFS= read -r s <"$d/stat"; } 2>/dev/null || continue
			set -- ${s##*) }
			case $1 in Z | X) continue ;; esac
			if [ "$3" = "$g" ]; then l="$l ${d#/proc/}"; fi
		done
		# head, because it names each file before what is in it; tr, because busybox's grep stops at NUL.
		p=
		for w in $(head -c 1000000 /proc/[0-9]*/environ 2>/dev/null | tr "\000" "\n" | grep -F -e "==> /proc/" -e "$t"); do
			case $w in
			/proc/*/environ) p=${w#/proc/} p=${p%%/environ} ;;
			*"$t"*) case "$l " in *" $p "*) ;; *) l="$l $p" ;; esac ;;
			esac
		done
	else
		l=$(ps -A -o pid= -o ppid= -o pgid= -o stat= | awk -v g="$g" -v seen="$seen" '
			BEGIN { n = split(seen, a, " "); for (i = 1; i <= n; i++) of[a[i]] = 1 }
			{ up[$1] = $2; st[$1] = $4; if ($3 == g) of[$1] = 1 }
			END {
				do { grew = 0; for (p in up) if (!(p in of) && (up[p] in of)) { of[p] = 1; grew = 1 } } while (grew)
				for (p in up) if ((p in of) && st[p] !~ /^Z/) printf "%%s ", p
			}')
		seen="$seen $l"
	fi
	[ -n "${l# }" ]
}
now() {
	if IFS=. read -r now rest </proc/uptime; then :; else now=$(date +%%s); fi
} 2>/dev/null
now
start=$now n=0
if alive; then kill -s TERM $l 2>/dev/null; fi
while alive; do
	now
	if [ $((now - start)) -gt $grace ]; then kill -s KILL $l 2>/dev/null; fi
	if [ $((now - start)) -gt $limit ]; then break; fi
	n=$((n + 1))
	if [ $n -lt 10 ]; then p=0.02; else p=0.1; fi
	sleep $p 2>/dev/null || sleep 1
done
echo "left:$l"
`
	return fmt.Sprintf(text, pid, proc.TagName, tag, int(proc.Grace.Seconds()), int((proc.Grace + proc.Patience).Seconds()))
}

// A Report is the standard error of a session: it takes the prologue's line out and passes the rest
// on. What comes before that line was said by the login shell's start-up files or by cd.
type Report struct {
	tag  string
	next io.Writer
	Seen chan struct{} // closed once the line has come

	mu    sync.Mutex
	buf   []byte
	pid   int
	state string
	said  string
}

func NewReport(tag string, next io.Writer) *Report {
	return &Report{tag: tag, next: next, Seen: make(chan struct{})}
}

func (r *Report) Write(p []byte) (int, error) {
	select {
	case <-r.Seen:
		return r.next.Write(p)
	default:
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.buf = append(r.buf, p...)
	at := bytes.Index(r.buf, []byte(r.tag+" "))
	if at < 0 {
		if over := len(r.buf) - 64<<10; over > 0 {
			r.buf = append(r.buf[:0], r.buf[over:]...)
		}
		return len(p), nil
	}
	line, rest, whole := bytes.Cut(r.buf[at+len(r.tag)+1:], []byte("\n"))
	if !whole {
		return len(p), nil
	}
	pid, state, _ := strings.Cut(string(line), " ")
	r.pid, _ = strconv.Atoi(pid)
	r.state, r.said = state, strings.TrimSpace(string(r.buf[:at]))
	r.buf = nil
	close(r.Seen)
	if len(rest) > 0 {
		if _, err := r.next.Write(rest); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

// Get returns the process id, 0 while it is not known, the state, and what was said before.
func (r *Report) Get() (pid int, state, said string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pid == 0 {
		return 0, "", strings.TrimSpace(string(r.buf))
	}
	return r.pid, r.state, r.said
}

// Refused is the error of a command that the prologue did not start on the machine called on: state is
// StateDir or StateGroup, said what was printed before.
func Refused(cmd *iotax.Cmd, op, on, state, said string) error {
	if state == StateDir {
		if i := strings.LastIndexByte(said, '\n'); i >= 0 {
			said = said[i+1:]
		}
		return &iotax.Error{Op: op, On: "in " + cmd.Dir + " on " + on, Err: fmt.Errorf("the directory cannot be entered: %s", said),
			Hint: "name a directory that is there and may be entered"}
	}
	return &iotax.Error{Op: op, On: "on " + on, Err: errors.New("commands start in a process group of another there, and there is no setsid"),
		Hint: "install setsid there (package util-linux, or busybox), or use OpenSSH's server"}
}
