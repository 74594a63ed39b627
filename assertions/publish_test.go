// SPDX-License-Identifier: Apache-2.0

package assertions

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

const podIP, otherIP = "fd00::a", "fd00::b"

// published is the healthy termination with Services that publish not-ready
// addresses, and with a plain headless one.
func published() *scene {
	s := healthy()
	s.tl.Events = append(s.tl.Events, timeline.Event{At: sec, Source: "test", Kind: timeline.PodSeen, Subject: uid, Name: "pod-a", Attrs: map[string]string{"ip": "fd00:0::a"}})
	for _, service := range []string{"publishing", "headless-publishing"} {
		s.endpoint(sec, uid, service, "TTF")
		s.endpoint(del+20*time.Millisecond, uid, service, "TTT")
		s.endpoint(19*sec+500*time.Millisecond, uid, service, "TFT")
		s.tell(shut+400*time.Millisecond, timeline.EndpointGone, uid, map[string]string{"service": service})
	}
	// The probe has failed: the pods' watch may be ahead of the slices'.
	s.tell(19*sec+300*time.Millisecond, timeline.PodReady, uid, map[string]string{"ready": "false"})
	s.endpoint(sec, uid, "headless", "TTF")
	s.endpoint(del+20*time.Millisecond, uid, "headless", "FTT")
	s.endpoint(19*sec+500*time.Millisecond, uid, "headless", "FFT")
	s.tell(shut+400*time.Millisecond, timeline.EndpointGone, uid, map[string]string{"service": "headless"})
	n := 0
	s.stream("publishing/http1/new/get", 30, func(x *timeline.Sample) {
		x.Server = "uid-b"
		if n++; n%4 == 0 && x.Start < shut {
			x.Server = uid
		}
	})
	s.stream("headless/dns/new/lookup", 10, func(x *timeline.Sample) {
		x.Answers = []string{otherIP}
		if x.Start < del+200*time.Millisecond {
			x.Answers = []string{podIP, otherIP}
		}
	})
	s.stream("headless-publishing/dns/new/lookup", 10, func(x *timeline.Sample) {
		x.Answers = []string{podIP, otherIP}
		if x.Start > shut+300*time.Millisecond {
			x.Answers = []string{otherIP}
		}
	})
	return s
}

// servedByOther moves what a path serves to the other pod, in the ledger too.
func servedByOther(s *scene, path flow.Path, since time.Duration) {
	moved := map[string]bool{}
	s.from(path, since, 60*sec, func(x *timeline.Sample) {
		x.Server = "uid-b"
		moved[x.ID] = true
	})
	for i := range s.tl.Ledger {
		if e := &s.tl.Ledger[i]; moved[e.ID] {
			e.Pod = "uid-b"
		}
	}
}

// ignorePublishing is what the fault of that name makes of it.
func ignorePublishing(s *scene) {
	for i := range s.tl.Events {
		e := &s.tl.Events[i]
		if e.Kind == timeline.Endpoint && publishing[e.Attrs["service"]] && e.At > del {
			e.Attrs["ready"] = "false"
		}
	}
	servedByOther(s, "publishing", del+sec)
	s.from("headless-publishing", del+sec, 40*sec, func(x *timeline.Sample) { x.Answers = []string{otherIP} })
}

// alwaysReady is what the fault of that name makes of it.
func alwaysReady(s *scene) {
	for i := range s.tl.Events {
		if e := &s.tl.Events[i]; e.Kind == timeline.Endpoint {
			e.Attrs["ready"], e.Attrs["serving"], e.Attrs["terminating"] = "true", "true", "false"
		}
	}
	s.from("headless", del, shut+400*time.Millisecond, func(x *timeline.Sample) { x.Answers = []string{podIP, otherIP} })
}

