// SPDX-License-Identifier: Apache-2.0

package assertions

import (
	"strings"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
)

// MarkFront says that what is ended stands before those that answer: a sample's Server, as it
// was recorded, is who stands behind. Attrs: deployment, where what is ended is one's pods.
// (Recordings of formats that have no such marker name who was reached right away.)
const MarkFront = "front"

// attribute says of each sample of a recording with a front which of its instances the client
// reached, in Server. Who that is stands in the recording: by whom the connection was given
// to whom (timeline.Chosen), else whose the address is that the request came from, else
// whom the client dialled; "" where nobody knows.
func attribute(tl *timeline.Timeline) {
	var front *timeline.Event
	for _, e := range tl.EventsOf(timeline.Marker, "") {
		if e.Attrs["what"] == MarkFront {
			front = &e
		}
	}
	if front == nil {
		return
	}
	given, at := history{}, history{}
	ours := map[string]bool{}
	for _, e := range tl.Events {
		if e.Kind == timeline.Chosen {
			given.add(e.Attrs["by"]+" "+e.Attrs["client"], e.At, e.Subject)
			continue
		}
		if d := front.Attrs["deployment"]; d != "" && OwnedBy(e.Attrs["owner"], d) {
			ours[e.Subject] = true
		}
		if ip := e.Attrs["ip"]; ip != "" && ours[e.Subject] {
			at.add(ip, e.At, e.Subject)
		}
	}
	for i, s := range tl.Samples {
		if s.Server == "" {
			continue
		}
		path, dialled := word(s, 0), ""
		if path == pathDirect {
			_, dialled, _ = strings.Cut(s.Stream, "@")
		}
		by := timeline.ByService
		if path == pathBalanced {
			by = timeline.ByBalancer
		}
		reached := at.of(s.Via, s.End)
		if reached == "" && dialled == "" {
			reached = given.of(by+" "+s.Local, s.End)
		}
		if reached == "" {
			reached = dialled
		}
		tl.Samples[i].Server = reached
	}
}

const pathDirect = "direct"

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
