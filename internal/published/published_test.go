package published

import (
	"strings"
	"testing"

	"iotax"
)

func TestDataSets(t *testing.T) {
	want := map[string]int{"cluster": 43, "lima-mounts": 69, "randrw": 15, "tart": 316}
	units := []string{iotax.BytesPerSecond, iotax.PerSecond, iotax.Seconds, iotax.Count}
	for _, name := range Names() {
		fs, ok := Figures(name)
		if !ok || len(fs) != want[name] {
			t.Errorf("%s: %d figures, want %d", name, len(fs), want[name])
		}
		delete(want, name)
		for _, f := range fs {
			known := false
			for _, u := range units {
				known = known || f.Unit == u
			}
			if !known || f.Suite != name || f.Source == "" || f.Workload == "" || f.Target == "" || f.Metric == "" || f.Rep < 1 || f.Value < 0 {
				t.Errorf("%s: %+v", name, f)
			}
		}
	}
	if len(want) > 0 {
		t.Errorf("missing: %v", want)
	}
	if _, ok := Figures("no such"); ok {
		t.Error("there is a data set of any name")
	}
}

func TestReadErrors(t *testing.T) {
	const head = "suite,source,workload,target,rep,metric,value,unit\n"
	for text, want := range map[string]string{
		"":                            "empty",
		"suite,source\n":              `no column "workload"`,
		head:                          "no figures",
		head + "a,b,c,d,x,m,1,s\n":    `line 2: rep is "x"`,
		head + "a,b,c,d,1,m,fast,s\n": `line 2: value is "fast"`,
		head + "a,b,c,d,1,m,NaN,s\n":  `line 2: value is "NaN"`,
		head + "a,b,c,d,1,m,1\n":      "wrong number of fields",
		head + "a,\"b,c,d,1,m,1,s\n":  "quote",
	} {
		if _, err := Read(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	fs, err := Read(strings.NewReader("\ufeffunit,value,metric,rep,target,workload,source,suite,more\ns,2,m,1,t,w,\"a, b\",x,y\n"))
	if err != nil || len(fs) != 1 || fs[0] != (Figure{"x", "a, b", "w", "t", 1, "m", 2, "s"}) {
		t.Errorf("%+v, %v", fs, err)
	}
}