func TestPublished(t *testing.T) {
	lookups := func(name flow.Path, from, to time.Duration, answers ...string) func(*scene) {
		return func(s *scene) {
			s.from(name, from, to, func(x *timeline.Sample) { x.Answers = answers })
		}
	}
	dead := func(s *scene) {
		s.from("direct", del+sec, 40*sec, turn)
		servedByOther(s, "publishing", del+sec)
	}
	published := once(published)
	t.Run("states", func(t *testing.T) {
		table(t, published, StaysPublished(), []judged{
			{"healthy", nil, spec.Pass, ""},
			{"not ready while terminating", ignorePublishing, spec.Fail, ""},
			{"not ready once unready", func(s *scene) {
				s.endpoint(20*sec, uid, "headless-publishing", "FFT")
			}, spec.Fail, ""},
			{"never terminating", alwaysReady, spec.Inconclusive, ""},
			{"gone before its pod", func(s *scene) {
				s.goneAt("publishing", 13*sec)
			}, spec.Fail, "T_del + 3s: gone 9.2s before its pod was"},
			{"gone with its pod", func(s *scene) {
				s.goneAt("publishing", shut)
			}, spec.Pass, ""},
			{"one Service was not seen", func(s *scene) {
				s.drop(func(e timeline.Event) bool { return e.Attrs["service"] == "publishing" })
			}, spec.Inconclusive, ""},
			{"a gap", func(s *scene) {
				s.tell(11*sec, timeline.WatchGap, "endpointslices", map[string]string{"why": "410"})
			}, spec.Inconclusive, ""},
		})
	})
	t.Run("reach", func(t *testing.T) {
		table(t, published, ReachesPublished(), []judged{
			{"healthy", nil, spec.Pass, ""},
			{"not at all", ignorePublishing, spec.Fail, ""},
			{"not in the second half", func(s *scene) {
				servedByOther(s, "publishing", 17*sec)
			}, spec.Fail, ""},
			{"not once it is unready", func(s *scene) {
				servedByOther(s, "publishing", 19*sec+500*time.Millisecond)
			}, spec.Fail, "none of 66 new connections reached a terminating pod that accepted and had ceased to be ready"},
			{"not once it is unready, on a starved machine", func(s *scene) {
				servedByOther(s, "publishing", 19*sec+500*time.Millisecond)
				s.each(func(x *timeline.Sample) {
					x.Saturated = x.Stream.Flow().Path == flow.Direct && x.Start >= 19*sec && x.Start < 26*sec
				})
			}, spec.Inconclusive, ""},
			{"nobody saw it unready", noEvents(timeline.PodReady), spec.Inconclusive, ""},
			{"others may fail", func(s *scene) {
				s.from("publishing", 0, 40*sec, func(x *timeline.Sample) {
					if x.Server != uid {
						turn(x)
					}
				})
			}, spec.Pass, ""},
			{"too little was offered", func(s *scene) {
				n := 0
				s.tl.Samples = slices.DeleteFunc(s.tl.Samples, func(x timeline.Sample) bool {
					n++
					return x.Stream.Flow().Path == flow.Publishing && n%3 != 0
				})
			}, spec.Inconclusive, ""},
			{"nothing reached it, and too little was offered to tell", func(s *scene) {
				ignorePublishing(s)
				n := 0
				s.tl.Samples = slices.DeleteFunc(s.tl.Samples, func(x timeline.Sample) bool {
					n++
					return x.Stream.Flow().Path == flow.Publishing && n%5 != 0
				})
			}, spec.Inconclusive, ""},
			{"the pod is dead", dead, spec.Inconclusive, ""},
		})
	})
	t.Run("names", func(t *testing.T) {
		table(t, published, NamesPublished(), []judged{
			{"healthy", nil, spec.Pass, ""},
			{"the publishing one drops it", ignorePublishing, spec.Fail, ""},
			{"one answer lacks it", lookups("headless-publishing", 15*sec, 15*sec+100*time.Millisecond, otherIP), spec.Fail, ""},
			{"the publishing one may drop it after the exit", lookups("headless-publishing", shut+200*time.Millisecond, 40*sec, otherIP), spec.Pass, ""},
			{"the plain one keeps it for some seconds", lookups("headless", del, 16*sec, podIP, otherIP), spec.Pass, ""},
			{"the plain one keeps it to the end", alwaysReady, spec.Inconclusive, ""},
			{"the plain one keeps it beyond TTL + P", func(s *scene) {
				s.add(timeline.Sample{
					Stream: flow.Named("headless/dns/new/lookup"), ID: "late", Nth: 1, Start: 44 * sec, End: 44*sec + 1,
					Outcome: timeline.OK, Phase: timeline.PhaseDone, Answers: []string{podIP},
				})
			}, spec.Fail, ""},
			{"another pod has the address by then", func(s *scene) {
				s.tell(30*sec, timeline.PodReady, "uid-new", map[string]string{"ready": "true", "ip": podIP})
				s.add(timeline.Sample{
					Stream: flow.Named("headless/dns/new/lookup"), ID: "late", Nth: 1, Start: 44 * sec, End: 44*sec + 1,
					Outcome: timeline.OK, Phase: timeline.PhaseDone, Answers: []string{podIP},
				})
			}, spec.Inconclusive, ""},
			{"a lookup without an answer says nothing", func(s *scene) {
				s.from("headless-publishing", 15*sec, 15*sec+500*time.Millisecond, func(x *timeline.Sample) {
					x.Answers = nil
					fail(x, timeline.Timeout)
				})
			}, spec.Pass, ""},
			{"it never had it", func(s *scene) {
				lookups("headless", 0, 40*sec, otherIP)(s)
			}, spec.Inconclusive, ""},
			{"nobody asked", noSamples("headless-publishing"), spec.Inconclusive, ""},
			{"the pod left at once", func(s *scene) {
				s.tell(del+100*time.Millisecond, timeline.ProcExit, uid, nil)
			}, spec.Inconclusive, ""},
		})
	})
}

