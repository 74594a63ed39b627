// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

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
	var passed time.Duration
	w := NewWire(func(e timeline.Event) {
		if e.Kind == timeline.Wire && e.At != passed {
			t.Errorf("%s passed at %s, and is told of as at %s", e.Attrs, passed, e.At)
		}
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
		passed++
		s.At = passed
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

// Each node's wire is read by itself: the end of a connection may be read before its begin.
func TestWireReadOutOfOrder(t *testing.T) {
	pod, peer := netip.MustParseAddrPort("10.0.0.2:15008"), netip.MustParseAddrPort("10.0.0.1:40000")
	plain := netip.MustParseAddrPort("10.0.0.2:8080")
	stranger := netip.MustParseAddrPort("10.0.0.7:40000")
	begins := func(at time.Duration, from, to netip.AddrPort) wire.Segment {
		return wire.Segment{At: at, From: from, To: to, Begins: true}
	}
	ends := func(at time.Duration, from, to netip.AddrPort) wire.Segment {
		return wire.Segment{At: at, From: from, To: to, Ends: true}
	}
	says := func(at time.Duration, from, to netip.AddrPort) wire.Segment {
		return wire.Segment{At: at, From: from, To: to, Payload: 1}
	}
	resets := func(at time.Duration, from, to netip.AddrPort) wire.Segment {
		return wire.Segment{At: at, From: from, To: to, Ends: true, Resets: true}
	}
	for _, row := range []struct {
		name string
		all  []wire.Segment
		want []string
	}{
		{"its end before its begin", []wire.Segment{ends(3, pod, peer), begins(1, peer, pod), ends(2, peer, pod)}, []string{"1 dialled", "3 ended", "2 ended"}},
		{"its reset before its begin", []wire.Segment{resets(3, pod, peer), begins(1, peer, pod)}, []string{"1 dialled", "3 reset"}},
		{"an answer before its begin", []wire.Segment{says(2, plain, peer), begins(1, peer, plain)}, []string{"1 dialled", "2 said"}},
		{"the end of an earlier one with its addresses", []wire.Segment{ends(1, pod, peer), begins(2, peer, pod), ends(3, pod, peer)}, []string{"2 dialled", "3 ended"}},
		{"its end twice", []wire.Segment{ends(3, pod, peer), ends(4, pod, peer), begins(1, peer, pod), ends(5, pod, peer)}, []string{"1 dialled", "3 ended"}},
		{"the end of what is never told to begin", []wire.Segment{ends(3, pod, stranger), begins(1, stranger, pod), ends(4, pod, peer)}, nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			var told []string
			from := func(ip netip.Addr) bool { return ip == peer.Addr() }
			to := func(ip netip.Addr) bool { return ip == pod.Addr() }
			w := NewWire(func(e timeline.Event) { told = append(told, fmt.Sprintf("%d %s", e.At, e.Attrs["what"])) }, from, to)
			for _, s := range row.all {
				w.See(s)
			}
			if !slices.Equal(told, row.want) {
				t.Errorf("told %q, want %q", told, row.want)
			}
		})
	}
}
