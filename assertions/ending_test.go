// SPDX-License-Identifier: Apache-2.0

package assertions

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
)

// Who says nothing of its D has it between its deletion and the kubelet's word.
func TestDrainOfABlackBox(t *testing.T) {
	const uid = "uid-1"
	killed := func(at time.Duration) func(*scene) {
		return func(s *scene) {
			s.event(at, timeline.ClusterEvent, uid, map[string]string{"reason": "Killing", "message": "Stopping container proxy"})
		}
	}
	asked := func(before time.Duration) func(*scene) {
		return func(s *scene) {
			s.event(10*sec-before, timeline.Disruption, uid, map[string]string{"what": "delete"})
		}
	}
	for name, c := range map[string]struct {
		more     []func(*scene)
		from, to time.Duration
	}{
		"not before it was asked for":   {[]func(*scene){asked(15 * time.Millisecond), killed(10 * sec)}, 10*sec - 15*time.Millisecond, 10*sec + stopsWithin},
		"asked for, and seen late":      {[]func(*scene){asked(sec), killed(10*sec - sec/2)}, 9 * sec, 10*sec - sec/2 + stopsWithin},
		"by its deletion alone":         {nil, 8 * sec, 12 * sec},
		"by the kubelet":                {[]func(*scene){killed(10*sec + 300*time.Millisecond)}, 10*sec - watchSkew, 10*sec + 300*time.Millisecond + stopsWithin},
		"the first of two containers":   {[]func(*scene){killed(10 * sec), killed(15 * sec)}, 10*sec - watchSkew, 10*sec + stopsWithin},
		"a restart before":              {[]func(*scene){killed(4 * sec), killed(11 * sec)}, 10*sec - watchSkew, 11*sec + stopsWithin},
		"a restart before, and no word": {[]func(*scene){killed(4 * sec)}, 8 * sec, 12 * sec},
		"a busy kubelet":                {[]func(*scene){killed(14 * sec)}, 10*sec - watchSkew, 14*sec + stopsWithin},
	} {
		s := &scene{p: 3 * sec}
		s.event(10*sec, timeline.PodDeletion, uid, map[string]string{"grace": "30"})
		for _, add := range c.more {
			add(s)
		}
		s.tl.Sort()
		all := NewCase(&s.tl, s.p).Terminations
		if len(all) != 1 {
			t.Fatalf("%s: %d terminations", name, len(all))
		}
		if d := all[0].Drain; d.At-d.Err != c.from || d.At+d.Err != c.to {
			t.Errorf("%s: D is in [%s, %s], want [%s, %s]", name, d.At-d.Err, d.At+d.Err, c.from, c.to)
		}
	}
}

// The watch may show a deletion late: how late at most the suite knows, where it asked for it.
func TestDeletionsAreAskedFor(t *testing.T) {
	const uid = "uid-1"
	for name, c := range map[string]struct {
		asked []timeline.Event
		want  time.Duration
	}{
		"by others":           {nil, 0},
		"by the suite":        {[]timeline.Event{{At: 9 * sec, Attrs: map[string]string{"what": "delete"}}}, sec},
		"by an eviction":      {[]timeline.Event{{At: 9 * sec, Attrs: map[string]string{"what": "evict"}}}, sec},
		"by the second":       {[]timeline.Event{{At: 5 * sec, Attrs: map[string]string{"what": "evict", "refused": "true", "error": "429"}}, {At: 9 * sec, Attrs: map[string]string{"what": "evict"}}}, sec},
		"by none that failed": {[]timeline.Event{{At: 5 * sec, Attrs: map[string]string{"what": "delete", "error": "timeout"}}}, 0},
		"of another":          {[]timeline.Event{{At: 9 * sec, Subject: "uid-2", Attrs: map[string]string{"what": "delete"}}}, 0},
	} {
		s := &scene{p: 3 * sec}
		for _, e := range c.asked {
			if e.Subject == "" {
				e.Subject = uid
			}
			s.event(e.At, timeline.Disruption, e.Subject, e.Attrs)
		}
		s.event(10*sec, timeline.PodDeletion, uid, map[string]string{"grace": "30"})
		all := NewCase(&s.tl, s.p).Terminations
		if len(all) != 1 || all[0].Del.At != 10*sec || all[0].Del.Err != c.want || all[0].Kill != 40*sec {
			t.Errorf("%s: %+v, want T_del known to %s", name, all, c.want)
		}
	}
}

