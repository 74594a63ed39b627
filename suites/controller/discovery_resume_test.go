// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"fmt"
	"testing"
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/assertions/scene"
	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// The scene's client has a stream until 8 s, the next from 8.1 s to 12 s, none until 15 s, and two more.
const aloneFrom, aloneTo = 12 * time.Second, 15 * time.Second

// resumption has pods come and go, and the client be told of it. told changes what it is told: of the pods
// that a stream begins with, and of a removal while the stream stands ("": not at all).
func resumption(first func(stream string, pods, gone []string) ([]string, []string), removed func(name string) string) func(scene.Scene) {
	return func(s scene.Scene) {
		list := func(at time.Duration, name, is string) {
			s.Event(at, timeline.Listed, "", map[string]string{"is": is})
			s.Events[len(s.Events)-1].Name = name
		}
		say := func(at time.Duration, stream, is string, attrs map[string]string) {
			attrs["is"], attrs["stream"] = is, stream
			s.Event(at, timeline.Subscribed, "subscriber", attrs)
		}
		told := func(at time.Duration, stream string, pods, gone []string) {
			if first != nil {
				pods, gone = first(stream, pods, gone)
			}
			say(at, stream, timeline.SubscribedTold, map[string]string{"pods": text(pods), "gone": text(gone)})
		}
		list(0, "stays", timeline.ListedThere)
		for n := range 3 {
			list(time.Second, fmt.Sprintf("went-%d", n), timeline.ListedThere)
			list(aloneFrom+time.Second, fmt.Sprintf("went-%d", n), timeline.ListedGone)
			list(aloneFrom+time.Second, fmt.Sprintf("came-%d", n), timeline.ListedThere)
		}
		list(time.Second, "short", timeline.ListedThere)
		list(3*time.Second, "short", timeline.ListedGone)
		old, renewed := []string{"stays", "went-0", "went-1", "went-2"}, []string{"came-0", "came-1", "came-2"}
		say(500*time.Millisecond, "1", timeline.SubscribedOpen, map[string]string{"known": "0"})
		told(2*time.Second, "1", append(old, "short"), nil)
		gone := "short"
		if removed != nil {
			gone = removed(gone)
		}
		say(3100*time.Millisecond, "1", timeline.SubscribedTold, map[string]string{"pods": "", "gone": gone})
		say(8*time.Second, "1", timeline.SubscribedEnd, map[string]string{"why": "EOF"})
		say(8100*time.Millisecond, "2", timeline.SubscribedOpen, map[string]string{"known": "5"})
		say(aloneFrom, "2", timeline.SubscribedEnd, map[string]string{"why": "EOF"})
		say(aloneFrom+100*time.Millisecond, "3", timeline.SubscribedEnd, map[string]string{"why": "refused"})
		say(aloneTo, "4", timeline.SubscribedOpen, map[string]string{"known": "5"})
		told(aloneTo+time.Millisecond, "4", renewed, old[1:])
		say(aloneTo+4*time.Second, "4", timeline.SubscribedEnd, map[string]string{"why": "EOF"})
		say(aloneTo+4100*time.Millisecond, "5", timeline.SubscribedOpen, map[string]string{"known": "5"})
	}
}

func text(names []string) string {
	out := ""
	for _, n := range names {
		out += n + " "
	}
	return out
}

