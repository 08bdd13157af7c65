package fio

import (
	"errors"
	"fmt"
	"io"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"

	"iotax"
)

// A Command is a fio command line, as the shell and fio read it.
type Command struct {
	Wrapper []string // words before fio, such as sudo, but not the variable assignments of the shell
	Preload bool     // LD_PRELOAD is set for the command; only ParseCommands sets it
	Program string   // "fio", "/opt/fio/fio"

	Line, Column int // position of the program in the text

	Options  []Setting  // options of fio itself, not of a job: --output, --eta, --section
	Sections []*Section // one for each --name; options before the first --name are in a section "global"
	Files    []string   // job files on the command line
	Ignored  []string   // redirections and pipes of the shell
}

// Jobs returns the jobs that the command line defines and --section selects. It omits the jobs in job files.
func (c *Command) Jobs() []JobSpec { return jobs(c.Sections, c.names(), false) }

// names returns the names of the jobs that --section selects.
func (c *Command) names() []string {
	var names []string
	for _, o := range c.Options {
		if o.Key == "section" {
			names = append(names, o.Value)
		}
	}
	return names
}

// ParseCommand reads the only fio command line in a text from a shell, a script or a web page. It runs nothing. It
// replaces variables that the text sets before the command. Other variables remain as ${NAME}, for Expand (see `shell`
// for exceptions). $(nproc) and its equivalents become $ncpus. Other command substitutions are not supported.
//
// Errors are *JobError. A text without a fio command, or with several, is an error.
func ParseCommand(text string) (*Command, error) {
	if len(text) > MaxJob {
		return nil, &JobError{Line: 1, Msg: "the command: " + (&iotax.LimitError{Limit: MaxJob}).Error(), Hint: "write its options into a job file"}
	}
	args, redirs, assigns, places, err := findCall(text)
	if err != nil {
		return nil, err
	}
	words, err := fields(shell(assigns), places, args)
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(words, func(w word) bool { return isFio(w.text) })
	if at < 0 {
		return nil, place(places, args[0]).fail("begin with fio, as in fio --name=test --rw=randread", "the text has no fio command")
	}
	c, err := command(words, at)
	if err != nil {
		return nil, err
	}
	c.Ignored = redirs
	hasJob := slices.ContainsFunc(c.Sections, func(s *Section) bool { return !s.Global() })
	if !hasJob && len(c.Files) == 0 {
		return nil, words[at].fail("add --name=test before the options of the job", "the command has no --name and no job file: fio would run nothing")
	}
	return c, nil
}

// command parses the words of a command whose program is words[at].
func command(words []word, at int) (*Command, error) {
	c := &Command{Program: words[at].text, Line: words[at].line, Column: words[at].column}
	for _, w := range words[:at] {
		c.Wrapper = append(c.Wrapper, w.text)
	}
	return c, c.options(words[at+1:])
}

// A word is an argument after shell expansion, with its position in the text.
type word struct {
	text         string
	line, column int
}

func (w word) fail(hint, format string, args ...any) error {
	return &JobError{Line: w.line, Column: w.column, Msg: fmt.Sprintf(format, args...), Hint: hint}
}

var (
	// fioImage matches the name of a container image that runs fio.
	fioImage = regexp.MustCompile(`^fio:[\w.-]+$`)
	fioName  = regexp.MustCompile(`^fio(-[0-9.]+)?(\.exe)?$`)
	// prompt matches "user@host:~$ ", "[root@host ~]# ", "$ " or "# " before a command that starts with a known
	// program.
	prompt = regexp.MustCompile(`(?m)^[ \t]*(?:[^\n'"=;|&]*[$#%>] +)(?:[A-Za-z_]\w*=\S* +)*(?:sudo|doas|time|env|nice|ionice|numactl|taskset|[\w./-]*fio)[ \t]`)
	// template matches a placeholder of Jinja, Helm or Go.
	template = regexp.MustCompile(`\{\{[^{}\n]*\}\}`)
	// loose matches a backslash followed by blanks at the end of a line. Such a backslash does not continue the line.
	loose = regexp.MustCompile(`\\[ \t]+\r?(?:\n|$)`)
	// typeset matches typographic characters that word processors substitute for -- and for quotes.
	typeset = regexp.MustCompile(`[\x{2010}-\x{2015}\x{2212}]|[\x{2018}-\x{201f}\x{2032}\x{2033}]`)
)

func isFio(s string) bool { return fioName.MatchString(path.Base(s)) }

