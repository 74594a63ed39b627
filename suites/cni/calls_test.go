// SPDX-License-Identifier: Apache-2.0

package cni

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/assertions/scene"
	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// is are attributes of a call, written key=value with two spaces between; later ones win.
func is(all ...string) map[string]string {
	out := map[string]string{"agent": timeline.CNIUp, "proxy": timeline.CNIUp, "took": "10ms"}
	for _, text := range all {
		for _, one := range strings.Split(text, "  ") {
			key, value, _ := strings.Cut(one, "=")
			out[key] = value
		}
	}
	return out
}

// calls adds calls of a command.
func calls(s scene.Scene, pod string, all ...map[string]string) {
	for _, attrs := range all {
		s.Event(12*time.Second, timeline.CNICall, pod, attrs)
	}
}

// judged runs a check's scenes.
func judged(t *testing.T, check assertions.Check, rows []scene.Row) {
	t.Helper()
	scene.Judge(t, func(tl *timeline.Timeline) spec.Finding { return check.Run(assertions.NewCase(tl, scene.P)) }, rows)
}

// with are attributes with others in their place.
func with(attrs map[string]string, all ...string) map[string]string {
	out := maps.Clone(attrs)
	for _, one := range all {
		key, value, _ := strings.Cut(one, "=")
		out[key] = value
	}
	return out
}

func TestDelSucceedsAgain(t *testing.T) {
	first, later := is("command=DEL  noted=true  left=false"), is("command=DEL  again=true  noted=false  left=false")
	build := func(pods int, last ...string) func(scene.Scene) {
		return func(s scene.Scene) {
			for n := range pods {
				pod := string(rune('a' + n))
				calls(s, pod, first, later, later)
			}
			if len(last) > 0 {
				calls(s, "a", with(later, last...))
			}
		}
	}
	judged(t, DelSucceedsAgain(), []scene.Row{
		{Name: "all succeed", Build: build(3), Want: spec.Pass},
		{Name: "two pods", Build: build(2), Want: spec.Inconclusive},
		{Name: "one fails", Build: build(3, "error=no namespace"), Want: spec.Fail},
		{Name: "one leaves its note", Build: build(3, "left=true"), Want: spec.Fail},
		{Name: "one takes its time", Build: build(3, "took=7s"), Want: spec.Fail},
		{Name: "one that nobody measured", Build: build(3, "took="), Want: spec.Inconclusive},
		{Name: "pods that the plugin did not know", Build: func(s scene.Scene) {
			for _, pod := range []string{"a", "b", "c"} {
				calls(s, pod, with(first, "noted=false"), later, later)
			}
		}, Want: spec.Inconclusive},
	})
}

func TestDelIsBounded(t *testing.T) {
	build := func(each int, last ...string) func(scene.Scene) {
		return func(s scene.Scene) {
			for _, down := range downs {
				for range each {
					calls(s, "a", is("command=DEL  noted=true  left=false  took=5.1s", "agent="+down.agent, "proxy="+down.proxy))
				}
			}
			if len(last) > 0 {
				calls(s, "a", with(is("command=DEL  noted=true  left=false  agent=dead"), last...))
			}
		}
	}
	judged(t, DelIsBounded(), []scene.Row{
		{Name: "all within the bound", Build: build(5), Want: spec.Pass},
		{Name: "four of each", Build: build(4), Want: spec.Inconclusive},
		{Name: "one beyond it", Build: build(5, "took=6.1s"), Want: spec.Fail},
		{Name: "one is ended", Build: build(5, "took=12s", "error=not within 12s"), Want: spec.Fail},
		{Name: "one fails", Build: build(5, "error=agent.sock not found"), Want: spec.Fail},
		{Name: "one leaves its note", Build: build(5, "left=true"), Want: spec.Fail},
	})
}

func TestOthersAtOnce(t *testing.T) {
	build := func(each int, last ...string) func(scene.Scene) {
		return func(s scene.Scene) {
			for _, down := range downs {
				for range each {
					for _, command := range []string{"ADD", "DEL"} {
						calls(s, "a", is("others=true", "command="+command, "agent="+down.agent, "proxy="+down.proxy))
					}
				}
			}
			if len(last) > 0 {
				calls(s, "a", with(is("others=true  command=ADD  agent=dead"), last...))
			}
		}
	}
	judged(t, OthersAtOnce(), []scene.Row{
		{Name: "all at once", Build: build(2), Want: spec.Pass},
		{Name: "one of each", Build: build(1), Want: spec.Inconclusive},
		{Name: "one fails", Build: build(2, "error=no agent answers"), Want: spec.Fail},
		{Name: "one waits", Build: build(2, "took=3s"), Want: spec.Fail},
		{Name: "one of the mesh's fails", Build: build(2, "others=false", "error=no agent answers"), Want: spec.Pass},
	})
	judged(t, DelIsBounded(), []scene.Row{{Name: "none of the mesh's", Build: build(5), Want: spec.Inconclusive}})
}

