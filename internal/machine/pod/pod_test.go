package pod

import (
	"slices"
	"testing"
)

// Spread splits lists of nodes. The nodes of the command line apply only to new pods without a node.
func TestSpread(t *testing.T) {
	for _, c := range []struct {
		given  string
		fields map[string]string
		want   []string
	}{
		{"", map[string]string{}, nil},
		{"", map[string]string{"node": "a"}, nil},
		{"", map[string]string{"node": "a,b"}, []string{"a", "b"}},
		{"c", map[string]string{}, []string{"c"}},
		{"c,d", map[string]string{"image": "busybox"}, []string{"c", "d"}},
		{"c", map[string]string{"node": "a"}, nil},
		{"c,d", map[string]string{"pod": "default/web-0"}, nil},
	} {
		key, nodes, err := Spread(c.given)(c.fields)
		if err != nil || !slices.Equal(nodes, c.want) || (key == "node") != (c.want != nil) {
			t.Errorf("%q for %v: %s %v, %v", c.given, c.fields, key, nodes, err)
		}
	}
	file := t.TempDir() + "/none"
	if key, _, err := Spread("")(map[string]string{"node": AllNodes, "kubeconfig": file}); key != "node" || err == nil {
		t.Errorf("all nodes of no cluster: %q, %v", key, err)
	}
}