// The end of an instance is that of its own container, not of one beside it.
func TestExitOfTheSubject(t *testing.T) {
	const uid = "uid-1"
	s := &scene{p: 3 * sec}
	for at, what := range map[time.Duration]string{9 * sec: "shutdown-manager", 14 * sec: "gateway"} {
		s.event(at, timeline.ProcExit, uid, map[string]string{"container": what})
		s.event(at+time.Second, timeline.PodContainer, uid, map[string]string{"container": what, "state": "terminated", "exitCode": map[string]string{"shutdown-manager": "0", "gateway": "7"}[what]})
	}
	s.event(5*sec, timeline.PodDeletion, uid, map[string]string{"grace": "30"})
	end := func() Ending {
		all := NewCase(&s.tl, s.p).Terminations
		if len(all) != 1 {
			t.Fatalf("%d terminations", len(all))
		}
		return all[0]
	}
	if e := end().Exit; !e.Known() {
		t.Error("no exit without a named container")
	}
	s.event(0, timeline.Marker, "", map[string]string{"what": MarkSubject, "deployment": "gateway", "container": "gateway"})
	if e := end(); e.Exit.At != 14*sec || e.ExitCode != 7 {
		t.Errorf("it ended at %s with %d", e.Exit.At, e.ExitCode)
	}
}

// The exit code is that of the end, not of a restart before it; nobody's where only the
// restart's was seen.
func TestExitCodeIsOfTheEnd(t *testing.T) {
	const uid = "uid-1"
	for name, c := range map[string]struct {
		seen bool
		want int
	}{"seen": {true, 0}, "the pod was just gone": {false, -1}} {
		s := &scene{p: 3 * sec}
		s.event(2*sec, timeline.PodContainer, uid, map[string]string{"state": "terminated", "exitCode": "137"})
		s.event(10*sec, timeline.PodDeletion, uid, map[string]string{"grace": "30"})
		if c.seen {
			s.event(15*sec, timeline.PodContainer, uid, map[string]string{"state": "terminated", "exitCode": "0"})
		}
		s.event(16*sec, timeline.PodGone, uid, nil)
		all := NewCase(&s.tl, s.p).Terminations
		if len(all) != 1 || all[0].ExitCode != c.want || !all[0].Exit.Known() {
			t.Errorf("%s: %+v", name, all)
		}
	}
}

// D of one that was called and says nothing of it is as well known as the call took.
func TestDrainOfTheCalled(t *testing.T) {
	for took, want := range map[string]time.Duration{"15ms": 15 * time.Millisecond, "": 0} {
		s := &scene{p: 3 * sec}
		s.event(10*sec, timeline.Disruption, "uid-1", map[string]string{"what": drainCall, "took": took})
		if all := NewCase(&s.tl, s.p).Endings; len(all) != 1 || all[0].Drain.At != 10*sec || all[0].Drain.Err != want {
			t.Errorf("%q: %+v", took, all)
		}
	}
}

// inShort is a short way to write down endings: their begins, exits and the rest that a timeline
// is made of.
func inShort(all []Ending) string {
	var out []string
	for _, e := range all {
		at := func(name string, i Instant) string {
			if !i.Known() {
				return ""
			}
			return fmt.Sprintf(" %s=%s", name, i.At)
		}
		s := fmt.Sprintf("%s %s %s:", e.UID, e.Role, e.Cause) + at("called", e.Called) + at("del", e.Del) + at("D", e.Drain) + at("exit", e.Exit) +
			at("running", e.Running) + at("ready", e.Ready)
		if e.Kill != 0 {
			s += fmt.Sprintf(" K=%s", e.Kill)
		}
		if e.ExitCode >= 0 {
			s += fmt.Sprintf(" code=%d", e.ExitCode)
		}
		if e.Killed() {
			s += " killed"
		}
		out = append(out, s)
	}
	return strings.Join(out, "\n")
}

