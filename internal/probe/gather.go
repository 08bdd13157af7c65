package probe

import "strings"

// oneLine collapses white space, because facts are shown in tables.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// set stores a fact unless it is empty.
func set(facts map[string]string, name, value string) {
	if value = oneLine(value); value != "" {
		facts[name] = value
	}
}
