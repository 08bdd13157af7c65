package probe

import "strings"

// oneLine is the text with its white space squeezed: facts are shown in tables.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// set stores a fact that is known.
func set(facts map[string]string, name, value string) {
	if value = oneLine(value); value != "" {
		facts[name] = value
	}
}
