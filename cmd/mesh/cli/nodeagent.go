// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"io"
	"log"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/lastcall-dev/lastcall/cmd/component"
	"github.com/lastcall-dev/lastcall/fixtures/nodeagent"
	"github.com/lastcall-dev/lastcall/fixtures/nodeagent/folder"
	"github.com/lastcall-dev/lastcall/fixtures/nodeagent/kube"
)

func benchNodeAgentCommand(signals <-chan os.Signal, stderr io.Writer) *cobra.Command {
	c := &cobra.Command{Use: "bench-node-agent", Short: "A node's agent where there is no cluster: keeps pods' namespaces for its proxies", Args: cobra.NoArgs}
	var cfg nodeagent.Config
	agentFlags(c.Flags(), &cfg)
	var pods string
	c.Flags().StringVar(&pods, "pods", "", "folder with a file for each of the node's pods")
	c.RunE = func(*cobra.Command, []string) error {
		cfg.Log = agentLog(stderr)
		cfg.Source = folder.Source{Dir: pods, Log: cfg.Log}
		if pods == "" {
			return usage("--pods is needed")
		}
		return runAgent(cfg, signals)
	}
	return c
}

func nodeAgentCommand(signals <-chan os.Signal, stderr io.Writer) *cobra.Command {
	c := &cobra.Command{Use: "node-agent", Short: "A node's agent: keeps pods' namespaces for its proxies", Args: cobra.NoArgs}
	var cfg nodeagent.Config
	from := kube.Source{}
	agentFlags(c.Flags(), &cfg)
	var addresses string
	f := c.Flags()
	f.StringVar(&from.Namespace, "namespace", os.Getenv("LASTCALL_NAMESPACE"), "namespace of its pods; or LASTCALL_NAMESPACE")
	f.StringVar(&from.Node, "node", os.Getenv("LASTCALL_NODE"), "name of its node; or LASTCALL_NODE")
	f.StringVar(&addresses, "host-ips", os.Getenv("LASTCALL_HOST_IPS"), "addresses of the node, from which the kubelet probes: IP,IP; or LASTCALL_HOST_IPS")
	c.RunE = func(*cobra.Command, []string) error {
		var err error
		if from.Addresses, err = hostIPs(addresses); err != nil {
			return err
		}
		if from.Namespace == "" || from.Node == "" {
			return usage("--namespace and --node are needed")
		}
		conf, err := rest.InClusterConfig()
		if err != nil {
			return err
		}
		// It asks for each pod of its node at once when it begins.
		conf.QPS, conf.Burst = 100, 200
		if from.Client, err = kubernetes.NewForConfig(conf); err != nil {
			return err
		}
		cfg.Log = agentLog(stderr)
		from.Log = cfg.Log
		cfg.Source = from
		return runAgent(cfg, signals)
	}
	return c
}

func agentLog(to io.Writer) *log.Logger {
	return log.New(to, "node agent: ", log.LstdFlags|log.Lmicroseconds)
}

// runAgent is an agent's life.
func runAgent(cfg nodeagent.Config, signals <-chan os.Signal) error {
	if cfg.Mesh == "" || cfg.Agents == "" || cfg.ZDS == "" || cfg.Pods == "" {
		return usage("--mesh, --agents, --zds and --noted are needed")
	}
	return component.Run(nodeagent.New(cfg), nodeagent.ErrNeverStarted, signals, cfg.Log, func() { cfg.Log.Print("serves") })
}

// agentFlags are those of an agent wherever it is.
func agentFlags(f *pflag.FlagSet, cfg *nodeagent.Config) {
	f.StringVar(&cfg.Mesh, "mesh", "", "ID by which the CNI plugin finds it: that of the mesh, or what its pods name")
	f.StringVar(&cfg.Agents, "agents", "", "folder in which the CNI plugin looks for agents, by their IDs")
	f.StringVar(&cfg.ZDS, "zds", "", "path of the socket for node proxies")
	f.StringVar((*string)(&cfg.Pods), "noted", "", "folder where the CNI plugin notes pods")
	f.StringVar((*string)(&cfg.Fault), "fault", "", "what it does wrong on purpose, where that is a fault of its own")
	f.DurationVar(&cfg.Propagation, "propagation", nodeagent.Propagation, "how long news takes to be everywhere: so long a pod that leaves the mesh is served at least")
	f.DurationVar(&cfg.LeaveWithin, "leave-within", nodeagent.LeaveWithin, "how long its connections may go on after that")
	f.DurationVar(&cfg.Absent, "absent", time.Second, "how long a pod's end waits for a proxy where none is connected")
}
