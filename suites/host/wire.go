// SPDX-License-Identifier: Apache-2.0

package host

import (
	"net/netip"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/fixtures/bench"
	"github.com/lastcall-dev/lastcall/fixtures/meshapi"
	"github.com/lastcall-dev/lastcall/fixtures/redirect"
)

// watchWire has the recording told of what pods of its mesh say to each other, as the node's wire has
// it.
func (m *meshed) watchWire() error {
	told := map[wired]bool{}
	wait, err := m.bench.network.Watch(m.ctx, func(s bench.Segment) {
		for _, w := range wiredBy(s) {
			if !told[w] && m.enrolled(s.From.Addr(), s.To.Addr()) {
				told[w] = true
				m.sink.Event(timeline.Event{Source: node, Kind: timeline.Wire, Node: node, Attrs: map[string]string{
					"what": w.what, "from": w.from.String(), "to": w.to.String(),
				}})
			}
		}
	})
	if err != nil {
		return err
	}
	m.tasks.Go(func() {
		if err := wait(); err != nil {
			m.sink.Event(timeline.Event{Source: node, Kind: timeline.WatchGap, Subject: "wire", Name: node, Attrs: map[string]string{"why": err.Error()}})
		}
	})
	return nil
}

// wired is what is told once of a connection, in one direction.
type wired struct {
	what     string
	from, to netip.AddrPort
}

// wiredBy is what a segment may be the first to show.
func wiredBy(s bench.Segment) []wired {
	var out []wired
	if s.Begins {
		out = append(out, wired{timeline.WireDialled, s.From, s.To})
	}
	if s.Payload > 0 && s.From.Port() != redirect.TunnelPort && s.To.Port() != redirect.TunnelPort {
		out = append(out, wired{timeline.WireSaid, s.From, s.To})
	}
	return out
}

// enrolled says whether discovery has all of some addresses in the mesh.
func (m *meshed) enrolled(all ...netip.Addr) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	is := map[string]bool{}
	for _, pod := range m.pods {
		for _, ip := range pod.Status.PodIPs {
			is[ip.IP] = pod.Annotations[meshapi.DataplaneAnnotation] != ""
		}
	}
	for _, a := range all {
		if !is[a.String()] {
			return false
		}
	}
	return true
}
