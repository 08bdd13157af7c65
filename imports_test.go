package iotax_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// floors lists the imports from this module that each package may use. It matches docs/dev/architecture.md. The table
// omits the prefix internal/. Commands, nested internal packages and the packages of testenv may import everything.
var floors = map[string]string{
	"iotax":              "",
	"plan/syntax":        "",
	"metric":             "iotax stat",
	"plan/bind":          "metric plan/syntax",
	"plan":               "expect metric plan/syntax plan/bind stat",
	"plan/schedule":      "plan plan/syntax stat",
	"expect":             "iotax plan/syntax stat",
	"plan/schema":        "plan plan/bind plan/syntax",
	"leftover":           "iotax agent guard leftover/proctable",
	"leftover/proctable": "",
	"suite":              "",
	"fio":                "iotax",
	"secret":             "iotax",
	"stat":               "iotax",
	"statsim":            "iotax plan/schedule report/format stat rules rules/check",
	"guest":              "iotax agent secret",
	"probe":              "iotax agent leftover leftover/proctable probe/pause rules",
	"probe/pause":        "",
	"probe/serving":      "",
	"store":              "iotax",
	"published":          "",
	"report":             "iotax expect metric published stat report/format rules",
	"report/format":      "iotax stat",
	"report/compare":     "iotax stat report report/format rules",
	"report/assess":      "iotax expect stat metric report report/format rules",
	"report/table":       "iotax stat report report/format report/block",
	"report/chart":       "report/format",
	"report/block":       "report/chart",
	"report/document":    "iotax expect stat report report/format report/compare report/assess report/table report/block report/chart rules",
	"report/text":        "report/block report/format",
	"report/html":        "report/block report/chart report/format",
	"report/export":      "iotax expect stat report report/format report/compare report/assess report/table trend",
	"report/output":      "report report/chart report/compare report/document report/text report/html report/export",
	"rules":              "iotax stat",
	"rules/check":        "iotax fio stat rules",
	"rules/lint":         "iotax plan plan/schedule fio rules",
	"rules/lint/input":   "iotax fio ingest kinds machine/host plan plan/syntax probe report/format rules rules/lint suite terminal",
	"guard":              "iotax agent",
	"volume":             "iotax agent guard plan probe leftover rules",
	"object":             "agent",
	"generate":           "iotax agent",
	"workload":           "iotax agent generate metric object plan leftover rules secret workload/command workload/fiojob workload/support workload/task",
	"workload/command":   "iotax agent metric plan secret workload/support workload/task",
	"workload/fiojob":    "iotax agent expect metric stat plan fio leftover rules workload/support workload/task secret",
	"workload/support":   "iotax agent plan rules workload/task",
	"workload/task":      "iotax agent",
	"lab":                "iotax agent leftover secret",
	"machine":            "iotax agent plan leftover machine/kind machine/host machine/ssh machine/vm machine/container machine/pod machine/inside machine/node machine/tool machine/fake",
	"machine/kind":       "iotax plan",
	"machine/host":       "iotax plan secret machine/kind machine/internal/proc",
	"agent":              "iotax secret agent/agents leftover/proctable",
	"agent/agents":       "",
	"machine/agent":      "iotax agent leftover machine/internal/proc",
	"machine/ssh":        "iotax agent plan secret machine/kind machine/agent machine/internal/far machine/internal/proc",
	"machine/vm":         "iotax agent plan probe leftover leftover/proctable guest machine/kind machine/agent machine/qemu machine/ssh",
	"machine/container":  "iotax plan agent probe leftover machine/kind machine/agent machine/ssh machine/internal/made",
	"machine/pod":        "iotax plan leftover machine/kind machine/kube machine/agent machine/internal/made",
	"machine/node":       "iotax plan leftover lab machine/kind machine/host",
	"machine/tool":       "iotax agent plan probe leftover machine/kind machine/host machine/ssh machine/agent machine/internal/far machine/internal/made",
	"machine/inside":     "iotax agent plan machine/kind machine/agent machine/internal/made",
	"machine/fake":       "iotax agent plan machine/kind machine/host machine/internal/proc",
	"machine/qemu":       "iotax leftover leftover/proctable secret",
	"machine/kube":       "iotax agent leftover machine/agent machine/internal/made",
	"doctor":             "iotax agent fio probe",
	"ingest":             "iotax fio metric report/format rules rules/lint rules/check secret",
	"run":                "iotax expect leftover metric plan plan/schedule stat volume rules workload/task",
	"run/progress":       "iotax report/format run terminal",
	"run/saved":          "iotax kinds leftover plan rules run secret store",
	"run/estimate":       "iotax calibrate kinds machine/qemu plan plan/schedule report/format run/saved stat store terminal workload workload/fiojob",
	"run/wired":          "iotax kinds machine machine/host plan probe probe/serving rules/check run run/progress run/saved secret store volume workload",
	"calibrate":          "iotax plan plan/schedule stat rules run terminal",
	"clean":              "iotax kinds leftover machine machine/container machine/host machine/kube machine/pod plan probe run run/saved store volume workload",
	"kinds":              "iotax guest machine plan published volume workload",
	"terminal":           "",
	"bisect":             "iotax machine/host plan stat statefile workload/support",
	"statefile":          "iotax",
	"tune":               "iotax stat",
	"trend":              "iotax report report/block report/chart report/compare report/document report/format stat store",
	"web":                "iotax plan stat store trend report report/block report/chart report/format report/compare report/document report/html report/export",
}

// short returns the path of a package in the form that floors uses.
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
