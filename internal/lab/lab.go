// Package lab creates the nodes of a test cluster on one Linux machine. Each node has a network namespace, a link, and
// a directory.
package lab

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"iotax"
	"iotax/internal/leftover"
)

// Config configures Up. A zero field means its default.
type Config struct {
	Name  string // name of the lab: 1 to 12 characters of a-z and 0-9; default "lab"
	Nodes int    // 1 to 99; default 5
	Rate  Rate   // of every link, in each direction; 0 disables shaping
	Dir   string // parent of the lab's own directory; default /var/tmp
	Size  int64  // bytes of each node's own file system, on a loop device; 0 gives each node a plain directory

	Label leftover.Label // label of the run that the lab is for; with the zero value, the lab stays until Down
}

// A Lab is a set of nodes that Up created.
type Lab struct {
	Name    string    `json:"name"`
	Rate    Rate      `json:"rate"`
	Size    int64     `json:"size,omitempty"`
	Dir     string    `json:"dir"` // directory of the lab; the nodes' directories are below it
	Created time.Time `json:"created"`
	Label   string    `json:"label,omitempty"` // label of the run that the lab is for, as leftover.Label writes it
	Nodes   []Node    `json:"nodes"`
}

// A Node is one machine of a lab.
type Node struct {
	Name      string `json:"name"`      // "node04"
	Namespace string `json:"namespace"` // "iotax-lab-node04"
	Address   string `json:"address"`   // "10.77.0.4"; labs have separate namespaces, so they can use the same addresses
	Dir       string `json:"dir"`       // directory with the node's files
}

// Node returns the node with this name.
func (l *Lab) Node(name string) (Node, bool) {
	for _, n := range l.Nodes {
		if n.Name == name {
			return n, true
		}
	}
	return Node{}, false
}

// Names returns the names of the nodes.
func (l *Lab) Names() []string {
	var names []string
	for _, n := range l.Nodes {
		names = append(names, n.Name)
	}
	return names
}

// NodeName returns the name of node i. The first node is 1.
func NodeName(i int) string { return fmt.Sprintf("node%02d", i) }

// prefix returns the start of the names of a lab's namespaces.
func prefix(lab string) string { return "iotax-" + lab + "-" }

// A Rate is the rate of a link in bits per second; 0 means unlimited.
type Rate uint64

// BytesPerSecond returns the rate in bytes per second. It includes the headers of Ethernet, IP and TCP.
func (r Rate) BytesPerSecond() float64 { return float64(r) / 8 }

var rateUnits = []struct {
	name string
	bits uint64
}{{"gbit", 1e9}, {"mbit", 1e6}, {"kbit", 1e3}, {"bit", 1}}

// String formats the rate as in "384mbit". It formats 0 as "none".
func (r Rate) String() string {
	if r == 0 {
		return "none"
	}
	for _, u := range rateUnits {
		if uint64(r)%u.bits == 0 {
			return strconv.FormatUint(uint64(r)/u.bits, 10) + u.name
		}
	}
	return ""
}

// ParseRate parses a rate such as "384mbit" or "1gbit". It parses "none" as 0.
func ParseRate(s string) (Rate, error) {
	text := strings.ToLower(strings.TrimSpace(s))
	if text == "none" {
		return 0, nil
	}
	for _, u := range rateUnits {
		num, ok := strings.CutSuffix(text, u.name)
		if !ok {
			continue
		}
		f, err := strconv.ParseFloat(strings.TrimSpace(num), 64)
		if err != nil || !(f > 0) || f*float64(u.bits) > 1e12 {
			return 0, fmt.Errorf("%q is not a rate from 1kbit to 1000gbit", s)
		}
		r := Rate(f * float64(u.bits))
		if r < 1000 {
			return 0, fmt.Errorf("%q is not a rate from 1kbit to 1000gbit", s)
		}
		return r, nil
	}
	return 0, fmt.Errorf("%q has no unit of a rate: write it as in 384mbit or 1gbit, or none", s)
}

func (r Rate) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

func (r *Rate) UnmarshalText(text []byte) (err error) {
	*r, err = ParseRate(string(text))
	return err
}

