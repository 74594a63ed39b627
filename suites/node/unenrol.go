// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"math"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/fixtures/nodeagent"
	"github.com/lastcall-dev/lastcall/fixtures/nodeproxy"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
	"github.com/lastcall-dev/lastcall/suites/tunnel"
)

var _ = behaviour.Register(behaviour.Behaviour{
	ID:    "node.unenrol",
	Title: "A workload that leaves the mesh while its app lives loses nothing: what passes is drained, and then it goes on without a proxy",
	Level: spec.Must,
	Refs: []spec.Ref{{
		Doc: "project", Quote: "The workload leaves the mesh: its connections are drained, the application goes on.",
	}, {
		Doc: "RFC 9113", Section: "section 6.8", URL: "https://www.rfc-editor.org/rfc/rfc9113#section-6.8",
		Quote: "Endpoints SHOULD always send a GOAWAY frame before closing a connection so that the remote peer can know whether a stream has been partially processed or not.",
	}},
	Profile: spec.Mesh,
	Needs:   []spec.Feature{spec.Services, spec.HBONE},

	Why:    "Who takes a label away means the app no harm. The app gets no signal, so nothing of its own begins a drain; all that passes through the proxy is cut if the proxy lets go, and peers that have not heard yet are refused at its port. The rules that brought connections to the proxy are also those that carry the ones which stand.",
	Causes: "To the proxy a workload that leaves is one that has ended: it is removed, and drained for no longer than that takes. The redirect is removed in one piece, with the rules that carry what stands. The port for tunnels closes when discovery has been told, and not when everybody has heard.",
	Fix:    "Take the redirect of new connections away first, then have discovery say that nobody tunnels to it. When that is known everywhere and nothing passes any more, or the bound for that is over, remove the workload from the proxy, and then the rest of the rules.",

	Topology: behaviour.Leaving,
	Disrupt:  behaviour.Unenrol,
	Traffic:  passing,
	Checks:   []assertions.Check{NoneFailsOnLeaving(), GivenUpInTime(), ToldOnLeaving(), NothingIsLeft(), OutAndBack()},
	BrokenBy: []spec.Fault{
		nodeagent.DropsAtUnenrol, nodeagent.LeavesEarly, nodeagent.ReturnsHalf, nodeagent.NeverGivesUp,
		nodeproxy.KeepsListening, nodeproxy.ForgetsCloseNotify,
	},
	Resolution: 60 * time.Millisecond,
})

// passing is what passes while workloads leave. To one of them what lasts outlasts the time that news takes, so
// that its end has to be waited for; through the other one nothing passes for long (Topology.Carries).
var passing = []load.Profile{
	{Flow: flow.Flow{Path: flow.Service, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Get}, Rate: 30},
	{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Get}, Rate: 10},
	{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Slow, Takes: 9 * time.Second}, Rate: 3},
	{Flow: flow.Flow{Path: flow.Outbound, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Get}, Rate: 10},
	{Flow: flow.Flow{Path: flow.Outbound, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Slow, Takes: 800 * time.Millisecond}, Rate: 2},
	// Our own client hears nothing of discovery: it is whom the news reaches last.
	{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HBONE, Conns: flow.New, Op: flow.Get}, Rate: 10},
	{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HBONE, Conns: flow.Reused, Op: flow.Get}, Rate: 10},
	lingering,
}

// lingering are connections on which nothing is said any more, as a client's pool has them: nobody ends one in the time that
// what passes has.
var lingering = load.Profile{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Idle, Takes: time.Minute}, Rate: 1}

// leaver is a workload that left the mesh while its app lived, and came back. What nobody saw is math.MaxInt64.
type leaver struct {
	uid, name string
	ips       []string
	// asked is when its label went, and leaving when the redirect was seen to have gone.
	asked, leaving, left, joining, back time.Duration
	// within is how long after leaving what passes is given up; 0: nobody says.
	within time.Duration
	stays  string   // why it did not begin to leave: its redirect stayed, or discovery was not told
	held   []string // sockets in its network when it had left
	looked bool     // somebody looked for these
	lacks  string   // what was missing, when it was not back in time
}

