// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"strings"
	"testing"
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
)

// A vendor's sidecar has to have been passed by all that is known to have been asked, or nothing is
// known of it.
func TestPast(t *testing.T) {
	const disturbed = 10 * time.Second
	through := timeline.Sample{Stream: flow.To(flow.Flow{Path: flow.Direct, Op: flow.Get}, "a"), Start: time.Second, Server: "a", Relayed: true}
	with := func(change func(*timeline.Sample)) timeline.Sample {
		s := through
		change(&s)
		return s
	}
	straight := with(func(s *timeline.Sample) { s.Relayed = false })
	for name, c := range map[string]struct {
		sidecar string
		samples []timeline.Sample
		want    string
	}{
		"none is there":        {"", []timeline.Sample{straight}, ""},
		"all through it":       {"proxy", []timeline.Sample{through, through}, ""},
		"one past it":          {"proxy", []timeline.Sample{through, straight}, "1 requests (direct) before anything was disturbed came past the sidecar proxy"},
		"one call past it":     {"proxy", []timeline.Sample{through, with(func(s *timeline.Sample) { s.Stream, s.Relayed = flow.To(flow.Flow{Path: flow.Outbound}, "a"), false })}, "1 requests (outbound)"},
		"nobody asked":         {"proxy", nil, "no request shows that it came through the sidecar proxy"},
		"never answered":       {"proxy", []timeline.Sample{with(func(s *timeline.Sample) { s.Server = "" })}, "no request shows"},
		"by a Service":         {"proxy", []timeline.Sample{with(func(s *timeline.Sample) { s.Stream = flow.To(flow.Flow{Path: flow.Service}, "") })}, ""},
		"from outside":         {"proxy", []timeline.Sample{with(func(s *timeline.Sample) { s.Stream = flow.To(flow.Flow{Path: flow.NodePort}, "") })}, "no request shows"},
		"past it, behind that": {"proxy", []timeline.Sample{through, with(func(s *timeline.Sample) { s.Start, s.Relayed = disturbed, false })}, ""},
	} {
		tl := &timeline.Timeline{Samples: c.samples, Events: []timeline.Event{{Kind: timeline.Marker, Attrs: map[string]string{"what": assertions.MarkSubject, "sidecar": c.sidecar}}}}
		got := past(assertions.Case{Timeline: tl, Disturbed: disturbed}, []flow.Path{flow.Direct, flow.Outbound, flow.Service, flow.NodePort})
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// What came past it on one path voids what is judged by that, and nothing else.
func TestPastByPath(t *testing.T) {
	get := func(path flow.Path) flow.Flow {
		return flow.Flow{Path: path, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Get}
	}
	tl := &timeline.Timeline{
		Samples: []timeline.Sample{
			{Stream: flow.To(get(flow.Direct), "a"), Start: time.Second, Server: "a", Relayed: true},
			{Stream: flow.To(get(flow.Outbound), "a"), Start: time.Second, Server: "b"},
		},
		Events: []timeline.Event{{Kind: timeline.Marker, Attrs: map[string]string{"what": assertions.MarkSubject, "sidecar": "proxy"}}},
	}
	for name, tc := range map[string]struct {
		traffic  []flow.Path
		scenario Scenario
		doubts   bool
	}{
		"what comes in":       {[]flow.Path{flow.Direct}, Scenario{}, false},
		"what goes out":       {[]flow.Path{flow.Outbound}, Scenario{}, true},
		"both":                {[]flow.Path{flow.Direct, flow.Outbound}, Scenario{}, true},
		"both, in a control":  {[]flow.Path{flow.Direct, flow.Outbound}, Scenario{Control: true}, false},
		"both, by a stranger": {[]flow.Path{flow.Direct, flow.Outbound}, Scenario{Topology: Topology{Strangers: true}}, false},
	} {
		var b Behaviour
		for _, p := range tc.traffic {
			b.Traffic = append(b.Traffic, load.Profile{Flow: get(p), Rate: 1})
		}
		r := recording{scene: assertions.Case{Timeline: tl, Disturbed: 10 * time.Second}, meta: Meta{Scenario: tc.scenario}}
		if got := r.past(b); (got != "") != tc.doubts {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// Of an app in the suite's own mesh a tunnel has to have stood, where anybody asked it.
func TestUntunnelled(t *testing.T) {
	const disturbed = 10 * time.Second
	asked := func(p flow.Protocol, path flow.Path) timeline.Sample {
		return timeline.Sample{Stream: flow.To(flow.Flow{Path: path, Protocol: p, Op: flow.Get}, "a"), Start: time.Second, Server: "a", Outcome: timeline.OK}
	}
	look := func(at time.Duration, peer, sockets string) timeline.Event {
		return timeline.Event{At: at, Kind: timeline.Sockets, Subject: "probe", Attrs: map[string]string{"peer": peer, "sockets": sockets}}
	}
	tunnel := look(time.Second, "10.1.2.3:15008", "7/established/10.1.2.9:4001")
	direct := asked(flow.HTTP1, flow.Direct)
	for name, tc := range map[string]struct {
		role   string
		sample timeline.Sample
		look   timeline.Event
		doubts bool
	}{
		"through a tunnel":           {"sidecar", direct, tunnel, false},
		"by the Service":             {"sidecar", asked(flow.H2C, flow.Service), tunnel, false},
		"none stood":                 {"sidecar", direct, look(time.Second, "10.1.2.3:8080", "7/established/10.1.2.9:4001"), true},
		"none stood, of the Service": {"sidecar", asked(flow.H2C, flow.Service), look(time.Second, "10.1.2.3:15008", ""), true},
		"one that is closed":         {"sidecar", direct, look(time.Second, "10.1.2.3:15008", "7/close-wait/10.1.2.9:4001"), true},
		"only later":                 {"sidecar", direct, look(disturbed, "10.1.2.3:15008", "7/established/10.1.2.9:4001"), true},
		"an app in no mesh":          {"", direct, timeline.Event{}, false},
		"tunnels of the suite's own": {"sidecar", asked(flow.HBONE, flow.Direct), timeline.Event{}, false},
		"peers are dialled":          {"sidecar", asked(flow.HTTP1, flow.PeerCuts), timeline.Event{}, false},
	} {
		tl := &timeline.Timeline{
			Samples: []timeline.Sample{tc.sample},
			Events:  []timeline.Event{{Kind: timeline.Marker, Attrs: map[string]string{"what": assertions.MarkSubject, "role": tc.role}}, tc.look},
		}
		if got := past(assertions.Case{Timeline: tl, Disturbed: disturbed}, []flow.Path{tc.sample.Stream.Flow().Path}); (got != "") != tc.doubts {
			t.Errorf("%s: %q", name, got)
		}
	}
}
