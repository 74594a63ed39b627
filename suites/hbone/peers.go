// SPDX-License-Identifier: Apache-2.0

package hbone

import (
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load/flow"
)

// What stands here is about the other end of tunnels, that which opens them: its app dials peers of
// the suite's own, which misbehave (load/peer), and what these saw is beside what became of the app's
// connections.

// saw is what a peer did or saw of some kinds, by time.
func saw(c assertions.Case, path flow.Path, what ...string) []timeline.Event {
	var out []timeline.Event
	for _, e := range c.Timeline.EventsOf(timeline.PeerSaw, string(path)) {
		for _, w := range what {
			if e.Attrs["what"] == w {
				out = append(out, e)
			}
		}
	}
	return out
}

// began is when a peer began to misbehave. That it never did is a doubt.
func began(y *assertions.Tally, c assertions.Case, path flow.Path) (time.Duration, bool) {
	for _, e := range saw(c, path, timeline.PeerBegan) {
		return e.At, true
	}
	y.Doubt("the peer %s never said that it began to misbehave", path)
	return 0, false
}

// dialled are the connections of apps to a peer, in the order of their ends.
func dialled(c assertions.Case, path flow.Path) []timeline.Sample {
	var out []timeline.Sample
	for _, s := range c.Timeline.Samples {
		if s.Stream.Flow().Path == path {
			out = append(out, s)
		}
	}
	return out
}

// since says when something was on the clock of a peer's misbehaviour.
func since(at, began time.Duration) string {
	return "misbehaviour + " + (at - began).Round(time.Millisecond).String()
}