var goodName = regexp.MustCompile(`^[a-z0-9]{1,12}$`)

const (
	maxNodes    = 99
	defaultDir  = "/var/tmp"
	DefaultName = "lab"
	// DefaultNodes is the default number of nodes.
	DefaultNodes = 5
	// minSize is the minimum size in bytes of a node's ext4 file system.
	minSize = 64 << 20
)

func (c *Config) fill() error {
	fail := func(format string, args ...any) error {
		return &iotax.Error{Op: "make lab", On: c.Name, Err: fmt.Errorf(format, args...)}
	}
	if c.Name == "" {
		c.Name = DefaultName
	}
	if c.Nodes == 0 {
		c.Nodes = DefaultNodes
	}
	if c.Dir == "" {
		c.Dir = defaultDir
	}
	switch {
	case !goodName.MatchString(c.Name):
		return fail("%q is not a name of a lab: 1 to 12 of a-z and 0-9", c.Name)
	case c.Nodes < 1 || c.Nodes > maxNodes:
		return fail("%d is not a number of nodes from 1 to %d", c.Nodes, maxNodes)
	case c.Size != 0 && c.Size < minSize:
		return fail("%d bytes are too few for a node's file system: at least %d", c.Size, minSize)
	case !filepath.IsAbs(c.Dir) || strings.ContainsAny(c.Dir, "\n\x00"):
		return fail("%q is not the full path of a directory", c.Dir)
	}
	return nil
}

// plan returns the lab that c describes.
func (c Config) plan(now time.Time) *Lab {
	l := &Lab{Name: c.Name, Rate: c.Rate, Size: c.Size, Dir: filepath.Join(c.Dir, "iotax-lab-"+c.Name), Created: now.UTC().Truncate(time.Second), Label: c.Label.String()}
	for i := 1; i <= c.Nodes; i++ {
		n := NodeName(i)
		l.Nodes = append(l.Nodes, Node{Name: n, Namespace: prefix(c.Name) + n, Address: fmt.Sprintf("10.77.0.%d", i), Dir: filepath.Join(l.Dir, n)})
	}
	return l
}

// state is the directory that records the labs. Only root can write there, so no other user can choose what Down
// removes.
var state = "/run/iotax-lab"

func (l *Lab) file() string { return filepath.Join(state, l.Name+".json") }

func (l *Lab) save() error {
	if err := os.MkdirAll(state, 0o700); err != nil {
		return err
	}
	b, err := json.MarshalIndent(l, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(l.file(), append(b, '\n'), 0o600)
}

// ErrDown reports that no lab with this name is up.
var ErrDown = errors.New("it is not up")

// Get returns the recorded lab with this name; "" means DefaultName. The error wraps ErrDown if no such lab is
// recorded.
func Get(name string) (*Lab, error) {
	if name == "" {
		name = DefaultName
	}
	fail := func(err error, hint string) error {
		return &iotax.Error{Op: "find lab", On: name, Err: err, Hint: hint}
	}
	if !goodName.MatchString(name) {
		return nil, fail(fmt.Errorf("%q is not a name of a lab", name), "1 to 12 of a-z and 0-9")
	}
	b, err := os.ReadFile(filepath.Join(state, name+".json"))
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, fail(ErrDown, "iotax lab up"+nameFlag(name))
	case err != nil:
		return nil, fail(err, "run as root")
	}
	l := &Lab{}
	if err := json.Unmarshal(b, l); err != nil || l.Name != name {
		return nil, fail(fmt.Errorf("its state in %s cannot be read: %v", state, err), "iotax lab down"+nameFlag(name))
	}
	return l, nil
}

func nameFlag(name string) string {
	if name == DefaultName {
		return ""
	}
	return " --name " + name
}

// List returns the recorded labs.
func List() ([]*Lab, error) {
	files, err := filepath.Glob(filepath.Join(state, "*.json"))
	if err != nil {
		return nil, err
	}
	var out []*Lab
	for _, f := range files {
		l, err := Get(strings.TrimSuffix(filepath.Base(f), ".json"))
		if err != nil {
			return out, err
		}
		out = append(out, l)
	}
	return out, nil
}
