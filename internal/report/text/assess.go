package text

import (
	"fmt"
	"io"
	"strings"

	"github.com/charmbracelet/lipgloss"

	"iotax/internal/report/assess"
	"iotax/internal/report/format"
)

// assessmentLines is how many lines of a terminal the assessment takes at most before the table begins: a
// screen has 24, with the prompt.
const assessmentLines = 20

// assessment writes the answer and the sentences behind it, as many as a screen takes. It returns those
// that are left.
func (t *textWriter) assessment() []assess.Sentence {
	a := assess.Of(t.Report)
	all := a.Sentences
	t.para(all[0].Text, "", "", t.pal.bold)
	t.banner(t.Banner())
	// Every sentence may break one line later for its dash.
	lines := assessmentLines - 1
	if b := t.Banner(); b != "" {
		lines -= 1 + len(format.Wrap(b, t.width-4))
	}
	n := a.Fit(t.width-2, lines)
	if n > 1 {
		t.line("")
	}
	t.sentences(all[1:n])
	return all[n:]
}

// banner writes a caveat about the whole report under its first line.
func (t *textWriter) banner(s string) {
	if s != "" {
		t.line("")
		t.para(s, "  ! ", "    ", t.pal.bad)
	}
}

func (t *textWriter) sentences(all []assess.Sentence) {
	for _, s := range all {
		t.para(s.Marked(), "– ", "  ", t.sentenceStyle(s.Kind))
	}
}

func (t *textWriter) sentenceStyle(k assess.SentenceKind) lipgloss.Style {
	switch k {
	case assess.SaysInvalid, assess.SaysFailed:
		return t.pal.unsure
	case assess.SaysSame, assess.SaysSum:
		return t.pal.dim
	}
	return lipgloss.NewStyle()
}

// rest writes the sentences for which the first screen had no room.
func (t *textWriter) rest(left []assess.Sentence) {
	if len(left) == 0 {
		return
	}
	t.line("")
	t.line(t.pal.accent.Bold(t.color).Render("The assessment goes on"))
	t.sentences(left)
}

// markdownAssessment writes the sentences behind the answer; what would fill more than a screen is folded.
func markdownAssessment(w io.Writer, a assess.Assessment) {
	all := a.Sentences
	if len(all) < 2 {
		return
	}
	n := a.Fit(80, assessmentLines-1)
	list := func(sentences []assess.Sentence) {
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
