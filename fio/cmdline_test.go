package fio

import (
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"iotax"
)

func showCommand(c *Command) string {
	var parts []string
	for _, j := range c.Jobs() {
		s := j.Name
		for _, o := range j.Settings {
			s += " " + o.String()
		}
		parts = append(parts, s)
	}
	return strings.Join(parts, " | ")
}

func TestParseCommand(t *testing.T) {
	for _, c := range []struct{ text, jobs, rest string }{
		{"fio --name=a --rw=randread --bs=4k", "a --rw=randread --bs=4k", "[] [] [] []"},
		{"fio -name a -rw read --direct 1 --time_based --numj 2", "a --rw=read --direct=1 --time_based --numjobs=2", "[] [] [] []"},
		{"fio --bs=4k --name=a --rw=read --name=b --rw=write --stonewall", "a --bs=4k --rw=read | b --bs=4k --rw=write --stonewall", "[] [] [] []"},
		{"fio --name=a --bs=4k --name=global --iodepth=2 --name=b", "a --bs=4k | b --iodepth=2", "[] [] [] []"},
		{"sudo -E fio \\\n  --name='a b' \\\n  --filename=\"/dev/nvme0n1\" --output-format=json+ --output out.json --eta=never\n", "a b --filename=/dev/nvme0n1", "[sudo -E] [--output-format=json+ --output=out.json --eta=never] [] []"},
		{"SIZE=2g; export BS=4k\nDIR=/mnt sync && fio --name=a --size=$SIZE --bs=${BS} --directory=${DIR:-/x} --iodepth=$QD", "a --size=2g --bs=4k --directory=/mnt --iodepth=${QD}", "[] [] [] []"},
		{"OPTS=\"--rw=read --bs=4k\"\nfio $OPTS --name=a", "a --rw=read --bs=4k", "[] [] [] []"},
		{"# fio --name=a --rw=read", "a --rw=read", "[] [] [] []"},
		{"[root@host ~]# fio --name=a --rw=read > out.txt 2>&1", "a --rw=read", "[] [] [] [> out.txt 2>&1]"},
		{"user@host:~$ sudo fio --name=a --rw=read | tee x", "a --rw=read", "[sudo] [] [] [| tee x]"},
		{"$ cd /mnt\n$ fio --name=a --rw=read\n", "a --rw=read", "[] [] [] []"},
		{"fio --name=a --numjobs=$(nproc) --iodepth=`nproc`", "a --numjobs=$ncpus --iodepth=$ncpus", "[] [] [] []"},
		{"for bs in 4k 8k; do\n fio --name=a --bs=$bs; done", "a --bs=${bs}", "[] [] [] []"},
		{"time taskset -c 0 fio --name=a -o x.json -m # comment", "a", "[taskset -c 0] [--output=x.json --minimal] [] []"},
		{"fio --rw=read a.fio --section=x --section y b.fio", "", "[] [--section=x --section=y] [a.fio b.fio] []"},
		{"fio --name=a --bs=4k --name=b --section=b", "b", "[] [--section=b] [] []"},
		{"fio\u00a0--name=a --new_option_of_fio_9=3 --other_new", "a --new_option_of_fio_9=3 --other_new", "[] [] [] []"},
		{"/opt/fio-3.41/fio --name=a \\\r\n --rw=read\r\n", "a --rw=read", "[] [] [] []"},
		{"fio --name=a --bssplit=4k/50,8k/50 --buffered=1 --direct=1 --size=50%", "a --bssplit=4k/50,8k/50 --direct=1 --size=50%", "[] [] [] []"},
	} {
		got, err := ParseCommand(c.text)
		if err != nil {
			t.Errorf("%q: %v", c.text, err)
			continue
		}
		rest := fmt.Sprint(got.Wrapper, got.Options, got.Files, got.Ignored)
		if jobs := showCommand(got); jobs != c.jobs || rest != c.rest {
			t.Errorf("%q:\ngot  %s, %s\nwant %s, %s", c.text, jobs, rest, c.jobs, c.rest)
		}
	}
}