// wrappers lists programs that run the rest of their command line on this machine.
var wrappers = []string{"sudo", "doas", "env", "nice", "ionice", "chrt", "taskset", "numactl", "stdbuf", "nohup", "exec", "command", "time", "timeout", "setsid", "unbuffer", "cgexec", "perf", "strace", "systemd-run", "xargs"}

// lines is a text with an index of the line and column of every markStep-th byte, for fast lookups.
type lines struct {
	text  string
	marks [][2]int // line and column of byte i*markStep
}

const markStep = 1 << 10

func newLines(text string) *lines {
	l := &lines{text: text}
	line, column := 1, 1
	for i := 0; i <= len(text); i += markStep {
		l.marks = append(l.marks, [2]int{line, column})
		line, column = advance(line, column, text[i:min(i+markStep, len(text))])
	}
	return l
}

// at returns the line and the column of a byte offset. Both count from 1, and columns count characters.
func (l *lines) at(offset int) (line, column int) {
	m := offset / markStep
	return advance(l.marks[m][0], l.marks[m][1], l.text[m*markStep:offset])
}

func advance(line, column int, text string) (int, int) {
	for _, b := range []byte(text) {
		switch {
		case b == '\n':
			line, column = line+1, 1
		case utf8.RuneStart(b):
			column++
		}
	}
	return line, column
}

// parseShell parses a Bash script. The caller must have removed prompts.
func parseShell(text string) (*syntax.File, *lines, error) {
	places := newLines(text)
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(text), "")
	if err != nil {
		e, at := &JobError{Msg: err.Error()}, uint(0)
		var pe syntax.ParseError
		var le syntax.LangError // syntax of another shell
		if errors.As(err, &pe) {
			e.Msg, at = pe.Text, pe.Pos.Offset()
		} else if errors.As(err, &le) {
			at = le.Pos.Offset()
		}
		e.Line, e.Column = places.at(min(int(at), len(text)))
		return nil, nil, e
	}
	return file, places, nil
}

// findCall finds the only fio call in a text. `assigns` contains the variables that the text sets before the call.
func findCall(text string) (args []*syntax.Word, ignored []string, assigns map[string]string, places *lines, err error) {
	places = newLines(text)
	fail := func(offset int, hint, format string, args ...any) ([]*syntax.Word, []string, map[string]string, *lines, error) {
		e := &JobError{Msg: fmt.Sprintf(format, args...), Hint: hint}
		e.Line, e.Column = places.at(offset)
		return nil, nil, nil, nil, e
	}
	if i := strings.IndexByte(text, 0); i >= 0 {
		return fail(i, "", "the text has a NUL byte")
	}
	if at := loose.FindStringIndex(text); at != nil && strings.HasSuffix(text[:at[1]], "\n") {
		return fail(at[0], "remove the space after the backslash", "a space follows the backslash, so the command ends here")
	}
	text = unprompted(text)
	file, places, err := parseShell(text)
	if err != nil {
		return nil, nil, nil, nil, err
	}
	var calls [][]*syntax.Word
	assigns = map[string]string{}
	var bad error
	show := func(n syntax.Node) string {
		return strings.Join(strings.Fields(text[min(int(n.Pos().Offset()), len(text)):min(int(n.End().Offset()), len(text))]), " ")
	}
	var walk func(s *syntax.Stmt)
	list := func(ss []*syntax.Stmt) {
		for _, s := range ss {
			walk(s)
		}
	}
	walk = func(s *syntax.Stmt) {
		if s == nil || bad != nil {
			return
		}
		before := len(calls)
		switch cmd := s.Cmd.(type) {
		case *syntax.CallExpr:
			if len(calls) == 0 {
				bad = assign(assigns, places, cmd.Assigns)
			}
			if runsFio(cmd.Args) {
				calls = append(calls, cmd.Args)
			}
		case *syntax.DeclClause:
			if len(calls) == 0 {
				bad = assign(assigns, places, cmd.Args)
			}
		case *syntax.TimeClause:
			walk(cmd.Stmt)
		case *syntax.BinaryCmd:
			walk(cmd.X)
			if n := len(calls); n > before && (cmd.Op == syntax.Pipe || cmd.Op == syntax.PipeAll) {
				ignored = append(ignored, "| "+show(cmd.Y))
				break
			}
			walk(cmd.Y)
		case *syntax.Block:
			list(cmd.Stmts)
		case *syntax.Subshell:
			list(cmd.Stmts)
		case *syntax.ForClause:
			list(cmd.Do) // the loop variable is not expanded
		case *syntax.WhileClause:
			list(cmd.Do)
		case *syntax.IfClause:
			list(cmd.Then)
		}
		if len(calls) > before {
			for _, r := range s.Redirs {
				ignored = append(ignored, show(r))
			}
		}
	}
	list(file.Stmts)
	if bad != nil {
		return nil, nil, nil, nil, bad
	}
	// Report typographic characters before the errors below, because they are the most likely cause.
	if at := typeset.FindStringIndex(text); at != nil && len(calls) > 0 {
		hint := "write -- with the key for minus"
		if text[at[0]:at[1]] > "\u2016" && text[at[0]:at[1]] < "\u2100" {
			hint = "write ' or \""
		}
		return fail(at[0], hint, "%q is a typographic character, which no shell understands", text[at[0]:at[1]])
	}
	switch {
	case len(calls) == 0:
		return fail(0, "begin with fio, as in fio --name=test --rw=randread", "the text has no fio command")
	case len(calls) > 1:
		return fail(int(calls[1][0].Pos().Offset()), "give each a workload of its own", "a second fio command")
	}
	return calls[0], ignored, assigns, places, nil
}

