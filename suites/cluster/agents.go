// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load/control"
)

// agent is one agent of ours whose history is being followed.
type agent struct {
	*control.Attached

	name string
}

// follow is control.Attach for an agent of a name.
func follow(ctx context.Context, name, addr string, dial control.DialFunc, cred control.Credentials,
	emit func(timeline.Record, time.Duration), lost func(error),
) (*agent, error) {
	a, err := control.Attach(ctx, addr, dial, cred, emit, lost)
	if err != nil {
		return nil, fmt.Errorf("the agent %s: %w", name, err)
	}
	return &agent{a, name}, nil
}

// catchUp waits until everything that the agent recorded has arrived. Of an
// agent that was lost nothing more comes.
func (a *agent) catchUp(ctx context.Context) error {
	if err := a.Rest(ctx); err != nil {
		return fmt.Errorf("the tail of agent %s: %w", a.name, err)
	}
	return nil
}

// router gives the records of agents that all scenarios share to the sink of
// the scenario that the pod belongs to. What comes before its pod is known
// waits for it.
type router struct {
	mu      sync.Mutex
	sinks   map[string]sink
	waiting map[string][]held
}

type sink interface {
	Emit(r timeline.Record, offset time.Duration)
}

type held struct {
	r      timeline.Record
	offset time.Duration
}

func newRouter() *router {
	return &router{sinks: map[string]sink{}, waiting: map[string][]held{}}
}

// own says that a pod belongs to a sink.
func (r *router) own(uid string, s sink) {
	r.mu.Lock()
	early := r.waiting[uid]
	delete(r.waiting, uid)
	r.sinks[uid] = s
	r.mu.Unlock()
	for _, h := range early {
		s.Emit(h.r, h.offset)
	}
}

// disown forgets the pods of a sink whose recording has ended.
func (r *router) disown(s sink) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for uid, have := range r.sinks {
		if have == s {
			// What still comes of it is for nobody.
			r.sinks[uid] = nobody{}
		}
	}
}

// pods are those that belong to a sink, or did.
func (r *router) pods() map[string]bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := map[string]bool{}
	for uid := range r.sinks {
		out[uid] = true
	}
	return out
}

type nobody struct{}

func (nobody) Emit(timeline.Record, time.Duration) {}

func (r *router) emit(rec timeline.Record, offset time.Duration) {
	// Of a node, and of whatever stands there: that it starved, or that its witness is blind from now on.
	if e := rec.Event; e != nil && (e.Kind == timeline.NodeStarved || e.Kind == timeline.WatchGap && e.Subject == "witness") {
		r.all(rec, offset)
		return
	}
	uid := podOf(rec)
	r.mu.Lock()
	s, ok := r.sinks[uid]
	if !ok {
		r.waiting[uid] = append(r.waiting[uid], held{rec, offset})
	}
	r.mu.Unlock()
	if ok {
		s.Emit(rec, offset)
	}
}

// all gives a record to every sink.
func (r *router) all(rec timeline.Record, offset time.Duration) {
	r.mu.Lock()
	seen := map[sink]bool{}
	for _, s := range r.sinks {
		seen[s] = true
	}
	r.mu.Unlock()
	for s := range seen {
		s.Emit(rec, offset)
	}
}

func podOf(r timeline.Record) string {
	switch {
	case r.Event != nil:
		return r.Event.Subject
	case r.Entry != nil:
		return r.Entry.Pod
	case r.Sample != nil: // of what an app sends out itself, as is a frame
		return r.Sample.Stream.Target()
	case r.Frame != nil:
		return r.Frame.Stream.Target()
	default:
		return ""
	}
}