func TestParseCommandErrors(t *testing.T) {
	for _, c := range []struct {
		text, want, hint string
	}{
		{"fio --rw=read", "line 1, character 1: the command has no --name", "--name=test"},
		{"fio --name=a \\\n  --direct --rw=read", "line 2, character 3: --direct has no value: fio would take --rw=read for it", "--direct=1"},
		{"fio --name=a --rw", "line 1, character 14: --rw has no value", "--rw=VALUE"},
		{"fio --name=a --minimal=1", "character 14: --minimal takes no value", "--minimal"},
		{"fio --name=a \\ \n --rw=read", "line 1, character 14: a space follows the backslash", "remove the space"},
		{"fio –name=a", `line 1, character 5: "–" is a typographic character`, "--"},
		{"fio --name=“a b”", `line 1, character 12: "“" is a typographic character`, "'"},
		{"fio --name='a", "line 1, character 12: reached EOF without closing quote", ""},
		{"fio --name=a --size=$(cat x)", "line 1, character 14: a command in $(…) or <(…) is not run", "value itself"},
		{"fio --name=a --bs=${x@Z}", "line 1, character 23: invalid @ expansion", ""},
		{"fio --name=a <(ls)", "is not run", ""},
		{"dd if=/dev/zero of=x", "the text has no fio command", "begin with fio"},
		{"", "the text has no fio command", "begin with fio"},
		{"echo fio --name=a", "the text has no fio command", ""},
		{"fio --name=a\nfio --name=b", "line 2, character 1: a second fio command", "workload of its own"},
		{"fio --name= --rw=read", "line 1, character 5: --name has no value", "--name=test"},
		{"fio --name=a --output-format=json,xml", `--output-format has no "xml"`, "json+"},
		{"fio --name=a --terse-version=9", `--terse-version has no "9"`, "5"},
		{"fio --name=a --=4", "names no option", ""},
		{"fio \x00", "NUL", ""},
	} {
		_, err := ParseCommand(c.text)
		var je *JobError
		if !errors.As(err, &je) || !strings.Contains(err.Error(), c.want) || !strings.Contains(je.Hint, c.hint) || je.Line == 0 {
			t.Errorf("%q: got %v, want %s", c.text, err, c.want)
		}
	}
}

// If ParseCommand reads a command line and String writes it again, fio reads the same options from both.
func TestCommandAgreesWithFio(t *testing.T) {
	const options = ` --ioengine=null --size=1m --description='it''s $HOME "quoted"' --name="a b" -rw read --numj 2 --time_based --runtime=3 --name=b --bs=8k,4k --stonewall --eta=never -m`
	c, err := ParseCommand("fio" + options)
	if err != nil {
		t.Fatal(err)
	}
	parsed := func(command string) string {
		out, err := exec.Command("sh", "-c", "fio --debug=parse --parse-only "+command).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %v\n%s", command, err, out)
		}
		var b strings.Builder
		for line := range strings.Lines(string(out)) {
			if _, handled, ok := strings.Cut(line, " handle_option="); ok {
				b.WriteString(handled)
			}
		}
		return b.String()
	}
	want := parsed(options)
	if got := parsed(strings.TrimPrefix(c.String(), "fio")); got != want || strings.Count(want, "\n") < 9 {
		t.Errorf("%s\ngot  %s\nwant %s", c, got, want)
	}
	again, err := ParseCommand(c.String())
	if err != nil || showCommand(again) != showCommand(c) || again.String() != c.String() {
		t.Errorf("%v\n%s\n%s", err, again, c)
	}
}

func FuzzParseCommand(f *testing.F) {
	for _, s := range []string{
		"fio --name=a --rw=read", "# fio -name a \\\n --bs=${X:-4k} | tee x", "A=1 sudo fio --name='a' $(nproc) \"$A\" > x", "fio –x “", "fio $((1/0)) {a,b}*[x]~ --name", "[r@h ~]# fio -o", "for i in a; do fio --name=$i; done\\ \n",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := ParseCommand(text)
		if err != nil {
			var je *JobError
			if !errors.As(err, &je) || je.Line < 1 || je.Column < 1 {
				t.Fatalf("%q: %#v", text, err)
			}
			return
		}
		_ = c.Jobs()
		again, err := ParseCommand(c.String())
		if err != nil {
			return // for example, String omits the "--" before a job file named --x
		}
		if again.Program != c.Program {
			t.Fatalf("%q: %q, then %q", text, c.Program, again.Program)
		}
	})
}

// String returns the command as one line for a POSIX shell. The caller must have replaced all variables.
func (c *Command) String() string {
	args := append(slices.Clone(c.Wrapper), c.Program)
	for _, o := range c.Options {
		args = append(args, o.String())
	}
	for _, s := range c.Sections {
		if s.Header.Text != "" {
			args = append(args, "--name="+s.Name)
		}
		for _, o := range settings(nil, s.Lines, "") {
			args = append(args, o.String())
		}
	}
	return iotax.QuoteAll(append(args, c.Files...))
}