// unprompted overwrites each byte of a prompt with a space, so that positions in ASCII text stay valid. It also
// replaces no-break spaces with spaces, and CRLF line endings with LF.
func unprompted(text string) string {
	text = strings.ReplaceAll(text, "\u00a0", "  ")
	text = strings.ReplaceAll(text, "\r\n", "\n")
	for _, at := range prompt.FindAllStringIndex(text, -1) {
		end := at[0] + strings.LastIndexAny(promptOf(text[at[0]:at[1]]), "$#%>") + 1
		text = text[:at[0]] + strings.Repeat(" ", end-at[0]) + text[end:]
	}
	return text
}

// promptOf returns the prompt part of a match of the prompt pattern.
func promptOf(match string) string {
	i := strings.LastIndexAny(match, "$#%>")
	for i > 0 && !strings.HasPrefix(match[i+1:], " ") {
		i = strings.LastIndexAny(match[:i], "$#%>")
	}
	return match[:i+1]
}

// runsFio reports whether a call runs fio, directly or through a wrapper.
func runsFio(args []*syntax.Word) bool {
	for i, w := range args {
		lit := w.Lit()
		if isFio(lit) {
			return true
		}
		if i == 0 && !slices.Contains(wrappers, path.Base(lit)) {
			return false
		}
	}
	return false
}

// remote lists programs that run the rest of their command line elsewhere, such as in a container or on another
// machine.
var remote = []string{"docker", "podman", "nerdctl", "crictl", "kubectl", "oc", "microk8s", "k3s", "ssh", "chroot", "nsenter", "ip", "lxc", "incus", "singularity", "apptainer", "srun", "pdsh", "wsl"}

// others lists programs and subcommands that may have "fio" as an argument but do not run it, for example as the name
// of a package or as a search pattern.
var others = []string{"apt", "apt-get", "yum", "dnf", "zypper", "pacman", "apk", "brew", "pip", "snap", "pkg", "install", "choco", "which", "type", "man", "dpkg", "rpm", "pkill", "killall", "pgrep", "pull", "build", "rmi", "images",
	"echo", "printf", "grep", "cp", "mv", "rm", "ls", "cat", "make", "git", "cd", "mkdir", "chmod", "systemctl"}

