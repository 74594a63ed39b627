// SPDX-License-Identifier: Apache-2.0

package node

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/fixtures/datapath"
	"github.com/lastcall-dev/lastcall/fixtures/nodeproxy"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
	"github.com/lastcall-dev/lastcall/suites/tunnel"
)

var _ = behaviour.Register(behaviour.Behaviour{
	ID:    "node.proxy-ends",
	Title: "A node proxy that is replaced hands over: new connections go to its successor, and what it has goes on to its own end",
	Level: spec.Must,
	Refs: []spec.Ref{{
		Doc: "RFC 9113", Section: "section 6.8", URL: "https://www.rfc-editor.org/rfc/rfc9113#section-6.8",
		Quote: "The sender of a GOAWAY frame might gracefully shut down a connection by sending a GOAWAY frame, maintaining the connection in an \"open\" state until all in-progress streams complete.",
	}},
	Profile: spec.Mesh,
	Needs:   []spec.Feature{spec.Services, spec.HBONE},

	Why:    "Each update of the mesh replaces every node's proxy, and each of them carries the connections of all apps on its node, none of which ends for it. What the old one cuts, or what nobody accepts for a moment, every app on the node sees at once.",
	Causes: "The old proxy exits at SIGTERM, or ends its tunnels before what runs in them has ended. It stops accepting before the new one does. The new one listens before it knows where to send what it accepts.",
	Fix:    "Start the new proxy beside the old one, and have it be ready only when it serves all workloads of the node; then tell the old one to go. That accepts no more once the other does, sends GOAWAY on its tunnels, and lets what runs end by itself, up to a deadline.",

	Topology:   behaviour.Staying,
	Disrupt:    behaviour.ReplaceProxies,
	Traffic:    through,
	Checks:     []assertions.Check{NoneFailsMeanwhile(anew), TunnelsAreTold(bothNodes)},
	BrokenBy:   []spec.Fault{nodeproxy.CutsAtSigterm, nodeproxy.TakesInVain, datapath.TunnelsUntold},
	Resolution: 60 * time.Millisecond,
})

// through is what passes through node proxies while they are replaced, and tunnels of our own client's.
var through = []load.Profile{
	{Flow: flow.Flow{Path: flow.Service, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Get}, Rate: 60},
	{Flow: flow.Flow{Path: flow.Service, Protocol: flow.HTTP1, Conns: flow.Reused, Op: flow.Get}, Rate: 60},
	// These are shorter than the proxies' deadline, whenever they begin.
	{Flow: flow.Flow{Path: flow.Service, Protocol: flow.HTTP1, Conns: flow.Reused, Op: flow.Slow, Takes: 6 * time.Second}, Rate: 4},
	{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HBONE, Conns: flow.New, Op: flow.Get}, Rate: 20},
	{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HBONE, Conns: flow.Reused, Op: flow.Get}, Rate: 10},
	{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HBONE, Conns: flow.Reused, Op: flow.Slow, Takes: 4 * time.Second}, Rate: 2},
	{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HBONE, Conns: flow.New, Op: flow.Idle, Takes: 20 * time.Second}, Rate: 1},
}

// replaced is a proxy that was told to go, and is gone (0: nobody saw that).
type replaced struct {
	proxy, node string
	// beside is when its successor was started: from then on a connection may be that one's. One that stood alone is told
	// to go then.
	beside, told, gone time.Duration
	// since is from when on what it says in its tunnels may be its farewell: from its SIGTERM on where that is known to
	// the instant.
	since time.Duration
	// goes is when it may have got SIGTERM at the latest: in a cluster nobody sees that, and a preStop hook comes before it.
	goes time.Duration
	// watched: told is when the watch showed the deletion, which on a busy machine is late.
	watched bool
	// killed: it was there at the end of its grace period. unseen: nobody knows how it ended.
	killed, unseen bool
}

