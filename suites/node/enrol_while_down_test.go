// SPDX-License-Identifier: Apache-2.0

package node

import (
	"testing"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/scene"
	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

const listening = "listening@[::]:15001 listening@[::]:15006 listening@0.0.0.0:15008"

// begins has a pod's network begin by an ADD that is over at an instant, and took so long.
func begins(s scene.Scene, uid string, over, took time.Duration, set func(map[string]string)) {
	attrs := map[string]string{"ips": map[string]string{newFirst: "fd00::4 10.0.0.4", newLast: "10.0.0.6"}[uid], "took": took.String(), "redirects": "true", "held": listening}
	if set != nil {
		set(attrs)
	}
	s.Events = append(s.Events, timeline.Event{At: over, Source: "test", Kind: timeline.CNIAdd, Subject: uid, Name: uid, Node: "a", Attrs: attrs})
	s.Event(over+100*time.Millisecond, timeline.PodReady, uid, map[string]string{"ready": "true"})
}

// begun has both pods begin as they should.
func begun(s scene.Scene) {
	both(s)
	begins(s, newFirst, servesAt, 4*time.Second, nil)
	begins(s, newLast, agentBackAt+time.Second, 2*time.Second, nil)
}

// failed has an ADD fail.
func failed(attrs map[string]string) { attrs["error"], attrs["held"] = "4s are over", "" }

func TestServedOrNotBegun(t *testing.T) {
	with := func(over, took time.Duration, set func(map[string]string)) func(scene.Scene) {
		return func(s scene.Scene) {
			both(s)
			begins(s, newLast, agentBackAt+time.Second, 2*time.Second, nil)
			begins(s, newFirst, over, took, set)
		}
	}
	const second = time.Second
	scene.Judge(t, judging(ServedOrNotBegun()), []scene.Row{
		{Name: "they waited", Build: begun, Want: spec.Pass},
		{Name: "ADD failed, and was called again", Build: func(s scene.Scene) {
			begun(s)
			begins(s, newFirst, killedAt+3*second, 2*second, failed)
			begins(s, newLast, agentKilledAt+3*second, 2*second, func(attrs map[string]string) {
				failed(attrs)
				attrs["redirects"] = "false"
			})
		}, Want: spec.Pass},
		{Name: "before there was a proxy", Build: with(killedAt+2*second, second, nil), Want: spec.Fail},
		{Name: "nothing was redirected", Build: with(servesAt, 4*second, func(attrs map[string]string) { attrs["redirects"] = "false" }), Want: spec.Fail},
		{Name: "nobody listened", Build: with(servesAt, 4*second, func(attrs map[string]string) { attrs["held"] = "listening@[::]:15001 10.0.0.1:15006>10.0.0.2:15008" }), Want: spec.Fail},
		{Name: "nobody looked for rules", Build: with(servesAt, 4*second, func(attrs map[string]string) { delete(attrs, "redirects") }), Want: spec.Inconclusive},
		{Name: "nobody looked who listens", Build: with(servesAt, 4*second, func(attrs map[string]string) { delete(attrs, "held") }), Want: spec.Inconclusive},
		{Name: "long after it was back", Build: with(servesAt+9*second, 12*second, nil), Want: spec.Fail},
		{Name: "never", Build: with(servesAt, 4*second, failed), Want: spec.Fail},
		{Name: "one that began before", Build: with(killedAt, second, nil), Want: spec.Inconclusive},
	})
}

func TestNewcomersAreMeshed(t *testing.T) {
	wire := func(s scene.Scene, at time.Duration, from, to string) {
		s.Event(at, timeline.Wire, "", map[string]string{"what": timeline.WireDialled, "from": from, "to": to})
	}
	with := func(set func(*timeline.Sample), more func(scene.Scene)) func(scene.Scene) {
		return func(s scene.Scene) {
			begun(s)
			for n, uid := range []string{newFirst, newLast} {
				for k := range 40 {
					at := servesAt + time.Duration(n)*25*time.Second + time.Duration(k)*20*time.Millisecond
					x := timeline.Sample{ID: uid + string(rune('0'+k)), Conn: uint64(k + 1), Nth: 1, Due: at, Start: at, Sent: at + 1, First: at + 2, End: at + 3, Outcome: timeline.OK, Phase: timeline.PhaseDone, Status: 200}
					x.Stream, x.Server = flow.To(sendsOut, uid), "uid-peer"
					if set != nil {
						set(&x)
					}
					s.Add(x)
					x.ID, x.Outcome, x.Stream, x.Server = "to-"+x.ID, timeline.OK, flow.To(throughService, ""), uid
					s.Add(x)
				}
			}
			wire(s, servesAt, "10.0.0.4:40000", "10.0.0.9:15008")
			wire(s, agentBackAt+time.Second, "10.0.0.9:40000", "10.0.0.6:15008")
			if more != nil {
				more(s)
			}
		}
	}
	scene.Judge(t, judging(NewcomersAreMeshed()), []scene.Row{
		{Name: "in tunnels", Build: with(nil, nil), Want: spec.Pass},
		{Name: "out in plain text", Build: with(nil, func(s scene.Scene) { wire(s, servesAt, "10.0.0.4:40001", "10.0.0.9:8080") }), Want: spec.Fail},
		{Name: "in in plain text", Build: with(nil, func(s scene.Scene) { wire(s, agentKilledAt+time.Second, "10.0.0.9:40001", "10.0.0.6:8080") }), Want: spec.Fail},
		{Name: "another one, which had its address before", Build: with(nil, func(s scene.Scene) { wire(s, servesAt, "10.0.0.9:40001", "10.0.0.6:8080") }), Want: spec.Pass},
		{Name: "others, in plain text", Build: with(nil, func(s scene.Scene) { wire(s, servesAt, "10.0.0.9:40001", "10.0.0.1:8080") }), Want: spec.Pass},
		{Name: "a call that failed", Build: with(func(x *timeline.Sample) {
			if x.Start == servesAt {
				x.Outcome, x.Phase = timeline.Refused, timeline.PhaseDial
			}
		}, nil), Want: spec.Fail},
		{Name: "the wire shows nothing", Build: with(nil, func(s scene.Scene) {
			s.Drop(func(e timeline.Event) bool { return e.Kind == timeline.Wire })
		}), Want: spec.Inconclusive},
		{Name: "they did nothing", Build: begun, Want: spec.Inconclusive},
	})
}

// An agent is no proxy, and a proxy no agent.
func TestAwayIn(t *testing.T) {
	scene.Judge(t, judging(ServedOrNotBegun()), []scene.Row{
		{Name: "only the proxy", Build: func(s scene.Scene) { crash(s, "proxy") }, Want: spec.Inconclusive},
		{Name: "only the agent", Build: func(s scene.Scene) { crash(s, "agent") }, Want: spec.Inconclusive},
	})
}
