// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"sync"
)

// removals are those of the scenarios' namespaces, which run beside the next recording. What is recorded again
// has the same namespace, and waits for its removal to be under way. The zero value has none.
type removals struct {
	mu   sync.Mutex
	done map[string]chan struct{} // closed when the removal has been asked for, by the namespace
	errs []error
}

// begin has a namespace be removed.
func (r *removals) begin(namespace string, remove func() error) {
	done := make(chan struct{})
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.done == nil {
		r.done = map[string]chan struct{}{}
	}
	r.done[namespace] = done
	go func() {
		defer close(done)
		if err := remove(); err != nil {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.errs = append(r.errs, err)
		}
	}()
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

// wait waits for all, and returns what failed.
func (r *removals) wait() error {
	r.mu.Lock()
	all := make([]chan struct{}, 0, len(r.done))
	for _, done := range r.done {
		all = append(all, done)
	}
	r.mu.Unlock()
	for _, done := range all {
		<-done
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return errors.Join(r.errs...)
}
