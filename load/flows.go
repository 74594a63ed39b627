// SPDX-License-Identifier: Apache-2.0

package load

import (
	"context"
	"sync"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load/flow"
)

// Flows are streams of this very process, whose clock is the timeline's own.
type Flows struct {
	ctx  context.Context
	kill context.CancelCauseFunc
	gen  Generator
	emit func(timeline.Record)

	mu      sync.Mutex
	handles map[flow.Stream]Handle
}

// NewFlows makes a set with nothing in it. The end of ctx kills what runs in
// it, and emit takes what its streams see, from many goroutines.
func NewFlows(ctx context.Context, gen Generator, emit func(timeline.Record)) *Flows {
	f := &Flows{gen: gen, emit: emit, handles: map[flow.Stream]Handle{}}
	f.ctx, f.kill = context.WithCancelCause(ctx)
	return f
}

// Start begins streams.
func (f *Flows) Start(streams ...Stream) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range streams {
		h, err := f.gen.Start(f.ctx, s, f.emit)
		if err != nil {
			return err
		}
		f.handles[s.Name] = h
	}
	return nil
}

// Stop ends the pacing of the streams of those names, of all where there is
// none, and returns when nothing of them is in flight.
func (f *Flows) Stop(ctx context.Context, names ...flow.Stream) error {
	f.mu.Lock()
	var handles []Handle
	if len(names) == 0 {
		for name := range f.handles {
			names = append(names, name)
		}
	}
	// They stay in the set until they are done: whoever stops all of them waits
	// for those too that somebody else has stopped.
	for _, name := range names {
		if h := f.handles[name]; h != nil {
			handles = append(handles, h)
		}
	}
	f.mu.Unlock()
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
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, name := range names {
		delete(f.handles, name)
	}
	return nil
}

// GiveUp kills what runs, as ErrGivenUp has it, and returns when what became of it is told; ctx bounds that.
func (f *Flows) GiveUp(ctx context.Context) error {
	f.kill(ErrGivenUp)
	return f.Stop(ctx)
}
