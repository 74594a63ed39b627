// SPDX-License-Identifier: Apache-2.0

package assertions

import (
	"cmp"
	"fmt"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// FallsBack judges that a set of which all endpoints terminate, and serve, goes
// on being used: inside the cluster and from outside, with both policies.
func FallsBack() Check {
	servedFloor := Floor{Per: "path", Name: "new connections offered while all pods served", N: 200}
	servedLater := Floor{Per: "path", Name: "new connections offered while all pods served, after T_endpoint + P", N: 60,
		Reason: "P is 3 s of the 8 s in which the pods serve; a set that nobody falls back on loses each of them",
	}
	return Check{
		Name:     "new connections while all endpoints terminate and serve",
		Expected: "from the deletion of all pods until the first of them stops serving, each new connection is served by one of them: from inside and outside, with the traffic policies Cluster and Local",
		Floors:   []Floor{servedFloor, servedLater},
		Judge: func(c Case) spec.Finding {
			var g gather
			w, ok := g.collapsed(c)
			if !ok {
				return g.conclude("", "")
			}
			g.span(w.from, w.until)
			all, lost := 0, 0
			for _, way := range waysTo(c.Terminations) {
				n, after := 0, 0
				for _, s := range c.Timeline.Samples {
					if !way.carries(s) || s.Start < w.from || s.Start >= w.until {
						continue
					}
					all++
					if !s.Saturated {
						n++
						if s.Start > w.known.at+c.P {
							after++
						}
					}
					if s.Failed() {
						lost++
						g.lost(c, s, way.String(), "%s, %s before the first pod stopped serving: %s", w.known.tell(s.Start), ms(w.until-s.Start), describe(s))
					}
				}
				g.countOf(way.String(), servedFloor, n)
				g.countOf(way.String(), servedLater, after)
			}
			g.policies(c, w)
			return g.conclude(
				fmt.Sprintf("all %d new connections were served while nothing but terminating pods was left", all),
				fmt.Sprintf("%d of %s failed while terminating pods served", lost, plural(all, "new connection", "new connections")))
		},
	}
}

// policies doubts a recording in which the answers came from elsewhere than
// the case says: then it was another case.
func (g *gather) policies(c Case, w collapse) {
	nodes := map[string]string{}
	for _, t := range c.Terminations {
		nodes[t.UID] = t.Node
	}
	local := ""
	for _, s := range c.Timeline.Samples {
		if s.Failed() || s.Start < w.from || s.Start >= w.until || !onFallback(s) {
			continue
		}
		node, ours := nodes[s.Reached]
		switch path := s.Stream.Flow().Path; {
		case !ours:
			g.doubt("%s was answered by pod %s, which did not terminate", s.Stream, s.Reached)
		case path == flow.ServiceLocal && local != "" && local != node:
			g.doubt("with the internal policy Local, pods of %s and of %s answered one client", local, node)
		case path == flow.ServiceLocal:
			local = node
		case path == flow.NodePortLocal && !(way{path, node}).carries(s):
			g.doubt("with the external policy Local, a pod of %s answered %s", node, s.Stream)
		}
	}
}

func onFallback(s timeline.Sample) bool {
	switch s.Stream.Flow().Path {
	case flow.Service, flow.ServiceLocal, flow.NodePort, flow.NodePortLocal:
		return onNewConns(s) && s.Stream.Flow().Op == flow.Get
	}
	return false
}

// NeverUnready judges that endpoints which terminate and don't serve are not
// used, even when there are no others.
func NeverUnready() Check {
	unserved := Floor{Per: "path", Name: "new connections offered while no pod served", N: 150,
		Reason: "the pods accept for 12 s after they stop serving, of which the probe takes 1 s and P 3 s; the paths share that window, and are offered more than 200 together",
	}
	acceptedFloor := Floor{Per: "termination", Name: "new connections that the pod itself accepted meanwhile", N: 50}
	return Check{
		Name:     "new connections while all endpoints terminate and none serves",
		Expected: "from P after the last pod's endpoint has stopped saying serving, until the first pod stops accepting, no new connection through the service network reaches a pod",
		Floors:   []Floor{unserved, acceptedFloor},
		Judge: func(c Case) spec.Finding {
			var g gather
			w, ok := g.collapsed(c)
			if !ok {
				return g.conclude("", "")
			}
			from := w.unserving + c.P
			g.span(from, w.closed)
			served := servers(c.Timeline)
			ours := map[string]bool{}
			for _, t := range c.Terminations {
				ours[t.UID] = true
			}
			all, reached := 0, 0
			for _, way := range waysTo(c.Terminations) {
				n := 0
				for _, s := range c.Timeline.Samples {
					if !way.carries(s) || s.Start < from || s.Start >= w.closed {
						continue
					}
					all++
					if !s.Saturated {
						n++
					}
					// Who has a connection was let through, whatever became
					// of it. One that stood only when the pods were closing
					// was a SYN sent again, which met their successors.
					server := cmp.Or(s.Reached, served[s.ID])
					if !ours[server] && (s.Dial == 0 || s.Dial >= w.closed) {
						continue
					}
					if server != "" && !ours[server] {
						g.doubt("%s was answered by pod %s, which did not terminate", s.Stream, server)
						continue
					}
					reached++
					g.late(c, s.Start, way.String(), s.ID, "T(serving=false) + %s: a new connection was let through to a pod that says it does not serve", ms(s.Start-w.unserving))
				}
				g.countOf(way.String(), unserved, n)
			}
			for _, t := range c.Terminations {
				last, _, n := listener(c, t, from)
				g.least(acceptedFloor, t.Name, n)
				if last < w.closed-endMargin-listenerWindow {
					g.doubt("%s did not go on accepting: of a pod that is dead nothing can be shown", t.Name)
				}
			}
			return g.conclude(
				fmt.Sprintf("none of %d new connections reached a pod that said it did not serve", all),
				fmt.Sprintf("%d of %s reached a pod that said it did not serve", reached, plural(all, "new connection", "new connections")))
		},
	}
}

// NodeLeavesBalancer judges that the health check node port of a node on which
// all endpoints terminate says 503, while its node port goes on serving.
func NodeLeavesBalancer() Check {
	healthy := Floor{Per: "node", Name: "answers of 200 before anything was disturbed", N: 10,
		Reason: "a state that is asked for and no rate: balancers poll it every few seconds",
	}
	unhealthy := Floor{Per: "node", Name: "answers of 503 after T_endpoint + P, while the node port served", N: 20, Reason: "as above"}
	stillServed := Floor{Per: "node", Name: "new connections that the node port served meanwhile", N: 60,
		Reason: "that it serves is what the health check is held against, and no demand of this rule",
	}
	return Check{
		Name:     "the health check node port beside the node port of a node whose endpoints all terminate",
		Expected: "while endpoints are ready the health check node port says 200; from T_endpoint + P on it says 503, and the node port still serves",
		Floors:   []Floor{healthy, unhealthy, stillServed},
		Judge: func(c Case) spec.Finding {
			var g gather
			g.needTerminations(c)
			wrong := 0
			for _, node := range nodesOf(c.Terminations) {
				var known basis
				for _, t := range c.Terminations {
					if since := terminatingSince(c, t, string(flow.NodePortLocal)); t.Node == node && since.at > known.at {
						known = since
					}
				}
				from := known.at + c.P
				until, served := servedBy(c, node, from)
				g.span(from, max(from, until))
				before, said := 0, 0
				for _, s := range c.Timeline.Samples {
					if s.Stream.Flow().Path != flow.HealthPort || s.Stream.Target() != node {
						continue
					}
					switch {
					case s.Start >= c.Steady && s.Start < c.Disturbed:
						if !s.Failed() {
							before++
						}
					case s.Start < from || s.Start > until:
						// Nobody says what it must answer then.
					case !s.Failed():
						wrong++
						g.late(c, s.Start, node, s.ID, "%s: the health check node port said 200, and all endpoints of the node terminated", known.tell(s.Start))
					case s.Status == 503:
						said++
					default:
						g.doubt("the health check node port of %s did not answer with 503: %s", node, describe(s))
					}
				}
				g.least(healthy, node, before)
				g.least(unhealthy, node, said)
				g.least(stillServed, node, served)
			}
			return g.conclude(
				"the health check node port said 503 and the node port served",
				fmt.Sprintf("the health check node port said 200 %s while all endpoints of its node terminated", plural(wrong, "time", "times")))
		},
	}
}

// servedBy is when the terminating pods of a node last answered its node port,
// and how many new connections they did since an instant.
func servedBy(c Case, node string, since time.Duration) (last time.Duration, n int) {
	there := map[string]bool{}
	for _, t := range c.Terminations {
		there[t.UID] = t.Node == node
	}
	for _, s := range c.Timeline.Samples {
		if s.Failed() || s.Start < since || !there[s.Reached] || !(way{flow.NodePortLocal, node}).carries(s) {
			continue
		}
		last = max(last, s.Start)
		if !s.Saturated {
			n++
		}
	}
	return last, n
}
