package plan_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"iotax"
	"iotax/internal/machine"
	"iotax/internal/plan"
	"iotax/internal/plan/schema"
	"iotax/internal/published"
	"iotax/internal/volume"
	"iotax/internal/workload"
)

func realKinds() plan.Kinds {
	return plan.Kinds{Machines: machine.PlanKinds(), Volumes: volume.PlanKinds(), Workloads: workload.PlanKinds(), Layouts: iotax.Layouts, Published: published.Names()}
}

// Each kind of machine has a page with certain rows and a plan. The table of all kinds links to the page.
func TestMachinePages(t *testing.T) {
	index, err := os.ReadFile("../../docs/reference/machines.md")
	if err != nil {
		t.Fatal(err)
	}
	pages := []string{"windows"}
	for _, k := range machine.Kinds() {
		if k.Name != "fake" { // the kind fake exists only for tests
			pages = append(pages, k.Name)
		}
	}
	for _, name := range pages {
		text, err := os.ReadFile("../../docs/reference/machines/" + name + ".md")
		if err != nil {
			t.Error(err)
			continue
		}
		if !strings.Contains(string(index), "(machines/"+name+".md") {
			t.Errorf("docs/reference/machines.md does not lead to the page of %s", name)
		}
		for _, row := range []string{"Start", "Measured", "Run for real", "Limits"} {
			if !regexp.MustCompile(`(?m)^\| \*\*` + row + `\*\* \| .{20,} \|$`).Match(text) {
				t.Errorf("the page of %s has no row %s of 20 characters or more", name, row)
			}
		}
		if !strings.Contains(string(text), "```yaml\n") { // TestPlansOfPages parses this plan
			t.Errorf("the page of %s shows no plan", name)
		}
	}
}

// A single word in place of the keys of a kind must be a valid value of the field that it sets.
func TestWordInPlaceOfKeys(t *testing.T) {
	const src = "machines: {g: {qemu: {}}}\ntargets: {host: {dir: /var/tmp}, g: {on: g, %s}}\nworkloads: {w: {fio: {rw: randread}}}\n"
	for word, want := range map[string]string{
		"disk: ide":    `"ide" is not known`,
		"share: nfs":   "use one of virtiofs, 9p",
		"memory: ext4": "use one of tmpfs, ramfs",
		"nfs: 3":       "use one of 4.0, 4.1, 4.2",
	} {
		if _, err := plan.Parse("p.yaml", fmt.Appendf(nil, src, word), realKinds()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", word, err)
		}
	}
}