func TestEachVersionIsServed(t *testing.T) {
	build := func(set func(v, command string) string, leave string) func(scene.Scene) {
		return func(s scene.Scene) {
			calls(s, "", is("command=VERSION  versions=0.3.1 1.0.0"))
			for _, v := range []string{"0.3.1", "1.0.0"} {
				for _, command := range []string{"ADD", "CHECK", "bare", "DEL"} {
					if command == leave || v == "0.3.1" && (command == "CHECK" || command == "bare") {
						continue
					}
					one := is("version="+v, "command="+command)
					switch command {
					case "ADD":
						one["result"] = v
					case "bare":
						one = is("version="+v, "command=CHECK", "bare=true", "error=no")
					}
					calls(s, "a", with(one, set(v, command)))
				}
			}
		}
	}
	only := func(v, command, attr string) func(string, string) string {
		return func(w, c string) string {
			if w == v && c == command {
				return attr
			}
			return "of=test"
		}
	}
	judged(t, EachVersionIsServed(), []scene.Row{
		{Name: "all", Build: build(only("", "", ""), ""), Want: spec.Pass},
		{Name: "no DEL", Build: build(only("", "", ""), "DEL"), Want: spec.Inconclusive},
		{Name: "no CHECK", Build: build(only("", "", ""), "CHECK"), Want: spec.Inconclusive},
		{Name: "no CHECK without its redirect", Build: build(only("", "", ""), "bare"), Want: spec.Inconclusive},
		{Name: "CHECK does not notice that", Build: build(only("1.0.0", "bare", "error="), ""), Want: spec.Fail},
		{Name: "a result that lacks something", Build: build(only("1.0.0", "ADD", "lacks=interfaces"), ""), Want: spec.Fail},
		{Name: "none that has CHECK is claimed", Build: func(s scene.Scene) {
			calls(s, "", is("command=VERSION  versions=0.3.1"))
			calls(s, "a", is("command=ADD  version=0.3.1  result=0.3.1"), is("command=DEL  version=0.3.1"))
		}, Want: spec.Pass},
		{Name: "none is claimed", Build: func(s scene.Scene) { calls(s, "", is("command=VERSION")) }, Want: spec.Inconclusive},
		{Name: "VERSION fails", Build: func(s scene.Scene) { calls(s, "", is("command=VERSION  error=no")) }, Want: spec.Fail},
		{Name: "a result of another version", Build: build(only("0.3.1", "ADD", "result=1.0.0"), ""), Want: spec.Fail},
		{Name: "CHECK fails", Build: build(only("1.0.0", "CHECK", "error=no"), ""), Want: spec.Fail},
		{Name: "DEL fails", Build: build(only("0.3.1", "DEL", "error=no"), ""), Want: spec.Fail},
	})
}

func TestStaleIsCollected(t *testing.T) {
	well := is("command=GC", "stale=a b", "there=c d e", "before=a b c d e", "noted=c d e", "served=c d e")
	build := func(set ...string) func(scene.Scene) {
		return func(s scene.Scene) { calls(s, "", with(well, set...)) }
	}
	judged(t, StaleIsCollected(), []scene.Row{
		{Name: "what is stale, and nothing else", Build: build(), Want: spec.Pass},
		{Name: "nothing", Build: build("noted=a b c d e", "served=a b c d e"), Want: spec.Fail},
		{Name: "its note alone", Build: build("served=b c d e"), Want: spec.Fail},
		{Name: "all", Build: build("noted=", "served="), Want: spec.Fail},
		{Name: "another network's", Build: build("noted=c d"), Want: spec.Fail},
		{Name: "it fails", Build: build("error=no"), Want: spec.Fail},
		{Name: "nobody was stale", Build: build("before=c d e"), Want: spec.Inconclusive},
		{Name: "no GC", Build: func(scene.Scene) {}, Want: spec.Inconclusive},
	})
}

