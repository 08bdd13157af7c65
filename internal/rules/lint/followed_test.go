package lint

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"iotax/internal/rules"
)

// followed lists the settings in hints of rules about jobs and plans. A job option is added to the last section and
// replaces the same option in all sections. "-option" removes it. A key of a plan replaces the same key, or is added to
// the fio job.
var followed = []struct{ rule, settings string }{
	{"jobs-compete", "stonewall"},
	{"jobs-overwrite", "-filename"},
	{"jobs-overwrite", "size=4g offset_increment=4g"},
	{"libaio-buffered", "direct=1"},
	{"libaio-buffered", "ioengine=io_uring"},
	{"libaio-buffered", "ioengine=psync -iodepth numjobs=32"},
	{"depth-of-sync-engine", "ioengine=libaio direct=1"},
	{"depth-of-sync-engine", "-iodepth numjobs=32"},
	{"posixaio-depth", "-iodepth numjobs=16"},
	{"file-fits-memory", "direct=1"},
	{"buffered-write-unsynced", "end_fsync=1"},
	{"buffered-write-unsynced", "fsync=1"},
	{"buffered-write-unsynced", "fdatasync=1"},
	{"buffered-write-unsynced", "sync=1"},
	{"buffered-write-unsynced", "direct=1"},
	{"overwritten-in-cache", "direct: 1"},
	{"overwritten-in-cache", "fsync: 32"},
	{"randrepeat", "randrepeat=0"},
	{"randrepeat", "randseed=7"},
	{"short-run", "runtime=10 ramp_time=2"},
	{"ends-by-size", "time_based runtime=10"},
	{"ends-by-size", "size=64g"},
	{"ramp-not-shorter", "ramp_time=2 runtime=10 time_based"},
	{"zero-buffers", "-zero_buffers refill_buffers"},
	{"gtod-reduce", "-gtod_reduce"},
	{"misread-value", "runtime=500ms size=1536m"},
	{"guest-disk-cache", "cache: none"}, // for the part of the hint about cache=writeback, see TestFollowedHints
}

// follow applies one setting of a hint to a job or plan and returns the result.
func follow(text, setting string) string {
	if key, _, ok := strings.Cut(setting, ": "); ok {
		if at := regexp.MustCompile(`\b` + key + `: \w+`); at.MatchString(text) {
			return at.ReplaceAllString(text, setting)
		}
		return strings.ReplaceAll(text, "fio: {", "fio: {"+setting+", ")
	}
	key, _, _ := strings.Cut(strings.TrimPrefix(setting, "-"), "=")
	lines := slices.DeleteFunc(strings.Split(text, "\n"), func(l string) bool { return l == key || strings.HasPrefix(l, key+"=") })
	if !strings.HasPrefix(setting, "-") {
		lines = append(lines, setting)
	}
	return strings.Join(lines, "\n")
}

// A user who follows the hint of a rule about jobs or plans no longer gets its finding.
func TestFollowedHints(t *testing.T) {
	checked := map[string]string{}
	for _, c := range followed {
		r, _ := rules.Explain(c.rule)
		checked[c.rule] += " " + c.settings
		text, judge := r.Bad, lintText
		settings := strings.Fields(c.settings)
		if strings.Contains(c.settings, ": ") {
			judge, settings = lintPlan, []string{c.settings}
		}
		for _, s := range settings {
			text = follow(text, s)
		}
		if found := about(judge(t, text, here), c.rule); len(found) > 0 || len(about(judge(t, r.Bad, here), c.rule)) == 0 {
			t.Errorf("%s: with %s still %+v of\n%s", c.rule, c.settings, found, text)
		}
	}
	r, _ := rules.Explain("guest-disk-cache")
	writeback := follow(r.Bad, "cache: writeback")
	if f := about(lintPlan(t, writeback, here), r.ID); len(f) != 1 || f[0].Hint != r.Hint || len(about(lintPlan(t, follow(writeback, "direct: 0"), here), r.ID)) > 0 {
		t.Errorf("cache=writeback, then with direct: 0 as well: %+v", f)
	}
	checked[r.ID] += " direct"
	// Every option and key in the hint of a rule about jobs or plans is tried above.
	option := regexp.MustCompile("`([a-z_]+)(?:[=:][^`]*)?`")
	for _, r := range rules.All() {
		if r.In&(rules.JobFile|rules.Plan) == 0 {
			continue
		}
		for _, m := range option.FindAllStringSubmatch(r.Hint, -1) {
			if !regexp.MustCompile(`\b` + m[1] + `\b`).MatchString(checked[r.ID]) {
				t.Errorf("%s: %s is not tried", r.ID, m[0])
			}
		}
	}
}
