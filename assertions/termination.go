// SPDX-License-Identifier: Apache-2.0

package assertions

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load/flow"
)

// Instant is a moment with its source and its uncertainty to either side.
type Instant struct {
	At     time.Duration
	Err    time.Duration
	Source string
}

// Known says whether anybody saw it.
func (i Instant) Known() bool { return i.Source != "" }

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
	// shows a change.
	watchSkew = 100 * time.Millisecond
	// stopsWithin bounds how long the runtime takes from there to the hook's begin, or
	// to the signal.
	stopsWithin = 200 * time.Millisecond
)

// Termination is the clock of one instance's end, as the design page names
// its instants.
type Termination struct {
	UID, Name, Node, IP string
	// Address is where who stands before it dials it; "": at its own IP.
	Address string

	Del      Instant // the watch first shows a deletionTimestamp
	Hook     Instant // the preStop hook reached it
	Drain    Instant // D: SIGTERM, preStop or a drain call arrived
	Endpoint Instant // the EndpointSlice of mainService says terminating
	LastNew  Instant // last new connection that reached it through the Service
	Exit     Instant // the process is gone
	Net      Instant // the interface is gone
	Gone     Instant // the API server has forgotten the pod
	// Grace is the grace period of the deletion; Kill is K, the deadline.
	Grace time.Duration
	Kill  time.Duration
	// ExitCode of the container, -1 where nobody saw it.
	ExitCode int
	// Shut: its node's graceful shutdown ended it, and no deletion. Then Del,
	// Grace and Kill are not known: the kubelet keeps that time to itself.
	Shut bool
}

// ending is one of a container's: a restart has one too. code is -1 where nobody told it.
type ending struct {
	Instant
	code int
}

// Terminations derives the ends of all instances that were deleted, or that
// their node's shutdown ended, in the order of their D. Events before the
// first that shows a pod's deletion don't make one: a pod that dies without
// either is no termination.
func Terminations(tl *timeline.Timeline) []Termination {
	byUID := map[string]*Termination{}
	aside := containersAside(tl)
	exits, killing := map[string][]ending{}, map[string][]timeline.Event{}
	down := shutdowns(tl)
	get := func(e timeline.Event) *Termination {
		t := byUID[e.Subject]
		if t == nil {
			t = &Termination{UID: e.Subject, ExitCode: -1}
			byUID[e.Subject] = t
		}
		if e.Name != "" && e.Kind != timeline.Endpoint {
			t.Name = e.Name
		}
		if e.Node != "" {
			t.Node = e.Node
		}
		if ip := e.Attrs["ip"]; ip != "" && t.IP == "" {
			t.IP = ip
		}
		return t
	}
	first := func(i *Instant, e timeline.Event, err time.Duration) {
		if !i.Known() {
			*i = Instant{At: e.At, Err: max(err, e.Err), Source: e.Source}
		}
	}
	for _, e := range tl.Events {
		if e.Subject == "" {
			continue
		}
		switch e.Kind {
		case timeline.PodSeen:
			get(e)
		case timeline.PodAddress:
			get(e).Address = e.Attrs["address"]
		case timeline.PodDeletion:
			t := get(e)
			first(&t.Del, e, 0)
			if s, err := strconv.Atoi(e.Attrs["grace"]); err == nil {
				t.Grace = time.Duration(s) * time.Second
			}
		case timeline.ClusterEvent:
			if e.Attrs["reason"] == "Killing" {
				killing[e.Subject] = append(killing[e.Subject], e)
			}
		case timeline.DrainHook:
			first(&get(e).Hook, e, 0)
		case timeline.DrainStart:
			first(&get(e).Drain, e, 0)
		case timeline.Endpoint:
			if e.Attrs["terminating"] == "true" && ofService(e, mainService) {
				first(&get(e).Endpoint, e, 0)
			}
		case timeline.EndpointGone:
			// An endpoint that went without ever terminating left here.
			if ofService(e, mainService) {
				first(&get(e).Endpoint, e, 0)
			}
		case timeline.ProcExit:
			if !aside(e) {
				exits[e.Subject] = append(exits[e.Subject], ending{Instant{At: e.At, Err: e.Err, Source: e.Source}, -1})
			}
		case timeline.NetGone:
			first(&get(e).Net, e, 0)
		case timeline.PodContainer:
			if e.Attrs["state"] == "terminated" && !aside(e) {
				x := ending{Instant{At: e.At, Err: kubeletWatch, Source: e.Source}, -1}
				if code, err := strconv.Atoi(e.Attrs["exitCode"]); err == nil {
					x.code = code
					get(e).ExitCode = code
				}
				exits[e.Subject] = append(exits[e.Subject], x)
			}
		case timeline.PodGone:
			first(&get(e).Gone, e, 0)
		}
	}
	var out []Termination
	for _, t := range byUID {
		// A failed pod may be deleted after all, long after its end.
		if s, ended := shutBy(*t, down[t.Node], down[t.UID], exits[t.UID]); ended {
			out = append(out, s)
			continue
		}
		if !t.Del.Known() {
			continue
		}
		if !t.Drain.Known() {
			t.Drain = drainOf(t.Del, killing[t.UID])
		}
		t.Kill = t.Del.At + t.Grace
		// An exit before the deletion was a restart.
		out = append(out, t.closed(exits[t.UID], min(t.Del.At, t.Drain.At)))
	}
	slices.SortFunc(out, func(a, b Termination) int {
		return cmp.Or(cmp.Compare(a.Drain.At, b.Drain.At), cmp.Compare(a.UID, b.UID))
	})
	for i := range out {
		out[i].LastNew = lastNew(tl, out[i].UID)
	}
	return out
}

