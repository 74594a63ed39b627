// SPDX-License-Identifier: Apache-2.0

package assertions

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
)

// kubeletWatch bounds how much later than the truth the API server's watch
// shows what the kubelet did: PLEG relists once a second, and the status
// manager syncs after it.
const kubeletWatch = 2 * time.Second

// How well D is known of an instance that says nothing of it, by the kubelet's event
// Killing. The kubelet tells that before it begins the preStop hook, or asks the
// runtime for the signal (kuberuntime, killContainer), and not before it has heard of
// the deletion, as our own watch does.
const (
	// watchSkew bounds how much earlier than ours another watch of the API server
	// shows a change, where nobody knows since when there was one to show.
	watchSkew = 100 * time.Millisecond
	// stopsWithin bounds how long the runtime takes from there to the hook's begin, or
	// to the signal.
	stopsWithin = 200 * time.Millisecond
)

// endingsOf derives all endings of a recording, in the order in which they began.
func endingsOf(tl *timeline.Timeline, m marks) []Ending {
	down := shutdowns(tl)
	all := map[string]*instance{}
	for _, e := range tl.Events {
		if e.Subject == "" || !tellsOfEnds(e) || m.aside(e) {
			continue
		}
		if all[e.Subject] == nil {
			all[e.Subject] = &instance{Ending: Ending{UID: e.Subject, ExitCode: -1}}
		}
		all[e.Subject].note(e)
	}
	var out []Ending
	for _, i := range all {
		i.Role = m.role(i.UID)
		out = append(out, i.endings(down[i.Node], down[i.UID])...)
	}
	slices.SortFunc(out, func(a, b Ending) int {
		return cmp.Or(cmp.Compare(a.Begin().At, b.Begin().At), cmp.Compare(a.UID, b.UID), cmp.Compare(a.Exit.At, b.Exit.At))
	})
	for i := range out {
		if out[i].terminates() {
			out[i].LastNew = lastNew(tl, out[i].UID)
		}
	}
	return out
}

// tellsOfEnds says whether instance.note makes anything of an event.
func tellsOfEnds(e timeline.Event) bool {
	switch e.Kind {
	case timeline.PodSeen, timeline.PodAddress, timeline.PodDeletion, timeline.PodContainer, timeline.PodReady, timeline.PodGone,
		timeline.DrainHook, timeline.DrainStart, timeline.ProcExit, timeline.NetGone, timeline.MeshLeaving, timeline.MeshLeft:
		return true
	case timeline.ClusterEvent:
		return e.Attrs["reason"] == "Killing"
	case timeline.Endpoint:
		return e.Attrs["terminating"] == "true" && ofService(e, MainService)
	case timeline.EndpointGone:
		// An endpoint that went without ever terminating left here.
		return ofService(e, MainService)
	case timeline.Disruption:
		return (e.Attrs["what"] == drainCall || asksForDeletion(e)) && e.Attrs["error"] == ""
	}
	return false
}

// drainCall is the disruption that begins a drain and deletes nothing (fixtures/disrupt).
const drainCall = "drain-call"

// asksForDeletion says whether by a disruption the suite asks the API server to delete its subject.
func asksForDeletion(e timeline.Event) bool {
	return e.Attrs["what"] == "delete" || e.Attrs["what"] == "evict"
}

// instance is what a recording tells of one instance. The Ending has what its endings share,
// and the first of each instant that only its last one can have.
type instance struct {
	Ending
	drains, running, ready []Instant
	leaving, left          []Instant // a mesh
	exits                  []exit
	killing, calls         []timeline.Event
	asked                  Instant // the suite asked for its deletion, the last time
}

// exit is the end of a container: a restart has one too. code is -1 where nobody told it.
type exit struct {
	Instant
	code int
}