func TestNextSandboxLives(t *testing.T) {
	next := is("command=ADD  sandbox=next")
	late, again := is("command=DEL  sandbox=old  noted=true  left=false", "before=noted served", "behind=noted served"), is("command=DEL  sandbox=old  again=true  noted=false  left=false", "before=noted served", "behind=noted served")
	build := func(many int, late, again map[string]string, set ...string) func(scene.Scene) {
		return func(s scene.Scene) {
			for n := range many {
				pod := string(rune('a' + n))
				calls(s, pod, next, late)
				calls(s, pod+pod, next, again)
			}
			if len(set) > 0 {
				calls(s, "a", with(again, set...))
			}
		}
	}
	judged(t, NextSandboxLives(), []scene.Row{
		{Name: "it lives", Build: build(2, late, again), Want: spec.Pass},
		{Name: "one of each", Build: build(1, late, again), Want: spec.Inconclusive},
		{Name: "the plugin did not know the first one", Build: build(2, with(late, "noted=false"), again), Want: spec.Inconclusive},
		{Name: "nobody serves it any more, behind one that came again", Build: build(2, late, again, "behind=noted"), Want: spec.Fail},
		{Name: "nobody serves it any more, behind a late one", Build: build(2, with(late, "behind=noted"), again), Want: spec.Fail},
		{Name: "its note has gone", Build: build(2, late, again, "behind=served"), Want: spec.Fail},
		{Name: "nobody had served it", Build: build(2, late, again, "before=noted", "behind=noted"), Want: spec.Inconclusive},
		{Name: "a DEL fails", Build: build(2, late, again, "error=no"), Want: spec.Fail},
		{Name: "it can't begin", Build: func(s scene.Scene) {
			build(2, late, again)(s)
			calls(s, "a", with(next, "error=it is there"))
		}, Want: spec.Fail},
		{Name: "other ends", Build: func(s scene.Scene) {
			for range 4 {
				calls(s, "a", is("command=ADD"), is("command=DEL  noted=true  left=false"))
			}
		}, Want: spec.Inconclusive},
	})
}

func TestStatus(t *testing.T) {
	build := func(well, ill, away []string) func(scene.Scene) {
		return func(s scene.Scene) {
			calls(s, "", with(is("command=STATUS"), well...), with(is("command=STATUS  writable=false"), ill...))
			for _, down := range downs {
				calls(s, "", with(is("command=STATUS", "agent="+down.agent, "proxy="+down.proxy), away...))
			}
			for range 5 {
				calls(s, "", is("command=STATUS  proxy=replaced"))
			}
		}
	}
	no, yes := []string{"error=no"}, []string(nil)
	judged(t, StatusIsTrue(), []scene.Row{
		{Name: "it tells the truth", Build: build(yes, no, yes), Want: spec.Pass},
		{Name: "it fails with all well", Build: build(no, no, yes), Want: spec.Fail},
		{Name: "it is always well", Build: build(yes, yes, yes), Want: spec.Fail},
		{Name: "it fails with the agent away", Build: build(yes, no, no), Want: spec.Pass},
		{Name: "nobody asked", Build: func(scene.Scene) {}, Want: spec.Inconclusive},
	})
	judged(t, StatusIsThePluginsOwn(), []scene.Row{
		{Name: "it succeeds", Build: build(yes, no, yes), Want: spec.Pass},
		{Name: "it fails", Build: build(yes, no, no), Want: spec.Fail},
		{Name: "nobody asked", Build: func(scene.Scene) {}, Want: spec.Inconclusive},
	})
}

func TestDelIsPromptMeanwhile(t *testing.T) {
	build := func(told bool, hung int, last ...string) func(scene.Scene) {
		return func(s scene.Scene) {
			if told {
				s.Event(12*time.Second, timeline.NodeProxy, "proxy", map[string]string{"is": timeline.NodeProxyTold})
			}
			one := is("command=DEL  noted=true  left=false  proxy=replaced")
			calls(s, "a", one, with(one, last...))
			for range 4 { // told in between
				s.Event(13*time.Second, timeline.CNICall, "b", one)
			}
			for range hung {
				s.Event(14*time.Second, timeline.CNICall, "c", with(one, "took=600ms", "old="+timeline.CNIStopped))
			}
		}
	}
	judged(t, DelIsPromptMeanwhile(), []scene.Row{
		{Name: "all are gone at once", Build: build(true, 2), Want: spec.Pass},
		{Name: "one takes its time", Build: build(true, 2, "took=3.1s"), Want: spec.Fail},
		{Name: "one takes its time that is told to who hangs", Build: build(true, 2, "took=5.1s", "old="+timeline.CNIStopped), Want: spec.Fail},
		{Name: "one fails", Build: build(true, 2, "error=no"), Want: spec.Fail},
		{Name: "one leaves its note", Build: build(true, 2, "left=true"), Want: spec.Fail},
		{Name: "nobody was told to go", Build: build(false, 2), Want: spec.Inconclusive},
		{Name: "none hung", Build: build(true, 0), Want: spec.Inconclusive},
	})
}