// A pod is at each of its addresses, whoever tells of them. A recording that has no list of them has one.
func TestAddressesOfAnEnding(t *testing.T) {
	type attrs = map[string]string
	for name, tc := range map[string]struct {
		events []timeline.Event
		first  string
		all    []string
	}{
		"a list": {[]timeline.Event{
			{Kind: timeline.PodSeen, Attrs: attrs{"ip": "10.0.0.1", "ips": "10.0.0.1 fd00::1"}},
		}, "10.0.0.1", []string{"10.0.0.1", "fd00::1"}},
		"one, and no list": {[]timeline.Event{
			{Kind: timeline.PodSeen, Attrs: attrs{"ip": "10.0.0.1"}},
		}, "10.0.0.1", []string{"10.0.0.1"}},
		"none when it is first seen": {[]timeline.Event{
			{Kind: timeline.PodSeen, Attrs: attrs{"ip": "", "ips": ""}},
			{Kind: timeline.PodReady, Attrs: attrs{"ip": "fd00::1", "ips": "fd00::1 10.0.0.1"}},
		}, "fd00::1", []string{"fd00::1", "10.0.0.1"}},
	} {
		tl := &timeline.Timeline{}
		for _, e := range append(tc.events, timeline.Event{Kind: timeline.PodDeletion}) {
			e.At, e.Source, e.Subject = sec, "t", "a"
			tl.Events = append(tl.Events, e)
		}
		all := NewCase(tl, sec).Endings
		if len(all) != 1 || all[0].IP != tc.first || !slices.Equal(all[0].IPs, tc.all) {
			t.Errorf("%s: %+v", name, all)
			continue
		}
		for _, ip := range tc.all {
			if !all[0].IsAt(ip) {
				t.Errorf("%s: it is not at %s", name, ip)
			}
		}
		if all[0].IsAt("10.0.0.2") || all[0].IsAt("") {
			t.Errorf("%s: it is anywhere", name)
		}
	}
}