// The plans in README.md and on the user pages parse.
func TestPlansOfPages(t *testing.T) {
	shown := regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$")
	plans := 0
	page := func(name string) {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range shown.FindAllStringSubmatch(string(text), -1) {
			if strings.HasPrefix(m[1], "# .github/") {
				continue
			}
			plans++
			if _, err := plan.Parse(filepath.Base(name), []byte(m[1]), realKinds()); err != nil && !strings.Contains(err.Error(), "app.fio") {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	page("../../README.md")
	err := filepath.WalkDir("../../docs", func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && (d.Name() == "dev" || d.Name() == "rules") {
			return filepath.SkipDir
		}
		if err == nil && strings.HasSuffix(name, ".md") {
			page(name)
		}
		return err
	})
	if err != nil || plans < 50 {
		t.Errorf("%d plans, %v", plans, err)
	}
}

// The examples and defaults in docs/reference/plan.md match the program's behaviour.
func TestDocs(t *testing.T) {
	text, err := os.ReadFile("../../docs/reference/plan.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?ms)^```([a-z ]+)\n(.*?)^```$").FindAllStringSubmatch(string(text), -1)
	seen := map[string]int{}
	wrong := ""
	for _, b := range blocks {
		seen[b[1]]++
		name := fmt.Sprintf("%s %d", b[1], seen[b[1]])
		switch b[1] {
		case "yaml":
			p, err := plan.Parse("plan.yaml", []byte(b[2]), realKinds())
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			if strings.Contains(b[2], "memory: [512MiB, 2GiB]") && (len(p.Machines) != 3 || len(p.Targets) != 6 || len(p.Workloads) != 4) {
				t.Errorf("%s: %d machines with the host, %d targets, %d workloads", name, len(p.Machines), len(p.Targets), len(p.Workloads))
			}
			sameAgain(t, name, p)
		case "yaml wrong":
			if _, err := plan.Parse("plan.yaml", []byte(b[2]), realKinds()); err != nil {
				wrong = err.Error() + "\n"
			}
		case "text":
			if wrong != b[2] {
				t.Errorf("%s: the error is\n%s\nnot\n%s", name, wrong, b[2])
			}
		case "words":
			for line := range strings.Lines(b[2]) {
				targets, works, _ := strings.Cut(strings.TrimSpace(line), " -w ")
				p, err := plan.FromWords(strings.Fields(targets), strings.Split(works, ","), plan.Defaults(), realKinds())
				if err != nil {
					t.Errorf("%s: %v", line, err)
					continue
				}
				sameAgain(t, line, p)
			}
		default:
			t.Errorf("the block %q is not tested", b[1])
		}
	}
	if seen["yaml"] < 6 || seen["yaml wrong"] != 1 || seen["text"] != 1 || seen["words"] != 1 {
		t.Errorf("blocks %v", seen)
	}
	m := plan.Defaults()
	want := fmt.Sprintf("%d to %d rounds of %.0f s trials after a ramp of %.0f s, until the interval of each ratio is ± %.0f %% or the run's budget of %.0f minutes", m.Rounds.Min, m.Rounds.Max,
		time.Duration(m.Trial).Seconds(), time.Duration(m.Ramp).Seconds(), 100*float64(m.Precision), time.Duration(m.Budget).Minutes())
	if !strings.Contains(strings.Join(strings.Fields(string(text)), " "), want) {
		t.Errorf("no %q", want)
	}
	if want := "`" + strings.Join(plan.DefaultWorkloads[:2], "`,\n`") + "`"; !strings.Contains(string(text), want) {
		t.Errorf("the default workloads are not %s", want)
	}
}

func sameAgain(t *testing.T, name string, p *plan.Plan) {
	t.Helper()
	y, err := p.YAML()
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return
	}
	again, err := plan.Parse("plan.yaml", y, realKinds())
	if err != nil {
		t.Errorf("%s: the resolved plan does not read back: %v\n%s", name, err, y)
		return
	}
	if z, err := again.YAML(); err != nil || string(z) != string(y) {
		t.Errorf("%s: reads back as\n%s\nnot\n%s\n%v", name, z, y, err)
	}
}

// URLs of buckets, NBD exports and NFS exports are targets. The hint for an unsupported URL suggests a supported form.
func TestURLsAreTargets(t *testing.T) {
	for word, kind := range map[string]string{"http://host:9000/bucket": "bucket", "https://host/bucket": "bucket", "nbd://host:10809/x": "nbd", "nfs://host/x": "nfs", "nfs://[::1]:2050/x": "nfs", "nfs:host:/x": "nfs"} {
		p, err := plan.FromWords([]string{word}, nil, plan.Defaults(), realKinds())
		if err != nil || p.Targets[0].Kind != kind {
			t.Errorf("%s: %v", word, err)
		}
	}
	for word, instead := range map[string]string{"s3://bucket/x": "https://HOST/BUCKET"} {
		if _, err := plan.FromWords([]string{word}, nil, plan.Defaults(), realKinds()); err == nil || !strings.Contains(err.Error(), instead) {
			t.Errorf("%s: %v", word, err)
		}
		if _, err := plan.FromWords([]string{instead}, []string{"object"}, plan.Defaults(), realKinds()); err != nil {
			t.Errorf("the hint for %s is not a target: %v", word, err)
		}
	}
}

// Every real kind has a doc and is in the JSON Schema.
func TestRealKinds(t *testing.T) {
	k := realKinds()
	text, err := schema.Of(k)
	if err != nil || len(text) < 1000 {
		t.Fatalf("%d bytes, %v", len(text), err)
	}
	for _, kinds := range [][]plan.Kind{k.Machines, k.Volumes, k.Workloads} {
		for _, kind := range kinds {
			if kind.Doc == "" || !strings.Contains(string(text), "."+kind.Name+`"`) {
				t.Errorf("%s has no doc, or is not in the schema", kind.Name)
			}
		}
	}
}

// Errors never contain the secrets of a plan. A password that is recognized by its form is rejected.
func TestSecretsOfPlans(t *testing.T) {
	const mark = "MARKéD-9"
	for text, want := range map[string]string{
		"targets: {a: {bucket: 'http://k:" + mark + "@h/b'}}":                                                                        "a password does not belong in a plan",
		"targets: {a: {url: \"nbd://u:" + mark + "@h/x\"}}":                                                                          "a password does not belong in a plan",
		"machines: {m: {docker: {host: tcp://me:" + mark + "@h}}}\ntargets: {a: {on: m, dir: /x}}":                                   "a password does not belong in a plan",
		"machines: {m: {ssh: {host: ssh://me:" + mark + "@h}}}\ntargets: {a: {on: m, dir: /x}}":                                      "a password does not belong in a plan",
		"targets: {a: {dir: /x}}\nworkloads:\n  w:\n    command:\n      run: |\n        x\n        curl http://me:" + mark + "@h/\n": "a password does not belong in a plan",
		"machines: {m: {ssh: {host: h, password: " + mark + "}}}\ntargets: {a: {on: m, dir: /x}}":                                    "unknown key",
		"targets: {a: {bucket: {secret: '" + mark + "', path: /x}}}":                                                                 "unknown key",
		"targets: {a: {dir: /x}}\nworkloads: {w: {fio: {http_s3_key: " + mark + "}}}":                                                "a secret would be in fio's command line",
		"targets: {a: {dir: /x}}\nworkloads: {w: {fio: {rw: read}}} # http://me:" + mark + "@h\nnonsense: 1":                         "unknown key",
	} {
		p, err := plan.Parse("plan.yaml", []byte(text), realKinds())
		if err == nil {
			t.Errorf("%s: no error, %v", text, p)
			continue
		}
		if !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), mark) || strings.Contains(fmt.Sprintf("%+v %q", err, err), mark) {
			t.Errorf("%s\n%v", text, err)
		}
		// The error does not reveal the length of the secret.
		if _, longer := plan.Parse("plan.yaml", []byte(strings.ReplaceAll(text, mark, mark+mark+"é")), realKinds()); longer == nil || longer.Error() != err.Error() {
			t.Errorf("%s: one secret is told as\n%v\nand a longer one as\n%v", text, err, longer)
		}
	}
	for _, harmless := range []string{
		"targets: {a: {dir: /x}}\nworkloads: {w: {fio: {rw: read}}} # as http://me:secret@h\n",
		"targets: {a: {dir: /x}}\nworkloads: {w: {fio: {rw: read}}}\nmeasure: {prepare: 'redis-cli -u redis://127.0.0.1:6379 flushall; ssh root@storage sync'}\n",
		"targets: {a: {dir: /x}}\nworkloads: {w: {command: {run: 'load {\"url\":\"redis://db:6379\",\"mail\":\"me@db\"}'}}}\n",
	} {
		if _, err := plan.Parse("plan.yaml", []byte(harmless), realKinds()); err != nil {
			t.Error(err)
		}
	}
}
