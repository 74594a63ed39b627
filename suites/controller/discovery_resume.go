// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/fixtures/controller"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// Envoy's API, envoy.service.discovery.v3.DeltaDiscoveryRequest, initial_resource_versions: "Informs the
// server of the versions of the resources the xDS client knows of, to enable the client to continue the
// same logical xDS session even in the face of gRPC stream reconnection." What a server has to make of
// that is the project's rule.
var _ = behaviour.Register(behaviour.Behaviour{
	ID:    "controller.discovery-resume",
	Title: "After a restart or a handover of the control plane no workload is lost from view, and none resurrected",
	Level: spec.Must,
	Refs: []spec.Ref{{
		Doc: "project", Section: "controllers",
		Quote: "After a restart or a handover, data planes resume with no workload lost from view and none resurrected.",
	}, {
		Doc: "Envoy documentation", Section: "DeltaDiscoveryRequest, initial_resource_versions", URL: "https://www.envoyproxy.io/docs/envoy/latest/api-v3/service/discovery/v3/discovery.proto",
		Quote: "Informs the server of the versions of the resources the xDS client knows of, to enable the client to continue the same logical xDS session even in the face of gRPC stream reconnection.",
	}},
	Profile: spec.Mesh,
	Needs:   []spec.Feature{spec.Services, spec.HTTP1},

	Why:    "A data plane goes on with what it knows while there is no controller, and believes the next one. One that speaks before it has looked takes every destination away at once, from all data planes of the mesh. One that does not name what went meanwhile leaves them with addresses that are another pod's by now.",
	Causes: "A server that is ready before its caches are. A delta server that keeps what clients have by its own memory, which a restart takes, and not by what they say that they have. Versions that count from the process's start, so that they mean something else after it. A stream that is resumed, and is never told of anything again.",
	Fix:    "Answer no stream before all is listed. Compare what a client names in initial_resource_versions with what there is, and name what is gone as removed. Make versions of what a resource says, so that they are the same in every replica.",

	Topology: behaviour.Resuming,
	Disrupt:  behaviour.HandOver,
	Traffic: []load.Profile{
		{Flow: flow.Flow{Path: flow.Service, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Get}, Rate: 50},
	},
	Checks:     []assertions.Check{ResumesWhole(), ServesNewcomers()},
	BrokenBy:   []spec.Fault{controller.SpeaksBeforeItKnows, controller.ForgetsRemovals, controller.SaysOnce},
	Resolution: 60 * time.Millisecond,
})

// span is a time; to is the end of the recording where it has no end.
type span struct{ from, to time.Duration }

func (s span) has(at time.Duration) bool { return s.from <= at && at < s.to }

// forever is the end of what has none.
const forever = time.Duration(1<<63 - 1)

// listing is which pods there were, by their names, as discovery was to know.
type listing map[string]span

// listed are the pods that were told of.
func listed(c assertions.Case) listing {
	out := listing{}
	for _, e := range c.Timeline.EventsOf(timeline.Listed, "") {
		switch e.Attrs["is"] {
		case timeline.ListedThere:
			out[e.Name] = span{e.At, forever}
		case timeline.ListedGone:
			out[e.Name] = span{out[e.Name].from, e.At}
		}
	}
	return out
}

// subscription is one stream of the suite's own client.
type subscription struct {
	span
	number string
	// known says that the client had something when it began.
	known bool
}

// subscriptions are the streams, in their order. Those that never began are none.
func subscriptions(c assertions.Case) []subscription {
	var out []subscription
	for _, e := range subscribed(c) {
		switch e.Attrs["is"] {
		case timeline.SubscribedOpen:
			out = append(out, subscription{span{e.At, forever}, e.Attrs["stream"], e.Attrs["known"] != "0"})
		case timeline.SubscribedEnd:
			if n := len(out); n > 0 && out[n-1].number == e.Attrs["stream"] {
				out[n-1].to = e.At
			}
		}
	}
	return out
}

// subscribed is what the suite's own client was told, in order.
func subscribed(c assertions.Case) []timeline.Event {
	var out []timeline.Event
	for _, e := range c.Timeline.Events {
		if e.Kind == timeline.Subscribed {
			out = append(out, e)
		}
	}
	slices.SortStableFunc(out, func(a, b timeline.Event) int { return cmp.Compare(a.At, b.At) })
	return out
}

// orphaned are the times from the first stream to the last in which no stream stood.
func orphaned(all []subscription) []span {
	var out []span
	for i, s := range all[min(1, len(all)):] {
		out = append(out, span{all[i].to, s.from})
	}
	return out
}

func during(all []span, at time.Duration) bool {
	return slices.ContainsFunc(all, func(s span) bool { return s.has(at) })
}

// due is what has to be known of a pod by an instant: that it is there, or that it is not. text says what is wrong else.
type due struct {
	at         time.Duration
	name, text string
	there      bool
}

