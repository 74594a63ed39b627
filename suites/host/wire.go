// SPDX-License-Identifier: Apache-2.0

package host

import (
	"net/netip"
	"slices"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/fixtures/bench"
	"github.com/lastcall-dev/lastcall/fixtures/meshapi"
	"github.com/lastcall-dev/lastcall/fixtures/redirect"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
)

// watchWire has the recording told of what pods of its mesh say to each other, and to the Services' own
// addresses, as the node's wire has it. Nobody answers at these: what goes there has left its pod as the app
// sent it, past whoever resolves a Service.
func (m *meshed) watchWire() error {
	if m.wired {
		return nil
	}
	m.wired = true
	services := map[string]bool{}
	for _, ip := range m.services {
		all, err := m.bench.addresses(ip)
		if err != nil {
			return err
		}
		for _, a := range all {
			services[a] = true
		}
	}
	told := map[wired]bool{}
	wait, err := m.bench.network.Watch(m.ctx, func(s bench.Segment) {
		for _, w := range wiredBy(s) {
			var ours bool
			switch {
			case told[w]: // which spares looking anybody up
			case w.ends(): // what was told to begin, whether discovery has its pods yet or not
				ours = told[wired{timeline.WireDialled, s.From, s.To}] || told[wired{timeline.WireDialled, s.To, s.From}]
			default:
				ours = m.enrolled(s.From.Addr()) && (services[s.To.Addr().String()] || m.enrolled(s.To.Addr()))
			}
			if !ours {
				continue
			}
			told[w] = true
			m.sink.Event(timeline.Event{Source: node, Kind: timeline.Wire, Node: node, Attrs: map[string]string{
				"what": w.what, "from": w.from.String(), "to": w.to.String(),
			}})
		}
	})
	if err != nil {
		return err
	}
	m.sink.Event(timeline.Event{Source: node, Kind: timeline.Marker, Node: node, Attrs: map[string]string{"what": assertions.MarkWire}})
	m.tasks.Go(func() {
		if err := wait(); err != nil {
			m.sink.Event(timeline.Event{Source: node, Kind: timeline.WatchGap, Subject: "wire", Name: node, Attrs: map[string]string{"why": err.Error()}})
		}
	})
	return nil
}

// tunnelsAlone says whether all that is sent to pods of the recording goes in tunnels: the wire tells of their begins and
// ends, and has little else to be looked at.
func (m *meshed) tunnelsAlone() bool {
	return !slices.ContainsFunc(m.scenario.Traffic, func(p load.Profile) bool { return p.Path.PerPod() && p.Protocol != flow.HBONE })
}

// wired is what is told once of a connection, in one direction.
type wired struct {
	what     string
	from, to netip.AddrPort
}

// ends says whether it is the end of a connection.
func (w wired) ends() bool { return w.what == timeline.WireEnded || w.what == timeline.WireReset }

// wiredBy is what a segment may be the first to show.
func wiredBy(s bench.Segment) []wired {
	var out []wired
	if s.Begins {
		out = append(out, wired{timeline.WireDialled, s.From, s.To})
	}
	switch tunnel := s.From.Port() == redirect.TunnelPort || s.To.Port() == redirect.TunnelPort; {
	case tunnel && s.Resets:
		out = append(out, wired{timeline.WireReset, s.From, s.To})
	case tunnel && s.Ends:
		out = append(out, wired{timeline.WireEnded, s.From, s.To})
	case !tunnel && s.Payload > 0:
		out = append(out, wired{timeline.WireSaid, s.From, s.To})
	}
	return out
}

// enrolled says whether discovery has an address in the mesh.
func (m *meshed) enrolled(a netip.Addr) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, pod := range m.pods {
		for _, ip := range pod.Status.PodIPs {
			if ip.IP == a.String() && pod.Annotations[meshapi.DataplaneAnnotation] != "" {
				return true
			}
		}
	}
	return false
}