// alone says whether nobody was beside it when it was told to go: it takes what comes until its deadline then. Where the watch
// says so it may have seen the next one late.
func (r replaced) alone() bool { return r.beside >= r.told }

// replacedIn are the node proxies that were replaced: as the stage tells of them, where they are its own, or as their
// pods' ends show it.
func replacedIn(c assertions.Case) []replaced {
	var out []replaced
	started := map[string]timeline.Event{} // the last proxy of a node
	for _, e := range c.Timeline.EventsOf(timeline.NodeProxy, "") {
		switch e.Attrs["is"] {
		case timeline.NodeProxyStarts:
			started[e.Node] = e
		case timeline.NodeProxyTold:
			r := replaced{proxy: e.Subject, node: e.Node, beside: e.At, told: e.At, since: e.At, goes: e.At}
			if last := started[e.Node]; last.Subject != e.Subject {
				r.beside = last.At
			}
			out = append(out, r)
		case timeline.NodeProxyGone, timeline.NodeProxyKilled:
			i := slices.IndexFunc(out, func(r replaced) bool { return r.proxy == e.Subject })
			switch {
			case i < 0: // nobody had told it to go
			case e.Attrs["is"] == timeline.NodeProxyGone:
				out[i].gone = e.At
			default:
				out[i].killed = true
			}
		}
	}
	for _, e := range c.Proxies {
		if e.Cause == assertions.CauseDeletion {
			// The watch shows the deletion when the kubelet may have acted on it.
			r := replaced{proxy: e.Name, node: e.Node, told: e.Del.At, gone: e.Exit.At, goes: max(e.Del.At, e.Exit.At-c.ProxyDeadline()), watched: true,
				killed: e.Killed(), unseen: e.ExitCode < 0}
			if at, came := succeeded(c, e); came {
				r.beside, r.since = at, at
			} else {
				r.beside, r.since = r.told, min(r.told, e.Drain.At-e.Drain.Err)
			}
			out = append(out, r)
		}
	}
	return out
}

// succeeded is when the last proxy that came to a node before another was told to go was first seen there; false: none
// came, as where a roll-out has no surge.
func succeeded(c assertions.Case, old assertions.Ending) (at time.Duration, came bool) {
	seen := map[string]bool{old.UID: true}
	for _, e := range c.Timeline.Events {
		if e.Node != old.Node || e.At > old.Del.At || seen[e.Subject] || c.RoleOf(e.Subject) != assertions.RoleProxies {
			continue
		}
		seen[e.Subject], at, came = true, e.At, true
	}
	return at, came
}

// nodesOf are the nodes of the instances, by their UIDs.
func nodesOf(c assertions.Case) map[string]string {
	out := map[string]string{}
	for _, e := range c.Timeline.Events {
		switch e.Kind {
		case timeline.PodSeen, timeline.PodReady: // whoever is first seen may be nowhere yet
			out[e.Subject] = cmp.Or(e.Node, out[e.Subject])
		}
	}
	return out
}

// meanwhile is from the first successor that may have taken connections until P after the last one of those that were told to go
// is gone: what a proxy takes with it when it goes, its successor lacks then.
func meanwhile(c assertions.Case, all []replaced) (from, to time.Duration) {
	for i, r := range all {
		if begun := min(r.told, r.beside); i == 0 || begun < from {
			from = begun
		}
		to = max(to, r.gone+c.P)
	}
	return from, to
}

// bothNodes is how many nodes have instances.
const bothNodes = 2

// replacedFloor is that of proxies which were seen to go.
var replacedFloor = assertions.Floor{Name: "node proxies that were told to go, and were gone", N: bothNodes, Reason: "one on each node"}

// seenGone counts them.
func seenGone(all []replaced) int {
	n := 0
	for _, r := range all {
		if r.gone > 0 {
			n++
		}
	}
	return n
}

