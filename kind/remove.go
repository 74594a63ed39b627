// SPDX-License-Identifier: Apache-2.0

package kind

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"sigs.k8s.io/e2e-framework/klient/wait"

	"github.com/lastcall-dev/lastcall/kind/cgroup"
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
	var errs []error
	for _, name := range names {
		// One that hangs keeps no other.
		gone, err := remove(ctx, name)
		removed, errs = append(removed, gone...), append(errs, err)
	}
	bridges, err := removeBridges()
	return append(removed, bridges...), errors.Join(append(errs, err)...)
}

// ours names all clusters of which anything is left.
func ours(ctx context.Context) ([]string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, listBudget, fmt.Errorf("not within %s", listBudget))
	defer cancel()
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
	id       string
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
	format := strings.Join([]string{"{{.ID}}", "{{.Names}}", `{{.Label "` + kindLabel + `"}}`, "{{.Networks}}", `{{.Label "` + egress.Label + `"}}`}, "\t")
	lines, err := docker.Lines(ctx, "ps", "--all", "--no-trunc", "--format", format)
	if err != nil {
		return nil, fmt.Errorf("list the engine's containers: %w", err)
	}
	var list []container
	for _, line := range lines {
		fields := strings.Split(line, "\t")
		if len(fields) != 5 {
			return nil, fmt.Errorf("list the engine's containers: it says %q", line)
		}
		list = append(list, container{id: fields[0], name: fields[1], cluster: fields[2], networks: strings.Split(fields[3], ","), helps: fields[4]})
	}
	return list, nil
}

// removeContainers removes a cluster's containers with their volumes, all at once, and
// names those that are gone.
func removeContainers(ctx context.Context, name string) ([]string, error) {
	list, err := listContainers(ctx)
	if err != nil {
		return nil, err
	}
	list = slices.DeleteFunc(list, func(c container) bool { return c.owner() != name })
	groups, err := cgroup.Mounted()
	if err != nil {
		return nil, err
	}
	removed, errs := make([]string, len(list)), make([]error, len(list))
	var all sync.WaitGroup
	for i, c := range list {
		all.Go(func() { removed[i], errs[i] = removeContainer(ctx, c, groups, containerBudget) })
	}
	all.Wait()
	removed = slices.DeleteFunc(removed, func(what string) bool { return what == "" })
	if err := errors.Join(errs...); err != nil {
		return removed, fmt.Errorf("remove the containers of cluster %s: %w", name, err)
	}
	return removed, nil
}

// removeContainer removes one container, and says which, or what holds it. What is frozen
// in it is thawed before, because it could not be killed, and as long as it takes: that
// its first process is killed may just have cut short a runc between freeze and thaw.
func removeContainer(ctx context.Context, c container, groups cgroup.Hierarchies, within time.Duration) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, within, fmt.Errorf("not gone within %s", within))
	defer cancel()
	thawed := map[string]bool{}
	thaw := func() error {
		now, err := groups.Thaw(c.id)
		for _, group := range now {
			thawed[group] = true
		}
		return err
	}
	kept := thaw()
	done := make(chan error, 1)
	go func() {
		_, err := docker.Output(ctx, "rm", "--force", "--volumes", c.name)
		done <- err
	}()
	tick := time.NewTicker(thawEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			kept = thaw()
		case err := <-done:
			switch {
			case err == nil && len(thawed) > 0:
				return fmt.Sprintf("container %s (frozen control groups in it that were thawed: %d)", c.name, len(thawed)), nil
			case err == nil:
				return "container " + c.name, nil
			case ctx.Err() != nil:
				err = context.Cause(ctx)
			}
			if left := groups.Left(c.id); left != "" {
				err = fmt.Errorf("%w: %s", err, left)
			}
			if kept != nil {
				err = fmt.Errorf("%w (%w)", err, kept)
			}
			return "", fmt.Errorf("container %s: %w", c.name, err)
		}
	}
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
		var networks []string
		gone, err := removeContainers(ctx, name)
		removed = append(removed, gone...)
		// What is cut short by the end of the time knows less than what was before.
		if err == nil || last == nil || ctx.Err() == nil {
			last = err
		}
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
		return removed, fmt.Errorf("cluster %s is not gone within %s; `lastcall cleanup` tries again, and a restart of the container engine may help: %w", name, removeBudget, errors.Join(err, last))
	}
	return removed, nil
}
