// SPDX-License-Identifier: Apache-2.0

package assertions

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// PushDrainsNothing judges that configuration which changes nothing leaves
// pods, requests and kept connections alone.
func PushDrainsNothing() Check {
	pushed := Floor{Name: "pushes", N: 3, Reason: "pushes are few and each is one act; three, because the second may do what the first did not"}
	newConns := Floor{Name: "new connections offered to the Service in [first push, last push + P]", N: 200}
	reusedConns := Floor{Name: "requests on reused connections offered to the Service in [first push, last push + P]", N: 200}
	keptFloor := Floor{Name: "kept connections followed", N: 16,
		Reason: "a client keeps 16 connections at most in one stream: all of one stream's, or as many of several",
	}
	return Check{
		Name:     "pods, requests and kept connections from the first push of configuration on",
		Expected: "no pod comes, goes, drains or stops being ready, no request fails, and every kept connection that was in use before the first push is in use after the last one",
		Floors:   []Floor{pushed, newConns, reusedConns, keptFloor},
		Judge: func(c Case) spec.Finding {
			var g gather
			pushes := disruptions(c.Timeline, "push")
			g.count(pushed, len(pushes))
			if len(pushes) == 0 {
				return g.conclude("", "")
			}
			first, last := pushes[0].At, pushes[len(pushes)-1].At
			// What a push begins may take longer than P to get there, so all
			// that was recorded after it counts.
			end := c.Tail
			if end == 0 {
				end = lastEvent(c.Timeline)
			}
			g.span(first, end)
			if c.Tail < last+c.P {
				g.doubt("the recording ends before P has passed after the last push")
			}
			if gap := watchGap(c.Timeline, "pods"); gap != "" {
				g.doubt("the watch of pods has a gap: %s", gap)
			}
			g.untouchedPods(c, first, end)
			sent := 0
			for _, s := range c.Timeline.Samples {
				if s.End < first || s.Start > end || Scouts(s) {
					continue
				}
				sent++
				switch {
				case s.Failed():
					g.lost(c, s, "", "push %+.1fs: %s", (s.Start - first).Seconds(), describe(s))
				case s.LastOnConn && onKeptConns(s):
					g.culprit(s.End, "", s.ID, "push %+.1fs: the reply on a kept connection said that it was the last", (s.End - first).Seconds())
				}
			}
			fresh, reused := offered(c.Timeline, first, last+c.P)
			g.count(newConns, fresh)
			kept := g.keptConns(c, first, last, end)
			ofReused, ofKept, untold := reusedConns, keptFloor, ""
			if !c.shows(Lasting) {
				ofReused, ofKept = ofReused.Waived(), ofKept.Waived()
				untold = "; it has no request that lasts, so that on kept connections nothing is asked of it"
			}
			g.count(ofReused, reused)
			g.count(ofKept, kept)
			return g.conclude(
				fmt.Sprintf("%d pushes touched no pod, none of %d requests and none of %d kept connections%s", len(pushes), sent, kept, untold),
				fmt.Sprintf("%s had %s", plural(len(pushes), "push that changed nothing", "pushes that changed nothing"), plural(g.failures(), "effect", "effects")))
		},
	}
}

// untouchedPods judges that no pod of a Deployment came, went, drained or
// stopped being ready.
func (g *gather) untouchedPods(c Case, from, to time.Duration) {
	pods := map[string]string{}
	for _, p := range podsOf(c.Timeline, "", to) {
		pods[p.uid] = p.name
	}
	for _, e := range c.Timeline.Events {
		name, ours := pods[e.Subject]
		if !ours || e.At < from || e.At > to {
			continue
		}
		what := ""
		switch e.Kind {
		case timeline.PodSeen:
			what = "a new pod came"
		case timeline.PodDeletion:
			what = "the pod was deleted"
		case timeline.DrainStart:
			what = "the pod began to drain"
		case timeline.PodReady:
			// A probe that a starved kubelet made too late says the same.
			if e.Attrs["ready"] == "false" {
				g.late(c, e.At, name, "", "push %+.1fs: the pod ceased to be ready", (e.At - from).Seconds())
			}
		case timeline.PodContainer:
			if e.Attrs["state"] == "terminated" {
				what = "a container of the pod ended"
			}
		}
		if what != "" {
			g.culprit(e.At, name, "", "push %+.1fs: %s", (e.At - from).Seconds(), what)
		}
	}
}

// onKeptConns says whether a request's connection is kept for others, and kept whether a flow's
// are: flow.Reused
// and flow.Shared.
func onKeptConns(s timeline.Sample) bool { return kept(s.Stream.Flow()) }
func kept(f flow.Flow) bool              { return f.Conns == flow.Reused || f.Conns == flow.Shared }

// keptConns judges that the kept connections that were in use just before the
// first push are used again after the last: a client uses its pool in turn, where
// it shares none. Until P has passed they may not have had their turn. It says how many
// they were.
func (g *gather) keptConns(c Case, first, last, end time.Duration) int {
	before := map[timeline.Connection]time.Duration{}
	after := map[timeline.Connection]bool{}
	for _, s := range c.Timeline.Samples {
		if s.Stream.Flow().Conns != flow.Reused || Scouts(s) || s.Conn == 0 || s.Failed() || s.Start > end {
			continue
		}
		l := s.On()
		switch {
		case s.Start > last:
			after[l] = true
		case s.Start < first && s.LastOnConn:
			delete(before, l) // over before the push, by its own word
		case s.Start < first && s.Start >= first-c.P:
			before[l] = s.Start
		}
	}
	links := make([]timeline.Connection, 0, len(before))
	for l := range before {
		links = append(links, l)
	}
	slices.SortFunc(links, func(a, b timeline.Connection) int {
		return cmp.Or(cmp.Compare(a.Stream.String(), b.Stream.String()), cmp.Compare(a.Number, b.Number))
	})
	for _, l := range links {
		if !after[l] && end >= last+c.P {
			g.culprit(max(before[l], first), "", "", "%s: connection %d was not used again after the last push: it has ended", l.Stream, l.Number)
		}
	}
	return len(links)
}
