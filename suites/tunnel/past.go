// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"net"
	"strconv"
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/fixtures/redirect"
)

// Takes says whether an address (host:port) is one at which tunnels are taken.
func Takes(addr string) bool {
	_, port, err := net.SplitHostPort(addr)
	return err == nil && port == strconv.Itoa(redirect.TunnelPort)
}

// Past tells of all that passed between pods of the mesh without a tunnel, as the nodes' wire has it, in a stretch of time.
func Past(y *assertions.Tally, c assertions.Case, from, to time.Duration) {
	for _, e := range c.Timeline.EventsOf(timeline.Wire, "") {
		if e.At < from || e.At > to || Takes(e.Attrs["from"]) || Takes(e.Attrs["to"]) {
			continue
		}
		what := "a connection was made"
		if e.Attrs["what"] == timeline.WireSaid {
			what = "bytes went in plain text"
		}
		y.Certain(e.At, "", "", "%s from %s to %s", what, e.Attrs["from"], e.Attrs["to"])
	}
	y.SeenWire(c)
}

// Dialled is how many tunnels were dialled in a stretch of time, as the nodes' wire has it.
func Dialled(c assertions.Case, from, to time.Duration) (n int) {
	for _, e := range c.Timeline.EventsOf(timeline.Wire, "") {
		if e.At >= from && e.At <= to && e.Attrs["what"] == timeline.WireDialled && Takes(e.Attrs["to"]) {
			n++
		}
	}
	return n
}
