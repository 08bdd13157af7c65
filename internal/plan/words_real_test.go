package plan_test

import (
	"fmt"
	"strings"
	"testing"

	"iotax/internal/plan"
)

// A directory word accepts the keys of `dir:` after the path.
func TestWordsOfDirectories(t *testing.T) {
	for word, want := range map[string]string{
		"/x":                               "path: /x; create: false; network: false",
		"/x,network=true":                  "path: /x; create: false; network: true",
		"dir:/x,network=true,create":       "path: /x; create: true; network: true",
		"./x,create=true":                  "path: ./x; create: true; network: false",
		"ssh://h/x?create=true":            "path: /x; create: true; network: false",
		"docker://debian:12/x?create=true": "path: /x; create: true; network: false",
		"/x,network=tru":                   "network takes true or false",
		"dir:/x,nework=true":               `did you mean "network"`,
		"/x,1":                             `unknown key "1"`,
		"/x,":                              "an empty word",
		"/x,path=/y":                       `the key "path" is given twice`,
		"/x,create=true,create=false":      `the key "create" is given twice`,
		"k8s://pod/ns/name/x?path=/y":      `the key "path" is given twice`,
	} {
		p, err := plan.FromWords([]string{word}, nil, plan.Defaults(), realKinds())
		got := fmt.Sprint(err)
		if err == nil {
			y, err := p.YAML()
			if err != nil {
				t.Fatal(err)
			}
			_, got, _ = strings.Cut(string(y), "    dir:\n")
			got, _, _ = strings.Cut(got, "\nworkloads:")
			got = strings.ReplaceAll(strings.TrimSpace(got), "\n      ", "; ")
		}
		if !strings.Contains(got, want) {
			t.Errorf("%s: %s\nwant %s", word, got, want)
		}
	}
}

// An invalid open loop is rejected when iotax reads the plan file or the word.
func TestOpenLoopsOfPlans(t *testing.T) {
	const form = "write I/Os per second, as in 5000/s, 12k/s or 1.5M/s"
	for fio, want := range map[string]string{
		"rate: 5000/s":                       "",
		"rate: [500/s, 1.5k/s], numjobs: 64": "",
		"rate: 5000":                         form,
		"rate: 10m":                          form,
		"rate: 5kB/s":                        form,
		"rate: 60%":                          form,
		"rate: 0/s":                          "write at least 10/s",
		"rate: 5000/s, load: 60%":            "leave out load: or rate:",
		"rate: 5000/s, rw: read":             "rw: randread or rw: randwrite",
		"rate: 5000/s, rw: randrw":           "rw: randread or rw: randwrite",
		"rate: 5000/s, iodepth: 8":           "leave iodepth out",
		"rate: 5000/s, rate_iops: 8":         "iotax sets the rate",
		"rate: 5000/s, by_size: true":        "leave it out, or rate:",
		"rate: 50k/s, numjobs: 2":            "numjobs: 5",
		"find: {most: iops, while: read.latency.p99 < 2ms}":                           "",
		"find: {most: iops, while: write.latency.mean <= 1.5s}, rw: randwrite":        "",
		"find: {most: [iops], while: [read.latency.p99 < 2ms, read.latency.p50<1ms]}": "",
		"find: {while: read.latency.p99 < 2ms}":                                       "most",
		"find: {most: bandwidth, while: read.latency.p99 < 2ms}":                      "most: iops",
		"find: {most: iops}":                                               "a limit needs a condition",
		"find: iops":                                                       "find takes a mapping",
		"find: {most: iops, while: fast}":                                  "write METRIC < LIMIT",
		"find: {most: iops, while: read.latency.p99 < 2}":                  "2s",
		"find: {most: iops, while: read.latency.p99 < 2MiB}":               "unknown unit",
		"find: {most: iops, while: read.latency.p99 < 0ms}":                "write a time above 0",
		"find: {most: iops, while: read.latency.p99 > 2ms}":                "write read.latency.p99 < 2ms",
		"find: {most: iops, while: write.latency.p99 < 2ms}":               "there are read.latency.mean",
		"find: {most: iops, while: read.latency.p98 < 2ms}":                "there are read.latency.mean",
		"find: {most: iops, while: read.iops < 5000}":                      "there are read.latency.mean",
		"find: {most: iops, while: read.latency.p99 < 120% of baseline}":   "without a workload, a target or the baseline",
		"find: {most: iops, while: read.latency.p99 < 2ms at a}":           "without a workload, a target or the baseline",
		"find: {most: iops, while: read.latency.p99 < 2ms}, rate: 500/s":   "leave out rate: or find:",
		"find: {most: iops, while: read.latency.p99 < 2ms}, load: 50%":     "leave out load: or find:",
		"find: {most: iops, while: read.latency.p99 < 2ms}, rw: read":      "rw: randread or rw: randwrite",
		"find: {most: iops, while: read.latency.p99 < 2ms}, by_size: true": "leave it out, or find:",
		"find: {most: iops, while: read.latency.p99 < 2ms}, file: a.fio":   "write the job as rw:, bs:",
		"rate: 5000/s, command: fio --name=a --rw=randread --size=1m":      "write the job as rw:, bs:",
	} {
		keys := "bs: 4k, " + fio
		if !strings.Contains(fio, "rw:") {
			keys = "rw: randread, " + keys
		}
		_, err := plan.Parse("plan.yaml", []byte("targets: {a: {dir: /a}}\nworkloads: {w: {fio: {"+keys+"}}}\n"), realKinds())
		if want == "" && err != nil || want != "" && !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%s: %v\nwant %s", fio, err, want)
		}
	}
	for word, want := range map[string]string{"rate5000": "", "rate1.5k-j64": "", "rate0": "at least 10/s", "rate5000-open50": "leave out load: or rate:", "rate5000-qd4": "leave iodepth out", "rate5000-rate12k": "write it once", "rate": "rateN"} {
		_, err := plan.FromWords([]string{"/x"}, []string{"randread-4k-" + word}, plan.Defaults(), realKinds())
		if want == "" && err != nil || want != "" && !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%s: %v\nwant %s", word, err, want)
		}
	}
}