// ParseCommands reads every fio command in a shell script, including those after docker, kubectl or ssh. It replaces a
// variable if the script sets it once, before the command. Other variables remain as ${NAME} (see `shell` for
// exceptions), and so does a placeholder of a template, as in {{ name }}. It returns only the commands without errors. The error joins the *JobErrors of the other commands. If
// the text is too long or not a valid script, the error is a single *JobError.
func ParseCommands(text string) ([]*Command, error) {
	if len(text) > MaxJob {
		return nil, &JobError{Line: 1, Msg: "the script: " + (&iotax.LimitError{Limit: MaxJob}).Error()}
	}
	text = template.ReplaceAllStringFunc(unprompted(text), func(s string) string { return "${" + strings.Repeat("x", len(s)-3) + "}" })
	file, places, err := parseShell(text)
	if err != nil {
		return nil, err
	}
	vars, often := map[string]string{}, map[string]int{}
	syntax.Walk(file, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Assign:
			if n.Name != nil {
				often[n.Name.Value]++
			}
		case *syntax.WordIter:
			often[n.Name.Value] += 2
		}
		return true
	})
	var out []*Command
	var errs []error
	syntax.Walk(file, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Assign:
			if n.Name != nil && n.Value != nil && often[n.Name.Value] == 1 {
				if v, err := guarded(func() (string, error) { return expand.Literal(openShell(vars), n.Value) }); err == nil && len(v) <= maxValue {
					vars[n.Name.Value] = v
				}
			}
		case *syntax.CallExpr:
			var words []word
			for i := range n.Args {
				more, err := fields(openShell(vars), places, n.Args[i:i+1])
				if err != nil {
					more = []word{place(places, n.Args[i])}
					more[0].text = "${…}"
				}
				words = append(words, more...)
			}
			if at := program(words); at >= 0 {
				c, err := command(words, at)
				if err == nil {
					c.Preload = slices.ContainsFunc(c.Wrapper, func(w string) bool { return strings.HasPrefix(w, "LD_PRELOAD=") }) ||
						slices.ContainsFunc(n.Assigns, func(a *syntax.Assign) bool { return a.Name != nil && a.Name.Value == "LD_PRELOAD" })
					out = append(out, c)
				}
				errs = append(errs, err)
			}
		}
		return true
	})
	return out, errors.Join(errs...)
}

// openShell is like shell, but replaces an unsupported command or process substitution with the text ${command}
// instead of returning an error.
func openShell(vars map[string]string) *expand.Config {
	c := shell(vars)
	known := c.CmdSubst
	c.CmdSubst = func(w io.Writer, s *syntax.CmdSubst) error {
		err := known(w, s)
		if errors.Is(err, errSubstitution) {
			_, err = io.WriteString(w, "${command}")
		}
		return err
	}
	c.ProcSubst = func(*syntax.ProcSubst) (string, error) { return "${command}", nil }
	return c
}

// program returns the index of the word that names fio in a call, or -1.
func program(words []word) int {
	found := -1
	for i, w := range words {
		base := path.Base(w.text)
		if i == 0 && !isFio(w.text) && !slices.Contains(wrappers, base) && !slices.Contains(remote, base) {
			return -1
		}
		lookup := i == 1 && words[0].text == "command" && strings.HasPrefix(w.text, "-")
		if found < 0 && (lookup || slices.Contains(others, w.text)) {
			return -1
		}
		if (isFio(w.text) || i > 0 && fioImage.MatchString(base)) && i+1 < len(words) {
			// docker run --name fio IMAGE fio --name=…: the program is the fio before the options.
			if found < 0 || strings.HasPrefix(words[i+1].text, "-") && !strings.HasPrefix(words[found+1].text, "-") {
				found = i
			}
			if i == 0 {
				break
			}
		}
	}
	return found
}

// Remote reports whether fio runs through one of the programs in `remote`.
func (c *Command) Remote() bool {
	return slices.ContainsFunc(c.Wrapper, func(w string) bool { return slices.Contains(remote, path.Base(w)) })
}

// runsNothing lists options with which fio does not need a job.
var runsNothing = []string{"version", "help", "cmdhelp", "enghelp", "showcmd", "server", "client", "remote-config", "inflate-log", "profile",
	"cpuclock-test", "crctest", "memcpytest", "idle-prof", "merge-blktrace-only", "parse-only"}

// Empty reports whether the command has no job, no job file, and no option in runsNothing. fio would then do nothing.
func (c *Command) Empty() bool {
	return len(c.Files) == 0 && !slices.ContainsFunc(c.Sections, func(s *Section) bool { return !s.Global() }) &&
		!slices.ContainsFunc(c.Options, func(o Setting) bool { return slices.Contains(runsNothing, o.Key) })
}

// maxValue limits the length of a variable's value in bytes. Otherwise, a few assignments that each double the
// previous value could use all memory.
const maxValue = 1 << 16

// assign records the variables that a statement sets.
func assign(vars map[string]string, text *lines, as []*syntax.Assign) error {
	for _, a := range as {
		if a.Name == nil || a.Naked || a.Value == nil || a.Index != nil {
			continue
		}
		v, err := guarded(func() (string, error) { return expand.Literal(shell(vars), a.Value) })
		if err == nil && len(v) > maxValue {
			err = fmt.Errorf("the value is longer than %d bytes", maxValue)
		}
		if err != nil {
			return failed(text, a.Value, err)
		}
		vars[a.Name.Value] = v
	}
	return nil
}

