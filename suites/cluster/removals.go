// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// removals are those of the scenarios' namespaces, which run beside the bringing up of the next recording. What is recorded again
// has the same namespace, and waits for its removal to be under way. The zero value has none.
type removals struct {
	all errgroup.Group

	mu   sync.Mutex
	done map[string]chan struct{} // closed when the pods are gone and the removal has been asked for, by the namespace
}

// begin has a namespace be removed.
func (r *removals) begin(namespace string, remove func() error) {
	done := make(chan struct{})
	r.mu.Lock()
	if r.done == nil {
		r.done = map[string]chan struct{}{}
	}
	r.done[namespace] = done
	r.mu.Unlock()
	r.all.Go(func() error {
		defer close(done)
		return remove()
	})
}

// of waits for the removal of a namespace, if one was begun.
func (r *removals) of(ctx context.Context, namespace string) error {
	r.mu.Lock()
	done := r.done[namespace]
	r.mu.Unlock()
	if done == nil {
		return nil
	}
	select {
	case <-done:
		return nil // if it failed, whoever opens the namespace hears of it
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// feltFor is how long a removal is felt at most: the end of some twenty pods takes a busy second or two. One that takes longer waits,
// for whoever was stopped or killed to be let go.
const feltFor = 3 * time.Second

// begun waits until what was begun by now is felt no more by whoever begins.
func (r *removals) begun(ctx context.Context) error {
	r.mu.Lock()
	all := slices.Collect(maps.Keys(r.done))
	r.mu.Unlock()
	felt, cancel := context.WithTimeout(ctx, feltFor)
	defer cancel()
	for _, namespace := range all {
		if r.of(felt, namespace) != nil {
			return context.Cause(ctx) // nil where it only takes long
		}
	}
	return nil
}

// wait waits for all, and returns the first error.
func (r *removals) wait() error { return r.all.Wait() }
