// SPDX-License-Identifier: Apache-2.0

package assertions

import (
	"cmp"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load/flow"
)

// MarkFront says that what is ended stands before those that answer. Attrs: deployment, where
// what is ended is one's pods; role, where it is another than a gateway's (Ending). (Recordings
// of formats that have no such marker name who was reached as who answered.)
const MarkFront = "front"

// attribute says of each sample of a recording which of the instances that are ended the
// client reached. Without a front it is who answered. Else it stands in the recording: whose
// the address is that the request came from, else whom the client dialled, else to whom the
// connection was given (timeline.Chosen); "" where nobody knows. Of those that name nobody
// (MarkPlain) any answer is one of who was reached.
func attribute(tl *timeline.Timeline) {
	var pods *Addresses
	nameless := plain(tl)
	for _, e := range tl.EventsOf(timeline.Marker, "") {
		if e.Attrs["what"] == MarkFront {
			pods = NewAddresses(e.Attrs["deployment"])
		}
	}
	given := history{}
	for _, e := range tl.Events {
		switch {
		case e.Kind == timeline.Chosen:
			given.add(e.Attrs["by"]+" "+e.Attrs["client"], e.At, e.Subject)
		case pods != nil:
			pods.Note(e)
		}
	}
	for i := range tl.Samples {
		s := &tl.Samples[i]
		s.Reached = s.Server
		if answered := s.Server != "" || nameless && s.Status != 0; !answered || pods == nil && !nameless {
			continue
		}
		dialled, by := "", timeline.ByService
		switch s.Stream.Flow().Path {
		case flow.Direct:
			dialled = s.Stream.Target()
		case flow.Balanced:
			by = timeline.ByBalancer
		}
		via := ""
		if pods != nil {
			via = pods.Of(s.Via, s.End)
		}
		s.Reached = cmp.Or(via, dialled, given.of(by+" "+s.Local, s.End))
	}
}

// Addresses are those of the pods of one Deployment, as the events of a recording show them.
type Addresses struct {
	deployment string
	ours       map[string]bool // its pods, by UID
	at         history         // their UID, by IP
}

// NewAddresses knows no pod yet; of no Deployment ("") it never does.
func NewAddresses(deployment string) *Addresses {
	return &Addresses{deployment: deployment, ours: map[string]bool{}, at: history{}}
}

// Note takes an event in the order of the recording.
func (a *Addresses) Note(e timeline.Event) {
	if a.deployment != "" && OwnedBy(e.Attrs["owner"], a.deployment) {
		a.ours[e.Subject] = true
	}
	if a.ours[e.Subject] {
		for _, ip := range e.IPs() {
			a.at.add(ip, e.At, e.Subject)
		}
	}
}

// Of is the UID of the pod that had an IP last at an instant; "" where it is nobody's that we
// know.
func (a *Addresses) Of(ip string, at time.Duration) string { return a.at.of(ip, at) }

// history is who had something, by what, each from an instant on.
type history map[string][]holder

type holder struct {
	from time.Duration
	uid  string
}

func (h history) add(what string, from time.Duration, uid string) {
	all := h[what]
	if n := len(all); n > 0 && all[n-1].uid == uid {
		return
	}
	h[what] = append(all, holder{from, uid})
}

// of is who had it last at an instant. What is told late belongs to whom it is told of first.
func (h history) of(what string, at time.Duration) string {
	all := h[what]
	for i := len(all) - 1; i >= 0; i-- {
		if all[i].from <= at || i == 0 {
			return all[i].uid
		}
	}
	return ""
}