// leaversIn are those of a recording.
func leaversIn(c assertions.Case) []leaver {
	first := func(kind timeline.EventKind, uid string, from time.Duration) (timeline.Event, time.Duration) {
		for _, e := range c.Timeline.EventsOf(kind, uid) {
			if e.At >= from {
				return e, e.At
			}
		}
		return timeline.Event{}, math.MaxInt64
	}
	var out []leaver
	for _, e := range c.Endings {
		if e.Cause != assertions.CauseLeaving {
			continue
		}
		l := leaver{uid: e.UID, name: e.Name, ips: e.IPs, asked: e.Drain.At - e.Drain.Err, leaving: e.Drain.At}
		leaving, _ := first(timeline.MeshLeaving, e.UID, l.leaving)
		l.within, _ = time.ParseDuration(leaving.Attrs["within"]) // 0 where that says nothing
		l.stays = leaving.Attrs["lacks"]
		var left timeline.Event
		left, l.left = first(timeline.MeshLeft, e.UID, l.leaving)
		held, looked := left.Attrs["held"]
		l.held, l.looked = strings.Fields(held), looked
		_, l.joining = first(timeline.MeshJoining, e.UID, l.leaving)
		var joined timeline.Event
		joined, l.back = first(timeline.MeshJoined, e.UID, l.leaving)
		l.lacks = joined.Attrs["lacks"]
		out = append(out, l)
	}
	return out
}

// cameBack says whether all of it was seen.
func (l leaver) cameBack() bool { return max(l.left, l.joining, l.back) < math.MaxInt64 }

// when says where an instant is on the workload's way.
func (l leaver) when(at time.Duration) string {
	for _, step := range []struct {
		name string
		at   time.Duration
	}{{"it was back", l.back}, {"it was to come back", l.joining}, {"it had left", l.left}, {"it began to leave", l.leaving}} {
		if at >= step.at {
			return fmt.Sprintf("%s after %s", (at - step.at).Round(time.Millisecond), step.name)
		}
	}
	return fmt.Sprintf("%s before it began to leave", (l.leaving - at).Round(time.Millisecond))
}

// leftFloor is that of workloads that were seen to leave and to come back.
var leftFloor = assertions.Floor{Name: "workloads that left the mesh and came back", N: 2, Reason: "one on each node: through one of them something passes that lasts"}

// leaversOf are a recording's, where they came back; it counts them.
func leaversOf(c assertions.Case, tally *assertions.Tally) []leaver {
	all := slices.DeleteFunc(leaversIn(c), func(l leaver) bool { return !l.cameBack() })
	tally.Count(leftFloor, len(all))
	for _, l := range all {
		tally.Span(l.asked, l.back)
	}
	return all
}

// whole is from the first workload that began to leave until a while after the last one was back.
func whole(c assertions.Case, all []leaver) (from, to time.Duration) {
	for i, l := range all {
		if i == 0 || l.asked < from {
			from = l.asked
		}
		to = max(to, l.back+c.P)
	}
	return from, to
}

// about says whether a sample is known to be of a workload: as its client or its server.
func (l leaver) about(s timeline.Sample) bool {
	return s.Stream.Target() == l.uid || s.Server == l.uid || s.Reached == l.uid
}

// isEnd says whether one of a connection's addresses is a workload's.
func (l leaver) isEnd(from, to string) bool { return at(from, l.ips) || at(to, l.ips) }

// tunnelled is for how long a workload that leaves is served in tunnels at least: P, or less than what the suite's own agent,
// which any proxy here is told by, waits for.
func tunnelled(c assertions.Case) time.Duration {
	return min(c.P, nodeagent.Propagation-time.Second)
}

