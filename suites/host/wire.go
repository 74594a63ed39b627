// SPDX-License-Identifier: Apache-2.0

package host

import (
	"net/netip"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/fixtures/meshapi"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
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
	tell := func(e timeline.Event) {
		e.Source, e.Node = node, node
		m.sink.Event(e)
	}
	w := behaviour.NewWire(tell, m.enrolled, func(a netip.Addr) bool { return services[a.String()] || m.enrolled(a) })
	wait, err := m.bench.network.Watch(m.ctx, w.See)
	if err != nil {
		return err
	}
	w.Watched()
	m.tasks.Go(func() { w.Over(wait()) })
	return nil
}

// enrolled says whether discovery has an address in the mesh.
func (m *meshed) enrolled(a netip.Addr) bool {
	text := a.String()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, pod := range m.pods {
		for _, ip := range pod.Status.PodIPs {
			if ip.IP == text && pod.Annotations[meshapi.DataplaneAnnotation] != "" {
				return true
			}
		}
	}
	return false
}
