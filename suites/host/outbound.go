// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/fixtures/bench/names"
	"github.com/lastcall-dev/lastcall/fixtures/disrupt"
	"github.com/lastcall-dev/lastcall/fixtures/host"
	"github.com/lastcall-dev/lastcall/fixtures/system"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
)

// openPeer puts up whom the instances dial, where they dial anybody, and says what they are to do, as
// the reference app takes it. ended is what the instances are made of.
func (m *meshed) openPeer(ctx context.Context, ended host.Config) (string, error) {
	flows, own := m.scenario.Calls(), []load.Profile(nil)
	if len(flows) == 0 {
		return "", nil
	}
	flows = slices.DeleteFunc(flows, func(p load.Profile) bool {
		if p.Path.ToPeer() {
			own = append(own, p)
		}
		return p.Path.ToPeer()
	})
	streams, err := m.openPeers(ctx, ended, own)
	if err != nil {
		return "", err
	}
	if len(flows) > 0 {
		some, err := m.openStanding(ctx, ended, flows)
		if err != nil {
			return "", err
		}
		streams = append(streams, some...)
	}
	text, err := json.Marshal(streams)
	return string(text), err
}

// openStanding puts up the app that stays, for the flows that go to its Service.
func (m *meshed) openStanding(ctx context.Context, ended host.Config, flows []load.Profile) ([]load.Stream, error) {
	peer := *m.subject.System
	peer.Metadata.Name = behaviour.CallPeer
	cfg := ended
	cfg.System, cfg.Replicas, cfg.Dir, cfg.Rendered, cfg.Emit = &peer, 1, filepath.Join(ended.Dir, behaviour.CallPeer), "", m.aside
	cfg.Pods = m.in(m.beside(behaviour.CallPeer))
	if m.losesNode() || m.restartsInPlace() { // what is sent there passes the nodes' wire, and needs no proxy that is away
		cfg.Pods.Node = func(int) int { return m.clientNode() }
	}
	cfg.Place.MinDrain, cfg.Place.Unready, cfg.Place.Timeout, cfg.Place.Grace = backendDrain, backendDrain, backendDeadline, backendGrace
	cfg.Place.Form, cfg.Place.Fault, cfg.Place.PreStop, cfg.Place.AtZero = system.Native, "", false, false
	cfg.Place.Validity, cfg.Place.Late = 0, 0
	var err error
	if m.stands, err = host.Open(ctx, cfg); err != nil {
		return nil, fmt.Errorf("whom the instances dial: %w", err)
	}
	var streams []load.Stream
	for _, p := range flows {
		if p.Op == flow.Lookup {
			streams = append(streams, m.lookup(p))
			continue
		}
		to := m.services[behaviour.CallPeer]
		if m.unenrols() || m.losesNode() { // nobody but the mesh resolves a Service here
			to = m.stands.Instances()[0].Backend().Address
		}
		streams = append(streams, m.stream(p, "", to, m.subject.Ports[behaviour.PortOf(p.Protocol)]))
	}
	return streams, nil
}

// lookup asks the node's name server for whom the others dial.
func (m *meshed) lookup(p load.Profile) load.Stream {
	nodes := m.bench.network.Stack().Gateways()
	s := m.stream(p, "", nodes[0].String(), names.Port)
	s.Query, s.IPv6 = behaviour.ServiceName(behaviour.CallPeer, m.namespace), strings.Contains(m.services[behaviour.CallPeer], ":")
	return s
}

// aside takes what happens to whom the instances dial.
func (m *meshed) aside(e timeline.Event) {
	if m.ctx.Err() == nil {
		if err := m.follow(e); err != nil {
			m.lost("discovery's folder", err)
		}
		if told, is := ofPeer(e); is {
			m.sink.Emit(timeline.Record{Event: &told}, 0)
		}
	}
	m.backstage(e)
}

// ofPeer is an event of an endpoint of the Service of whom the instances dial, under its name, as a watch tells it: a
// fleet's own are of what is ended.
func ofPeer(e timeline.Event) (told timeline.Event, is bool) {
	if e.Kind != timeline.Endpoint && e.Kind != timeline.EndpointGone {
		return e, false
	}
	e.Attrs = maps.Clone(e.Attrs)
	e.Attrs["service"] = behaviour.CallPeer
	return e, true
}

// beginCalls has the instances begin what they send out, and looks at their tunnels.
func (m *meshed) beginCalls() error {
	if len(m.scenario.Calls()) == 0 {
		return nil
	}
	m.callers = nil
	for nth, i := range m.fleet.Instances() {
		if m.scenario.Caller(nth) {
			m.callers = append(m.callers, i)
		}
	}
	for _, i := range m.callers {
		if m.stands != nil {
			m.tasks.Go(func() { m.look(i.UID(), i.Name(), i.Sockets, m.tunnels(m.stands)) })
		}
		if err := i.Signal(behaviour.CallsBegin); err != nil {
			return fmt.Errorf("what %s sends out (SIG%s): %w", i.Name(), behaviour.CallsBegin, err)
		}
	}
	return nil
}

// endCalls ends what the instances that are left send out, and waits until it has ended.
func (m *meshed) endCalls(ctx context.Context) error {
	if len(m.callers) == 0 {
		return nil
	}
	for _, i := range m.fleet.Instances() {
		// Those that came meanwhile have begun some where they need no word for it.
		if slices.Contains(m.callers, i) || m.scenario.Topology.Late > 0 || m.losesNode() {
			_ = i.Signal(behaviour.CallsEnd) // one that is gone has ended it
		}
	}
	return disrupt.Pause(ctx, m.scenario.CallsLast())
}