// Each ending of a recording has its cause, its role, its begin, its deadline and its exit.
func TestEndings(t *testing.T) {
	type attrs = map[string]string
	event := func(at time.Duration, kind timeline.EventKind, uid string, a attrs) timeline.Event {
		return timeline.Event{At: at, Source: "t", Kind: kind, Subject: uid, Attrs: a}
	}
	seen := func(uid, owner string) timeline.Event {
		return event(sec, timeline.PodSeen, uid, attrs{"owner": owner})
	}
	deletion := func(at time.Duration, uid string) timeline.Event {
		return event(at, timeline.PodDeletion, uid, attrs{"grace": "30"})
	}
	drain := func(at time.Duration, uid string) timeline.Event { return event(at, timeline.DrainStart, uid, nil) }
	call := func(at time.Duration, uid string) timeline.Event {
		return event(at, timeline.Disruption, uid, attrs{"what": drainCall, "took": "10ms"})
	}
	exit := func(at time.Duration, uid string) timeline.Event { return event(at, timeline.ProcExit, uid, nil) }
	container := func(at time.Duration, uid, state, code string) timeline.Event {
		return event(at, timeline.PodContainer, uid, attrs{"state": state, "exitCode": code})
	}
	ready := func(at time.Duration, uid, is string) timeline.Event {
		return event(at, timeline.PodReady, uid, attrs{"ready": is})
	}
	mark := func(a attrs) timeline.Event { return event(0, timeline.Marker, "", a) }
	for name, tc := range map[string]struct {
		events []timeline.Event
		want   []string
	}{
		"nothing ended": {[]timeline.Event{seen("a", ""), container(2*sec, "a", "running", ""), ready(3*sec, "a", "true")}, nil},
		"a deletion": {[]timeline.Event{
			deletion(10*sec, "a"), drain(10*sec, "a"), exit(15*sec, "a"), container(16*sec, "a", "terminated", "0"),
		}, []string{"a app deletion: del=10s D=10s exit=15s K=40s code=0"}},
		"a deletion whose process never ends": {[]timeline.Event{
			deletion(10*sec, "a"), drain(11*sec, "a"),
		}, []string{"a app deletion: del=10s D=11s K=40s"}},
		"a deletion, killed at its deadline": {[]timeline.Event{
			deletion(10*sec, "a"), drain(10*sec, "a"), exit(40*sec, "a"), container(41*sec, "a", "terminated", "137"),
		}, []string{"a app deletion: del=10s D=10s exit=40s K=40s code=137 killed"}},
		"a deletion of which only the pod's end was seen": {[]timeline.Event{
			deletion(10*sec, "a"), event(20*sec, timeline.PodGone, "a", nil),
		}, []string{"a app deletion: del=10s D=10s exit=20s K=40s"}},
		"a deletion in whose time the container ran again": {[]timeline.Event{
			deletion(10*sec, "a"), drain(11*sec, "a"), exit(15*sec, "a"), container(16*sec, "a", "running", ""), exit(20*sec, "a"),
		}, []string{"a app deletion: del=10s D=11s exit=15s K=40s"}},
		"a crash, and back": {[]timeline.Event{
			container(2*sec, "a", "running", ""), ready(3*sec, "a", "true"),
			exit(10*sec, "a"), container(11*sec, "a", "terminated", "2"), ready(11*sec, "a", "false"),
			container(12*sec, "a", "running", ""), ready(13*sec, "a", "true"),
		}, []string{"a app process-end: exit=10s running=12s ready=13s code=2"}},
		"a crash, twice": {[]timeline.Event{
			exit(10*sec, "a"), container(12*sec, "a", "running", ""),
			exit(20*sec, "a"), container(21*sec, "a", "terminated", "137"),
		}, []string{"a app process-end: exit=10s running=12s", "a app process-end: exit=20s code=137 killed"}},
		"a restart by liveness, which the app was told of": {[]timeline.Event{
			drain(10*sec, "a"), exit(14*sec, "a"), container(15*sec, "a", "running", ""), ready(16*sec, "a", "true"),
		}, []string{"a app process-end: D=10s exit=14s running=15s ready=16s"}},
		"a crash, back, and deleted": {[]timeline.Event{
			drain(9*sec, "a"), exit(10*sec, "a"), container(11*sec, "a", "terminated", "143"), container(11*sec, "a", "running", ""), ready(12*sec, "a", "true"),
			deletion(20*sec, "a"), drain(21*sec, "a"), exit(25*sec, "a"),
		}, []string{
			"a app process-end: D=9s exit=10s running=11s ready=12s code=143",
			"a app deletion: del=20s D=21s exit=25s K=50s",
		}},
		"called, and back": {[]timeline.Event{
			call(10*sec, "a"), drain(11*sec, "a"), exit(15*sec, "a"), container(16*sec, "a", "running", ""), ready(17*sec, "a", "true"),
		}, []string{"a app process-end: called=10s D=11s exit=15s running=16s ready=17s"}},
		"called, and says nothing of it": {[]timeline.Event{
			call(10*sec, "a"), exit(15*sec, "a"),
		}, []string{"a app process-end: called=10s D=10s exit=15s"}},
		"called, and never ends": {[]timeline.Event{
			call(10*sec, "a"), drain(11*sec, "a"),
		}, []string{"a app process-end: called=10s D=11s"}},
		"called after a crash": {[]timeline.Event{
			exit(5*sec, "a"), container(6*sec, "a", "running", ""),
			call(10*sec, "a"), drain(10*sec, "a"), exit(15*sec, "a"), container(16*sec, "a", "running", ""),
		}, []string{"a app process-end: exit=5s running=6s", "a app process-end: called=10s D=10s exit=15s running=16s"}},
		"called twice before it ended": {[]timeline.Event{
			call(10*sec, "a"), drain(10*sec, "a"), call(12*sec, "a"), exit(15*sec, "a"),
		}, []string{"a app process-end: called=10s D=10s exit=15s"}},
		"called twice, and never ends": {[]timeline.Event{
			call(10*sec, "a"), drain(10*sec, "a"), call(12*sec, "a"),
		}, []string{"a app process-end: called=10s D=10s"}},
		"called in vain": {[]timeline.Event{
			event(10*sec, timeline.Disruption, "a", attrs{"what": drainCall, "error": "refused"}),
		}, nil},
		"called, and deleted before it ended": {[]timeline.Event{
			call(10*sec, "a"), drain(10*sec, "a"), deletion(12*sec, "a"), exit(15*sec, "a"),
		}, []string{"a app deletion: called=10s del=12s D=10s exit=15s K=42s"}},
		"called, and deleted before it was ready": {[]timeline.Event{
			call(10*sec, "a"), drain(10*sec, "a"), exit(15*sec, "a"), container(16*sec, "a", "running", ""),
			deletion(17*sec, "a"), drain(18*sec, "a"), exit(20*sec, "a"),
		}, []string{
			"a app process-end: called=10s del=17s D=10s exit=15s running=16s",
			"a app deletion: del=17s D=18s exit=20s K=47s",
		}},
		"its node shut down": {[]timeline.Event{
			event(10*sec, timeline.Disruption, "a", attrs{"what": "node-shutdown", "node": "n1"}),
			{At: 11 * sec, Source: "t", Kind: timeline.DrainStart, Subject: "a", Node: "n1"},
			exit(15*sec, "a"), container(16*sec, "a", "terminated", "0"),
		}, []string{"a app shutdown: D=11s exit=15s code=0"}},
		"its node shut down, of which each pod is told": {[]timeline.Event{
			event(10*sec, timeline.Disruption, "a", attrs{"what": "node-shutdown", "node": "n1"}),
			{At: 11 * sec, Source: "t", Kind: timeline.DrainStart, Subject: "a", Node: "n1"},
			event(12*sec, timeline.Disruption, "b", attrs{"what": "node-shutdown", "node": "n1"}),
			exit(15*sec, "a"),
		}, []string{"a app shutdown: D=11s exit=15s"}},
		"it leaves a mesh, is enrolled again, leaves again and is deleted": {[]timeline.Event{
			event(10*sec, timeline.MeshLeaving, "a", nil), event(14*sec, timeline.MeshLeft, "a", nil),
			event(20*sec, timeline.MeshLeaving, "a", nil),
			deletion(30*sec, "a"), drain(30*sec, "a"), exit(35*sec, "a"),
		}, []string{
			"a app leaving: D=10s exit=14s", "a app leaving: D=20s",
			"a app deletion: del=30s D=30s exit=35s K=1m0s",
		}},
		"two roles: a gateway that is deleted, a backend that crashes": {[]timeline.Event{
			mark(attrs{"what": MarkFront, "deployment": "gateway"}), mark(attrs{"what": MarkSubject, "deployment": "gateway", "container": "envoy"}),
			seen("g", "ReplicaSet/gateway-1"), seen("b", "StatefulSet/backend"),
			deletion(10*sec, "g"), drain(10*sec, "g"),
			event(11*sec, timeline.ProcExit, "g", attrs{"container": "shutdown-manager"}),
			event(12*sec, timeline.ProcExit, "b", attrs{"container": "app"}),
			event(15*sec, timeline.ProcExit, "g", attrs{"container": "envoy"}),
		}, []string{"g gateway deletion: del=10s D=10s exit=15s K=40s", "b app process-end: exit=12s"}},
		"two proxies on one path": {[]timeline.Event{
			mark(attrs{"what": MarkFront, "deployment": "gateway"}), mark(attrs{"what": MarkFront, "deployment": "waypoint", "role": "node-proxy"}),
			seen("g", "ReplicaSet/gateway-1"), seen("w", "ReplicaSet/waypoint-1"), seen("b", "StatefulSet/backend"),
			exit(10*sec, "b"), exit(11*sec, "w"), exit(12*sec, "g"), exit(13*sec, "unheard"),
		}, []string{
			"b app process-end: exit=10s", "w node-proxy process-end: exit=11s",
			"g gateway process-end: exit=12s", "unheard  process-end: exit=13s",
		}},
		"the app of node proxies": {[]timeline.Event{
			mark(attrs{"what": MarkSubject, "role": "node-proxy", "deployment": "echo"}), mark(attrs{"what": MarkProxies, "workload": "DaemonSet/nodes"}),
			seen("a", "ReplicaSet/echo-1"), seen("p", "DaemonSet/nodes"), seen("q", "DaemonSet/others"),
			deletion(10*sec, "p"), drain(10*sec, "p"), exit(12*sec, "p"),
			deletion(20*sec, "a"), drain(20*sec, "a"), exit(25*sec, "a"), exit(30*sec, "q"),
		}, []string{"a node-proxy deletion: del=20s D=20s exit=25s K=50s", "q node-proxy process-end: exit=30s"}},
		"neither a front nor an app": {[]timeline.Event{
			mark(attrs{"what": MarkSubject, "role": "cni"}), deletion(10*sec, "c"), drain(10*sec, "c"),
		}, []string{"c cni deletion: del=10s D=10s K=40s"}},
		"a front that is all that is ended": {[]timeline.Event{
			mark(attrs{"what": MarkFront}), deletion(10*sec, "g"), drain(10*sec, "g"),
		}, []string{"g gateway deletion: del=10s D=10s K=40s"}},
	} {
		c := NewCase(&timeline.Timeline{Events: tc.events}, 3*sec)
		if got, want := inShort(c.Endings), strings.Join(tc.want, "\n"); got != want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, want)
		}
		for _, e := range c.Terminations {
			if e.Cause != CauseDeletion && e.Cause != CauseShutdown {
				t.Errorf("%s: a termination by %s", name, e.Cause)
			}
		}
	}
}