// anew is the floor of tunnels that our own client opens on a node whose proxy was told to go some time ago.
var anew = assertions.Floor{Per: "node", Name: fmt.Sprintf("answered requests on new tunnels, begun %s behind the word to its proxy or later", takenUntil), N: 10,
	Reason: "20 a second to each workload, until P after the last proxy's end"}

// NoneFailsMeanwhile judges all requests that were under way, or begun, while node proxies were replaced, but those of clients
// outside of the mesh. own is anew, where our own client opens tunnels.
func NoneFailsMeanwhile(own ...assertions.Floor) assertions.Check {
	fresh := assertions.Floor{Name: "new connections through the mesh meanwhile", N: 300, Reason: "60 a second, from the first proxy's SIGTERM to the last one's end"}
	kept := assertions.Floor{Name: "requests that were under way when a proxy was told to go, and ended behind that", N: 10, Reason: "some last for seconds, and there are 30 of these at any time"}
	return noneFails(flow.Service, "requests while node proxies are replaced",
		"; a new tunnel may be turned away by GOAWAY or REFUSED_STREAM while its proxy begins to go", fresh, kept, own...)
}

// NoneFailsOutsideMeanwhile judges those of clients outside of the mesh.
func NoneFailsOutsideMeanwhile() assertions.Check {
	fresh := assertions.Floor{Name: "new connections from outside of the mesh meanwhile, which came to the app from another port than their client's", N: 200, Reason: "40 a second, from the first proxy's SIGTERM to the last one's end; what goes past the proxies shows nothing of them"}
	kept := assertions.Floor{Name: "requests from outside that were under way when a proxy was told to go, and ended behind that", N: 5, Reason: "some last for seconds, and there are 12 of these at any time"}
	return noneFails(flow.Unmeshed, "requests of clients outside of the mesh while node proxies are replaced", "", fresh, kept)
}

// noneFails judges the requests that came from within the mesh, through its Service, or from outside of it. also is what may
// become of some of them.
func noneFails(way flow.Path, name, also string, fresh, kept assertions.Floor, own ...assertions.Floor) assertions.Check {
	outside := way == flow.Unmeshed
	return assertions.Check{
		Name: name,
		Expected: "none fails, neither of those that were under way nor of the new ones, but for what stood in a proxy that was told to go " +
			"and is cut at its deadline, so that it shows" + also,
		Floors: slices.Concat([]assertions.Floor{replacedFloor, fresh, kept}, own),
		Judge: func(c assertions.Case) spec.Finding {
			var tally assertions.Tally
			all := replacedIn(c)
			tally.Count(replacedFloor, seenGone(all))
			from, to := meanwhile(c, all)
			began, turns := birthsIn(c), turningsIn(c, all)
			tally.Span(from, to)
			total, lost, opened, crossed, cut := 0, 0, 0, 0, 0
			tunnels := map[string]int{} // by node
			for _, s := range c.Timeline.Samples {
				path := s.Stream.Flow().Path
				if (path == flow.Unmeshed) != outside || s.End < from || s.Start > to || turns.excuse(s) {
					continue
				}
				total++
				if until, doubtful := turns.doubtful(s); doubtful {
					lost++
					tally.Late(c, until, s.Stream.Target(), s.ID, "%s: turned away before the deletion, as the watch has that", beside(all, s.End))
					continue
				}
				if node, behind := turns.behind(s); behind && s.New() && !s.Failed() && !s.Saturated {
					tunnels[node]++
				}
				switch fateOf(&tally, c, all, s, began.of(s), s.Stream.Target(), "") {
				case cutInTime:
					cut++
					continue
				case lostBefore:
					lost++
					continue
				}
				if s.Saturated {
					continue // it is no evidence for a pass
				}
				if path == way && s.Stream.Flow().Conns == flow.New && (s.Relayed || !outside) && slices.ContainsFunc(all, func(r replaced) bool { return s.Start >= r.told }) {
					opened++
				}
				if slices.ContainsFunc(all, func(r replaced) bool { return s.Start < r.told && s.End > r.told+time.Second }) {
					crossed++
				}
			}
			tally.Count(fresh, opened)
			tally.Count(kept, crossed)
			for _, f := range own {
				for _, node := range turns.nodes() {
					tally.Least(f, node, tunnels[node])
				}
			}
			atDeadline := ""
			if cut > 0 {
				atDeadline = fmt.Sprintf("; %d on connections that had stood in a proxy were cut at its deadline", cut)
			}
			return tally.Conclude(
				fmt.Sprintf("none of %d requests failed while %s replaced", total, assertions.Plural(len(all), "node proxy was", "node proxies were"))+atDeadline,
				fmt.Sprintf("%d of %s failed while %s replaced", lost, assertions.Plural(total, "request", "requests"), assertions.Plural(len(all), "node proxy was", "node proxies were")))
		},
	}
}

