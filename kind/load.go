// SPDX-License-Identifier: Apache-2.0

package kind

import (
	"context"
	"errors"
	"fmt"
	"io"

	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/kind/pkg/cluster"
	"sigs.k8s.io/kind/pkg/cluster/nodes"
	"sigs.k8s.io/kind/pkg/cluster/nodeutils"
	kindexec "sigs.k8s.io/kind/pkg/exec"
)

// eachNode does one thing in all nodes at the same time and returns the first
// error, which also ends what the others do.
func eachNode(ctx context.Context, list []Node, do func(context.Context, Node) error) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, node := range list {
		group.Go(func() error {
			if err := do(ctx, node); err != nil {
				return fmt.Errorf("node %s: %w", node.Name, err)
			}
			return nil
		})
	}
	return group.Wait()
}

// importImages hands an image archive to a node's containerd, as kind does.
func (c *Cluster) importImages(ctx context.Context, node Node, archive io.Reader) error {
	handle, err := c.handle(node)
	if err != nil {
		return err
	}
	if err := nodeutils.LoadImageArchive(handle, cancellable{ctx, archive}); err != nil {
		return fmt.Errorf("load images: %w", explain(err))
	}
	return nil
}

// cancellable ends a copy that knows no context.
type cancellable struct {
	ctx    context.Context
	reader io.Reader
}

func (c cancellable) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.reader.Read(p)
}

// handle is kind's own idea of a node.
func (c *Cluster) handle(node Node) (nodes.Node, error) {
	all, err := provider(func(string) {}).ListNodes(prefix + c.record.Name)
	if err != nil {
		return nil, fmt.Errorf("ask kind for the node: %w", err)
	}
	for _, handle := range all {
		if handle.String() == node.Name {
			return handle, nil
		}
	}
	return nil, errors.New("it is not there any more")
}

func provider(progress func(string)) *cluster.Provider {
	return cluster.NewProvider(cluster.ProviderWithLogger(logger{progress}), cluster.ProviderWithDocker())
}

// explain adds to kind's error what the command that failed had printed.
func explain(err error) error {
	failed := kindexec.RunErrorForError(err)
	if failed == nil {
		return err
	}
	return fmt.Errorf("%w: %s", err, lastLines(string(failed.Output), 5))
}