// NoneFailsOnLeaving judges the requests through the mesh, in and out, on the way out of it, while out, and on the
// way back; and those of a client that tunnels by itself, for as long as it may not have heard.
func NoneFailsOnLeaving() assertions.Check {
	crossed := assertions.Floor{Name: "requests that were under way when a workload began to leave, and lasted for longer than P", N: 5, Reason: "some last for 9 s, to one of the workloads that leave"}
	on := assertions.Floor{Per: "workload", Name: "requests to it and from it between the begin of its leaving and P after its return", N: 300, Reason: "20 a second at least, for 25 s"}
	late := assertions.Floor{Per: "workload", Name: "requests in tunnels that a client opened within P after it began to leave", N: 20, Reason: "20 a second"}
	return assertions.Check{
		Name:     "requests while workloads leave the mesh and come back",
		Expected: "none fails, in or out: neither those that were under way nor new ones; in tunnels none that its client began within P",
		Floors:   []assertions.Floor{leftFloor, crossed, on, late},
		Judge: func(c assertions.Case) spec.Finding {
			var tally assertions.Tally
			all := leaversOf(c, &tally)
			from, to := whole(c, all)
			counts, tunnels := map[string]int{}, map[string]int{}
			total, long := 0, 0
			for _, s := range c.Timeline.Samples {
				if s.End < from || s.Start > to {
					continue
				}
				i := slices.IndexFunc(all, func(l leaver) bool { return l.about(s) })
				inTunnel := s.Stream.Flow().Protocol.Tunnels()
				if inTunnel && i >= 0 && s.Start > all[i].leaving+tunnelled(c) && s.Start < all[i].back+c.P {
					continue // its client has to have heard by then
				}
				total++
				if s.Failed() {
					name, when := "", fmt.Sprintf("%s after the first workload began to leave", (s.End-from).Round(time.Millisecond))
					if i >= 0 {
						name, when = all[i].name, all[i].when(s.End)
					}
					tally.Failed(c, s, max(s.Start, from), name, "%s", when)
					continue
				}
				if i < 0 || s.Saturated { // what was sent late counts for no floor
					continue
				}
				l := all[i]
				switch {
				case inTunnel && s.Start > l.leaving:
					tunnels[l.uid]++
				case !inTunnel && s.Start > l.leaving:
					counts[l.uid]++
				case !inTunnel && s.End > l.leaving+c.P:
					long++
				}
			}
			tally.Count(crossed, long)
			for _, l := range all {
				tally.Least(on, l.name, counts[l.uid])
				tally.Least(late, l.name, tunnels[l.uid])
			}
			return tally.Conclude(
				fmt.Sprintf("none of %d requests failed while %s left the mesh and came back", total, assertions.Plural(len(all), "workload", "workloads")),
				fmt.Sprintf("%d of %s failed while %s left the mesh and came back", tally.Culprits(), assertions.Plural(total, "request", "requests"), assertions.Plural(len(all), "workload", "workloads")))
		},
	}
}

// removedWithin is how long after what passed was given up a workload may take to have left: as long as an agent waits for the
// removal of a pod, and in a cluster for the news that its label has gone.
const removedWithin = 10 * time.Second

// GivenUpInTime judges connections through the proxy that nobody ends, and when their workload has left.
func GivenUpInTime() assertions.Check {
	stood := assertions.Floor{Name: "connections that stood when a workload began to leave, and would have stood when what passes is given up", N: 3, Reason: "to one of the workloads a client opens one each second, for a minute"}
	return assertions.Check{
		Name:     "connections that nobody ends while a workload leaves the mesh",
		Expected: fmt.Sprintf("none is ended before the time is over that what passes has for its own end, and %s behind that the workload has left", removedWithin),
		Floors:   []assertions.Floor{leftFloor, stood},
		Judge: func(c assertions.Case) spec.Finding {
			var tally assertions.Tally
			total := 0
			var longest time.Duration
			for _, l := range leaversOf(c, &tally) {
				switch {
				case l.stays != "":
					tally.Against(l.leaving, l.name, "", "it did not begin to leave: %s", l.stays)
					continue
				case l.within == 0:
					tally.Doubt("%s: nobody says for how long what passes through it is waited for", l.name)
					continue
				}
				// It began to leave between the two.
				early, until := l.asked+l.within, l.leaving+l.within
				for _, s := range c.Timeline.Samples {
					of := s.Stream.Flow()
					if of.Op != lingering.Op || s.Stream.Target() != l.uid || s.Failed() || s.End >= l.leaving || s.Start+of.Takes <= until {
						continue
					}
					end := endOf(c, s)
					if end < l.leaving {
						continue // it was not there any more
					}
					total++
					if end < early {
						tally.Late(c, end, l.name, s.ID, "a connection was ended %s, %s before what passes is to be given up", l.when(end), (early - end).Round(time.Millisecond))
					}
				}
				longest = max(longest, l.left-l.leaving)
				if late := l.left - until - removedWithin; late > 0 {
					tally.Late(c, l.left, l.name, "", "it had left %s after it began to, %s later than it may", (l.left - l.leaving).Round(time.Millisecond), late.Round(time.Millisecond))
				}
			}
			tally.Count(stood, total)
			return tally.Conclude(
				fmt.Sprintf("none of %d was ended before that, and the last workload had left %s after it began to", total, longest.Round(time.Millisecond)),
				fmt.Sprintf("%s wrong: connections that were ended too early, or workloads that left too late", assertions.Plural(tally.Culprits(), "thing was", "things were")))
		},
	}
}

