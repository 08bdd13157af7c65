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

// Address, Gateway and DNS are the addresses of the guest, the host and the name server in QEMU's user network.
const (
	Address = "10.0.2.15"
	Gateway = "10.0.2.2"
	DNS     = "10.0.2.3"
	prefix  = 24
)

// PythonApp is the command that starts the web application in the root file system that the function Python makes.
// {port} is a placeholder for the application's port.
const PythonApp = "/usr/bin/python3 /srv/webapp.py {port}"

// AgentPort is the name of the virtio serial port on which init serves the agent.
const AgentPort = "iotax"

// ToolsSerial is the serial number of the tools disk.
const ToolsSerial = "iotax-tools"

// Boot contains the settings of one boot of a guest. It must not contain secrets: all users of the host can read QEMU's
// command line.
type Boot struct {
	Modules []string    // loaded at boot in addition to bootModules
	NoTools bool        // the guest has no tools disk
	Name    string      // host name; "" means "guest". NFS servers treat guests with the same name as one client
	Root    *iotax.Root // root to switch to, if not nil
	OnDisk  bool        // the tools disk is a copy of RootDisk's image and becomes the root
}

// CommandLine returns the arguments for the kernel command line.
func (b Boot) CommandLine() []string {
	// The kernel puts unknown parameters whose names contain no dot, such as IOTAX_GUEST, into init's environment.
	// IsInit needs the variable before /proc is mounted.
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
		js, _ := json.Marshal(b.Root) // cannot fail: strings and a number
		w = append(w, "iotax.root="+base64.RawURLEncoding.EncodeToString(js))
	}
	if b.OnDisk {
		w = append(w, "iotax.ondisk=1")
	}
	return w
}

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

// A Mark is a console line in which init reports that it reached a phase.
type Mark struct {
	Name   string        // init, network, mount, root, pivot, ready, exit, failed
	At     time.Duration // since the kernel started, on the guest's clock
	Detail string        // for failed, the reason; for exit, the exit status
}

const markWord = "iotax-boot:"

// String returns the console line.
func (m Mark) String() string {
	s := fmt.Sprintf("%s %s %.3f", markWord, m.Name, m.At.Seconds())
	if m.Detail != "" {
		s += " " + strings.ReplaceAll(m.Detail, "\n", " / ")
	}
	return s
}

// ParseMark finds a mark in a console line. Kernel messages may precede it.
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
