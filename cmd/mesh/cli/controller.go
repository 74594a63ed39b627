// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"io"
	"log"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/lastcall-dev/lastcall/cmd/component"
	"github.com/lastcall-dev/lastcall/fixtures"
	"github.com/lastcall-dev/lastcall/fixtures/controller"
	"github.com/lastcall-dev/lastcall/fixtures/drain"
)

func controllerCommand(signals <-chan os.Signal, stderr io.Writer) *cobra.Command {
	c := &cobra.Command{Use: "controller", Short: "The control plane: webhook, CA and discovery, one of two replicas", Args: cobra.NoArgs}
	var cfg controller.Config
	var pull, fault string
	f := c.Flags()
	f.StringVar(&cfg.Injector.Mesh, "mesh", "", "ID of the mesh: the value of the namespaces' label lastcall.dev/mesh")
	f.StringVar(&cfg.Namespace, "namespace", os.Getenv("LASTCALL_NAMESPACE"), "its own namespace; or LASTCALL_NAMESPACE")
	f.StringVar(&cfg.Injector.Image, "image", "", "image of what it injects")
	f.StringVar(&pull, "pull", "IfNotPresent", "how nodes get that image: Always, IfNotPresent, Never")
	f.StringVar(&cfg.Injector.Controller, "address", "", "IP that sidecars are told; empty: that of its Service")
	f.StringSliceVar(&cfg.ServerNames, "server-names", nil, "names that its certificate is for, besides its Service's")
	f.StringVar(&fault, "fault", "", "break it on purpose")
	f.StringVar(&cfg.PodName, "pod-name", os.Getenv("LASTCALL_POD_NAME"), "name of its pod; or LASTCALL_POD_NAME")
	nodeProxy(f, &cfg.NodeProxy)
	drainTimes(f, &cfg.Drain)
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		var err error
		if cfg.Fault, err = fixtures.Find(controller.Faults(), fault); err != nil {
			return usageError{err}
		}
		if cfg.Injector.Pull, err = controller.Pull(pull); err != nil {
			return usageError{err}
		}
		if cfg.Injector.Mesh == "" || cfg.Injector.Image == "" || cfg.Namespace == "" {
			return usage("--mesh, --image and --namespace are needed")
		}
		conf, err := rest.InClusterConfig()
		if err != nil {
			return err
		}
		conf.QPS, conf.Burst = 100, 200 // each new sidecar has its token reviewed
		if cfg.Client, err = kubernetes.NewForConfig(conf); err != nil {
			return err
		}
		if cfg.Injector.Controller == "" {
			svc, err := cfg.Client.CoreV1().Services(cfg.Namespace).Get(cmd.Context(), controller.Name, metav1.GetOptions{})
			if err != nil {
				return fmt.Errorf("the address of its Service: %w", err)
			}
			cfg.Injector.Controller = svc.Spec.ClusterIP
		}
		cfg.Log = log.New(stderr, "controller: ", log.LstdFlags|log.Lmicroseconds)
		cfg.Injector.ServerName = controller.ServerName(cfg.Namespace)
		one, err := controller.New(cfg)
		if err != nil {
			return usageError{err}
		}
		return component.Run(one, controller.ErrNeverStarted, signals, cfg.Log, func() { cfg.Log.Print("serves") })
	}
	return c
}

// nodeProxy is who may ask for certificates of pods' identities.
func nodeProxy(f *pflag.FlagSet, account *string) {
	f.StringVar(account, "node-proxy", "", "service account of the mesh's node proxies, which have certificates signed for the pods of their nodes: NAMESPACE/NAME, in either of which * stands for any; empty: the mesh has none")
}

// drainTimes are the times of a controller's end.
func drainTimes(f *pflag.FlagSet, s *drain.Settings) {
	f.DurationVar(&s.Min, "min-drain", 5*time.Second, "how long after SIGTERM it stays ready")
	f.DurationVar(&s.Unready, "unready", 2*time.Second, "how long after that it goes on serving")
	f.DurationVar(&s.Deadline, "deadline", 20*time.Second, "when, after SIGTERM, the rest is cut")
}
