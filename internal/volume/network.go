package volume

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"

	"iotax"
	"iotax/internal/plan"
)

// NetworkSpec is `network: {to: MACHINE}`: the network between the target's machine and MACHINE, which runs an iperf3
// server.
type NetworkSpec struct {
	To      string `yaml:"to" doc:"machine that the target's machine sends to"`
	Address string `yaml:"address" doc:"address of that machine, if iotax cannot find it"`
	Port    int    `yaml:"port" doc:"port of the server; 0 picks a free one"`
}

// SetScalar fills the spec from `network: MACHINE`.
func (s *NetworkSpec) SetScalar(v string) error { s.To = v; return nil }

func (s *NetworkSpec) Traits() plan.Traits {
	return plan.Traits{Tools: []string{"iperf3"}, Served: &plan.Served{Key: "to", Machine: s.To}}
}

// Validate returns an error for a missing machine or an invalid address or port.
func (s *NetworkSpec) Validate() error {
	if s.To == "" {
		return &plan.FieldError{Field: "to", Msg: "no machine is named", Hint: "name the machine at the other end"}
	}
	return checkAddress(s.Address, s.Port)
}

func checkAddress(address string, port int) error {
	if strings.ContainsAny(address, " \t\n/@?") {
		return &plan.FieldError{Field: "address", Msg: fmt.Sprintf("%q is not an address", address), Hint: "write a host name or an IP address"}
	}
	if port < 0 || port > 65535 {
		return &plan.FieldError{Field: "port", Msg: fmt.Sprintf("%d is not a port", port), Hint: "use 1024 to 65535, or leave it out"}
	}
	return nil
}

func prepareNetwork(_ context.Context, s *NetworkSpec, e Env) (iotax.Volume, error) {
	return &network{life{env: e, serves: "the server of iperf3"}, *s}, nil
}

type network struct {
	life
	spec NetworkSpec
}

func (n *network) Attach(ctx context.Context, m iotax.Machine) (iotax.Place, error) {
	op := "measure network"
	var none iotax.Place
	if err := has(ctx, n.env.Server, op, "iperf3", "iperf3"); err != nil {
		return none, err
	}
	address, err := addressFor(op, n.env.Server, m, n.spec.Address)
	if err != nil {
		return none, err
	}
	inner := &dir{want: homeOf(n.env.Server)}
	n.attached.push(inner.Detach)
	p, err := inner.Attach(ctx, n.env.Server)
	if err != nil {
		return none, err
	}
	s, port, err := serveOnPort(n.spec.Port, func(port int) (*server, error) {
		s, err := startServer(ctx, n.env.Server, p.Path+"/pid", nil, "iperf3", "--server", "--port", strconv.Itoa(port))
		if err != nil {
			return nil, err
		}
		return s, s.awaitPort(ctx, port)
	})
	if err != nil {
		return none, &iotax.Error{Op: op, On: n.env.Server.String(), Err: err}
	}
	n.server = s
	n.attached.push(s.stop)
	facts := map[string]string{}
	linkFacts(facts, n.env.Server, m, address)
	return iotax.Place{Kind: iotax.PlaceURL, Path: "tcp://" + net.JoinHostPort(address, strconv.Itoa(port)), Facts: facts}, nil
}
