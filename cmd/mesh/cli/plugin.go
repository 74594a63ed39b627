// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"io"
	"log"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/lastcall-dev/lastcall/fixtures/cni"
	"github.com/lastcall-dev/lastcall/fixtures/cni/installer"
)

func installPluginCommand(signals <-chan os.Signal, stderr io.Writer) *cobra.Command {
	c := &cobra.Command{Use: "install-plugin", Short: "Put the mesh's CNI plugin into a node's chain until it is told to go, and then take it out again", Args: cobra.NoArgs}
	var in installer.Installer
	var installed bool
	f := c.Flags()
	f.StringVar(&in.Lists, "lists", "/etc/cni/net.d", "folder of the runtime's lists of plugins")
	f.StringVar(&in.Plugins, "plugins", "/opt/cni/bin", "folder of the runtime's plugins")
	f.StringVar(&in.Program, "program", "/cni", "the plugin, to be copied there")
	f.StringVar(&in.State, "state", cni.DefaultState, "folder where the plugin notes pods")
	f.StringVar(&in.Agents, "agents", cni.DefaultAgents, "folder in which the plugin looks for agents")
	f.StringVar(&in.Ledger, "ledger", "", "folder in which the plugin writes down each end of a pod (default: none)")
	f.BoolVar(&installed, "installed", false, "only say, by the exit code, whether it is installed")
	c.RunE = func(*cobra.Command, []string) error {
		if installed {
			_, err := os.Stat(filepath.Join(in.Lists, installer.List))
			return err
		}
		in.Log = log.New(stderr, "plugin: ", log.LstdFlags|log.Lmicroseconds)
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		go func() { <-signals; cancel() }()
		return in.Run(ctx, func() { in.Log.Print("installed") })
	}
	return c
}