// handoff has a node's proxy be told to go at 12 s, and some calls before and behind that.
func handoff(before, behind []map[string]string, more ...timeline.Event) func(scene.Scene) {
	return func(s scene.Scene) {
		s.Event(12*time.Second, timeline.NodeProxy, "proxy", map[string]string{"is": timeline.NodeProxyTold})
		for n, attrs := range before {
			s.Event(11*time.Second, timeline.CNICall, "early-"+string(rune('a'+n)), attrs)
		}
		for n, attrs := range behind {
			s.Event(13*time.Second, timeline.CNICall, "late-"+string(rune('a'+n)), attrs)
		}
		for _, e := range more {
			s.Event(14*time.Second, e.Kind, e.Name, e.Attrs)
		}
	}
}

func TestNothingHeldMeanwhile(t *testing.T) {
	one := is("command=DEL  noted=true  left=false  proxy=replaced  held=")
	some := func(last ...string) []map[string]string { return []map[string]string{one, one, with(one, last...)} }
	unseen := maps.Clone(one)
	delete(unseen, "held")
	judged(t, NothingHeldMeanwhile(), []scene.Row{
		{Name: "nothing is left", Build: handoff(some(), some()), Want: spec.Pass},
		{Name: "a listener is left", Build: handoff(some("held=listening@10.0.0.1:15008"), some()), Want: spec.Fail},
		{Name: "something is left behind the word to the old one", Build: handoff(some(), some("held=10.0.0.1:15008>10.0.0.2:4000")), Want: spec.Fail},
		{Name: "nobody looked", Build: handoff(some(), []map[string]string{one, one, one, unseen}), Want: spec.Inconclusive},
		{Name: "none ended before that", Build: handoff(nil, some()), Want: spec.Inconclusive},
		{Name: "none ended behind it", Build: handoff(some(), nil), Want: spec.Inconclusive},
	})
}

func TestServedFromBegin(t *testing.T) {
	add := is("command=ADD  proxy=replaced")
	adds := func(last ...string) []map[string]string { return []map[string]string{add, with(add, last...)} }
	asked := func(proxy string, last ...string) timeline.Event {
		return timeline.Event{Kind: timeline.PodAsked, Name: "a", Attrs: with(map[string]string{"took": "5ms", "proxy": proxy, "held": "listening@[::]:15001"}, last...)}
	}
	unseen := asked(timeline.CNIUp)
	delete(unseen.Attrs, "held")
	both := func(last ...timeline.Event) []timeline.Event {
		return append([]timeline.Event{
			asked(timeline.CNIReplaced), asked(timeline.CNIReplaced), asked(timeline.CNIUp), asked(timeline.CNIUp),
		}, last...)
	}
	judged(t, ServedFromBegin(), []scene.Row{
		{Name: "all are answered", Build: handoff(adds(), adds(), both()...), Want: spec.Pass},
		{Name: "one is not while the old proxy is there", Build: handoff(adds(), adds(), both(asked(timeline.CNIReplaced, "error=refused"))...), Want: spec.Fail},
		{Name: "one is not when it has gone", Build: handoff(adds(), adds(), both(asked(timeline.CNIUp, "error=refused"))...), Want: spec.Fail},
		{Name: "one goes past the mesh", Build: handoff(adds(), adds(), both(asked(timeline.CNIUp, "held="))...), Want: spec.Fail},
		{Name: "one in whose network nobody looked", Build: handoff(adds(), adds(), both(unseen)...), Want: spec.Inconclusive},
		{Name: "one that nobody measured", Build: handoff(adds(), adds(), both(asked(timeline.CNIUp, "took="))...), Want: spec.Inconclusive},
		{Name: "nobody asked when it had gone", Build: handoff(adds(), adds(), both()[:2]...), Want: spec.Inconclusive},
		{Name: "nobody asked before", Build: handoff(adds(), adds(), both()[2:]...), Want: spec.Inconclusive},
	})
}

func TestAddIsPromptMeanwhile(t *testing.T) {
	add := is("command=ADD  proxy=replaced")
	adds := func(last ...string) []map[string]string { return []map[string]string{add, with(add, last...)} }
	judged(t, AddIsPromptMeanwhile(), []scene.Row{
		{Name: "all begin at once", Build: handoff(adds(), adds()), Want: spec.Pass},
		{Name: "one takes its time", Build: handoff(adds(), adds("took=2.1s")), Want: spec.Fail},
		{Name: "one fails", Build: handoff(adds("error=no"), adds()), Want: spec.Fail},
		{Name: "none began before the word to the old one", Build: handoff(nil, adds()), Want: spec.Inconclusive},
		{Name: "none began behind it", Build: handoff(adds(), nil), Want: spec.Inconclusive},
	})
}
