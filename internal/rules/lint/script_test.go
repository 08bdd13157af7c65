package lint

import (
	"os"
	"strings"
	"testing"
	"time"
)

// Script finds the fio commands and job files among other text.
func TestScript(t *testing.T) {
	for _, c := range []struct {
		text string
		want []string // "line rule" of the errors and warnings
	}{
		{"#!/bin/sh\napt-get install -y fio\nwhich fio\ncommand -v fio\nfio --version\nfio --server\necho fio --name=x --direct=yes\n", nil},
		{"docker run --rm -v /x:/x --name fio image fio --name=a --rw=read --direct=yes --size=64g\n", []string{"1 bad-value"}},
		{"docker run --rm ljishen/fio:3.6 --name=a --rw=raed --size=64g --direct=1\ndocker pull fio:latest\n", []string{"1 bad-value"}},
		{"fio --config=ram --test-types=randwrite --targets=$dev --ioengine=pvsync\nfio serve --port 80\nfio add x --force\n", nil}, // other programs
		{"fio --filename=/dev/sdx --rw=read --direct=1 --bogus=1\nfio j.fio --bogus=1\n", []string{"1 not-a-job"}},
		{"fio --name=a --rw=read --size=64g --direct=1 --iodepth=8\n", []string{"1 depth-of-sync-engine"}},
		{"fio --name=a --rw={{ mode }} --size=64g --direct=1 --numjobs={{.Jobs}} --iodepth={{ \"many\" }} --bs=raed\n", []string{"1 bad-value"}}, // a template
		{"fio --filename=x --iodpeth=8\n", []string{"1 not-a-job"}},
		{"```\n[a]\ninclude other.inc\nrw=read\n```\n", nil},
		{"kubectl exec -it pod -- fio --name=a --rw=raed --size=64g --direct=1\n", []string{"1 bad-value"}},
		{"ssh host sudo fio --name=a --rw=read --size=64g --direct=1 --iodepht=2\n", []string{"1 unknown-option"}},
		{"for bs in 4k 8k; do\n  fio --name=a --rw=read --direct=1 --size=64g --bs=$bs\ndone\nfio --name=b --rw=read --direct=yes --size=64g\n", []string{"4 bad-value"}},
		{"f() {\n  out=$(fio --name=a --rw=read --direct=yes --size=64g $EXTRA | jq .)\n}\n", []string{"2 bad-value"}},
		{"cat > j.fio <<EOF\n[a]\nrw=read\ndirect=1\nsize=$SIZE\nnumjobs=$(nproc)\niodepht=4\nEOF\nfio j.fio\n", []string{"7 unknown-option"}},
		{"cat > j.fio <<EOF\n[a]\nrw=RW_MODE\ndirect=1\nsize=FILE_SIZEm\niodepth=many\nEOF\nsed s/RW_MODE/read/ j.fio | fio -\n", []string{"6 bad-value"}},
		{"fio --eta=never - <<EOF\n[a]\nrw=read\ndirect=yes\nsize=64g\nEOF\n", []string{"4 bad-value"}},
		{"#!/bin/sh\n# fio --name=a --rw=read --direct=yes \\\n#   --size=64g\n", nil},
		{"# fio --name=a --rw=read --direct=yes --size=64g\n", []string{"1 bad-value"}},
		{"fio --name=a --rw=read --direct=1 --size=64g [--numjobs=4 --group_reporting]\n", nil},
		{"# Title\n\n    text [a] fio\n\n```bash\n$ fio --name=a --rw=read --size=64g --direct=yes\n```\n\n```ini\n[a]\nrw=raed\ndirect=1\nsize=64g\n```\n```toml\n[package]\nname = 1\n```\n", []string{"6 bad-value", "11 bad-value"}},
		{"```\n(not a shell\nfio --name=a --rw=read --direct=yes \\\n  --size=64g\n```\n", []string{"3 bad-value"}},
		{"fio.exe --name=a --rw=randread --randrepeat=0 --direct=1 --iodepth=32 --size=64g --filename='C\\:\\x' --thread\n", nil},
		{"fio --readonly --name=a --rw=write --direct=1 --size=64g\n", []string{"1 options-refused"}},
	} {
		found, err := Script("x", c.text, Facts{})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, f := range found {
			if f.Severity != "info" {
				got = append(got, strings.TrimSpace(strings.Join([]string{string(rune('0' + f.Line%10)), f.Rule}, " ")))
			}
		}
		var want []string
		for _, w := range c.want {
			line, rule, _ := strings.Cut(w, " ")
			want = append(want, line[len(line)-1:]+" "+rule)
		}
		if strings.Join(got, ", ") != strings.Join(want, ", ") {
			t.Errorf("%q, want %q, for\n%s\n%+v", got, want, c.text, found)
		}
	}
}

