package schedule

import (
	"fmt"
	"regexp"
	"strconv"
	"time"

	"iotax/internal/plan"
	"iotax/internal/plan/syntax"
)

var flagged = regexp.MustCompile("`--(trial|rounds) ([0-9a-z]+)(?:\\.\\.([0-9]+))?`")

// Workable changes --trial and --rounds in a hint so that they work for p: it raises their values above those of p, and
// adds the flags that the new values need. The result depends only on p and hint, so that a hint is the same in all
// trials of a run.
func Workable(p *plan.Plan, hint string) string {
	return flagged.ReplaceAllStringFunc(hint, func(flag string) string {
		m := flagged.FindStringSubmatch(flag)
		q := *p
		was := p.Measure
		if m[1] == "trial" {
			d, err := syntax.ParseDuration(m[2])
			if err != nil {
				return flag
			}
			if d <= was.Trial {
				d = 2 * was.Trial
			}
			q.Measure.Trial = d
			flag = "--trial " + d.String()
		} else {
			least, err := strconv.Atoi(m[2])
			if err != nil {
				return flag
			}
			most := least
			if m[3] != "" {
				most, _ = strconv.Atoi(m[3])
			}
			if least <= was.Rounds.Min || most <= was.Rounds.Max {
				least, most = max(least, 2*was.Rounds.Min), max(most, 2*was.Rounds.Max)
			}
			q.Measure.Rounds = plan.Rounds{Min: least, Max: most}
			flag = fmt.Sprintf("--rounds %d..%d", least, most)
			if least == most {
				flag = fmt.Sprintf("--rounds %d", least)
			}
		}
		if was.Fixed() {
			flag += " --protocol adaptive"
		}
		// Add half for the time between trials. Use no Costs, because the result must depend only on p and hint.
		q.Measure.Budget = 0
		least, _, _ := Estimate(&q, Costs{})
		if least += least / 2; was.Budget > 0 && least > time.Duration(was.Budget) {
			flag += " --budget " + wholeMinutes(least)
		}
		return "`" + flag + "`"
	})
}

// wholeMinutes formats d, rounded up to minutes, as a flag value: "7m".
func wholeMinutes(d time.Duration) string {
	return strconv.Itoa(int((d+time.Minute-1)/time.Minute)) + "m"
}
