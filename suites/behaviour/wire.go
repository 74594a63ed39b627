// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"net/netip"
	"slices"
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/fixtures/redirect"
	"github.com/lastcall-dev/lastcall/fixtures/wire"
)

// Wire has a recording told of what pods of its mesh say to each other, as their nodes have it: of each connection once that it
// was made, of a tunnel how each side ended it, and of what is in none that something was said (timeline.Wire).
type Wire struct {
	tell     func(timeline.Event)
	from, to func(netip.Addr) bool
	told     map[wired]bool
	// ahead is what was read of connections whose begin is not told, and when it passed: each node's wire is read by itself, and
	// one that has a busy reader behind the others.
	ahead map[wired][]time.Duration
}

// NewWire tells of what begins from some addresses to some, and of what is said between these last.
func NewWire(tell func(timeline.Event), from, to func(netip.Addr) bool) *Wire {
	return &Wire{tell: tell, from: from, to: to, told: map[wired]bool{}, ahead: map[wired][]time.Duration{}}
}

// Watched tells that somebody looks from now on.
func (w *Wire) Watched() {
	w.tell(timeline.Event{Kind: timeline.Marker, Attrs: map[string]string{"what": assertions.MarkWire}})
}

// wireGap is the subject of what was missed, which assertions.Tally.SeenWire looks for.
const wireGap = "wire"

// Over tells of what was missed, where something was.
func (w *Wire) Over(missed error) {
	if missed != nil {
		w.tell(timeline.Event{Kind: timeline.WatchGap, Subject: wireGap, Name: wireGap, Attrs: map[string]string{"why": missed.Error()}})
	}
}

// See takes a segment. It is called by one at a time, some ten thousand times a second where connections are a millisecond apart.
func (w *Wire) See(s wire.Segment) {
	if s.Begins {
		w.shows(wired{timeline.WireDialled, s.From, s.To}, s.At)
	}
	switch tunnel := s.From.Port() == redirect.TunnelPort || s.To.Port() == redirect.TunnelPort; {
	case tunnel && s.Resets:
		w.shows(wired{timeline.WireReset, s.From, s.To}, s.At)
	case tunnel && s.Ends:
		w.shows(wired{timeline.WireEnded, s.From, s.To}, s.At)
	case !tunnel && s.Payload > 0:
		w.shows(wired{timeline.WireSaid, s.From, s.To}, s.At)
	}
}

// shows tells of what a segment that passed at an instant may be the first to show.
func (w *Wire) shows(is wired, at time.Duration) {
	switch {
	case w.told[is]:
		return
	case !w.ours(is):
		if is.what != timeline.WireDialled && len(w.ahead[is]) < aheadMost {
			w.ahead[is] = append(w.ahead[is], at)
		}
		return
	}
	w.told[is] = true
	w.tell(timeline.Event{Kind: timeline.Wire, At: at, Attrs: map[string]string{
		"what": is.what, "from": is.from.String(), "to": is.to.String(),
	}})
	if is.what != timeline.WireDialled {
		return
	}
	for _, what := range []string{timeline.WireSaid, timeline.WireEnded, timeline.WireReset} {
		for _, one := range []wired{{what, is.from, is.to}, {what, is.to, is.from}} {
			all := w.ahead[one]
			delete(w.ahead, one)
			// What passed before is of a connection that had the same addresses.
			if i := slices.IndexFunc(all, func(passed time.Duration) bool { return passed >= at }); i >= 0 {
				w.shows(one, all[i])
			}
		}
	}
}

// aheadMost is how many segments of a kind are kept of addresses whose connection's begin is not told: some that were sent again, and of
// a connection before.
const aheadMost = 8

// ours says whether it is told of: what begins between the addresses that count; what was told to begin, whether its pods are
// known yet or not; and what is said of which nobody saw the begin.
func (w *Wire) ours(is wired) bool {
	from, to := is.from.Addr(), is.to.Addr()
	if is.what == timeline.WireDialled {
		return w.from(from) && w.to(to)
	}
	begun := w.told[wired{timeline.WireDialled, is.from, is.to}] || w.told[wired{timeline.WireDialled, is.to, is.from}]
	return begun || is.what == timeline.WireSaid && w.to(from) && w.to(to)
}

// wired is what is told once of a connection, in one direction.
type wired struct {
	what     string
	from, to netip.AddrPort
}