// cpus lists commands that print the number of CPUs.
var cpus = []string{"nproc", "nproc --all", "getconf _NPROCESSORS_ONLN", "getconf _NPROCESSORS_CONF", "grep -c processor /proc/cpuinfo", "grep -c ^processor /proc/cpuinfo"}

var errSubstitution = errors.New("command substitution")

// shell returns a configuration that expands words with these variables. It does not run commands or read files.
// Variables that are not in vars expand to ${NAME}, except IFS, HOME, PWD and OLDPWD, which count as unset.
func shell(vars map[string]string) *expand.Config {
	return &expand.Config{
		Env: expand.FuncEnviron(func(name string) string {
			if v, ok := vars[name]; ok {
				return v
			}
			switch name {
			case "IFS", "HOME", "PWD", "OLDPWD":
				return ""
			}
			return "${" + name + "}"
		}),
		CmdSubst: func(w io.Writer, s *syntax.CmdSubst) error {
			var b strings.Builder
			for _, st := range s.Stmts {
				if err := syntax.NewPrinter().Print(&b, st); err != nil {
					return err
				}
			}
			if !slices.Contains(cpus, strings.ReplaceAll(strings.TrimSpace(b.String()), "'", "")) {
				return errSubstitution
			}
			_, err := io.WriteString(w, "$ncpus")
			return err
		},
		ProcSubst: func(*syntax.ProcSubst) (string, error) { return "", errSubstitution },
	}
}

// guarded calls `expand` and converts a panic to an error. The shell package panics on some syntax that it does not
// support.
func guarded[T any](expand func() (T, error)) (out T, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("this cannot be expanded: %v", r)
		}
	}()
	return expand()
}

// failed returns the error for a word that could not be expanded.
func failed(text *lines, at *syntax.Word, err error) error {
	w := place(text, at)
	if errors.Is(err, errSubstitution) {
		return w.fail("write the value itself", "a command in $(…) or <(…) is not run")
	}
	return w.fail("", "%v", err)
}

// place returns an empty word at the position of `at`.
func place(text *lines, at *syntax.Word) (w word) {
	w.line, w.column = text.at(min(int(at.Pos().Offset()), len(text.text)))
	return w
}

// fields expands the words of a call.
func fields(shell *expand.Config, text *lines, args []*syntax.Word) ([]word, error) {
	var out []word
	for _, a := range args {
		parts, err := guarded(func() ([]string, error) { return expand.Fields(shell, a) })
		if err != nil {
			return nil, failed(text, a, err)
		}
		w := place(text, a)
		for _, p := range parts {
			w.text = p
			out = append(out, w)
		}
	}
	return out, nil
}

// valued lists the options of fio itself. `arg` is 'r' if the option requires a value, 'o' if the value is optional and
// must follow =, and 'n' if the option takes no value. `short` is the one-letter form.
var valued = map[string]struct {
	arg   byte
	short byte
}{
	"output": {'r', 'o'}, "latency-log": {'r', 'l'}, "bandwidth-log": {'n', 'b'}, "minimal": {'n', 'm'}, "output-format": {'r', 'F'},
	"append-terse": {'o', 'f'}, "version": {'n', 'v'}, "help": {'n', 'h'}, "cmdhelp": {'o', 'c'}, "enghelp": {'o', 'i'}, "showcmd": {'n', 's'},
	"readonly": {'n', 'r'}, "eta": {'r', 'e'}, "eta-interval": {'r', 'O'}, "eta-newline": {'r', 'E'}, "debug": {'r', 'd'}, "parse-only": {'n', 'P'},
	"section": {'r', 'x'}, "inflate-log": {'r', 'X'}, "alloc-size": {'r', 'a'}, "profile": {'r', 'p'}, "warnings-fatal": {'n', 'w'}, "max-jobs": {'r', 'j'},
	"terse-version": {'r', 'V'}, "server": {'o', 'S'}, "daemonize": {'r', 'D'}, "client": {'r', 'C'}, "remote-config": {'r', 'R'},
	"cpuclock-test": {'n', 'T'}, "crctest": {'o', 'G'}, "memcpytest": {'o', 'M'}, "idle-prof": {'r', 'I'}, "status-interval": {'r', 'L'},
	"trigger-file": {'r', 'W'}, "trigger-timeout": {'r', 'B'}, "trigger": {'r', 'H'}, "trigger-remote": {'r', 'J'}, "aux-path": {'r', 'K'},
	"merge-blktrace-only": {'n', 'A'},
}

