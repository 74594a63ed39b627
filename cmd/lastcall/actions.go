// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/lastcall-dev/lastcall/cmd/lastcall/cli"
	"github.com/lastcall-dev/lastcall/fixtures/system"
	"github.com/lastcall-dev/lastcall/kind"
	"github.com/lastcall-dev/lastcall/reports/v1alpha1"
	"github.com/lastcall-dev/lastcall/suites"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/host"
)

// actions joins the commands with what carries them out.
func actions() cli.Actions {
	return cli.Actions{
		Execute: execute,
		Rejudge: behaviour.Finish,
		Cluster: cli.ClusterActions{Up: up, Down: down, Cleanup: cleanup, CleanupIn: suites.CleanupIn},
	}
}

func execute(ctx context.Context, r cli.RunRequest) ([]*v1alpha1.ConformanceReport, error) {
	cfg, err := config(r)
	if err != nil {
		return nil, err
	}
	if len(r.Systems) > 1 {
		return suites.ExecuteEach(ctx, cfg, r.Systems)
	}
	report, err := suites.Execute(ctx, cfg)
	return []*v1alpha1.ConformanceReport{report}, err
}

// config is the run that a command line asks for; where it tests several systems, it has none of them.
func config(r cli.RunRequest) (suites.Config, error) {
	self, err := os.Executable()
	if err != nil {
		return suites.Config{}, fmt.Errorf("this executable, which is its own agent: %w", err)
	}
	cfg := suites.Config{
		Agent: []string{self, system.AgentCommand}, Mesh: []string{self, system.MeshCommand}, Plugin: self,
		Stage: r.Stage, Kubeconfig: r.Kubeconfig, AgentImage: r.AgentImage,
		Kubernetes: r.Kubernetes, Nodes: r.Nodes, Name: r.Name, Keep: r.Keep,
		IPFamily: r.IPFamily, KubeProxy: r.KubeProxy,
		Labels: r.Labels, Behaviours: r.IDs, Fault: string(r.Fault), Isolate: r.Isolate, WaitIdle: r.WaitIdle, Matrix: r.Matrix, Strict: r.Strict,
		P: r.P, Lag: r.Lag, TunnelDelay: r.TunnelDelay, Profile: r.Profile, Out: r.Dir,
		Planned:  r.Planned,
		Progress: r.Progress,
		Say:      func(format string, args ...any) { r.Say(fmt.Sprintf(format, args...)) },
	}
	if len(r.Systems) == 1 {
		cfg.System = r.Systems[0]
	}
	return cfg, nil
}

func cleanup(ctx context.Context) ([]string, error) {
	left, err := host.Cleanup(ctx)
	removed, kerr := kind.Cleanup(ctx)
	return append(left, removed...), errors.Join(err, kerr)
}

func up(ctx context.Context, r cli.UpRequest) (string, error) {
	p := kind.ProviderFor(kind.Config{
		Name: r.Name, Kubernetes: r.Kubernetes, Nodes: r.Nodes, Image: r.Image,
		IPFamily: r.IPFamily, KubeProxy: r.KubeProxy, Kubeconfig: r.Kubeconfig, Progress: r.Say,
	})
	return p.WithOpts(kind.WithNew()).Create(ctx)
}

func down(ctx context.Context, name string) error {
	return kind.NewProvider().WithName(name).Destroy(ctx)
}
