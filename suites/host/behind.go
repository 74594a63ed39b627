// SPDX-License-Identifier: Apache-2.0

package host

import (
	"os"
	"slices"
	"sync"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/fixtures/disrupt"
	"github.com/lastcall-dev/lastcall/fixtures/host"
)

// letsGoWithin is how long behind a pod's DEL its node is looked at: who has acknowledged that has let go of the pod by then.
const letsGoWithin = time.Second

// departures are pods that may go, by their UIDs, each with its network, which is not another's before it was looked at.
type departures struct {
	mu  sync.Mutex
	all map[string]departure
}

type departure struct {
	of    *host.Instance
	space *os.File
}

// looksBehind says whether the node of a pod that ends is looked at when it is gone: where pods end whose node's proxy outlives
// them.
func (m *meshed) looksBehind() bool {
	return m.byNodes() && m.scenario.Disrupt.Kind == disrupt.Delete
}

// departs opens the networks of the pods that there are.
func (m *meshed) departs() error {
	if !m.looksBehind() {
		return nil
	}
	m.departing.mu.Lock()
	defer m.departing.mu.Unlock()
	m.departing.all = map[string]departure{}
	for _, i := range m.fleet.Instances() {
		space, err := os.Open(i.Network().Namespace())
		if err != nil {
			return err
		}
		m.departing.all[i.UID()] = departure{i, space}
	}
	return nil
}

// lookBehind has a node be looked at when one of them has gone.
func (m *meshed) lookBehind(e timeline.Event) {
	if e.Kind == timeline.CNIDel && m.looksBehind() && m.ctx.Err() == nil {
		m.tasks.Go(func() {
			if err := m.behind(e.Subject); err != nil {
				m.lost("what is left of "+e.Name, err)
			}
		})
	}
}

// behind looks at what a node has of a pod some time behind its DEL, and tells of it.
func (m *meshed) behind(uid string) error {
	m.departing.mu.Lock()
	d, is := m.departing.all[uid]
	delete(m.departing.all, uid)
	m.departing.mu.Unlock()
	if !is {
		return nil
	}
	defer d.space.Close()
	n := m.nodes[slices.IndexFunc(m.nodes, func(n *nodeSide) bool { return n.name == d.of.Node() })]
	if err := disrupt.Pause(m.ctx, letsGoWithin); err != nil {
		return nil // nobody records any more
	}
	attrs, err := n.has(d.space)
	if err == nil && m.ctx.Err() == nil {
		m.sink.Event(timeline.Event{Source: node, Kind: timeline.NodeHolds, Subject: uid, Name: d.of.Name(), Node: n.name, Attrs: attrs})
	}
	return err
}

// close lets go of the networks that nobody has looked at.
func (d *departures) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, one := range d.all {
		_ = one.space.Close()
	}
	d.all = nil
}
