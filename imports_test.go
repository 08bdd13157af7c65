package iotax_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// floors is docs/dev/architecture.md as a table: what each package may import of this module. Only the
// command sees everything. The folder internal/ is left out.
var floors = map[string]string{
	"iotax":              "",
	"plan":               "",
	"leftover":           "iotax agent leftover/proctable",
	"leftover/proctable": "",
	"suite":              "",
	"fio":                "iotax",
	"secret":             "iotax",
	"stat":               "iotax",
	"statsim":            "iotax plan report/format stat rules rules/check",
	"guest":              "iotax",
	"probe":              "iotax agent probe/pause rules",
	"probe/pause":        "",
	"store":              "iotax",
	"published":          "",
	"report":             "iotax published stat report/format rules",
	"report/format":      "iotax stat",
	"report/compare":     "iotax stat report report/format rules",
	"report/assess":      "iotax stat report report/format rules",
	"report/table":       "iotax stat report report/format",
	"report/chart":       "report/format",
	"report/block":       "report/chart",
	"report/document":    "iotax stat report report/format report/compare report/assess report/table report/block report/chart rules",
	"report/text":        "report/block report/format",
	"report/html":        "report/block report/chart report/format",
	"report/export":      "iotax stat report report/format report/compare report/assess report/table",
	"report/output":      "report report/chart report/compare report/document report/text report/html report/export",
	"rules":              "iotax stat",
	"rules/check":        "iotax fio stat rules",
	"rules/lint":         "iotax plan fio rules",
	"guard":              "iotax agent",
	"volume":             "iotax agent guard plan probe leftover rules",
	"object":             "agent",
	"workload":           "iotax agent object plan fio leftover secret rules workload/nested workload/task",
	"workload/nested":    "iotax agent fio guest leftover machine/kind machine/vm plan",
	"workload/task":      "agent",
	"lab":                "iotax leftover",
	"machine":            "iotax agent plan leftover machine/kind machine/host machine/ssh machine/vm machine/container machine/pod machine/node machine/tool machine/fake",
	"machine/kind":       "iotax plan",
	"machine/host":       "iotax plan secret machine/kind machine/shell machine/internal/proc",
	"machine/shell":      "iotax secret machine/internal/proc",
	"agent":              "iotax secret leftover/proctable",
	"machine/agent":      "iotax agent machine/internal/proc",
	"machine/ssh":        "iotax agent plan secret machine/kind machine/agent machine/internal/far machine/internal/proc",
	"machine/vm":         "iotax plan probe leftover guest machine/kind machine/qemu machine/sshx",
	"machine/container":  "iotax plan probe leftover machine/kind machine/execx machine/ssh machine/internal/made",
	"machine/pod":        "iotax plan leftover machine/kind machine/kube machine/execx machine/internal/made",
	"machine/node":       "iotax plan leftover lab machine/kind machine/host",
	"machine/tool":       "iotax agent plan probe leftover machine/kind machine/host machine/ssh machine/execx machine/internal/made",
	"machine/inside":     "iotax agent machine/execx machine/internal/proc",
	"machine/fake":       "iotax agent plan machine/kind machine/host machine/internal/proc",
	"machine/sshx":       "iotax agent machine/internal/far machine/internal/proc",
	"machine/execx":      "iotax agent machine/internal/far machine/internal/proc",
	"machine/qemu":       "iotax leftover",
	"machine/kube":       "iotax leftover machine/execx",
	"doctor":             "iotax fio probe",
	"ingest":             "iotax fio rules rules/lint rules/check",
	"run":                "iotax plan stat volume rules",
	"calibrate":          "iotax plan stat rules",
	"web":                "iotax plan stat store report report/block report/chart report/format report/compare report/document report/html report/export",
}

// short is the path of a package as the table has it.
func short(path string) string {
	return strings.TrimPrefix(strings.TrimPrefix(path, "iotax/"), "internal/")
}

func TestImportsPointOneWay(t *testing.T) {
	out, err := exec.Command("go", "list", "-f", `{{.ImportPath}} {{join .Imports " "}}`, "./...").Output()
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for line := range strings.Lines(string(out)) {
		words := strings.Fields(line)
		name := short(words[0])
		allowed, listed := floors[name]
		if !listed {
			if strings.HasPrefix(name, "cmd/") || strings.Contains(name, "/internal/") || strings.HasPrefix(name, "testenv/") {
				continue
			}
			t.Errorf("package %s is not in the table: give it a floor here and a line in docs/dev/architecture.md", name)
			continue
		}
		seen++
		for _, imp := range words[1:] {
			ours := imp == "iotax" || strings.HasPrefix(imp, "iotax/")
			if ours && !slices.Contains(strings.Fields(allowed), short(imp)) {
				t.Errorf("%s imports %s, which is not below it", name, imp)
			}
		}
	}
	if seen != len(floors) {
		t.Errorf("%d packages of %d in the table exist", seen, len(floors))
	}
}
