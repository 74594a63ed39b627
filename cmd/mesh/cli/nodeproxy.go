// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"io"
	"log"
	"os"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/lastcall-dev/lastcall/cmd/component"
	"github.com/lastcall-dev/lastcall/fixtures/identity"
	"github.com/lastcall-dev/lastcall/fixtures/nodeproxy"
)

func nodeProxyCommand(signals <-chan os.Signal, stderr io.Writer) *cobra.Command {
	c := &cobra.Command{Use: "node-proxy", Short: "The data path of all pods of a node that are in the mesh", Args: cobra.NoArgs}
	var settings, agent, node, health string
	var of member
	f := c.Flags()
	of.flags(f)
	f.StringVar(&settings, "settings", "{}", "how it ends (nodeproxy.Settings, in YAML)")
	f.StringVar(&agent, "zds", "", "path of the socket of the node's agent")
	f.StringVar(&node, "node", os.Getenv("LASTCALL_NODE"), "name of the node, as discovery has it; or LASTCALL_NODE")
	f.StringVar(&health, "health", ":"+strconv.Itoa(nodeproxy.HealthPort), "where it serves /readyz")
	c.RunE = func(*cobra.Command, []string) error {
		s, err := nodeproxy.Parse(settings)
		if err != nil {
			return usageError{err}
		}
		if agent == "" || node == "" {
			return usage("--zds and --node are needed")
		}
		logger := log.New(stderr, "node proxy: ", log.LstdFlags|log.Lmicroseconds)
		up, err := of.join(logger)
		if err != nil {
			return err
		}
		defer up.close()
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		go up.known.Run(ctx)
		view := up.known.View()
		program := nodeproxy.NewProgram(nodeproxy.ProgramConfig{
			Agent: agent, Known: view.WaitFor, Health: health,
			Proxy: nodeproxy.Config{
				Settings: s, Resolve: nodeResolver(view, node), Deleted: deleted(view), Heard: up.known.Heard, Log: logger,
				Keeper: func(id identity.ID) *identity.Keeper { return up.keeper(id, id) },
			},
		})
		return component.Run(program, nodeproxy.ErrNeverStarted, signals, logger, func() { logger.Print("asks its node's agent whom to serve") })
	}
	return c
}
