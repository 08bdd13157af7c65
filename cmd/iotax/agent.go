package main

import (
	"strings"

	"github.com/spf13/cobra"

	"iotax/internal/machine/agent"
	"iotax/internal/machine/host"
	"iotax/internal/workload"
)

// agentCommands is the job of an agent that runs commands; see agent.Command.
var agentCommands = strings.TrimPrefix(agent.Command, workload.AgentCommand+" ")

// agentCommand is iotax on a target's machine: it does what another iotax asks over standard input.
func (a *app) agentCommand() *cobra.Command {
	return &cobra.Command{
		Use: workload.AgentCommand + " KIND", Short: "Do a job for an iotax elsewhere", Hidden: true, Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			mustUndo()
			switch args[0] {
			case agentCommands:
				return agent.Serve(c.Context(), host.Local(), a.in, a.out)
			case workload.AgentGuest:
				return serveGuest(c.Context(), a.in, a.out)
			case workload.AgentKit:
				return takeKit(c.Context(), a.in)
			}
			return workload.ServeAgent(c.Context(), args[0], a.in, a.out)
		},
	}
}
