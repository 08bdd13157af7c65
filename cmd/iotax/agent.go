package main

import (
	"github.com/spf13/cobra"

	"iotax/internal/workload"
)

// agentCommand is iotax on a target's machine: it does what another iotax asks over standard input. See also agent.Main.
func (a *app) agentCommand() *cobra.Command {
	return &cobra.Command{
		Use: workload.AgentCommand + " KIND", Short: "Do a job for an iotax elsewhere", Hidden: true, Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			mustUndo()
			switch args[0] {
			case workload.AgentGuest:
				return serveGuest(c.Context(), a.in, a.out)
			case workload.AgentKit:
				return takeKit(c.Context(), a.in)
			}
			return workload.ServeAgent(c.Context(), args[0], a.in, a.out)
		},
	}
}
