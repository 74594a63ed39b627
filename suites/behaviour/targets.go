// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"context"
	"sync"
	"time"

	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
)

// afterGone is how long the direct streams to an instance that is gone go on:
// they show that nothing answers at its address any more, and what it is that
// does not.
const afterGone = 4 * time.Second

// Targets are the instances of a scenario that have streams of their own. The
// zero value has none.
type Targets struct {
	mu      sync.Mutex
	streams map[string][]flow.Stream // their names, by the instance's UID
}

// Claim is true for the first who asks for an instance that has no streams yet:
// it is to begin them.
func (t *Targets) Claim(uid string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, there := t.streams[uid]
	if !there {
		t.set(uid, nil)
	}
	return !there
}

// Add takes down those of some streams that go to an instance itself.
func (t *Targets) Add(streams ...load.Stream) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range streams {
		if uid := s.Name.Target(); uid != "" && s.Profile.Path == flow.Direct {
			t.set(uid, append(t.streams[uid], s.Name))
		}
	}
}

// set is called with the lock held.
func (t *Targets) set(uid string, names []flow.Stream) {
	if t.streams == nil {
		t.streams = map[string][]flow.Stream{}
	}
	t.streams[uid] = names
}

// Gone has the streams to an instance that went stopped, some time later. It
// waits for that, or for the end of ctx.
func (t *Targets) Gone(ctx context.Context, uid string, stop func(ctx context.Context, names ...flow.Stream) error) error {
	t.mu.Lock()
	names := t.streams[uid]
	delete(t.streams, uid)
	t.mu.Unlock()
	if len(names) == 0 {
		return nil
	}
	wait := time.NewTimer(afterGone)
	defer wait.Stop()
	select {
	case <-wait.C:
	case <-ctx.Done():
		return nil
	}
	if err := stop(ctx, names...); ctx.Err() == nil {
		return err
	}
	return nil
}
