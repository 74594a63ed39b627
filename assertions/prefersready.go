// SPDX-License-Identifier: Apache-2.0

package assertions

import (
	"cmp"
	"fmt"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// acceptMargin is how much longer than T_endpoint + P the target must go on
// accepting: of a pod that is dead nothing can be shown.
const acceptMargin = 5 * time.Second

// PrefersReady judges that in a mixed set no new connection reaches a
// terminating endpoint after P.
func PrefersReady() Check {
	newConns := Floor{Per: "termination", Name: "new connections offered to the Service from T_endpoint + P to the exit", N: 200}
	reusedConns := Floor{Per: "termination", Name: "requests on reused connections offered to the Service from T_endpoint to the exit", N: 200}
	return Check{
		Name:     "new connections through the Service after T_endpoint + P",
		Expected: "while ready endpoints exist, no new connection reaches a terminating one later than P after its EndpointSlice said so",
		Floors:   []Floor{newConns, reusedConns},
		Judge: func(c Case) spec.Finding {
			var g gather
			servedBy := map[string]string{}
			for _, e := range c.Timeline.Ledger {
				servedBy[e.ID] = e.Pod
			}
			ended := g.toll(c.terminated())
			for t := range ended.each() {
				from := terminatingSince(c, t, MainService)
				after, until := from.at+c.P, from.at+c.P+acceptMargin
				end := max(until, t.exitOr(until))
				g.span(from.at, end)
				last, _, _ := listener(c, t, t.Drain.At)
				var w attempts // on new connections: lost are those that came too late
				reused := 0
				for _, s := range c.Timeline.Samples {
					if !throughService(s) || s.Start < from.at || s.Start > end {
						continue
					}
					if s.Nth > 1 && !s.Saturated {
						reused++
					}
					if !s.New() || s.Start <= after {
						continue
					}
					if !s.Saturated {
						w.sound++
					}
					// Who served it the backend itself says best.
					reached := s.Reached == t.UID || servedBy[s.ID] == t.UID
					// What another pod is known to have had, it lost.
					lost := s.Failed() && s.Start <= t.exitOr(until) && cmp.Or(s.Reached, servedBy[s.ID]) == ""
					if !reached && !lost {
						continue
					}
					if !othersReady(c.Timeline, t.UID, MainService, s.Start) {
						g.doubt("at times no other endpoint than that of %s was ready", t.Name)
						continue
					}
					w.lost++
					if reached {
						g.late(c, s.Start, t.Name, s.ID, "%s: a new connection through the Service reached the terminating pod", from.tell(s.Start))
					} else {
						g.late(c, s.Start, t.Name, s.ID, "%s: a new connection through the Service failed: %s", from.tell(s.Start), describe(s))
					}
				}
				ended.add(w)
				switch {
				case last == 0:
					g.doubt("%s accepted nothing after D: "+deadPod, t.Name)
				case last < until:
					g.doubt("%s did not go on accepting until %s (the last that it accepted was at %s): "+deadPod, t.Name, from.tell(until), from.tell(last))
				}
				ended.has(newConns, w.sound)
				ended.has(reusedConns, reused)
			}
			total, late := ended.sum.sound, ended.sum.lost
			ended.bound(ended.hit, max(total, late), late)
			return g.conclude(
				fmt.Sprintf("none of %d new connections reached a terminating pod after P; propagation took at most %s", total, worstPropagation(c)),
				fmt.Sprintf("%s a terminating pod later than P, at %d of %s",
					plural(late, "new connection reached, or was lost on the way to,", "new connections reached, or were lost on the way to,"),
					ended.hit, ended))
		},
	}
}

// othersReady says whether an endpoint of the Service other than uid's was
// ready at an instant, as the watch had shown it by then.
func othersReady(tl *timeline.Timeline, uid, service string, at time.Duration) bool {
	return readyBeside(tl, map[string]bool{uid: true}, service, at)
}

// readyBeside says whether an endpoint of the Service that is none of the
// pods' was ready at an instant, as the watch had shown it by then.
func readyBeside(tl *timeline.Timeline, pods map[string]bool, service string, at time.Duration) bool {
	type endpoint struct{ pod, family string }
	ready := map[endpoint]bool{}
	for _, e := range tl.Events {
		if e.At > at {
			break
		}
		if !ofService(e, service) {
			continue
		}
		switch e.Kind {
		case timeline.Endpoint:
			ready[endpoint{e.Subject, e.Attrs["family"]}] = e.Attrs["ready"] == "true"
		case timeline.EndpointGone:
			delete(ready, endpoint{e.Subject, e.Attrs["family"]})
		}
	}
	for other, is := range ready {
		if is && !pods[other.pod] {
			return true
		}
	}
	return false
}

// Propagation is T_lastnew - T_endpoint of each termination in which a new
// connection came after T_endpoint; 0 where none did. Where nothing else was
// ready it is no propagation: then terminating endpoints are used as long as
// they serve.
func Propagation(c Case) []time.Duration {
	var out []time.Duration
	for _, t := range c.Terminations {
		if !t.Endpoint.Known() || !t.LastNew.Known() || !othersReady(c.Timeline, t.UID, MainService, t.LastNew.At) {
			continue
		}
		out = append(out, max(0, t.LastNew.At-t.Endpoint.At))
	}
	return out
}

func worstPropagation(c Case) time.Duration {
	worst := time.Duration(0)
	for _, d := range Propagation(c) {
		worst = max(worst, d)
	}
	return ms(worst)
}