func TestResumesWhole(t *testing.T) {
	at := func(want string, change func(pods, gone []string) ([]string, []string)) func(string, []string, []string) ([]string, []string) {
		return func(stream string, pods, gone []string) ([]string, []string) {
			if stream == want {
				return change(pods, gone)
			}
			return pods, gone
		}
	}
	scene.Judge(t, judge(ResumesWhole()), []scene.Row{
		{Name: "all are known", Build: resumption(nil, nil), Want: spec.Pass},
		{Name: "it forgets who went while it was away", Build: resumption(at("4", func(pods, _ []string) ([]string, []string) { return pods, nil }), nil), Want: spec.Fail},
		{Name: "it does not know one that came", Build: resumption(at("4", func(pods, gone []string) ([]string, []string) { return pods[1:], gone }), nil), Want: spec.Fail},
		{Name: "it says that all is gone, and then what there is", Build: func(s scene.Scene) {
			resumption(nil, nil)(s)
			s.Event(8110*time.Millisecond, timeline.Subscribed, "subscriber", map[string]string{"is": timeline.SubscribedTold, "stream": "2", "pods": "", "gone": "stays"})
			s.Event(8200*time.Millisecond, timeline.Subscribed, "subscriber", map[string]string{"is": timeline.SubscribedTold, "stream": "2", "pods": "stays", "gone": ""})
		}, Want: spec.Fail},
		{Name: "a removal that is never said", Build: resumption(nil, func(string) string { return "" }), Want: spec.Fail},
		{Name: "it tells of one that had gone, longer than P after a stream's begin", Build: func(s scene.Scene) {
			resumption(nil, nil)(s)
			s.Event(aloneTo+8200*time.Millisecond, timeline.Subscribed, "subscriber", map[string]string{"is": timeline.SubscribedTold, "stream": "5", "pods": "went-0", "gone": ""})
		}, Want: spec.Fail},
		{Name: "it tells again of one that went while its stream stood", Build: func(s scene.Scene) {
			resumption(nil, nil)(s)
			for at, is := range map[time.Duration]string{aloneTo + 4200*time.Millisecond: timeline.ListedThere, aloneTo + 4400*time.Millisecond: timeline.ListedGone} {
				s.Event(at, timeline.Listed, "", map[string]string{"is": is})
				s.Events[len(s.Events)-1].Name = "later"
			}
			for at, says := range map[time.Duration][2]string{aloneTo + 4300*time.Millisecond: {"later", ""}, aloneTo + 4500*time.Millisecond: {"", "later"}, aloneTo + 8*time.Second: {"later", ""}} {
				s.Event(at, timeline.Subscribed, "subscriber", map[string]string{"is": timeline.SubscribedTold, "stream": "5", "pods": says[0], "gone": says[1]})
			}
		}, Want: spec.Fail},
		{Name: "it tells of one that is there, longer than P after a stream's begin", Build: func(s scene.Scene) {
			resumption(nil, nil)(s)
			s.Event(aloneTo+8200*time.Millisecond, timeline.Subscribed, "subscriber", map[string]string{"is": timeline.SubscribedTold, "stream": "5", "pods": "stays came-0", "gone": ""})
		}, Want: spec.Pass},
		{Name: "one comes while a stream stands, and is never told of", Build: func(s scene.Scene) {
			resumption(nil, nil)(s)
			s.Event(aloneTo+500*time.Millisecond, timeline.Listed, "", map[string]string{"is": timeline.ListedThere})
			s.Events[len(s.Events)-1].Name = "later"
		}, Want: spec.Fail},
		{Name: "one comes while a stream stands, and goes within P", Build: func(s scene.Scene) {
			resumption(nil, nil)(s)
			for at, is := range map[time.Duration]string{aloneTo + 500*time.Millisecond: timeline.ListedThere, aloneTo + 2*time.Second: timeline.ListedGone} {
				s.Event(at, timeline.Listed, "", map[string]string{"is": is})
				s.Events[len(s.Events)-1].Name = "later"
			}
		}, Want: spec.Pass},
		{Name: "one stream stands all the time, and says nothing of who came and went", Build: func(s scene.Scene) {
			resumption(nil, nil)(s)
			s.Drop(func(e timeline.Event) bool {
				return e.Kind == timeline.Subscribed && e.Attrs["stream"] != "1" || e.Attrs["is"] == timeline.SubscribedEnd
			})
		}, Want: spec.Fail},
		{Name: "no pod came or went", Build: func(s scene.Scene) {
			resumption(nil, nil)(s)
			s.Drop(func(e timeline.Event) bool { return e.Kind == timeline.Listed && e.At > aloneFrom })
		}, Want: spec.Fail}, // of which it told
		{Name: "stopped as a stream began, before it was told of all", Build: func(s scene.Scene) {
			resumption(nil, nil)(s)
			s.Drop(func(e timeline.Event) bool {
				return e.Kind == timeline.Subscribed && e.At > aloneTo || e.Attrs["what"] == assertions.MarkTail
			})
		}, Want: spec.Inconclusive},
		{Name: "nobody listened", Build: func(s scene.Scene) {
			resumption(nil, nil)(s)
			s.Drop(func(e timeline.Event) bool { return e.Kind == timeline.Subscribed })
		}, Want: spec.Inconclusive},
	})
}

func TestServesNewcomers(t *testing.T) {
	const newcomer = "uid-new"
	asked := func(set func(*timeline.Sample)) func(scene.Scene) {
		return func(s scene.Scene) {
			resumption(nil, nil)(s)
			s.Event(aloneFrom+time.Second, timeline.PodSeen, newcomer, nil)
			s.Through(flow.To(flow.Flow{Path: flow.Service, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Get}, "").String(), 50, func(x *timeline.Sample) {
				if x.Start > aloneTo && x.Start/time.Millisecond%40 == 0 {
					x.Server = newcomer
				}
				if set != nil {
					set(x)
				}
			})
		}
	}
	scene.Judge(t, judge(ServesNewcomers()), []scene.Row{
		{Name: "all are served", Build: asked(nil), Want: spec.Pass},
		{Name: "some fail while it resumes", Build: asked(func(x *timeline.Sample) {
			if x.Start > aloneTo && x.Start < aloneTo+time.Second {
				x.Outcome, x.Phase, x.Status, x.Server = timeline.Reset, timeline.PhaseFirstByte, 0, ""
			}
		}), Want: spec.Fail},
		{Name: "one failed before the load was steady", Build: func(s scene.Scene) {
			asked(nil)(s)
			x := s.Samples[0]
			x.ID, x.Start, x.End, x.Outcome, x.Phase, x.Status, x.Server = "early", time.Second, 2*time.Second, timeline.Reset, timeline.PhaseFirstByte, 0, ""
			s.Add(x)
		}, Want: spec.Pass},
		{Name: "none by who came", Build: asked(func(x *timeline.Sample) { x.Server = scene.OtherUID }), Want: spec.Inconclusive},
	})
}
