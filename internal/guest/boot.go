package guest

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"iotax"
)

// Addresses of QEMU's user network.
const (
	Address = "10.0.2.15"
	Gateway = "10.0.2.2"
	DNS     = "10.0.2.3"
	prefix  = 24
)

// PythonApp starts the web application of the root that Python makes; {port} is where it is to listen.
const PythonApp = "/usr/bin/python3 /srv/webapp.py {port}"

// AgentPort is the name of the virtio serial port on which init serves the agent.
const AgentPort = "iotax"

// ToolsSerial is the serial number of the disk that Tools makes.
const ToolsSerial = "iotax-tools"

// Boot is what one boot of a guest is told. Nothing in it is secret: command lines can be read by
// everyone on the host.
type Boot struct {
	Modules []string    // loaded before the guest is ready, beside those it always loads
	NoTools bool        // there is no tools disk: the guest can only say that it runs
	Name    string      // host name; "" is guest. NFS servers take guests of one name for one client
	Root    *iotax.Root // to go on with; nil stays in the initramfs
	OnDisk  bool        // the tools disk is one that RootDisk wrote, and becomes the root
}

// CommandLine returns the words for the kernel's command line.
func (b Boot) CommandLine() []string {
	// The kernel hands IOTAX_GUEST on to init's environment, since it does not know the word and
	// there is no dot in it. IsInit needs that before /proc is there.
	w := []string{"iotax.guest=1", "IOTAX_GUEST=1"}
	if len(b.Modules) > 0 {
		w = append(w, "iotax.modules="+strings.Join(b.Modules, ","))
	}
	if b.NoTools {
		w = append(w, "iotax.tools=0")
	}
	if b.Name != "" {
		w = append(w, "iotax.name="+b.Name)
	}
	if b.Root != nil {
		js, _ := json.Marshal(b.Root) // strings and a number
		w = append(w, "iotax.root="+base64.RawURLEncoding.EncodeToString(js))
	}
	if b.OnDisk {
		w = append(w, "iotax.ondisk=1")
	}
	return w
}

// isMarked reports whether a kernel command line is that of a micro-guest.
func isMarked(cmdline string) bool {
	for _, w := range strings.Fields(cmdline) {
		if w == "iotax.guest=1" {
			return true
		}
	}
	return false
}

// parseBoot is the inverse of CommandLine.
func parseBoot(cmdline string) (Boot, error) {
	var b Boot
	for _, w := range strings.Fields(cmdline) {
		k, v, _ := strings.Cut(w, "=")
		switch k {
		case "iotax.modules":
			b.Modules = strings.FieldsFunc(v, func(r rune) bool { return r == ',' })
		case "iotax.tools":
			b.NoTools = v == "0"
		case "iotax.name":
			b.Name = v
		case "iotax.root":
			js, err := base64.RawURLEncoding.DecodeString(v)
			if err == nil {
				err = json.Unmarshal(js, &b.Root)
			}
			if err != nil {
				return b, fmt.Errorf("iotax.root: %w", err)
			}
		case "iotax.ondisk":
			b.OnDisk = v == "1"
		}
	}
	return b, nil
}

// A Mark is a line by which init says on the console how far it has come.
type Mark struct {
	Name   string        // init, network, mount, root, pivot, ready, exit, failed
	At     time.Duration // since the kernel started, by the guest's own clock
	Detail string        // of failed: why; of exit: the status
}

const markWord = "iotax-boot:"

// String is the line on the console.
func (m Mark) String() string {
	s := fmt.Sprintf("%s %s %.3f", markWord, m.Name, m.At.Seconds())
	if m.Detail != "" {
		s += " " + strings.ReplaceAll(m.Detail, "\n", " / ")
	}
	return s
}

// ParseMark finds a mark in a line of the console; kernel messages may stand before it.
func ParseMark(line string) (Mark, bool) {
	_, rest, ok := strings.Cut(line, markWord+" ")
	if !ok {
		return Mark{}, false
	}
	f := strings.SplitN(strings.TrimSpace(rest), " ", 3)
	if len(f) < 2 {
		return Mark{}, false
	}
	sec, err := strconv.ParseFloat(f[1], 64)
	if err != nil {
		return Mark{}, false
	}
	m := Mark{Name: f[0], At: time.Duration(sec * float64(time.Second))}
	if len(f) == 3 {
		m.Detail = f[2]
	}
	return m, true
}