// note takes an event in the order of the recording.
func (i *instance) note(e timeline.Event) {
	i.identify(e)
	switch at := instantOf(e, 0); e.Kind {
	case timeline.PodAddress:
		i.Address = e.Attrs["address"]
	case timeline.PodDeletion:
		if i.asked.Known() {
			at.Err = max(at.Err, at.At-i.asked.At)
		}
		i.Del = i.Del.or(at)
		if s, err := strconv.Atoi(e.Attrs["grace"]); err == nil {
			i.Grace = time.Duration(s) * time.Second
		}
	case timeline.ClusterEvent:
		i.killing = append(i.killing, e)
	case timeline.Disruption:
		if asksForDeletion(e) {
			i.asked = at
			break
		}
		i.calls = append(i.calls, e)
	case timeline.DrainHook:
		i.Hook = i.Hook.or(at)
	case timeline.DrainStart:
		i.drains = append(i.drains, at)
	case timeline.Endpoint, timeline.EndpointGone:
		i.Endpoint = i.Endpoint.or(at)
	case timeline.MeshLeaving:
		i.leaving = append(i.leaving, at)
	case timeline.MeshLeft:
		i.left = append(i.left, at)
	case timeline.ProcExit:
		i.exits = append(i.exits, exit{at, -1})
	case timeline.PodContainer:
		i.contained(e)
	case timeline.PodReady:
		if e.Attrs["ready"] == "true" {
			i.ready = append(i.ready, at)
		}
	case timeline.NetGone:
		i.Net = i.Net.or(at)
	case timeline.PodGone:
		i.Gone = i.Gone.or(at)
	}
}

// contained takes what the API server says of the instance's container.
func (i *instance) contained(e timeline.Event) {
	switch e.Attrs["state"] {
	case "running":
		i.running = append(i.running, instantOf(e, 0))
	case "terminated":
		x := exit{instantOf(e, kubeletWatch), -1}
		if code, err := strconv.Atoi(e.Attrs["exitCode"]); err == nil {
			x.code = code
		}
		i.exits = append(i.exits, x)
	}
}

// identify takes what an event says of who the instance is. What its node and the suite say
// of it fills gaps only.
func (i *instance) identify(e timeline.Event) {
	switch e.Kind {
	case timeline.Endpoint, timeline.EndpointGone: // their name is the slice's
	case timeline.ProcExit, timeline.ClusterEvent, timeline.Disruption:
		i.Name, i.Node = cmp.Or(i.Name, e.Name), cmp.Or(i.Node, e.Node)
		return
	default:
		i.Name = cmp.Or(e.Name, i.Name)
	}
	i.Node, i.IP = cmp.Or(e.Node, i.Node), cmp.Or(i.IP, e.Attrs["ip"])
	for _, ip := range e.IPs() {
		if !slices.Contains(i.IPs, ip) {
			i.IPs = append(i.IPs, ip)
		}
	}
}

func instantOf(e timeline.Event, err time.Duration) Instant {
	return Instant{At: e.At, Err: max(err, e.Err), Source: e.Source}
}

// or is the instant, or another where nobody saw it.
func (i Instant) or(other Instant) Instant {
	if i.Known() {
		return i
	}
	return other
}

// firstFrom is the first of some instants, in their order, that is not before another.
func firstFrom(all []Instant, from time.Duration) Instant {
	for _, i := range all {
		if i.At >= from {
			return i
		}
	}
	return Instant{}
}

// endings are those of one instance: of its processes that ended while its pod stood, its own,
// where it was ended, and those by which it left a mesh. node and pod are when the suite shut
// its node down, and meant it.
func (i *instance) endings(node, pod Instant) []Ending {
	var own []Ending
	exits := i.exits
	if end, ended := i.termination(node, pod); ended {
		own = []Ending{end}
		exits = slices.DeleteFunc(slices.Clone(exits), func(x exit) bool { return end.claims(x, i.back()) })
	}
	return append(i.called(append(i.processEnds(exits), own...)), i.leavings()...)
}

// leavings are the endings by which the instance left a mesh. It may be enrolled again, and
// leave again.
func (i *instance) leavings() []Ending {
	var out []Ending
	for _, begin := range i.leaving {
		e := i.ending(CauseLeaving)
		e.Drain, e.Exit = begin, firstFrom(i.left, begin.At)
		out = append(out, e)
	}
	return out
}

