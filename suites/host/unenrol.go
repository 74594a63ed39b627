// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/fixtures/appsockets"
	"github.com/lastcall-dev/lastcall/fixtures/bench"
	"github.com/lastcall-dev/lastcall/fixtures/disrupt"
	"github.com/lastcall-dev/lastcall/fixtures/host"
	"github.com/lastcall-dev/lastcall/fixtures/membership"
	"github.com/lastcall-dev/lastcall/fixtures/nodeagent"
	"github.com/lastcall-dev/lastcall/fixtures/nodeagent/folder"
	"github.com/lastcall-dev/lastcall/fixtures/redirect"
)

// The times of a pod that leaves the mesh and comes back.
const (
	// leftWithin is how long its way out is waited for beside the time that its connections have, and joinedWithin for
	// its way back.
	leftWithin   = 15 * time.Second
	joinedWithin = 15 * time.Second
	// stays is how long it is out, and in again before the end: longer than news takes.
	stays = 5 * time.Second
	// leaveLook is how often it is looked at meanwhile.
	leaveLook = 10 * time.Millisecond
)

// unenrols says whether pods of the recording leave the mesh and come back.
func (m *meshed) unenrols() bool { return m.scenario.Disrupt.Kind == disrupt.Unenrol }

// unenrol takes the first pod of each node out of the mesh while its app lives, waits until it has left, and
// enrols it again.
func (m *meshed) unenrol(ctx context.Context) error {
	return m.toOneOnEach(ctx, "taking %s out of the mesh, and back into it", m.takeOut)
}

func (m *meshed) takeOut(ctx context.Context, i *host.Instance) error {
	m.mu.Lock()
	pod := m.pods[i.UID()]
	m.mu.Unlock()
	n := m.nodeOf(pod)
	space, err := os.Open(i.Network().Namespace())
	if err != nil {
		return err
	}
	defer space.Close()
	is := func(e timeline.Event) {
		e.Source, e.Subject, e.Name, e.Node = node, i.UID(), i.Name(), n.name
		m.sink.Event(e)
	}
	rules := func(until func(redirect.State) bool) func() (bool, error) {
		return func() (bool, error) {
			s, err := redirect.Show(space)
			return until(s), err
		}
	}

	asked := timeline.Monotonic()
	if err := n.enrol(pod, false); err != nil {
		return err
	}
	within := nodeagent.Propagation + nodeagent.LeaveWithin
	leaving := map[string]string{"within": within.String()}
	err = looking(ctx, joinedWithin, "the redirect to go", rules(func(s redirect.State) bool { return !s.Redirects() }))
	at := timeline.Monotonic()
	if err == nil {
		err = m.said(ctx, n, pod, folder.None)
	}
	// What stays is the agent's to answer for, and the recording is sound.
	if err != nil && !disrupt.NotWithin(err) {
		return err
	}
	if err != nil {
		leaving["lacks"] = err.Error()
	}
	is(timeline.Event{At: at, Kind: timeline.MeshLeaving, Err: at - asked, Attrs: leaving})
	gone := rules(func(s redirect.State) bool { return len(s.Rules) == 0 && len(s.Policy) == 0 })
	if err := looking(ctx, within+leftWithin, "the rest of the rules to go", gone); err != nil && !disrupt.NotWithin(err) {
		return err
	}
	held, err := meshHeld(i.Network())
	if err != nil {
		return err
	}
	is(timeline.Event{Kind: timeline.MeshLeft, Attrs: map[string]string{"held": appsockets.Words(held)}})
	if err := disrupt.Pause(ctx, stays); err != nil {
		return err
	}

	is(timeline.Event{Kind: timeline.MeshJoining})
	if err := n.enrol(pod, true); err != nil {
		return err
	}
	err = m.said(ctx, n, pod, folder.Tunnel)
	if err != nil && !disrupt.NotWithin(err) {
		return err
	}
	var joined map[string]string
	if err != nil {
		joined = map[string]string{"lacks": err.Error()}
	}
	is(timeline.Event{Kind: timeline.MeshJoined, Attrs: joined})
	return disrupt.Pause(ctx, stays)
}

// said waits until the agent says what is to be told of a pod, and has discovery tell it.
func (m *meshed) said(ctx context.Context, n *nodeSide, pod *corev1.Pod, what string) error {
	err := looking(ctx, joinedWithin, "the agent to say "+what, func() (bool, error) {
		now, err := n.pods.Said(string(pod.UID))
		return now == what, err
	})
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(pod.Labels, membership.DataplaneLabel)
	if what == folder.Tunnel {
		pod.Labels[membership.DataplaneLabel] = membership.NodeDataplane
	}
	return m.bench.put(fileOf(pod), pod)
}

// looking looks until something is so, more often than disrupt.Await does. What was not so in time is disrupt.NotWithin.
func looking(ctx context.Context, within time.Duration, what string, look func() (bool, error)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, within, disrupt.Late(fmt.Errorf("waiting for %s: not within %s", what, within)))
	defer cancel()
	for {
		if is, err := look(); is || err != nil {
			return err
		}
		if err := disrupt.Pause(ctx, leaveLook); err != nil {
			return err
		}
	}
}

// meshHeld are the sockets in a pod's network that are a proxy's.
func meshHeld(p *bench.Pod) ([]appsockets.Socket, error) {
	all, err := p.Held()
	return slices.DeleteFunc(all, func(s appsockets.Socket) bool { return !redirect.Carries(s.Local, s.Remote, p.Addrs()) }), err
}
