// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load/control"
)

// agent is one agent of ours whose history is being followed.
type agent struct {
	*control.Client
	name   string
	cancel context.CancelFunc
	done   chan struct{}
}

// follow dials an agent and hands its records to emit until stop. lost is
// called when its history ends before that.
func follow(ctx context.Context, name, addr string, dial control.DialFunc, cred control.Credentials,
	emit func(timeline.Record, time.Duration), lost func(error),
) (*agent, error) {
	dialCtx, cancelDial := context.WithTimeout(ctx, agentBudget)
	defer cancelDial()
	client, err := control.Dial(dialCtx, addr, dial, cred)
	if err != nil {
		return nil, fmt.Errorf("the agent %s: %w", name, err)
	}
	// The history is followed past the end of the run's context, so that
	// what was recorded when somebody pressed Ctrl-C still arrives.
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	a := &agent{Client: client, name: name, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(a.done)
		err := client.Follow(ctx, func(r timeline.Record) error {
			offset, uncertainty := client.Offset()
			if r.Event != nil {
				r.Event.Err = max(r.Event.Err, uncertainty)
			}
			emit(r, offset)
			return nil
		})
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			err = errors.New("it ended its history")
		}
		lost(err)
	}()
	return a, nil
}

// catchUpBudget is how long the rest of an agent's history may take.
const catchUpBudget = time.Minute

// catchUp waits until everything that the agent recorded has arrived. Of an
// agent that was lost nothing more comes.
func (a *agent) catchUp(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, catchUpBudget, fmt.Errorf("not within %s", catchUpBudget))
	defer cancel()
	ctx, lost := context.WithCancelCause(ctx)
	defer lost(nil)
	go func() {
		select {
		case <-a.done:
			lost(errors.New("it was lost"))
		case <-ctx.Done():
		}
	}()
	if err := a.CatchUp(ctx); err != nil {
		return fmt.Errorf("the tail of agent %s: %w", a.name, err)
	}
	return nil
}

func (a *agent) close() {
	a.cancel()
	<-a.done
	a.Client.Close()
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
func (r *router) all(rec timeline.Record) {
	r.mu.Lock()
	seen := map[sink]bool{}
	for _, s := range r.sinks {
		seen[s] = true
	}
	r.mu.Unlock()
	for s := range seen {
		s.Emit(rec, 0)
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
