// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"sync"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/probe"
)

// outside are the clients outside the cluster: streams of this very process,
// whose clock is the timeline's own.
type outside struct {
	ctx  context.Context
	emit func(timeline.Sample)

	mu      sync.Mutex
	handles []load.Handle
}

// start begins streams.
func (o *outside) start(streams ...load.Stream) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, s := range streams {
		h, err := probe.Generator{}.Start(o.ctx, s, o.emit)
		if err != nil {
			return err
		}
		o.handles = append(o.handles, h)
	}
	return nil
}

// stop ends the pacing of all streams, and returns when nothing is in flight.
func (o *outside) stop(ctx context.Context) error {
	o.mu.Lock()
	handles := o.handles
	o.handles = nil
	o.mu.Unlock()
	for _, h := range handles {
		h.Stop()
	}
	for _, h := range handles {
		select {
		case <-h.Done():
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}
