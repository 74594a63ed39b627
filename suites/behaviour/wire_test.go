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

func segment(from, to string, set func(*wire.Segment)) wire.Segment {
	s := wire.Segment{From: netip.MustParseAddrPort(from), To: netip.MustParseAddrPort(to)}
	set(&s)
	return s
}

func begins(s *wire.Segment) { s.Begins = true }
func ends(s *wire.Segment)   { s.Ends = true }
func resets(s *wire.Segment) { s.Ends, s.Resets = true, true }
func speaks(s *wire.Segment) { s.Payload = 1 }

// Each connection between pods of the mesh is told of once, and how each side of a tunnel ends; what strangers say is not.
func TestWire(t *testing.T) {
	const a, tunnel, plain, service, stranger = "10.0.0.1:40000", "10.0.0.2:15008", "10.0.0.2:8080", "10.96.0.9:8080", "10.0.0.7:40000"
	at := netip.MustParseAddrPort
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
		segment(a, tunnel, speaks), // of a tunnel that is nothing
		segment(tunnel, a, ends), segment(a, tunnel, ends), segment(a, tunnel, ends),
		segment(tunnel, a, resets),
		segment(stranger, tunnel, begins), segment(tunnel, stranger, ends), segment(stranger, plain, speaks),
		segment(a, plain, begins), segment(a, plain, speaks), segment(plain, a, speaks), segment(a, plain, ends),
		segment(a, service, begins),
		segment("10.0.0.1:40001", tunnel, ends), // whose begin nobody saw
		segment("10.0.0.2:15012", stranger, speaks), segment(stranger, "10.0.0.2:40000", speaks),
		segment("10.0.0.2:8081", "10.0.0.1:40002", speaks), // where a Service's address had been dialled
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
	const pod, peer, plain, stranger = "10.0.0.2:15008", "10.0.0.1:40000", "10.0.0.2:8080", "10.0.0.7:40000"
	passed := func(at time.Duration, from, to string, set func(*wire.Segment)) wire.Segment {
		s := segment(from, to, set)
		s.At = at
		return s
	}
	for _, row := range []struct {
		name string
		all  []wire.Segment
		want []string
	}{
		{"its end before its begin", []wire.Segment{passed(3, pod, peer, ends), passed(1, peer, pod, begins), passed(2, peer, pod, ends)}, []string{"1 dialled", "3 ended", "2 ended"}},
		{"its reset before its begin", []wire.Segment{passed(3, pod, peer, resets), passed(1, peer, pod, begins)}, []string{"1 dialled", "3 reset"}},
		{"an answer before its begin", []wire.Segment{passed(2, plain, peer, speaks), passed(1, peer, plain, begins)}, []string{"1 dialled", "2 said"}},
		{"the end of an earlier one with its addresses", []wire.Segment{passed(1, pod, peer, ends), passed(2, peer, pod, begins), passed(3, pod, peer, ends)}, []string{"2 dialled", "3 ended"}},
		{"the end of an earlier one, and its own, before its begin", []wire.Segment{passed(1, pod, peer, ends), passed(3, pod, peer, ends), passed(2, peer, pod, begins)}, []string{"2 dialled", "3 ended"}},
		{"its end twice", []wire.Segment{passed(3, pod, peer, ends), passed(4, pod, peer, ends), passed(1, peer, pod, begins), passed(5, pod, peer, ends)}, []string{"1 dialled", "3 ended"}},
		{"the end of what is never told to begin", []wire.Segment{passed(3, pod, stranger, ends), passed(1, stranger, pod, begins), passed(4, pod, peer, ends)}, nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			var told []string
			from := func(ip netip.Addr) bool { return ip == netip.MustParseAddrPort(peer).Addr() }
			to := func(ip netip.Addr) bool { return ip == netip.MustParseAddrPort(pod).Addr() }
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
