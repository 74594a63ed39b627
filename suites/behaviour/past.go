// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/fixtures/redirect"
	"github.com/lastcall-dev/lastcall/load/flow"
)

// past is why a behaviour's own requests show nothing of a sidecar: see the function. Strangers come past it as
// they are meant to, and a control asks whether clients see a death, whoever stands between.
func (r recording) past(b Behaviour) string {
	if r.meta.Scenario.Control || r.meta.Scenario.Topology.Strangers {
		return ""
	}
	var own []flow.Path
	for _, p := range b.Traffic {
		own = append(own, p.Path)
	}
	return past(r.scene, own)
}

// past says that what reached an app on some paths, before anything was disturbed, came past the sidecar that its
// vendor put beside it, or that nothing at all shows that it came through; "" otherwise, and where there is
// no such sidecar. One that carries what comes in alone leaves what goes out to itself. Of the suite's own mesh
// another thing shows it: see untunnelled. Who passes a connection on has another one to the app
// (timeline.Sample.Relayed). Clients outside of the cluster show nothing: a node changes their address on the way.
// It leaves that of a pod's to a Service alone.
func past(c assertions.Case, own []flow.Path) string {
	sidecar := c.Beside()
	if sidecar == "" {
		return untunnelled(c, own)
	}
	through := 0
	straight := map[flow.Path]int{}
	for i := range c.Timeline.Samples {
		s := &c.Timeline.Samples[i]
		path := s.Stream.Flow().Path
		switch {
		case path.Outside(), s.Server == "", c.Disturbed != 0 && s.Start >= c.Disturbed:
		case s.Relayed:
			through++
		case slices.Contains(own, path):
			straight[path]++
		}
	}
	for _, path := range slices.Sorted(maps.Keys(straight)) {
		return fmt.Sprintf("%d requests (%s) before anything was disturbed came past the sidecar %s, on the client's own connection, and %d in all through it", straight[path], path, sidecar, through)
	}
	if through == 0 {
		return fmt.Sprintf("no request shows that it came through the sidecar %s: none was answered before anything was disturbed whose two ends are known", sidecar)
	}
	return ""
}

// untunnelled says that nothing shows that the clients of an app in the suite's own mesh came through
// that: no tunnel of theirs stood before anything was disturbed. "" where one did, and where nobody
// asked an app in a mesh on one of some paths. The stage looks for their sockets (timeline.Sockets).
func untunnelled(c assertions.Case, own []flow.Path) string {
	meshed := slices.ContainsFunc(c.Timeline.EventsOf(timeline.Marker, ""), func(e timeline.Event) bool {
		return e.Attrs["what"] == assertions.MarkSubject && assertions.Role(e.Attrs["role"]).Meshed()
	})
	before := func(s timeline.Sample) bool {
		f := s.Stream.Flow()
		return (f.Path == flow.Direct || f.Path == flow.Service) && slices.Contains(own, f.Path) && !f.Protocol.Tunnels() && !s.Failed() && (c.Disturbed == 0 || s.Start < c.Disturbed)
	}
	if !meshed || !slices.ContainsFunc(c.Timeline.Samples, before) {
		return ""
	}
	for _, e := range c.Timeline.EventsOf(timeline.Sockets, "") {
		_, port, err := net.SplitHostPort(e.Attrs["peer"])
		stands := func(s timeline.Socket) bool { return s.State == "established" }
		if err == nil && port == strconv.Itoa(redirect.TunnelPort) && (c.Disturbed == 0 || e.At < c.Disturbed) && slices.ContainsFunc(e.Held(), stands) {
			return ""
		}
	}
	return "nothing shows that the clients came through the mesh: no tunnel of theirs was seen before anything was disturbed"
}