// A variable in a here document is the shell's, and may have a value.
func TestHereDocumentVariables(t *testing.T) {
	found, err := Script("x.sh", "cat > j.fio <<EOF\n[a]\nrw=$RW\nbs=${BS}\nEOF\nfio j.fio\n", Facts{})
	if bad := about(found, "bad-value"); err != nil || len(bad) > 0 {
		t.Errorf("%+v, %v", bad, err)
	}
}

// The job file "-" is standard input, which lint does not read for a command.
func TestStandardInputOfCommand(t *testing.T) {
	found, err := Commands("command", "fio --eta=never -", func(string) ([]byte, error) { return nil, os.ErrNotExist }, Facts{})
	if err != nil || len(found) > 0 {
		t.Errorf("%+v, %v", found, err)
	}
}

// Commands lints a job file together with the options that the command sets before it.
func TestCommandReadsJobFiles(t *testing.T) {
	read := func(name string) ([]byte, error) {
		if name != "j.fio" {
			return nil, os.ErrNotExist
		}
		return []byte("[a]\nrw=randread\nrandrepeat=0\nsize=64g\niodepth=8\n[b]\nrw=raed\n"), nil
	}
	var fs []Finding
	var err error
	for _, prefix := range []string{"", "strace -f "} {
		fs, err = Commands("command", prefix+"fio --ioengine=libaio --section=a j.fio", read, here)
		if err != nil || len(about(fs, "libaio-buffered")) != 1 || fs[0].Line != 1 {
			t.Errorf("%s: %+v, %v", prefix, fs, err)
		}
	}
	if bad := about(fs, "bad-value"); len(bad) != 1 || bad[0].File != "j.fio" || bad[0].Line != 7 {
		t.Errorf("%+v", bad)
	}
	fs, err = Commands("command", "fio --name=a --rw=raed none.fio", read, here)
	if err != nil || len(about(fs, "not-a-job")) != 1 || len(about(fs, "bad-value")) != 1 {
		t.Errorf("a job file that does not exist hides the rest of the command: %+v, %v", fs, err)
	}
}

// Script needs less than 20 s for a long text.
func TestScriptOfManyLines(t *testing.T) {
	for name, text := range map[string]string{
		"fences":         strings.Repeat("```\n", 60000),
		"here documents": "fio --name=a --size=1g\n" + strings.Repeat("cat <<EOF1\n", 40000),
		"no script":      strings.Repeat("fio --name=a --size=1g\n", 5000) + "echo 'x\n",
		"names":          "fio" + strings.Repeat(" --name=a", 2000),
	} {
		done := make(chan error, 1)
		go func() {
			_, err := Script("x", text, Facts{})
			done <- err
		}()
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
		case <-time.After(20 * time.Second):
			t.Errorf("%s: not done after 20 s", name)
		}
	}
}

// iodepth=0 breaks the rule bad-value, because fio rejects it. fio --parse-only accepts the other options, so they
// break the rule misread-value instead.
func TestNumbersBelowOne(t *testing.T) {
	for option, want := range map[string]string{"numjobs=0": "misread-value", "nrfiles=0": "misread-value", "iodepth=0": "bad-value"} {
		found, err := Script("x", "fio --name=a --rw=read --size=64g --direct=1 --"+option+"\n", Facts{})
		if err != nil || len(about(found, want)) != 1 || (len(about(found, "bad-value")) == 1) != (want == "bad-value") {
			t.Errorf("%s: %+v, %v", option, found, err)
		}
	}
}
