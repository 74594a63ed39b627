// SPDX-License-Identifier: Apache-2.0

package assertions

import (
	"slices"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load/flow"
)

// endMargin is by how much a window ends before what ends it: an attempt that
// was begun at the last instant meets what comes after it.
const endMargin = 200 * time.Millisecond

// basis is an instant from which on something must have been known, told by
// the name of the instant that it counts from.
type basis struct {
	at     time.Duration
	name   string
	origin time.Duration
}

// tell tells an instant by the basis: T_endpoint + 2s.
func (b basis) tell(at time.Duration) string { return offset(b.name, at-b.origin) }

// terminatingSince is from when on the pod's endpoint of a Service must have
// been known to terminate: the slice's own word is the basis; where a slice
// says it late or never, the deletion must do, or a liar could never be caught.
func terminatingSince(c Case, t Ending, service string) basis {
	must := t.Del.At + shortLife
	for _, s := range endpointStates(c.Timeline, t.UID, service) {
		if s.at > must {
			break
		}
		if s.gone || s.terminating {
			return basis{at: s.at, name: "T_endpoint", origin: s.at}
		}
	}
	return basis{at: must, name: "T_del", origin: t.Del.At}
}

// unreadyAt is when an instance that drains first said that it does not serve:
// by its own word or by its pod's Ready condition, and never by the slices,
// which are what is judged. ok is false where nobody saw it.
func unreadyAt(tl *timeline.Timeline, t Ending) (at time.Duration, ok bool) {
	for _, e := range tl.Events {
		if e.Subject != t.UID || e.At < t.Drain.At-t.Drain.Err {
			continue
		}
		if e.Kind == timeline.DrainUnready || e.Kind == timeline.PodReady && e.Attrs["ready"] == "false" {
			return e.At - e.Err, true
		}
	}
	return 0, false
}

// unservingSince is from when on the pod's endpoint must have been known not
// to serve: by the slice's word, or by the pod's Ready condition and what a
// slice may take after it.
func unservingSince(c Case, t Ending) (since time.Duration, ok bool) {
	for _, e := range c.Timeline.Events {
		if e.Subject != t.UID || e.At < t.Drain.At-t.Drain.Err {
			continue
		}
		at := time.Duration(-1)
		switch {
		case e.Kind == timeline.Endpoint && ofService(e, MainService) && e.Attrs["serving"] == "false":
			at = e.At
		case e.Kind == timeline.PodReady && e.Attrs["ready"] == "false":
			at = e.At + shortLife
		}
		if at >= 0 && (!ok || at < since) {
			since, ok = at, true
		}
	}
	return since, ok
}

// acceptsUntil is when an instance stopped accepting: by its own word, as
// direct dials saw it, or at its exit. ok is false where nobody saw it.
func acceptsUntil(c Case, t Ending) (at time.Duration, ok bool) {
	return acceptsUntilBy(c, t, notServed)
}

// acceptsUntilBy is acceptsUntil, by what says that a dial failed.
func acceptsUntilBy(c Case, t Ending, failed func(timeline.Sample) bool) (at time.Duration, ok bool) {
	take := func(d time.Duration) {
		if !ok || d < at {
			at, ok = d, true
		}
	}
	for _, e := range c.Timeline.EventsOf(timeline.DrainListenerClosed, t.UID) {
		take(e.At)
	}
	if _, gone, _ := listenerBy(c, t, t.Drain.At, failed); gone != 0 {
		take(gone)
	}
	if t.Exit.Known() {
		take(t.Exit.At)
	}
	return at, ok
}

// collapse is the clock of a set of instances that terminate together, with
// none to replace them.
type collapse struct {
	// from is the first disruption, known when the last endpoint must have
	// been known to terminate.
	from  time.Duration
	known basis
	// until then all of them serve and accept.
	until time.Duration
	// unserving is when the last must have been known not to serve, closed
	// when the first stopped accepting.
	unserving, closed time.Duration
}

// collapsed derives the clock, where anything terminated. What it lacks is a
// doubt, and makes the window that it bounds empty.
func (g *gather) collapsed(c Case) (w collapse, ok bool) {
	g.needTerminations(c)
	if len(c.Terminations) == 0 {
		return w, false
	}
	w = collapse{from: c.Disturbed}
	pods := map[string]bool{}
	for i, t := range c.Terminations {
		pods[t.UID] = true
		if known := terminatingSince(c, t, MainService); i == 0 || known.at > w.known.at {
			w.known = known
		}
		closed, sawClosed := acceptsUntil(c, t)
		unready, sawUnready := unreadyAt(c.Timeline, t)
		unserving, sawUnserving := unservingSince(c, t)
		if !sawClosed || !sawUnready || !sawUnserving {
			g.doubt("nobody saw when %s stopped serving and accepting", t.Name)
			return collapse{}, true
		}
		serves := min(unready, closed)
		if i == 0 {
			w.until, w.closed = serves, closed
		}
		w.until, w.closed = min(w.until, serves), min(w.closed, closed)
		w.unserving = max(w.unserving, unserving)
	}
	w.until -= endMargin
	w.closed -= endMargin
	if readyBeside(c.Timeline, pods, MainService, w.known.at) {
		g.doubt("not all endpoints terminated: another one was ready")
		return collapse{}, true
	}
	return w, true
}

// way is one way to the pods: a path, and the node that it leads through where
// the path has a stream for each.
type way struct {
	path flow.Path
	node string
}

func (w way) String() string {
	if w.node == "" {
		return string(w.path)
	}
	return string(w.path) + " at " + w.node
}

// carries says whether a short request on a new connection went this way.
func (w way) carries(s timeline.Sample) bool {
	return s.Stream.Flow().Path == w.path && onNewConns(s) && s.Stream.Flow().Op == flow.Get &&
		(w.node == "" || s.Stream.Target() == w.node)
}

// waysTo are the ways to a set of instances: internal and external, with the
// traffic policies Cluster and Local. With the external Local one only nodes
// that hold an instance are eligible. Who is in a mesh has a Service's address resolved by its own data
// path, which knows no internal policy but Cluster.
func waysTo(ts []Ending) []way {
	out := []way{{path: flow.Service}, {path: flow.ServiceLocal}, {path: flow.NodePort}}
	if slices.ContainsFunc(ts, func(t Ending) bool { return t.Role.Meshed() }) {
		out = slices.DeleteFunc(out, func(w way) bool { return w.path == flow.ServiceLocal })
	}
	for _, n := range nodesOf(ts) {
		out = append(out, way{flow.NodePortLocal, n})
	}
	return out
}

// nodesOf are the nodes that held the instances, sorted.
func nodesOf(ts []Ending) []string {
	var out []string
	for _, t := range ts {
		if !slices.Contains(out, t.Node) {
			out = append(out, t.Node)
		}
	}
	slices.Sort(out)
	return out
}

// servers says which pod served a request, as the backends' own ledger has it.
func servers(tl *timeline.Timeline) map[string]string {
	out := make(map[string]string, len(tl.Ledger)/2)
	for _, e := range tl.Ledger {
		out[e.ID] = e.Pod
	}
	return out
}
