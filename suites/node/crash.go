// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/fixtures/datapath"
	"github.com/lastcall-dev/lastcall/fixtures/nodeproxy"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
	"github.com/lastcall-dev/lastcall/suites/tunnel"
)

var _ = behaviour.Register(behaviour.Behaviour{
	ID:    "node.crash",
	Title: "A node proxy that is killed takes what stands with it, so that it shows, and new connections fail until the next one serves, and no longer",
	Level: spec.Should,
	Refs: []spec.Ref{{
		Doc: "project", Quote: "Killed without overlap: the gap is bounded and reported.",
	}, {
		Doc: "RFC 9113", Section: "section 8.5", URL: "https://www.rfc-editor.org/rfc/rfc9113#section-8.5",
		Quote: "Correspondingly, a proxy MUST send a TCP segment with the RST bit set if it detects an error with the stream or the HTTP/2 connection.",
	}},
	Profile: spec.Mesh,
	Needs:   []spec.Feature{spec.Services, spec.HBONE, spec.Bench},

	Why:    "Nobody hands over who is killed: for memory, by a bug, or by a node's operator. All apps of the node lose their connections at that instant, and can make none before the next proxy serves them. What counts then is that each loss shows at once, so that clients go elsewhere, and that it is over when the proxy says so: whoever waits for its readiness goes by that.",
	Causes: "A proxy that is ready when its process is, or when it knows the mesh, and learns later whom it serves. One that serves the workloads that begin, and not those that were there. A kernel that ends by a FIN what the process had open, and a peer that makes of the end of a tunnel the end of an app's connection: as if it had been all.",
	Fix:    "Be ready when all workloads of the agent's snapshot are served, and not before. Give each connection that is carried a linger of 0 (SO_LINGER): who is killed ends them by a FIN else. Reset the connections of tunnels that are lost. In peers, bound the wait after dials that failed.",

	Topology:   behaviour.Staying,
	Disrupt:    behaviour.CrashNode,
	Traffic:    crossing,
	Checks:     []assertions.Check{OnlyTheGap(byKill), CutShows()},
	BrokenBy:   []spec.Fault{nodeproxy.ReadyEarly, nodeproxy.NewcomersOnly, datapath.CutsEndToApp, datapath.KilledEndsClean},
	Resolution: 60 * time.Millisecond,
})

// showsWithin is how long after the SIGKILL what stood may stand: its kernel says so at once.
const showsWithin = time.Second

// CutShows judges what stood in a proxy that was killed.
func CutShows() assertions.Check {
	killed := byKill.floor()
	cut := assertions.Floor{Name: "requests that were cut by it", N: 8, Reason: "some last for 2 s, to each instance of the node, from it and through the Service"}
	stood := assertions.Floor{Name: "tunnels of our own client's, with nothing in them, that stood then", N: 10, Reason: "two instances on the node, and some tunnels to each of them"}
	return assertions.Check{
		Name:     "what stood when a node's proxy was killed",
		Expected: fmt.Sprintf("all of it ends within %s, each connection that was cut by an RST or, in TLS, without a close_notify: none hangs, and none ends as if it were whole", showsWithin),
		Floors:   []assertions.Floor{killed, cut, stood},
		Judge: func(c assertions.Case) spec.Finding {
			var tally assertions.Tally
			on := nodesOf(c)
			n, tunnels, total := 0, 0, 0
			for _, a := range awayIn(c, byKill) {
				total++
				tally.Span(a.killed, a.killed+showsWithin)
				for _, s := range c.Timeline.Samples {
					uid := s.Stream.Target()
					if s.Start >= a.killed || s.End < a.killed || !s.Failed() && on[uid] != a.node || uid != "" && on[uid] != a.node {
						continue // what is to others, and fails, is OnlyTheGap's
					}
					id, name, says := s.ID, uid, s.Stream.Kind()
					switch inTLS := s.Stream.Flow().Protocol.Tunnels(); {
					case s.End > a.killed+showsWithin:
						tally.Late(c, s.End, name, id, "%s: %s, which was under way at the SIGKILL, hung until then: %s", a.when(s.End), says, s.Outcome)
					case !s.Failed():
					case s.Phase == timeline.PhaseDial: // it was begun before, and came when nobody listened
					case s.Outcome == timeline.Reset, inTLS && (s.Outcome == timeline.StreamReset || s.Outcome == timeline.Truncated || s.Outcome == timeline.Closed):
						n++
					default:
						n++
						tally.Against(s.End, name, id, "%s: %s, which was under way at the SIGKILL, was not reset: %s %s", a.when(s.End), says, s.Outcome, s.Err)
					}
				}
				for _, k := range tunnel.Of(c, func(uid string) bool { return on[uid] == a.node }) {
					if !k.Silent() || !k.StoodAt(a.killed) || k.Deserted(a.killed+showsWithin) {
						continue
					}
					tunnels++
					if end, over := k.Ended(); !over || end.At > a.killed+showsWithin {
						tally.Late(c, a.killed+showsWithin, k.Stream.Target(), k.Samples[0].ID, "%s had not ended %s after the SIGKILL", k, showsWithin)
					}
				}
			}
			tally.Count(killed, total)
			tally.Count(cut, n)
			tally.Count(stood, tunnels)
			return tally.Conclude(
				fmt.Sprintf("%d requests were cut, and %d tunnels ended, so that it showed", n, tunnels),
				fmt.Sprintf("%s not seen to be cut, or not at once", assertions.Plural(tally.Culprits(), "connection was", "connections were")))
		},
	}
}