// goneAt moves the end of the pod's endpoint of a Service.
func (s *scene) goneAt(service string, at time.Duration) {
	s.drop(func(e timeline.Event) bool {
		return e.Attrs["service"] == service && (e.Kind == timeline.EndpointGone || e.Kind == timeline.Endpoint && e.At > at)
	})
	s.tell(at, timeline.EndpointGone, uid, map[string]string{"service": service})
}

func TestConditionsOfEachService(t *testing.T) {
	table(t, published, LegalConditions(), []judged{
		{"ready while terminating is right where it is published", nil, spec.Pass, ""},
		{"not ready is wrong there", ignorePublishing, spec.Fail, ""},
		{"ready is wrong in the plain headless one", func(s *scene) { s.endpoint(12*sec, uid, "headless", "TTT") }, spec.Fail, ""},
		{"terminating goes back in one", func(s *scene) { s.endpoint(12*sec, uid, "publishing", "TTF") }, spec.Fail, ""},
		{"one's life is not another's", func(s *scene) {
			// Seen before the others know of it: no step back in any.
			s.endpoint(del+5*time.Millisecond, uid, "headless", "FTT")
		}, spec.Pass, ""},
		{"each family has a life of its own", func(s *scene) {
			for i := range s.tl.Events {
				if e := &s.tl.Events[i]; e.Kind == timeline.Endpoint || e.Kind == timeline.EndpointGone {
					e.Attrs["family"] = "IPv4"
				}
			}
			for _, e := range slices.Clone(s.tl.Events) {
				if e.Attrs["family"] != "" {
					e.At += 100 * time.Millisecond
					e.Attrs = maps.Clone(e.Attrs)
					e.Attrs["family"] = "IPv6"
					s.tl.Events = append(s.tl.Events, e)
				}
			}
		}, spec.Pass, ""},
		{"ready while terminating in one family", func(s *scene) {
			s.endpoint(9*sec, uid, "headless", "TTF")
			s.tl.Events[len(s.tl.Events)-1].Attrs["family"] = "IPv6"
			s.endpoint(12*sec, uid, "headless", "TTT")
			s.tl.Events[len(s.tl.Events)-1].Attrs["family"] = "IPv6"
		}, spec.Fail, "ready while terminating"},
		{"one was never seen to terminate", func(s *scene) {
			s.drop(func(e timeline.Event) bool {
				return e.Attrs["service"] == "headless" && (e.Attrs["terminating"] == "true" || e.Kind == timeline.EndpointGone)
			})
			s.tell(del+sec, timeline.EndpointGone, uid, map[string]string{"service": "headless"})
		}, spec.Fail, "gone 11.2s before its pod was"},
		{"the app's own was never seen", func(s *scene) {
			s.drop(func(e timeline.Event) bool { return e.Attrs["service"] == "echo" })
		}, spec.Inconclusive, ""},
	})
}
