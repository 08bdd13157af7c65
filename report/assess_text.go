package report

import (
	"fmt"
	"io"
	"strings"

	"github.com/charmbracelet/lipgloss"

	"iotax/report/format"
)

// assessmentLines is how many lines of a terminal the assessment takes at most before the table begins: a
// screen has 24, with the prompt.
const assessmentLines = 20

// assessment writes the answer and the sentences behind it, as many as a screen takes. It returns those
// that are left.
func (t *textWriter) assessment() []Sentence {
	all := t.Assessment.Sentences
	if len(all) == 0 {
		return nil
	}
	t.para(all[0].Text, "", "", t.pal.bold)
	// Every sentence may break one line later for its dash.
	n := t.Assessment.Fit(t.width-2, assessmentLines-1)
	if n > 1 {
		t.line("")
	}
	t.sentences(all[1:n])
	return all[n:]
}

func (t *textWriter) sentences(all []Sentence) {
	for _, s := range all {
		t.para(s.marked(), "– ", "  ", t.sentenceStyle(s.Kind))
	}
}

func (t *textWriter) sentenceStyle(k SentenceKind) lipgloss.Style {
	switch k {
	case SaysInvalid, SaysFailed:
		return t.pal.unsure
	case SaysSame, SaysSum:
		return t.pal.dim
	}
	return lipgloss.NewStyle()
}

// rest writes the sentences for which the first screen had no room.
func (t *textWriter) rest(left []Sentence) {
	if len(left) == 0 {
		return
	}
	t.line("")
	t.line(t.pal.accent.Bold(t.color).Render("The assessment goes on"))
	t.sentences(left)
}

// markdownAssessment writes the sentences behind the answer; what would fill more than a screen is folded.
func (r *Report) markdownAssessment(w io.Writer) {
	all := r.Assessment.Sentences
	if len(all) < 2 {
		return
	}
	n := r.Assessment.Fit(80, assessmentLines-1)
	list := func(sentences []Sentence) {
		for _, s := range sentences {
			text := escapeMarkdown(s.Text)
			if refs := noteRefs(s.Notes); refs != "" {
				text += " <sup>" + refs + "</sup>"
			}
			fmt.Fprintf(w, "- %s\n", text)
		}
	}
	if n > 1 {
		fmt.Fprintln(w)
		list(all[1:n])
	}
	if n < len(all) {
		fmt.Fprintf(w, "\n<details><summary>%s</summary>\n\n", format.Plural(len(all)-n, "more sentence"))
		list(all[n:])
		fmt.Fprint(w, "\n</details>\n")
	}
}

func noteRefs(notes []int) string {
	var refs []string
	for _, n := range notes {
		refs = append(refs, fmt.Sprint(n))
	}
	return strings.Join(refs, " ")
}

type jsonSentence struct {
	Kind    SentenceKind `json:"kind"`
	Text    string       `json:"text"`
	Figures []jsonAssess `json:"figures,omitempty"`
	Causes  []jsonCause  `json:"causes,omitempty"`
	Rules   []string     `json:"rules,omitempty"` // of the notes behind it
}

type jsonAssess struct {
	Target   string      `json:"target"`
	Workload string      `json:"workload"`
	Metric   string      `json:"metric"`
	Against  string      `json:"against,omitempty"`
	Ratio    *jsonBounds `json:"ratio,omitempty"`
}

type jsonCause struct {
	Rule string `json:"rule"`
	Text string `json:"text"`
}

func (r *Report) jsonAssessment() []jsonSentence {
	out := []jsonSentence{}
	for _, s := range r.Assessment.Sentences {
		j := jsonSentence{Kind: s.Kind, Text: s.Text}
		for _, f := range s.Figures {
			a := jsonAssess{Target: f.Target, Workload: f.Workload, Metric: f.Metric, Against: f.Against}
			if f.Ratio != nil {
				a.Ratio = toBounds(*f.Ratio)
			}
			j.Figures = append(j.Figures, a)
		}
		for _, c := range s.Causes {
			j.Causes = append(j.Causes, jsonCause(c))
		}
		for _, n := range s.Notes {
			j.Rules = append(j.Rules, r.Notes[n-1].Rule)
		}
		out = append(out, j)
	}
	return out
}
