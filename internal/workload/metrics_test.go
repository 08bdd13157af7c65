package workload

import (
	"slices"
	"testing"
	"time"

	"iotax/internal/metric"
	"iotax/internal/plan"
	"iotax/internal/workload/command"
	"iotax/internal/workload/fiojob"
	"iotax/internal/workload/support"
)

// The main metrics of every kind are among those that its spec lists.
func TestHeadlinesAreListed(t *testing.T) {
	specs := map[string][]plan.Spec{}
	for _, k := range PlanKinds() {
		specs[k.Name] = []plan.Spec{k.New()}
	}
	for _, options := range [][]string{{"rw", "randread"}, {"rw", "write", "bs", "1MiB"}, {"rw", "randrw"}, {"rw", "randtrim"}, {"rw", "trimwrite"}, {"rw", "randread:8"}, {"rw", "randread", "load", "60%"}} {
		s := fiojob.Kind.Kind.New().(*fiojob.Fio)
		for i := 0; i < len(options); i += 2 {
			if options[i] == "load" {
				s.Load = options[i+1]
			} else if err := s.SetOption(options[i], options[i+1]); err != nil {
				t.Fatal(err)
			}
		}
		specs["fio"] = append(specs["fio"], s)
	}
	specs["command"] = []plan.Spec{&command.Command{Run: "true", Timeout: plan.Duration(time.Minute), Values: map[string]string{"tps": `(?<per_s>\d+)`, "used": "$.used MiB"}}}
	app := specs["app"][0].(*command.App)
	app.Run, app.Ready = "true", "ready"
	boot := *specs["boot"][0].(*Boot)
	boot.Mount = true
	specs["boot"] = append(specs["boot"], &boot)
	http := *specs["http"][0].(*HTTP)
	http.Rate = 10
	specs["http"] = append(specs["http"], &http)
	for kind, all := range specs {
		for _, s := range all {
			w, err := New(plan.Workload{Name: "w", Kind: kind, Spec: s}, support.Env{})
			if err != nil {
				t.Errorf("%s: %v", kind, err)
				continue
			}
			listed := s.Traits().Metrics()
			for _, name := range w.Metrics() {
				if i := slices.IndexFunc(listed, func(m metric.Metric) bool { return m.Name == name }); i < 0 || listed[i].Unit == "" || listed[i].Doc == "" {
					t.Errorf("%s: %s is not listed: %s", kind, name, metric.List(listed))
				}
			}
		}
	}
}