// The exit of a node proxy is that of its own container, or, where nobody says which that is, of the last one in its pod.
func TestExitOfAProxy(t *testing.T) {
	type attrs = map[string]string
	for container, want := range map[string]string{
		"proxy": "p proxies deletion: del=10s D=10s exit=13s K=40s code=0",
		"":      "p proxies deletion: del=10s D=10s exit=15s K=40s code=0",
	} {
		s := &scene{p: 3 * sec}
		// The app is in a set of its own, of which no mark names a Deployment.
		s.event(0, timeline.Marker, "", attrs{"what": MarkSubject, "role": "node-proxy", "container": "app"})
		s.event(0, timeline.Marker, "", attrs{"what": MarkProxies, "workload": "DaemonSet/nodes", "container": container})
		s.event(sec, timeline.PodSeen, "p", attrs{"owner": "DaemonSet/nodes"})
		s.event(10*sec, timeline.PodDeletion, "p", attrs{"grace": "30"})
		s.event(10*sec, timeline.DrainStart, "p", nil)
		for at, name := range map[time.Duration]string{11 * sec: "shipper", 13 * sec: "proxy", 15 * sec: "tunnels"} {
			s.event(at, timeline.ProcExit, "p", attrs{"container": name})
			s.event(at+sec, timeline.PodContainer, "p", attrs{"container": name, "state": "terminated", "exitCode": "0"})
		}
		s.tl.Sort()
		if got := inShort(NewCase(&s.tl, s.p).Proxies); got != want {
			t.Errorf("%q: %s, want %s", container, got, want)
		}
	}
}

// Who leaves at once has left before a watch that is late shows the deletion.
func TestClaimsTheExitOfALateDeletion(t *testing.T) {
	const asked = 10 * sec
	e := Ending{
		Del:   Instant{At: asked + 300*time.Millisecond, Err: 300 * time.Millisecond, Source: "watch"},
		Drain: Instant{At: asked + 250*time.Millisecond, Err: 250 * time.Millisecond, Source: "watch"},
	}
	for at, want := range map[time.Duration]bool{asked + 50*time.Millisecond: true, asked - 50*time.Millisecond: false} {
		if got := e.claims(exit{Instant: Instant{At: at, Err: time.Millisecond}}, 0); got != want {
			t.Errorf("an exit at %v: %t", at-asked, got)
		}
	}
}