// drainOf is D of an instance that said nothing of it: between its deletion and the
// first event by which the kubelet tells that it ends a container of it. Without one,
// the kubelet acts on the deletion that the watch shows us too.
func drainOf(del Instant, killing []timeline.Event) Instant {
	begin := del.At - del.Err - watchSkew
	for _, e := range killing {
		if e.At < begin {
			continue // it was restarted before
		}
		half := (e.At + stopsWithin - begin) / 2
		return Instant{At: begin + half, Err: half, Source: del.Source + " (deletion, and the kubelet's event Killing)"}
	}
	return Instant{At: del.At, Err: kubeletWatch, Source: del.Source + " (deletion)"}
}

// containersAside says of the event of a container whether it is another one than
// the recording is about: a proxy's end is not that of what stands beside it.
func containersAside(tl *timeline.Timeline) func(timeline.Event) bool {
	own := ""
	for _, e := range tl.EventsOf(timeline.Marker, "") {
		if e.Attrs["what"] == MarkSubject {
			own = e.Attrs["container"]
		}
	}
	return func(e timeline.Event) bool {
		return own != "" && e.Attrs["container"] != "" && e.Attrs["container"] != own
	}
}

// closed is the termination with its exit: the best known of those since an
// instant.
func (t Termination) closed(exits []ending, since time.Duration) Termination {
	t.ExitCode = -1
	for _, x := range exits {
		if x.At+x.Err < since {
			continue // that was a restart
		}
		if !t.Exit.Known() || x.Err < t.Exit.Err {
			t.Exit = x.Instant
		}
		if x.code >= 0 {
			t.ExitCode = x.code
		}
	}
	if !t.Exit.Known() && t.Gone.Known() {
		t.Exit = Instant{At: t.Gone.At, Err: kubeletWatch, Source: t.Gone.Source + " (gone)"}
	}
	return t
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
				out[key] = Instant{At: e.At, Err: e.Err, Source: e.Source}
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
func shutBy(t Termination, node, pod Instant, exits []ending) (Termination, bool) {
	quiet := !t.Drain.Known() && pod.Known() && t.ExitCode > 0
	if quiet {
		t.Drain = Instant{At: node.At, Err: kubeletWatch, Source: node.Source + " (node shutdown)"}
	}
	if !node.Known() || !t.Drain.Known() || t.Drain.At < node.At {
		return t, false
	}
	shut := t.closed(exits, t.Drain.At)
	if !shut.Exit.Known() && quiet || t.Del.Known() && (!shut.Exit.Known() || shut.Exit.At >= t.Del.At) {
		return t, false
	}
	shut.Shut, shut.Del, shut.Grace = true, Instant{}, 0
	return shut, true
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

func throughService(s timeline.Sample) bool { return s.Stream.Flow().Path == flow.Service }

func directTo(s timeline.Sample, uid string) bool {
	return s.Stream.Target() == uid && s.Stream.Flow().Path == flow.Direct
}

func onNewConns(s timeline.Sample) bool { return s.Stream.Flow().Conns == flow.New }

// Short says whether the sample's operation takes no time by design, over a path without
// delay.
func Short(s timeline.Sample) bool { return !slowOp(s) && delay(s) == 0 }

// slowOp says whether the sample's operation takes time by design.
func slowOp(s timeline.Sample) bool { return s.Stream.Flow().Op != flow.Get }
