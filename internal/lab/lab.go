// Package lab makes nodes on one Linux machine: network namespaces with shaped links between them and a
// directory each, so that a study of a cluster can run anywhere. Namespaces, directories and loop devices are
// all found again by name: what a dead process left is removed by Down.
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

// Config says what Up makes. The zero value of a field is its default.
type Config struct {
	Name  string // one of several labs: 1 to 12 of a-z and 0-9; "lab"
	Nodes int    // 1 to 99; 5
	Rate  Rate   // of every link, each way; 0 does not shape
	Dir   string // directory in which the lab makes its own; /var/tmp
	Size  int64  // bytes of a file system of each node's own, on a loop device; 0 gives each a plain directory

	Label leftover.Label // of the run that it is made for; the zero value is a lab that stays until Down
}

// A Lab is a set of nodes that stands.
type Lab struct {
	Name    string    `json:"name"`
	Rate    Rate      `json:"rate"`
	Size    int64     `json:"size,omitempty"`
	Dir     string    `json:"dir"` // of the lab, with one directory for each node below
	Created time.Time `json:"created"`
	Label   string    `json:"label,omitempty"` // of the run that it was made for, as leftover.Label writes it
	Nodes   []Node    `json:"nodes"`
}

// A Node is one machine of a lab.
type Node struct {
	Name      string `json:"name"`      // "node04"
	Namespace string `json:"namespace"` // "iotax-lab-node04"
	Address   string `json:"address"`   // "10.77.0.4"; namespaces keep the addresses of several labs apart
	Dir       string `json:"dir"`       // where the node's files lie
}

// Node returns the node of that name.
func (l *Lab) Node(name string) (Node, bool) {
	for _, n := range l.Nodes {
		if n.Name == name {
			return n, true
		}
	}
	return Node{}, false
}

// Names lists the nodes.
func (l *Lab) Names() []string {
	var names []string
	for _, n := range l.Nodes {
		names = append(names, n.Name)
	}
	return names
}

// NodeName is the name of the i-th node, from 1.
func NodeName(i int) string { return fmt.Sprintf("node%02d", i) }

// prefix begins the names of a lab's namespaces.
func prefix(lab string) string { return "iotax-" + lab + "-" }

// A Rate is bits per second of a link; 0 is as fast as the machine goes.
type Rate uint64

// BytesPerSecond is the rate in the unit of values. It counts what is on the wire: headers of Ethernet, IP and TCP
// leave about 96 % of it to the payload.
func (r Rate) BytesPerSecond() float64 { return float64(r) / 8 }

var rateUnits = []struct {
	name string
	bits uint64
}{{"gbit", 1e9}, {"mbit", 1e6}, {"kbit", 1e3}, {"bit", 1}}

// String writes the rate as tc does: "384mbit".
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

// ParseRate reads "384mbit", "1gbit", or "none".
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
	// DefaultNodes are the nodes of a lab that says nothing.
	DefaultNodes = 5
	// minSize is the least that makes an ext4 worth having.
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

// plan is the lab that c describes.
func (c Config) plan(now time.Time) *Lab {
	l := &Lab{Name: c.Name, Rate: c.Rate, Size: c.Size, Dir: filepath.Join(c.Dir, "iotax-lab-"+c.Name), Created: now.UTC().Truncate(time.Second), Label: c.Label.String()}
	for i := 1; i <= c.Nodes; i++ {
		n := NodeName(i)
		l.Nodes = append(l.Nodes, Node{Name: n, Namespace: prefix(c.Name) + n, Address: fmt.Sprintf("10.77.0.%d", i), Dir: filepath.Join(l.Dir, n)})
	}
	return l
}

// state is where what stands is written down. Only root can write there, so what Down removes on its word is no
// one else's choice.
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

// ErrDown says that there is no lab of a name.
var ErrDown = errors.New("it is not up")

// Get returns the lab of that name, as far as it is written down; ErrDown when it is not.
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

// List returns the labs that are written down.
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
