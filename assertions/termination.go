// SPDX-License-Identifier: Apache-2.0

package assertions

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
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

// Termination is the clock of one instance's end, as the design page names
// its instants.
type Termination struct {
	UID, Name, Node, IP string

	Del      Instant // the watch first shows a deletionTimestamp
	Drain    Instant // D: SIGTERM, preStop or a drain call arrived
	Endpoint Instant // the EndpointSlice says terminating
	LastNew  Instant // last new connection that reached it through the Service
	Exit     Instant // the process is gone
	Net      Instant // the interface is gone
	Gone     Instant // the API server has forgotten the pod
	// Grace is the grace period of the deletion; Kill is K, the deadline.
	Grace time.Duration
	Kill  time.Duration
	// ExitCode of the container, -1 where nobody saw it.
	ExitCode int
}

// Terminations derives the ends of all instances that were deleted, in the
// order of their D. Events before the first that shows a pod's deletion don't
// make one: a pod that dies without a deletion is no termination.
func Terminations(tl *timeline.Timeline) []Termination {
	byUID := map[string]*Termination{}
	exits := map[string][]Instant{}
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
		case timeline.PodDeletion:
			t := get(e)
			first(&t.Del, e, 0)
			if s, err := strconv.Atoi(e.Attrs["grace"]); err == nil {
				t.Grace = time.Duration(s) * time.Second
			}
		case timeline.DrainStart:
			first(&get(e).Drain, e, 0)
		case timeline.Endpoint:
			if e.Attrs["terminating"] == "true" {
				first(&get(e).Endpoint, e, 0)
			}
		case timeline.EndpointGone:
			// An endpoint that went without ever terminating left here.
			first(&get(e).Endpoint, e, 0)
		case timeline.ProcExit:
			exits[e.Subject] = append(exits[e.Subject], Instant{At: e.At, Err: e.Err, Source: e.Source})
		case timeline.NetGone:
			first(&get(e).Net, e, 0)
		case timeline.PodContainer:
			if e.Attrs["state"] == "terminated" {
				t := get(e)
				exits[e.Subject] = append(exits[e.Subject], Instant{At: e.At, Err: kubeletWatch, Source: e.Source})
				if code, err := strconv.Atoi(e.Attrs["exitCode"]); err == nil {
					t.ExitCode = code
				}
			}
		case timeline.PodGone:
			first(&get(e).Gone, e, 0)
		}
	}
	var out []Termination
	for _, t := range byUID {
		if !t.Del.Known() {
			continue
		}
		if !t.Drain.Known() {
			// The kubelet acts on the deletion that the watch shows us too.
			t.Drain = Instant{At: t.Del.At, Err: kubeletWatch, Source: t.Del.Source + " (deletion)"}
		}
		for _, x := range exits[t.UID] {
			// An exit before the deletion was a restart.
			if x.At+x.Err < min(t.Del.At, t.Drain.At) {
				continue
			}
			if !t.Exit.Known() || x.Err < t.Exit.Err {
				t.Exit = x
			}
		}
		if !t.Exit.Known() && t.Gone.Known() {
			t.Exit = Instant{At: t.Gone.At, Err: kubeletWatch, Source: t.Gone.Source + " (gone)"}
		}
		t.Kill = t.Del.At + t.Grace
		out = append(out, *t)
	}
	slices.SortFunc(out, func(a, b Termination) int {
		return cmp.Or(cmp.Compare(a.Drain.At, b.Drain.At), cmp.Compare(a.UID, b.UID))
	})
	for i := range out {
		out[i].LastNew = lastNew(tl, out[i].UID)
	}
	return out
}

// lastNew is the last new connection through a Service that the instance
// answered: the client's own instant at which the connection stood.
func lastNew(tl *timeline.Timeline, uid string) Instant {
	var last Instant
	for _, s := range tl.Samples {
		if s.Server == uid && s.New() && throughService(s) && s.Dial > last.At {
			last = Instant{At: s.Dial, Source: "probe"}
		}
	}
	return last
}

// throughService and direct read a sample's path off its stream's name:
// load.Profile.Key begins with the path, and a direct stream ends with "@"
// and the target's UID.
func throughService(s timeline.Sample) bool { return strings.HasPrefix(s.Stream, "service/") }

func directTo(s timeline.Sample, uid string) bool {
	return strings.HasPrefix(s.Stream, "direct/") && strings.HasSuffix(s.Stream, "@"+uid)
}

// word returns the n-th part of a stream's name: path, protocol, connections,
// operation.
func word(s timeline.Sample, n int) string {
	key, _, _ := strings.Cut(s.Stream, "@")
	parts := strings.Split(key, "/")
	if n >= len(parts) {
		return ""
	}
	return parts[n]
}

func onNewConns(s timeline.Sample) bool { return word(s, 2) == "new" }

// slowOp says whether the sample's operation takes time by design.
func slowOp(s timeline.Sample) bool { return word(s, 3) != "get" }