// back is when the instance ran again for the last time before its deletion: what was before
// that is of no ending by the deletion. 0: it never did.
func (i *instance) back() time.Duration {
	last := time.Duration(0)
	for _, r := range i.running {
		again := slices.ContainsFunc(i.exits, func(x exit) bool { return x.At <= r.At })
		if again && i.Del.Known() && r.At <= i.Del.At {
			last = r.At
		}
	}
	return last
}

// termination is the end of an instance that was deleted, or that its node's shutdown ended.
func (i *instance) termination(node, pod Instant) (_ Ending, ended bool) {
	t := i.Ending
	t.Drain = firstFrom(i.drains, 0)
	// A failed pod may be deleted after all, long after its end.
	if shut, ended := i.shutBy(t, node, pod); ended {
		return shut, true
	}
	if !t.Del.Known() {
		return Ending{}, false
	}
	back := i.back()
	t.Cause, t.Drain = CauseDeletion, firstFrom(i.drains, back).or(drainOf(t.Del, i.asked, i.killing))
	t.Kill = t.Del.At + t.Grace
	return t.closed(i.exits, back), true
}

// drainOf is D of an instance that said nothing of it: between its deletion and the
// first event by which the kubelet tells that it ends a container of it. Without one,
// the kubelet acts on the deletion that the watch shows us too. asked is when the suite asked for it, if it did.
func drainOf(del, asked Instant, killing []timeline.Event) Instant {
	begin := del.At - max(del.Err, watchSkew)
	if asked.Known() {
		begin = del.At - del.Err // which reaches to where it was asked for
	}
	for _, e := range killing {
		if e.At < begin {
			continue // it was restarted before
		}
		half := (e.At + stopsWithin - begin) / 2
		return Instant{At: begin + half, Err: half, Source: del.Source + " (deletion, and the kubelet's event Killing)"}
	}
	return Instant{At: del.At, Err: max(kubeletWatch, del.Err), Source: del.Source + " (deletion)"}
}

// claims says whether an exit is that of a termination: one before it may have begun was a restart, and a watch may show late that it
// has. back is when the instance last came back from one.
func (e Ending) claims(x exit, back time.Duration) bool {
	return x.At >= back && x.At+x.Err >= e.Earliest()
}

// closed is a termination with its exit: the best known of those that are its own.
func (e Ending) closed(exits []exit, back time.Duration) Ending {
	for _, x := range exits {
		if e.claims(x, back) {
			e.leaves(x)
		}
	}
	if !e.Exit.Known() && e.Gone.Known() {
		e.Exit = Instant{At: e.Gone.At, Err: max(kubeletWatch, e.Gone.Err), Source: e.Gone.Source + " (gone)"}
	}
	return e
}

// leaves takes an exit of the ending's, in the order of time: the best known stays. Of a node proxy's pod, where nobody
// said which container is the proxy's, it is the last one that a witness saw: what stands beside a proxy may go at once.
func (e *Ending) leaves(x exit) {
	last := e.Role == RoleProxies && x.Err < kubeletWatch
	if !e.Exit.Known() || x.Err < e.Exit.Err || last {
		e.Exit = x.Instant
	}
	if x.code >= 0 {
		e.ExitCode = x.code
	}
}

// shutdowns are the instants at which the suite shut nodes down, by node and by
// the UID of each pod that it meant to end.
func shutdowns(tl *timeline.Timeline) map[string]Instant {
	out := map[string]Instant{}
	for _, e := range tl.EventsOf(timeline.Disruption, "") {
		if e.Attrs["what"] != "node-shutdown" || e.Attrs["error"] != "" {
			continue
		}
		for _, key := range []string{cmp.Or(e.Attrs["node"], e.Node), e.Subject} {
			if _, there := out[key]; !there && key != "" {
				out[key] = instantOf(e, 0)
			}
		}
	}
	return out
}