// endOf is when the other side ended the connection of a request: never, where nobody saw that.
func endOf(c assertions.Case, of timeline.Sample) time.Duration {
	for _, f := range c.Timeline.Frames {
		if f.On() == of.On() && (f.Kind == timeline.FrameFIN || f.Kind == timeline.FrameRST) {
			return f.At
		}
	}
	return math.MaxInt64
}

// ToldOnLeaving judges the tunnels of our own client's that stood when a workload began to leave.
func ToldOnLeaving() assertions.Check {
	stood := assertions.Floor{Per: "workload", Name: "tunnels that stood when it began to leave", N: 2, Reason: "a client keeps some to each workload"}
	return assertions.Check{
		Name:     "tunnels that stood when a workload began to leave the mesh",
		Expected: "GOAWAY, and then close_notify, come on each before it has left",
		Floors:   []assertions.Floor{leftFloor, stood},
		Judge: func(c assertions.Case) spec.Finding {
			var tally assertions.Tally
			total := 0
			for _, l := range leaversOf(c, &tally) {
				n := 0
				for _, k := range tunnel.Of(c, func(uid string) bool { return uid == l.uid }) {
					// It began to leave between the two.
					if !k.StoodAt(l.leaving) || k.ToldBefore(l.asked) || k.Deserted(l.left) {
						continue
					}
					n++
					switch lacks, said := k.Farewell(l.asked, l.left); {
					case lacks != "":
						k.Lacked(&tally, c, l.left, l.name, "%s %s when the workload had left", k, lacks)
					case said > l.left+readWithin:
						tally.Late(c, l.left, l.name, k.Samples[0].ID, "%s was ended %s", k, l.when(said))
					}
				}
				total += n
				tally.Least(stood, l.name, n)
			}
			return tally.Conclude(
				fmt.Sprintf("all %d tunnels that stood when a workload began to leave got GOAWAY and close_notify before it had left", total),
				fmt.Sprintf("%d of %s were not told so before the workload had left", tally.Culprits(), assertions.Plural(total, "tunnel", "tunnels")))
		},
	}
}

// NothingIsLeft judges what is in a workload's network when it has left the mesh.
func NothingIsLeft() assertions.Check {
	return assertions.Check{
		Name:     "what is in the network of a workload that has left the mesh",
		Expected: "no socket of the proxy's: no listener, no tunnel, and no connection from an address that is none of the workload's",
		Floors:   []assertions.Floor{leftFloor},
		Judge: func(c assertions.Case) spec.Finding {
			var tally assertions.Tally
			all := leaversOf(c, &tally)
			for _, l := range all {
				if !l.looked {
					tally.Doubt("%s: nobody looked at the sockets in its network when it had left", l.name)
				}
				for _, socket := range l.held {
					tally.Against(l.left, l.name, "", "somebody held %s when it had left", socket)
				}
			}
			return tally.Conclude(
				fmt.Sprintf("none was held in any of %s", assertions.Plural(len(all), "workload that had left", "workloads that had left")),
				fmt.Sprintf("%s held behind that", assertions.Plural(tally.Culprits(), "socket was", "sockets were")))
		},
	}
}