// ResumesWhole judges what the suite's own client of discovery was told, against the pods that there
// were: of one that is there it is never told that it is gone; P after a stream has begun the client
// knows each pod that was there all the time since, and none that had gone before, to the stream's end; and what comes or
// goes while a stream stands it hears within P.
func ResumesWhole() assertions.Check {
	resumed := assertions.Floor{Name: "streams that began anew, and lasted for P", N: 3, Reason: "the controllers go one after the other, and then both"}
	came := assertions.Floor{Name: "pods that came while there was no stream", N: 3, Reason: "one comes each 400 ms while there is no controller"}
	went := assertions.Floor{Name: "pods that went while there was no stream", N: 3, Reason: "one goes each 400 ms"}
	return assertions.Check{
		Name:     "what discovery says of the pods, from one controller to the next",
		Expected: "it names no pod as gone that is there; P after a stream has begun, who has it knows all pods that are there, and none that has gone, and is told of none of these again; of what comes or goes while a stream stands it hears within P",
		Floors:   []assertions.Floor{resumed, came, went},
		Judge: func(c assertions.Case) spec.Finding {
			var y assertions.Tally
			for range y.Terminations(c) { // that there was one is the other check's
				break
			}
			pods, streams := listed(c), subscriptions(c)
			alone := orphaned(streams)
			unheard := [2]int{} // that came, and that went
			for _, at := range pods {
				for i, one := range []time.Duration{at.from, at.to} {
					if during(alone, one) {
						unheard[i]++
					}
				}
			}
			y.Count(came, unheard[0])
			y.Count(went, unheard[1])
			lost, raised := 0, 0
			began := map[string]time.Duration{} // streams, by their numbers
			for _, s := range streams {
				began[s.number] = s.from
			}
			view := map[string]bool{}
			events := subscribed(c)
			// known says that there is no more to be told before an instant.
			tell := func(until time.Duration) {
				for len(events) > 0 && events[0].At <= until {
					e := events[0]
					events = events[1:]
					from, ours := began[e.Attrs["stream"]]
					for _, name := range strings.Fields(e.Attrs["pods"]) {
						view[name] = true
						if is, ok := pods[name]; ok && ours && is.to != forever && e.At > max(from, is.to)+c.P {
							raised++
							y.Late(c, e.At, name, "", "%s after it had begun, stream %s says that %s is there, which had gone %s before that", (e.At - from).Round(time.Millisecond), e.Attrs["stream"], name, (e.At - is.to).Round(time.Millisecond))
						}
					}
					for _, name := range strings.Fields(e.Attrs["gone"]) {
						delete(view, name)
						if is, ok := pods[name]; ok && is.has(e.At) {
							lost++
							y.Against(e.At, name, "", "stream %s: %s is gone, it says, which is there", e.Attrs["stream"], name)
						}
					}
				}
			}
			n := 0
			var all []due
			names := slices.Sorted(maps.Keys(pods))
			for _, s := range streams {
				last := s.to
				if last == forever {
					last = c.Tail // one that nobody saw end lasted to the tail; without a tail nobody knows
				}
				end := s.from + c.P
				resumes := s.known && end <= last
				if resumes {
					n++
					y.Span(s.from, end)
				}
				for _, name := range names {
					is := pods[name]
					if by := is.from + c.P; s.has(is.from) && by <= last && is.to > by {
						all = append(all, due{by, name, fmt.Sprintf("%s came, and %s later stream %s, which stood then, has not said so", name, c.P, s.number), true})
					}
					if is.to != forever && s.has(is.to) && is.to+c.P <= last {
						all = append(all, due{is.to + c.P, name, fmt.Sprintf("%s went, and %s later stream %s, which stood then, has not said so", name, c.P, s.number), false})
					}
					switch {
					case !resumes:
					case is.from < s.from && is.to > end:
						all = append(all, due{end, name, fmt.Sprintf("%s after stream %s had begun nobody has said that %s is there", c.P, s.number, name), true})
					case is.to < s.from:
						went := (s.from - is.to).Round(time.Millisecond)
						all = append(all, due{end, name, fmt.Sprintf("%s after stream %s had begun nobody has said that %s is gone, which went %s before it", c.P, s.number, name, went), false})
					}
				}
			}
			slices.SortStableFunc(all, func(a, b due) int { return cmp.Compare(a.at, b.at) })
			for _, d := range all {
				tell(d.at)
				switch {
				case view[d.name] == d.there:
					continue
				case d.there:
					lost++
				default:
					raised++
				}
				y.Late(c, d.at, d.name, "", "%s", d.text)
			}
			tell(forever)
			y.Count(resumed, n)
			return y.Conclude(
				fmt.Sprintf("%s began anew, and all of %s were known as they were", assertions.Plural(n, "stream", "streams"), assertions.Plural(len(pods), "pod", "pods")),
				fmt.Sprintf("%s lost from view, and %s kept that had gone", assertions.Plural(lost, "pod was", "pods were"), assertions.Plural(raised, "was", "were")))
		},
	}
}

// ServesNewcomers judges what an application sees of it: no request to the Service fails, and an
// instance that came while there was no controller has its share of them.
func ServesNewcomers() assertions.Check {
	newcomers := assertions.Floor{Name: "requests that were served by an instance which came while there was no controller", N: 50}
	return assertions.Check{
		Name:     "requests to the Service, while its data planes resume",
		Expected: "each is served, and some by an instance that came while there was no controller",
		Floors:   []assertions.Floor{newcomers},
		Judge: func(c assertions.Case) spec.Finding {
			var y assertions.Tally
			for range y.Terminations(c) {
				break
			}
			alone := orphaned(subscriptions(c))
			came := map[string]bool{}
			for _, e := range c.Timeline.Events {
				if e.Kind == timeline.PodSeen && during(alone, e.At) {
					came[e.Subject] = true
				}
			}
			all, theirs := 0, 0
			for _, s := range c.Timeline.Samples {
				if s.Stream.Flow().Path != flow.Service || s.End < c.Steady {
					continue
				}
				all++
				y.Span(s.Start, s.End)
				switch {
				case s.Failed():
					y.Failed(c, s, s.Start, "", "%s of the recording", s.Start.Round(time.Millisecond))
				case came[s.Server]:
					theirs++
				}
			}
			y.Count(newcomers, theirs)
			return y.Conclude(
				fmt.Sprintf("all of %s were served, %d by who came while there was no controller", assertions.Plural(all, "request", "requests"), theirs),
				fmt.Sprintf("%s of %d failed", assertions.Plural(y.Culprits(), "request", "requests"), all))
		},
	}
}
