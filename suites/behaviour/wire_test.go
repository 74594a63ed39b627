// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"errors"
	"net/netip"
	"slices"
	"testing"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/fixtures/wire"
)

// Each connection between pods of the mesh is told of once, and how each side of a tunnel ends; what strangers say is not.
func TestWire(t *testing.T) {
	const a, tunnel, plain, service, stranger = "10.0.0.1:40000", "10.0.0.2:15008", "10.0.0.2:8080", "10.96.0.9:8080", "10.0.0.7:40000"
	at := netip.MustParseAddrPort
	segment := func(from, to string, set func(*wire.Segment)) wire.Segment {
		s := wire.Segment{From: at(from), To: at(to)}
		set(&s)
		return s
	}
	begins := func(s *wire.Segment) { s.Begins = true }
	ends := func(s *wire.Segment) { s.Ends = true }
	resets := func(s *wire.Segment) { s.Ends, s.Resets = true, true }
	says := func(s *wire.Segment) { s.Payload = 1 }

	meshed := func(ip netip.Addr) bool { return ip == at(a).Addr() || ip == at(tunnel).Addr() }
	var told []string
	w := NewWire(func(e timeline.Event) {
		told = append(told, string(e.Kind)+" "+e.Attrs["what"]+e.Attrs["why"]+" "+e.Attrs["from"]+" "+e.Attrs["to"])
	}, meshed, func(ip netip.Addr) bool { return meshed(ip) || ip == at(service).Addr() })
	w.Watched()
	for _, s := range []wire.Segment{
		segment(a, tunnel, begins), segment(a, tunnel, begins), // it was sent again
		segment(a, tunnel, says), // of a tunnel that is nothing
		segment(tunnel, a, ends), segment(a, tunnel, ends), segment(a, tunnel, ends),
		segment(tunnel, a, resets),
		segment(stranger, tunnel, begins), segment(tunnel, stranger, ends), segment(stranger, plain, says),
		segment(a, plain, begins), segment(a, plain, says), segment(plain, a, says), segment(a, plain, ends),
		segment(a, service, begins),
		segment("10.0.0.1:40001", tunnel, ends), // whose begin nobody saw
		segment("10.0.0.2:15012", stranger, says), segment(stranger, "10.0.0.2:40000", says),
		segment("10.0.0.2:8081", "10.0.0.1:40002", says), // where a Service's address had been dialled
	} {
		w.See(s)
	}
	w.Over(nil)
	w.Over(errors.New("2 of 9 packets were missed"))
	want := []string{
		"marker " + assertions.MarkWire + "  ",
		"wire dialled " + a + " " + tunnel, "wire ended " + tunnel + " " + a, "wire ended " + a + " " + tunnel, "wire reset " + tunnel + " " + a,
		"wire dialled " + a + " " + plain, "wire said " + a + " " + plain, "wire said " + plain + " " + a,
		"wire dialled " + a + " " + service,
		"wire said 10.0.0.2:8081 10.0.0.1:40002",
		"watch.gap 2 of 9 packets were missed  ",
	}
	if !slices.Equal(told, want) {
		t.Errorf("told\n%q\nwant\n%q", told, want)
	}
}