// shutBy is the termination of an instance that the shutdown of its node
// ended: it drained after it, and was not deleted before its end. One that
// was to be ended, said nothing of a drain and left with an error was ended so
// too: mostly it was killed at once. What left well without a word may have had
// reasons of its own.
func (i *instance) shutBy(t Ending, node, pod Instant) (Ending, bool) {
	quiet := !t.Drain.Known() && pod.Known() && lastCode(i.exits) > 0
	if quiet {
		t.Drain = Instant{At: node.At, Err: kubeletWatch, Source: node.Source + " (node shutdown)"}
	}
	if !node.Known() || !t.Drain.Known() || t.Drain.At < node.At {
		return t, false
	}
	del := t.Del
	t.Cause, t.Del, t.Grace = CauseShutdown, Instant{}, 0
	t = t.closed(i.exits, 0)
	if !t.Exit.Known() && quiet || del.Known() && (!t.Exit.Known() || t.Exit.At >= del.At) {
		return t, false
	}
	return t, true
}

// lastCode is the exit code that was told last, -1 where none was.
func lastCode(exits []exit) int {
	for _, x := range slices.Backward(exits) {
		if x.code >= 0 {
			return x.code
		}
	}
	return -1
}

// processEnds are the endings of processes whose pod stood, by their exits: what a witness and
// the API server tell before the container runs again is one end.
func (i *instance) processEnds(exits []exit) []Ending {
	var out []Ending
	var since time.Duration // the exit at hand
	for _, x := range exits {
		if again := firstFrom(i.running, since); len(out) == 0 || again.Known() && again.At < x.At {
			out = append(out, i.ending(CauseProcessEnd))
		}
		out[len(out)-1].leaves(x)
		since = x.At
	}
	begin := time.Duration(0)
	for n := range out {
		e := &out[n]
		if d := firstFrom(i.drains, begin); d.At <= e.Exit.At {
			e.Drain = d
		}
		begin = e.Exit.At
		e.Running, e.Ready = firstFrom(i.running, begin), firstFrom(i.ready, begin)
		if i.Del.Known() && (!e.Ready.Known() || i.Del.At < e.Ready.At) {
			e.Del = i.Del
		}
	}
	return out
}

// ending is one of the instance's, of which nothing but the cause is known yet.
func (i *instance) ending(cause Cause) Ending {
	return Ending{
		Role: i.Role, Cause: cause, UID: i.UID, Name: i.Name, Node: i.Node, IP: i.IP, IPs: i.IPs, Address: i.Address, ExitCode: -1,
	}
}

// called tells the endings, in their order, which of them the suite's calls to drain led to:
// of each the first that was not over yet. A call after which nobody saw any is an ending of
// which only the begin is known.
func (i *instance) called(all []Ending) []Ending {
	for _, call := range i.calls {
		n := slices.IndexFunc(all, func(e Ending) bool { return !e.Exit.Known() || e.Exit.At >= call.At })
		if n < 0 {
			n, all = len(all), append(all, i.ending(CauseProcessEnd))
		}
		e := &all[n]
		if e.Called.Known() {
			continue
		}
		e.Called = instantOf(call, 0)
		if e.terminates() {
			continue
		}
		took, err := time.ParseDuration(call.Attrs["took"])
		if err != nil {
			took = 0
		}
		e.Drain = firstFrom(i.drains, call.At)
		if !e.Drain.Known() || e.Exit.Known() && e.Drain.At > e.Exit.At {
			e.Drain = Instant{At: call.At, Err: took, Source: call.Source + " (drain call)"}
		}
	}
	return all
}

// lastNew is the last new connection through a Service that the instance
// answered: the client's own instant at which the connection stood.
func lastNew(tl *timeline.Timeline, uid string) Instant {
	var last Instant
	for _, s := range tl.Samples {
		if s.Reached == uid && s.New() && throughService(s) && s.Dial > last.At {
			last = Instant{At: s.Dial, Source: "probe"}
		}
	}
	return last
}
