// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	"github.com/lastcall-dev/lastcall/cmd/lastcall/cli"
	"github.com/lastcall-dev/lastcall/kind"
	"github.com/lastcall-dev/lastcall/reports/v1alpha1"
	"github.com/lastcall-dev/lastcall/suites"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/cluster"
)

// actions joins the commands with what carries them out.
func actions() cli.Actions {
	return cli.Actions{
		Execute: execute,
		Rejudge: behaviour.Finish,
		Cluster: cli.ClusterActions{Up: up, Down: kind.Down, Cleanup: kind.Cleanup, CleanupIn: cluster.Cleanup},
	}
}

func execute(ctx context.Context, r cli.RunRequest) (*v1alpha1.ConformanceReport, error) {
	return suites.Execute(ctx, suites.Config{
		Stage: r.Stage, Kubeconfig: r.Kubeconfig, AgentImage: r.AgentImage,
		Kubernetes: r.Kubernetes, Nodes: r.Nodes, Name: r.Name, Keep: r.Keep,
		IPFamily: r.IPFamily, KubeProxy: r.KubeProxy,
		Labels: r.Labels, Behaviours: r.IDs, Fault: string(r.Fault), Isolate: r.Isolate, Matrix: r.Matrix, Strict: r.Strict,
		P: r.P, Profile: r.Profile, Out: r.Dir,
		Progress: r.Progress,
		Say:      func(format string, args ...any) { r.Say(fmt.Sprintf(format, args...)) },
	})
}

func up(ctx context.Context, r cli.UpRequest) (string, error) {
	c, err := kind.Up(ctx, kind.Config{
		Name: r.Name, Kubernetes: r.Kubernetes, Nodes: r.Nodes, Image: r.Image,
		IPFamily: r.IPFamily, KubeProxy: r.KubeProxy, Kubeconfig: r.Kubeconfig, Progress: r.Say,
	})
	if err != nil {
		return "", err
	}
	return c.Kubeconfig(), nil
}
