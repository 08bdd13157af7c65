package statsim

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"iotax/stat"
)

// A peer is a tool that decides whether a change made something slower. decide runs a study and reports whether the
// tool finds a difference.
type peer struct {
	name   string
	decide func(w *work) bool
}

func peers() []peer {
	ps := Policies()
	iotax := ps[slices.IndexFunc(ps, func(p *Policy) bool { return p.Name == Ours })]
	return []peer{
		{"iotax", func(w *work) bool {
			o := iotax.run(w)
			w.now += Calibration
			v := stat.Judge(stat.Interval{Estimate: 1, Lo: math.Exp(o.lo), Hi: math.Exp(o.hi)}, margin)
			return !o.unranked && (v == stat.Worse || v == stat.Better)
		}},
		{"Firecracker", (*work).firecracker},
		{"mmtests", (*work).mmtests},
		{"LISA", (*work).lisa},
	}
}

// firecracker follows tools/ab_test.py and test_block.py (commit 81b38b9) with the settings of pipeline_perf.py. It
// compares fio's bandwidth in each of 30 seconds after a ramp of 10 s. It finds a difference if a permutation test of
// the means has p < 0.01 and the means differ by more than 5 %. It then measures again in the opposite order and adds
// the new seconds, until it finds no difference or has measured four times. The normal distribution here replaces that
// of 9999 permutations.
func (w *work) firecracker() bool {
	const p, noise, iterations = 0.01, 0.05, 4
	trial := Timing{Setup: ours.Setup, Ramp: 10, Length: 30}
	var arms [2][]float64
	for i := range iterations {
		for k := range 2 {
			arm := (i + k) % 2
			_, w.series = w.seconds(arm, trial, jitter, w.series)
			arms[arm] = append(arms[arm], w.series...)
		}
		a, _ := meanSD(arms[0])
		b, _ := meanSD(arms[1])
		all := slices.Concat(arms[0], arms[1])
		_, sd := meanSD(all)
		z := math.Abs(b-a) / (sd * math.Sqrt(1/float64(len(arms[0]))+1/float64(len(arms[1]))))
		if math.Erfc(z/math.Sqrt2) >= p || math.Abs(b-a)/a <= noise {
			return false
		}
	}
	return true
}

// peerTrials is the assumed number of trials per arm of mmtests and LISA. The trials are as long as iotax's.
const peerTrials = 10

// arms runs all trials of one arm and then all of the other, and returns their rates.
func (w *work) arms() (arms [2][]float64) {
	for arm := range arms {
		for range peerTrials {
			arms[arm] = append(arms[arm], math.Exp(w.trial(arm, ours)))
		}
	}
	return arms
}

// mmtests follows compare-mmtests.pl (commit 638401e): a difference is significant if it is larger than the sum of both
// half intervals, which are 1.96 standard deviations of the values (_calc_meanci, cidiff).
func (w *work) mmtests() bool {
	arms := w.arms()
	a, sa := meanSD(arms[0])
	b, sb := meanSD(arms[1])
	return math.Abs(b-a) > 1.959964*(sa+sb)
}

// lisa follows lisa.stats (commit bb5ff50): the two-sample Kolmogorov-Smirnov test. LISA prints p. The simulation finds
// a difference if p is below 5 %. For ten values on each side, this is a Kolmogorov-Smirnov statistic of at least 0.7.
// The p value of 0.7 is 0.012, and that of 0.6 is 0.052.
func (w *work) lisa() bool {
	arms := w.arms()
	slices.Sort(arms[0])
	slices.Sort(arms[1])
	most, i, j := 0, 0, 0
	for i < peerTrials && j < peerTrials {
		if arms[0][i] <= arms[1][j] {
			i++
		} else {
			j++
		}
		most = max(most, i-j, j-i)
	}
	return most >= 7
}

// TestPeers simulates the tools on the same noise. docs/dev/evaluation-peers.md contains the resulting table.
func TestPeers(t *testing.T) {
	t.Parallel()
	const studies = 1000
	page, err := os.ReadFile("../../docs/dev/evaluation-peers.md")
	if err != nil {
		t.Fatal(err)
	}
	w := newWork()
	for _, name := range []string{"M0 σ=2%", "M0 σ=10%", "M1 φ=0.9", "M2 τ=30s σ=5%", "M2 τ=300s σ=15%", "M4-shared drift", "M4-shared warm-up", "M5-both p=0.2", "M5-both p=0.2 sticky", "M6-shared-step", "M7 t3", "M7 stalls"} {
		models := Models()
		m := models[slices.IndexFunc(models, func(m *Model) bool { return m.Name == name })]
		line := "| " + name
		for _, p := range peers() {
			var found [2]int // number of studies in which the tool finds a difference: without a change, and with a change of 10 %
			seconds := 0.0
			for k, lnRho := range []float64{0, math.Log(.9)} {
				for i := range studies {
					w.begin(m, seedOf(1, m), i, lnRho)
					if p.decide(w) {
						found[k]++
					}
					seconds += Preconditioning + w.now
				}
			}
			if p.name == Ours && m.Gate && found[0] > studies/20 {
				t.Errorf("%s: iotax finds a difference where there is none in %d of %d studies", name, found[0], studies)
			}
			line += fmt.Sprintf(" | %.1f %% / %.0f %% / %.0f s", 100*float64(found[0])/studies, 100*float64(found[1])/studies, seconds/(2*studies))
		}
		if line += " |"; !strings.Contains(string(page), line) {
			t.Errorf("docs/dev/evaluation-peers.md lacks the line\n%s", line)
		}
	}
}