// How long behind its word that it serves what is dialled may fail.
const (
	// servedWithin is for who dials the node's workloads, or is one of them: another one has opened their ports.
	servedWithin = time.Second
	// dialledWithin is for who comes through the proxies of peers, which have been turned away: what hbone.backoff
	// gives a source.
	dialledWithin = 11 * time.Second
	// startsWithin is how long after its start a proxy may serve.
	startsWithin = 10 * time.Second
)

// OnlyTheGap judges the connections that are made while a node's proxy is away, however that came, and later.
func OnlyTheGap(by manner) assertions.Check {
	went := by.floor()
	gap := assertions.Floor{Name: "new connections to workloads of the node, or from them, that failed before the next one served", N: 100, Reason: "without them there was no gap"}
	again := assertions.Floor{Name: fmt.Sprintf("requests behind that: of our own client's and of the node's workloads from %s on, of others from %s on", servedWithin, dialledWithin), N: 200, Reason: "some 100 a second"}
	return assertions.Check{
		Name: "new connections when a node's proxy was " + by.was,
		Expected: fmt.Sprintf("those to workloads of its node, and from them, fail until the next one serves, which it does within %s of its start, and no others do; none fails %s after it has said that it serves, nor, through proxies of peers, %s after that",
			startsWithin, servedWithin, dialledWithin),
		Floors: []assertions.Floor{went, gap, again},
		Judge: func(c assertions.Case) spec.Finding {
			var tally assertions.Tally
			on, gone := nodesOf(c), deleted(c)
			var gaps []string
			total, failed, after := 0, 0, 0
			for _, a := range awayIn(c, by) {
				total++
				tally.Span(a.killed, a.back+dialledWithin)
				var first, through time.Duration // that was answered
				for _, s := range c.Timeline.Samples {
					uid, f := s.Stream.Target(), s.Stream.Flow()
					here := uid == "" || on[uid] == a.node
					if at, is := gone[uid]; s.End < a.killed || here && s.Start < a.killed || is && s.End >= at && on[uid] == a.node {
						continue // what stood is CutShows', and who is told to go another rule's
					}
					// Who dials by itself, or from a pod of the node, waits for no other proxy than the node's.
					itself := f.Protocol.Tunnels() || f.Path == flow.Outbound
					within := dialledWithin
					if itself {
						within = servedWithin
					}
					switch {
					case s.Failed() || uid == "" || !here || s.Start < a.started: // or one who dies answered it
					case f.Protocol.Tunnels() && (first == 0 || s.End < first):
						first = s.End
					case !itself && (through == 0 || s.End < through):
						through = s.End
					}
					switch {
					case s.Failed() && !here:
						tally.Failed(c, s, s.Start, uid, "%s: nothing is there of the node's", a.when(s.Start))
					case s.Start >= a.back+within:
						after++
						if s.Failed() {
							tally.Failed(c, s, s.Start, uid, "%s", a.when(s.Start))
						}
					case s.Failed() && uid != "" && s.Start < a.back:
						failed++
					}
				}
				if first == 0 || through == 0 {
					tally.Doubt("nothing was answered behind %s, of %s: no request by itself, or none through a peer's proxy", by.at, a.name)
					continue
				}
				if first > a.started+startsWithin {
					tally.Late(c, first, a.name, "", "%s: the first connection was answered", a.when(first))
				}
				gaps = append(gaps, fmt.Sprintf("on %s the gap took %s, %s of it without a proxy: the first connection was answered %s, and through a peer's proxy %s",
					a.node, short(first-a.killed), short(a.started-a.killed), a.when(first), a.when(through)))
			}
			tally.Count(went, total)
			tally.Count(gap, failed)
			tally.Count(again, after)
			passed := fmt.Sprintf("%d failed in it, and none of %s behind it", failed, assertions.Plural(after, "request", "requests"))
			broken := fmt.Sprintf("%s failed outside of the gap", assertions.Plural(tally.Culprits(), "request", "requests"))
			return tally.Conclude(strings.Join(append(slices.Clone(gaps), passed), "; "), strings.Join(append([]string{broken}, gaps...), "; "))
		},
	}
}