// choices lists the accepted values of some of fio's own options.
var choices = map[string][]string{
	"output-format": {"normal", "json", "json+", "terse", "minimal", "csv"},
	"terse-version": {"2", "3", "4", "5"},
	"idle-prof":     {"calibrate", "system", "percpu"},
}

// options reads fio's arguments like getopt_long_only: with one or two dashes, a value after = or in the next word,
// and unambiguous abbreviations.
func (c *Command) options(words []word) error {
	var cur *Section
	for i := 0; i < len(words); i++ {
		w := words[i]
		if w.text == "--" {
			for _, f := range words[i+1:] {
				c.Files = append(c.Files, f.text)
			}
			return nil
		}
		if !strings.HasPrefix(w.text, "-") || w.text == "-" {
			c.Files = append(c.Files, w.text)
			continue
		}
		name, value, has := strings.Cut(strings.TrimPrefix(w.text[1:], "-"), "=")
		name, arg, own, err := resolve(w, name)
		if err != nil {
			return err
		}
		if !has && arg == 'r' {
			if i+1 == len(words) {
				return w.fail("write --"+name+"=VALUE", "--%s has no value", name)
			}
			if next := words[i+1]; strings.HasPrefix(next.text, "--") {
				hint := "write --" + name + "=VALUE"
				if o, ok := LookupOption(name); ok && o.Type == "boolean value" {
					hint = "write --" + name + "=1"
				}
				return w.fail(hint, "--%s has no value: fio would take %s for it", name, next.text)
			}
			i++
			value, has = words[i].text, true
		}
		if has && arg == 'n' {
			return w.fail("write --"+name, "--%s takes no value", name)
		}
		if name == "name" && value == "" {
			return w.fail("write --name=test", "--name has no value")
		}
		if choices := choices[name]; own && choices != nil && !strings.Contains(value, "${") {
			for v := range strings.SplitSeq(value, ",") {
				if !slices.Contains(choices, v) {
					return w.fail("write one of "+strings.Join(choices, ", "), "--%s has no %q", name, v)
				}
			}
		}
		switch {
		case own:
			c.Options = append(c.Options, Setting{Key: name, Value: value, Bare: !has, Line: w.line, Column: w.column})
		case name == "name":
			cur = &Section{Name: value, Header: Line{Text: w.text, Number: w.line, Column: w.column}}
			c.Sections = append(c.Sections, cur)
		default:
			if cur == nil {
				cur = &Section{Name: "global"}
				c.Sections = append(c.Sections, cur)
			}
			cur.Lines = append(cur.Lines, Line{Text: w.text, Number: w.line, Column: w.column, Key: name, Value: value, Bare: !has})
		}
	}
	return nil
}

// resolve returns the full name of the option that a word names, its `arg` as in `valued` ('r', 'o' or 'n'), and
// whether it is an option of fio itself. An unknown option is treated as a job option with an optional value, because
// another version of fio may have it.
func resolve(w word, name string) (full string, arg byte, own bool, err error) {
	if name == "" {
		return "", 0, false, w.fail("", "%q names no option", w.text)
	}
	for long, v := range valued {
		if long == name || len(name) == 1 && v.short == name[0] && !strings.HasPrefix(w.text, "--") {
			return long, v.arg, true, nil
		}
	}
	o, known := LookupOption(name)
	if full = name; !known {
		if full, own = Completed(name); own {
			return full, valued[full].arg, true, nil
		}
		o, known = LookupOption(full)
	}
	switch {
	case !known:
		return name, 'o', false, nil
	case strings.HasPrefix(o.Type, "empty or"):
		return full, 'o', false, nil
	}
	return full, 'r', false, nil
}

// Completed returns the command-line option that `name` abbreviates. It returns "" if no option or several options
// match. `own` reports whether `full` is an option of fio itself.
func Completed(name string) (full string, own bool) {
	if _, ok := valued[name]; ok {
		return name, true
	}
	var fit []string
	for long := range valued {
		if strings.HasPrefix(long, name) {
			fit = append(fit, long)
		}
	}
	for long, o := range tables().byName {
		if o.Engine == "" && strings.HasPrefix(long, name) {
			fit = append(fit, long)
		}
	}
	if len(fit) != 1 {
		return "", false
	}
	_, own = valued[fit[0]]
	return fit[0], own
}
