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

// rollout is a rolling update of a Deployment, as the watches showed it.
type rollout struct {
	// begin is when it was asked for, end when the recording's pacing ended.
	begin, end time.Duration
	says       []strategy
	pods       []replica
}

// strategy is what the Deployment itself wants, from an instant on.
type strategy struct {
	at                    time.Duration
	replicas, unavailable int
	minReady              time.Duration
}

// replica is the life of one of the Deployment's pods.
type replica struct {
	uid, name string
	seen      time.Duration
	// left is when it was deleted, or gone without that; 0: it stayed.
	left  time.Duration
	ready []readiness
}

type readiness struct {
	at time.Duration
	is bool
}

// rollingUpdate finds the rolling update in a recording. What is missing of
// it is a doubt; without a Deployment that says what it promises there is
// nothing to judge, and ok is false.
func (g *gather) rollingUpdate(c Case) (r rollout, ok bool) {
	asked := disruptions(c.Timeline, "rollout")
	if len(asked) == 0 {
		g.doubt("no rolling update was asked for")
		return r, false
	}
	r.begin, r.end = asked[0].At, c.Tail
	g.span(r.begin, r.end)
	if r.end == 0 {
		g.doubt("the recording was stopped before the rolling update's end was told")
		r.end = lastEvent(c.Timeline)
	}
	for _, resource := range []string{"pods", "deployments"} {
		if gap := watchGap(c.Timeline, resource); gap != "" {
			g.doubt("the watch of %s has a gap: %s", resource, gap)
		}
	}
	if e, ok := r.blurred(c.Timeline); ok {
		g.doubt("the watch that told of %s (%s) had been away for %s: what it told then may have been in another order", cmp.Or(e.Name, e.Subject), e.Kind, ms(e.Err))
	}
	for _, e := range c.Timeline.EventsOf(timeline.Deployment, asked[0].Subject) {
		if s, err := readStrategy(e); err == nil {
			r.says = append(r.says, s)
		}
	}
	if len(r.says) == 0 {
		g.doubt("nobody saw what the Deployment promises")
		return r, false
	}
	r.pods = podsOf(c.Timeline, asked[0].Name, r.end)
	// What was there before has to be seen to go, and as much to come.
	old, left, came := 0, 0, 0
	for _, p := range r.pods {
		switch {
		case p.seen >= r.begin:
			came++
		case p.left == 0 || p.left >= r.begin:
			old++
			if p.left != 0 {
				left++
			}
		}
	}
	want := r.saysAt(r.begin).replicas
	if old < want || left < old || came < want {
		g.doubt("of a rolling update of %d pods, %d were seen to be there, %d to be deleted and %d to come", want, old, left, came)
	}
	return r, true
}

// blurred finds what a watch told of pods during the rolling update when it had been away, for longer than one
// watch is behind another: what one list shows is one instant, and fewer may have been ready before it.
func (r rollout) blurred(tl *timeline.Timeline) (timeline.Event, bool) {
	for _, e := range tl.Events {
		switch e.Kind {
		case timeline.PodSeen, timeline.PodReady, timeline.PodDeletion, timeline.PodGone:
			if e.At >= r.begin && e.At-e.Err <= r.end && e.Err > watchSkew {
				return e, true
			}
		}
	}
	return timeline.Event{}, false
}

// disruptions are what was done to the system of a kind, and not refused.
func disruptions(tl *timeline.Timeline, what string) []timeline.Event {
	return slices.DeleteFunc(tl.EventsOf(timeline.Disruption, ""), func(e timeline.Event) bool {
		return e.Attrs["what"] != what || e.Attrs["error"] != ""
	})
}

func lastEvent(tl *timeline.Timeline) time.Duration {
	if len(tl.Events) == 0 {
		return 0
	}
	return tl.Events[len(tl.Events)-1].At
}

func readStrategy(e timeline.Event) (s strategy, err error) {
	s.at = e.At
	if s.replicas, err = strconv.Atoi(e.Attrs["replicas"]); err != nil {
		return s, err
	}
	if s.unavailable, err = strconv.Atoi(e.Attrs["maxUnavailable"]); err != nil {
		return s, err
	}
	minReady, err := strconv.Atoi(e.Attrs["minReadySeconds"])
	s.minReady = time.Duration(minReady) * time.Second
	return s, err
}

// OwnedBy says whether the owner of a pod, as the watch tells it, is a ReplicaSet of
// a Deployment: the Deployment's name, a dash, and a hash without one. Of an empty
// name, of any Deployment.
func OwnedBy(owner, deployment string) bool {
	set, ok := strings.CutPrefix(owner, "ReplicaSet/")
	dash := strings.LastIndexByte(set, '-')
	return ok && dash > 0 && (deployment == "" || set[:dash] == deployment)
}

// podsOf are the pods of a Deployment by its name, in the order in which they
// came. What happens after end is the suite's own removal of them.
func podsOf(tl *timeline.Timeline, deployment string, end time.Duration) []replica {
	var out []replica
	at := map[string]int{}
	for _, e := range tl.Events {
		if e.At > end {
			break
		}
		i, known := at[e.Subject]
		switch e.Kind {
		case timeline.PodSeen:
			if !known && OwnedBy(e.Attrs["owner"], deployment) {
				at[e.Subject] = len(out)
				out = append(out, replica{uid: e.Subject, name: e.Name, seen: e.At})
			}
		case timeline.PodReady:
			if known {
				out[i].ready = append(out[i].ready, readiness{at: e.At, is: e.Attrs["ready"] == "true"})
			}
		case timeline.PodDeletion, timeline.PodGone:
			if known && out[i].left == 0 {
				out[i].left = e.At
			}
		}
	}
	return out
}

// saysAt is what the Deployment said last by an instant.
func (r rollout) saysAt(at time.Duration) strategy {
	said := r.says[0]
	for _, s := range r.says {
		if s.at <= at {
			said = s
		}
	}
	return said
}

// deletions are the pods that were deleted during the rolling update, in order.
func (r rollout) deletions() []replica {
	var out []replica
	for _, p := range r.pods {
		if p.left >= r.begin {
			out = append(out, p)
		}
	}
	slices.SortStableFunc(out, func(a, b replica) int { return cmp.Compare(a.left, b.left) })
	return out
}

// readySince says since when the pod had been ready at an instant, if it was
// ready and not deleted.
func (p replica) readySince(at time.Duration) (since time.Duration, ok bool) {
	if p.left != 0 && p.left <= at {
		return 0, false
	}
	for _, r := range p.ready {
		if r.at > at {
			break
		}
		if r.is && !ok {
			since = r.at
		}
		ok = r.is
	}
	return since, ok
}
