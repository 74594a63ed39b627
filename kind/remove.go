// SPDX-License-Identifier: Apache-2.0

package kind

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/e2e-framework/klient/wait"

	"github.com/lastcall-dev/lastcall/kind/docker"
	"github.com/lastcall-dev/lastcall/kind/egress"
)

// Down removes a cluster and all that belongs to it, also one that is half made.
// A cluster that is not there is an error.
func Down(ctx context.Context, name string) error {
	if err := checkName(name); err != nil {
		return err
	}
	if _, err := docker.Ask(ctx); err != nil {
		return err
	}
	removed, err := remove(ctx, name)
	if err != nil {
		return err
	}
	if len(removed) == 0 {
		return fmt.Errorf("there is no cluster %s: nothing to take down", name)
	}
	return nil
}

// Cleanup removes everything that is ours, whatever state it is in, and names
// what it removed: containers, networks, guards, bridges, folders with
// kubeconfigs. The user's own clusters and their network stay.
func Cleanup(ctx context.Context) ([]string, error) {
	if _, err := docker.Ask(ctx); err != nil {
		// A cluster's folder is the first thing of it and the last: where there is
		// none, no engine is missed.
		if left, rerr := recorded(); errors.Is(err, docker.ErrNoEngine) && rerr == nil && len(left) == 0 {
			return nil, nil
		}
		return nil, err
	}
	names, err := ours(ctx)
	if err != nil {
		return nil, err
	}
	var removed []string
	for _, name := range names {
		gone, err := remove(ctx, name)
		removed = append(removed, gone...)
		if err != nil {
			return removed, err
		}
	}
	bridges, err := removeBridges()
	return append(removed, bridges...), err
}

// ours names all clusters of which anything is left.
func ours(ctx context.Context) ([]string, error) {
	names, err := recorded()
	if err != nil {
		return nil, err
	}
	containers, err := listContainers(ctx)
	if err != nil {
		return nil, err
	}
	for _, container := range containers {
		if owner := container.owner(); owner != "" {
			names = append(names, owner)
		}
	}
	networks, err := docker.Lines(ctx, "network", "ls", "--filter", "label="+egress.Label, "--format", "{{.Name}}")
	if err != nil {
		return nil, fmt.Errorf("list the engine's networks: %w", err)
	}
	guards, err := egress.Standing(prefix)
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Concat(networks, guards) {
		names = append(names, strings.TrimPrefix(name, prefix))
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// container is one container as the engine lists it.
type container struct {
	name     string
	cluster  string   // kind's label
	networks []string // that it is or will be connected to
	helps    string   // our label: what it helps
}

// owner is the name of the cluster of ours that a container belongs to, or "". A
// kind cluster that somebody else called lastcall-x is not on a network of that
// name.
func (c container) owner() string {
	if name, ok := strings.CutPrefix(c.helps, prefix); ok {
		return name
	}
	name, ok := strings.CutPrefix(c.cluster, prefix)
	if ok && slices.Contains(c.networks, c.cluster) {
		return name
	}
	return ""
}

func listContainers(ctx context.Context) ([]container, error) {
	format := strings.Join([]string{"{{.Names}}", `{{.Label "` + kindLabel + `"}}`, "{{.Networks}}", `{{.Label "` + egress.Label + `"}}`}, "\t")
	lines, err := docker.Lines(ctx, "ps", "--all", "--no-trunc", "--format", format)
	if err != nil {
		return nil, fmt.Errorf("list the engine's containers: %w", err)
	}
	var list []container
	for _, line := range lines {
		fields := strings.Split(line, "\t")
		if len(fields) != 4 {
			return nil, fmt.Errorf("list the engine's containers: it says %q", line)
		}
		list = append(list, container{name: fields[0], cluster: fields[1], networks: strings.Split(fields[2], ","), helps: fields[3]})
	}
	return list, nil
}

// removeContainers removes a cluster's containers with their volumes, and names
// them.
func removeContainers(ctx context.Context, name string) ([]string, error) {
	list, err := listContainers(ctx)
	if err != nil {
		return nil, err
	}
	var removed, names []string
	for _, container := range list {
		if container.owner() == name {
			names = append(names, container.name)
			removed = append(removed, "container "+container.name)
		}
	}
	if len(names) == 0 {
		return nil, nil
	}
	if _, err := docker.Output(ctx, append([]string{"rm", "--force", "--volumes"}, names...)...); err != nil {
		return nil, fmt.Errorf("remove the containers of cluster %s: %w", name, err)
	}
	return removed, nil
}

// remove takes away all that a cluster has, in the order in which nothing can
// get out meanwhile: the guard goes after the last container, and the folder
// last, because it is how the next attempt knows.
func remove(ctx context.Context, name string) ([]string, error) {
	removed, err := removeNetwork(ctx, name)
	if err != nil {
		return removed, err
	}
	stood, err := egress.Remove(ctx, prefix+name)
	if err != nil {
		return removed, err
	}
	if stood {
		removed = append(removed, "egress guard "+prefix+name)
	}
	gone, err := forget(name)
	return append(removed, gone...), err
}

// removeNetwork removes the containers and then their network. It goes on until
// it has found nothing twice: a docker command that outlived a killed run may
// still be making a container, and a network with a container on it stays.
func removeNetwork(ctx context.Context, name string) ([]string, error) {
	var removed []string
	var last error
	clean := 0
	err := wait.For(func(ctx context.Context) (bool, error) {
		var gone, networks []string
		gone, last = removeContainers(ctx, name)
		removed = append(removed, gone...)
		if last == nil {
			// Name and label: a network that somebody else gave the name is not
			// ours.
			networks, last = docker.Lines(ctx, "network", "ls", "--filter", "label="+egress.Label, "--filter", "name=^"+prefix+name+"$", "--format", "{{.Name}}")
		}
		if last == nil && len(networks) == 0 && len(gone) == 0 {
			clean++
		}
		for _, network := range networks {
			if _, err := docker.Output(ctx, "network", "rm", network); err != nil {
				last = errors.Join(last, err)
				continue
			}
			removed = append(removed, "network "+network)
		}
		return clean == 2, nil
	}, wait.WithContext(ctx), wait.WithTimeout(removeBudget), wait.WithInterval(300*time.Millisecond), wait.WithImmediate())
	if err != nil {
		return removed, fmt.Errorf("cluster %s is not gone within %s: %w", name, removeBudget, errors.Join(err, last))
	}
	return removed, nil
}
