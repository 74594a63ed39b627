// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"io"
	"log"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/lastcall-dev/lastcall/cmd/component"
	"github.com/lastcall-dev/lastcall/fixtures/enrolment"
	"github.com/lastcall-dev/lastcall/fixtures/nodeagent"
	"github.com/lastcall-dev/lastcall/fixtures/nodeagent/folder"
)

func benchNodeAgentCommand(signals <-chan os.Signal, stderr io.Writer) *cobra.Command {
	c := &cobra.Command{Use: "bench-node-agent", Short: "A node's agent where there is no cluster: keeps pods' namespaces for its proxies", Args: cobra.NoArgs}
	var cfg nodeagent.Config
	var pods, noted string
	f := c.Flags()
	f.StringVar(&cfg.Mesh, "mesh", "", "ID of the mesh")
	f.StringVar(&cfg.Agents, "agents", "", "folder in which the CNI plugin looks for agents, by their mesh")
	f.StringVar(&cfg.ZDS, "zds", "", "path of the socket for node proxies")
	f.StringVar(&noted, "noted", "", "folder where the CNI plugin notes pods")
	f.StringVar(&pods, "pods", "", "folder with a file for each of the node's pods")
	f.DurationVar(&cfg.Propagation, "propagation", 5*time.Second, "how long news takes to be everywhere: so long a pod that leaves the mesh is served at least")
	f.DurationVar(&cfg.LeaveWithin, "leave-within", 20*time.Second, "how long its connections may go on after that")
	f.DurationVar(&cfg.Absent, "absent", time.Second, "how long a pod's end waits for a proxy where none is connected")
	c.RunE = func(*cobra.Command, []string) error {
		if cfg.Mesh == "" || cfg.Agents == "" || cfg.ZDS == "" || noted == "" || pods == "" {
			return usage("--mesh, --agents, --zds, --noted and --pods are needed")
		}
		cfg.Log = log.New(stderr, "node agent: ", log.LstdFlags|log.Lmicroseconds)
		cfg.Pods, cfg.Source = enrolment.Store(noted), folder.Source{Dir: pods, Log: cfg.Log}
		return component.Run(nodeagent.New(cfg), nodeagent.ErrNeverStarted, signals, cfg.Log, func() { cfg.Log.Print("serves") })
	}
	return c
}