// births are when each connection began, by the first request on it.
type births map[timeline.Connection]time.Duration

func birthsIn(c assertions.Case) births {
	out := births{}
	for _, s := range c.Timeline.Samples {
		k := s.On()
		if at, is := out[k]; !is || s.Start < at {
			out[k] = s.Start
		}
	}
	return out
}

// of is when the connection of a request began; of one that got none (0), when that did itself.
func (b births) of(s timeline.Sample) time.Duration {
	if s.Conn == 0 {
		return s.Start
	}
	return b[s.On()]
}

// takenUntil is how long after its SIGTERM a proxy may take connections: its successor listens by then, and the
// news is on its way.
const takenUntil = 2 * time.Second

// around is how much earlier than its deadline, as it is known here, a proxy may cut, and how long behind its end
// what it has cut is read; starvedBy is how much that is on a machine that has no time for the watch, or for its reader.
const (
	around    = 500 * time.Millisecond
	starvedBy = 3 * time.Second
)

// turnedAway says whether a request of our own client's was known not to be processed: the tunnel had been told
// to go before it had a stream there, and whoever opens tunnels opens another.
func turnedAway(s timeline.Sample) bool {
	return s.Stream.Flow().Protocol.Tunnels() && (s.Outcome == timeline.GoAway || s.Outcome == timeline.RefusedStream)
}

// turning is a proxy of a node that our own client has tunnels to, and when the first of these heard that it goes; 0: none
// did. That is long behind a deletion where a preStop hook is.
type turning struct {
	replaced

	first time.Duration
}

// turns is when it began to turn tunnels away, as the word to it and the tunnels have that.
func (t turning) turns() time.Duration { return max(t.told, t.first) }

// early says whether its tunnels heard of it before the watch showed its deletion, by more than that is late on a machine
// with time for it.
func (t turning) early() bool { return t.first > 0 && t.first < t.told-around }

// turnings are those of all proxies, and the nodes of workloads, by UID.
type turnings struct {
	all []turning
	on  map[string]string
}

func turningsIn(c assertions.Case, all []replaced) turnings {
	out := turnings{on: nodesOf(c)}
	tunnels := tunnel.Of(c, func(string) bool { return true })
	for _, r := range all {
		early := around
		if r.watched {
			early = starvedBy
		}
		one, some := turning{replaced: r}, false // whether there are any tunnels
		for _, k := range tunnels {
			if out.on[k.Stream.Target()] != r.node {
				continue
			}
			some = true
			if said, ok := k.GoAway(); ok && said >= r.told-early && (one.first == 0 || said < one.first) {
				one.first = said
			}
		}
		if some {
			out.all = append(out.all, one)
		}
	}
	return out
}