// OutAndBack judges how others reach a workload that is out of the mesh, and one that is back, and how it reaches them: by the
// wire, and where nobody watches that, as in a cluster, by the tunnels that the pod itself has to whom it calls.
func OutAndBack() assertions.Check {
	plain := assertions.Floor{Per: "workload", Name: "connections without a tunnel to it and from it while it was out", N: 40, Reason: "some 30 new ones a second, for 5 s; of a wire that is watched"}
	calls := assertions.Floor{Per: "workload", Name: "calls of its own that were answered while it was out, when it had no tunnel", N: 20, Reason: "12 a second, for 5 s; where nobody watches the wire"}
	looks := assertions.Floor{Per: "workload", Name: "looks at its network, later than P after its return, that saw a tunnel of its own", N: 4, Reason: "four a second, for 2 s; where nobody watches the wire"}
	again := assertions.Floor{Per: "workload", Name: "requests on new connections to it and from it, begun later than P after its return", N: 20, Reason: "20 a second"}
	return assertions.Check{
		Name:     "what passes while workloads are out of the mesh, and when they are back",
		Expected: "connections without a tunnel to those that are out and from them, and no others: none once P has passed after their return; where nobody watches the wire: what they call is reached without a tunnel of theirs while they are out, and by one again after that",
		Floors:   []assertions.Floor{leftFloor, plain, calls, looks, again},
		Judge: func(c assertions.Case) spec.Finding {
			var tally assertions.Tally
			all := leaversOf(c, &tally)
			out := plainOnes(&tally, c, all)
			tally.SeenWire(c)
			for _, l := range all {
				if l.lacks != "" {
					tally.Against(l.back, l.name, "", "it was not back in the mesh: %s", l.lacks)
				}
				tally.Least(plain.OnWire(c), l.name, out[l.uid])
				answered, returned, n := 0, 0, 0
				for _, s := range c.Timeline.Samples {
					switch {
					case !l.about(s) || s.Failed():
					case s.Stream.Flow().Path == flow.Outbound && s.Start > l.left && s.End < l.joining:
						answered++
					case s.Stream.Flow().Path == flow.Outbound && s.Start > l.back+c.P:
						returned++
					case s.New() && s.Start > l.back+c.P:
						n++
					}
				}
				tally.Least(again, l.name, n)
				tally.Least(calls.OffWire(c), l.name, answered)
				stood, looked := ownTunnels(&tally, c, l)
				tally.Least(looks.OffWire(c), l.name, stood)
				if stood == 0 && looked >= looks.N && returned >= calls.N {
					tally.Against(l.back+c.P, l.name, "", "none of %d looks at its network saw a tunnel of its own when it was back, and %d calls of it were answered", looked, returned)
				}
			}
			return tally.Conclude(
				fmt.Sprintf("%s reached without a tunnel while out of the mesh, and through tunnels alone before and after", assertions.Plural(len(all), "workload was", "workloads were")),
				fmt.Sprintf("%s without a tunnel between workloads in the mesh, or with one to who was out of it", assertions.Plural(tally.Culprits(), "connection was made", "connections were made")))
		},
	}
}

// plainOnes are the connections on the wire that had no tunnel, for each workload that was out; of those to nobody who was, each is
// a culprit.
func plainOnes(y *assertions.Tally, c assertions.Case, all []leaver) map[string]int {
	out := map[string]int{}
	for _, e := range c.Timeline.EventsOf(timeline.Wire, "") {
		from, to := e.Attrs["from"], e.Attrs["to"]
		// What a proxy passes before it has heard who is in the mesh is another rule's.
		if e.Attrs["what"] != timeline.WireDialled || tunnel.Takes(to) || e.At < c.Steady {
			continue
		}
		i := slices.IndexFunc(all, func(l leaver) bool {
			return l.isEnd(from, to) && e.At > l.asked && e.At < l.back+c.P
		})
		if i < 0 {
			const text = "a connection from %s to %s had no tunnel, and both were in the mesh"
			// Of one that is back it is the time that says so.
			if slices.ContainsFunc(all, func(l leaver) bool { return l.isEnd(from, to) && e.At >= l.back+c.P }) {
				y.Late(c, e.At, "", "", text, from, to)
			} else {
				y.Certain(e.At, "", "", text, from, to)
			}
			continue
		}
		if l := all[i]; e.At > l.left && e.At < l.joining {
			out[l.uid]++
		}
	}
	return out
}

// ownTunnels counts the looks at the sockets of a workload that saw a tunnel of its own later than P after its return; one
// that saw it while it was out has a culprit. looked is how many looks there were then, whatever they saw.
func ownTunnels(y *assertions.Tally, c assertions.Case, l leaver) (stood, looked int) {
	looks := map[time.Duration]bool{}
	for _, e := range c.Timeline.EventsOf(timeline.Sockets, l.uid) {
		if e.At > l.back+c.P {
			looks[e.At] = true
		}
		stands := slices.ContainsFunc(e.Held(), func(s timeline.Socket) bool { return s.State == "established" })
		switch {
		case !stands || !tunnel.Takes(e.Attrs["peer"]):
		case e.At > l.left+readWithin && e.At < l.joining:
			y.Against(e.At, l.name, "", "a tunnel to %s stood when it was out of the mesh", e.Attrs["peer"])
		case e.At > l.back+c.P:
			stood++
		}
	}
	return stood, len(looks)
}

// at says whether an address (host:port) is of a host that has some IPs.
func at(addr string, ips []string) bool {
	host, _, err := net.SplitHostPort(addr)
	return err == nil && slices.Contains(ips, host)
}
