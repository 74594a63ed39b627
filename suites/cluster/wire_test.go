// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"net/netip"
	"testing"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/fixtures/system"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
)

// Of a recording's pods all are in the mesh but our client outside of it, and those that serve the others.
func TestLocate(t *testing.T) {
	for _, role := range []system.Role{system.Sidecar, system.NodeProxy} {
		sys := &system.System{Roles: []system.Role{role}, Cluster: &system.Cluster{NodeProxy: "node-proxy"}}
		g := &ground{system: behaviour.Subject{System: sys}}
		byNodes := role == system.NodeProxy
		for name, want := range map[string]struct {
			ip     string
			meshed bool
		}{
			"echo-5d8-x":      {"10.0.0.1", true},
			probeName:         {"10.0.0.2", true},
			scoutName:         {"10.0.0.3", false},
			"node-proxy-abcd": {"10.0.0.4", !byNodes},
			"node-agent-abcd": {"10.0.0.5", !byNodes},
			"another":         {"10.0.0.6", true},
		} {
			g.locate(timeline.Event{Name: name, Attrs: map[string]string{"ips": "fd00::1:" + want.ip[7:] + " " + want.ip}})
			at := netip.MustParseAddr(want.ip)
			if g.meshedAt.has(at) != want.meshed || g.strangerAt.has(at) == want.meshed {
				t.Errorf("%s, as %s: in the mesh %t", name, role, g.meshedAt.has(at))
			}
		}
		g.locate(timeline.Event{Name: "without", Attrs: map[string]string{"ips": ""}})
	}
}