// nodes are those of the proxies.
func (t turnings) nodes() []string {
	var out []string
	for _, one := range t.all {
		out = append(out, one.node)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// of are the proxies of the node of the workload that a request is to.
func (t turnings) of(s timeline.Sample) []turning {
	node := t.on[s.Stream.Target()]
	return slices.DeleteFunc(slices.Clone(t.all), func(one turning) bool { return one.node != node })
}

// excuse says whether a request of our own client's was turned away as it may be: in a tunnel that had carried another one, while
// a proxy of its node went, or in one that came when that had just begun to turn tunnels away.
func (t turnings) excuse(s timeline.Sample) bool {
	return turnedAway(s) && slices.ContainsFunc(t.of(s), func(one turning) bool {
		if !s.New() {
			return s.End >= min(one.since, one.told-starvedBy) && (one.gone == 0 || s.Start < one.gone+takenUntil)
		}
		near := func(at time.Duration) bool { return s.End >= at-around && s.Start < at+takenUntil }
		return near(one.told) || near(one.turns())
	})
}

// doubtful says whether a request was turned away when its proxy had begun to say GOAWAY, and the watch had not shown its deletion: it is
// that which may be late. until is when it showed that.
func (t turnings) doubtful(s timeline.Sample) (until time.Duration, is bool) {
	if !turnedAway(s) {
		return 0, false
	}
	for _, one := range t.of(s) {
		if one.early() {
			until, is = one.told, s.End >= one.first-around && s.Start < one.told
		}
	}
	return until, is
}

// behindWord is how long after the word to its proxy the first tunnel of each node heard of it, the least of all.
func (t turnings) behindWord() time.Duration {
	if len(t.all) == 0 {
		return 0
	}
	// Who says GOAWAY late was told to go long before: it was gone within its deadline from then on.
	after := func(one turning) time.Duration { return max(0, min(one.turns(), one.goes)-one.told) }
	return after(slices.MinFunc(t.all, func(a, b turning) int { return cmp.Compare(after(a), after(b)) }))
}

// behind says on which node a request of our own client's was begun when its proxy was to turn no tunnel away any more.
func (t turnings) behind(s timeline.Sample) (node string, is bool) {
	if !s.Stream.Flow().Protocol.Tunnels() {
		return "", false
	}
	all := t.of(s)
	if len(all) == 0 {
		return "", false
	}
	return all[0].node, !slices.ContainsFunc(all, func(one turning) bool { return s.Start < one.turns()+takenUntil })
}

// cutAtDeadline says whether a request was cut, so that its client saw it, when the deadline was over of a
// proxy in which its connection may have stood, by when that began, and which had not been gone for long: by is how late the
// watch may have been, and who read the cut. late is when one of the two was. How late a proxy may cut is another rule's.
func cutAtDeadline(c assertions.Case, all []replaced, s timeline.Sample, began, by time.Duration) (late time.Duration, is bool) {
	switch s.Outcome {
	case timeline.Reset, timeline.StreamReset:
	case timeline.Truncated, timeline.Closed:
		// Whoever opens tunnels sees a connection cut that ends with its tunnel, and not by END_STREAM.
		if !s.Stream.Flow().Protocol.Tunnels() || s.EndStream {
			return 0, false
		}
	default:
		return 0, false
	}
	deadline := c.ProxyDeadline()
	i := slices.IndexFunc(all, func(r replaced) bool {
		early := around
		if r.watched {
			early = by
		}
		stood := began < r.goes+min(takenUntil, deadline-early) // longer than it took to be cut
		return (stood || r.alone() && !r.watched) && s.End >= r.told+deadline-early && s.End <= r.gone+by
	})
	switch {
	case deadline == 0 || i < 0:
		return 0, false
	case s.End < all[i].told+deadline-around:
		return all[i].told, true
	}
	return s.End, true
}

// fate is what became of a request while node proxies were replaced.
type fate int

const (
	served     fate = iota
	cutInTime       // at the deadline of a proxy, so that it showed
	lostBefore      // or so that it did not
)

// fateOf is that of a request on a connection that began at an instant, and tells of one that was lost: of whom, and what
// of it comes first.
func fateOf(tally *assertions.Tally, c assertions.Case, all []replaced, s timeline.Sample, began time.Duration, of, first string) fate {
	if !s.Failed() {
		return served
	}
	if _, is := cutAtDeadline(c, all, s, began, around); is {
		return cutInTime
	}
	// By whom, only the time of its end says.
	switch late, is := cutAtDeadline(c, all, s, began, starvedBy); {
	case !is:
		tally.Failed(c, s, s.End, of, "%s%s", first, beside(all, s.End))
	case late < s.End:
		tally.Late(c, late, s.Stream.Target(), s.ID, "%s: a cut before the deadline, as the watch has that", beside(all, s.End))
	default:
		tally.Late(c, late, s.Stream.Target(), s.ID, "%s: a cut that was read long behind the deadline", beside(all, s.End))
	}
	return lostBefore
}

// beside says when something was, by the last proxy that had been told to go by then.
func beside(all []replaced, at time.Duration) string {
	last, told := "before any was told to go", time.Duration(-1)
	for _, r := range all {
		if r.told <= at && r.told > told {
			told = r.told
			last = fmt.Sprintf("%s after %s was told to go", (at - r.told).Round(time.Millisecond), r.proxy)
		}
	}
	return last
}

// TunnelsAreTold judges the tunnels of our own client that stood when their node's proxy was told to go: each is
// told by GOAWAY, and ended in TLS too, before that is gone. proxies is how many have to go, of nodes with instances.
func TunnelsAreTold(proxies int) assertions.Check {
	went := replacedFloor
	went.N, went.Reason = proxies, "one on each of their nodes"
	stood := assertions.Floor{Per: "proxy", Name: "tunnels that stood when the proxy was told to go", N: 10, Reason: "two instances on each node, with some tunnels of each kind to each of them"}
	serving := assertions.Floor{Name: "of these, proxies of nodes with instances that our client has tunnels to", N: proxies, Reason: went.Reason}
	return assertions.Check{
		Name:     "tunnels that stood when their proxy was told to go",
		Expected: "GOAWAY, and then close_notify, come on each before the proxy is gone",
		Floors:   []assertions.Floor{went, serving, stood},
		Judge: func(c assertions.Case) spec.Finding {
			var tally assertions.Tally
			all := replacedIn(c)
			tally.Count(went, seenGone(all))
			total := 0
			on := map[string][]tunnel.Tunnel{} // the nodes of whom they are to
			nodes := nodesOf(c)
			for _, k := range tunnel.Of(c, func(string) bool { return true }) {
				at := nodes[k.Stream.Target()]
				on[at] = append(on[at], k)
			}
			// A proxy that serves none of them holds none.
			all = slices.DeleteFunc(all, func(r replaced) bool { return len(on[r.node]) == 0 })
			tally.Count(serving, len(all))
			for _, r := range all {
				tally.Span(r.told, r.gone)
				n, since := 0, r.since
				if r.watched { // which may have seen it late
					since -= starvedBy
				}
				for _, k := range on[r.node] {
					if !k.StoodAt(r.told) || k.ToldBefore(since) || k.Deserted(r.gone) || k.Samples[0].Start >= r.beside {
						continue
					}
					n++
					switch lacks, _ := k.Farewell(since, r.gone); {
					case lacks == "":
					case r.killed: // and it is the kernel that ends them
						tally.Late(c, r.gone, r.proxy, k.Samples[0].ID, "%s: %s %s when the proxy was killed", beside([]replaced{r}, r.gone), k, lacks)
					default:
						k.Lacked(&tally, c, r.gone, r.proxy, "%s: %s %s when the proxy was gone", beside([]replaced{r}, r.gone), k, lacks)
					}
				}
				total += n
				tally.Least(stood, r.proxy, n)
			}
			return tally.Conclude(
				fmt.Sprintf("all %d tunnels that stood when their proxy was told to go got GOAWAY, and close_notify", total),
				fmt.Sprintf("%d of %s got none", tally.Culprits(), assertions.Plural(total, "tunnel", "tunnels")))
		},
	}
}
