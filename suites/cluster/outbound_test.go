// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/fixtures/deploy"
	"github.com/lastcall-dev/lastcall/fixtures/system"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/control"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
)

var calledOut = load.Profile{Flow: flow.Flow{Path: flow.Outbound, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Get}, Rate: 5}

// What an app tells of its calls is of its own pod, and goes where the rest of its ledger goes.
func TestCallsAreThePods(t *testing.T) {
	of := flow.To(calledOut.Flow, "uid-a")
	for _, r := range []timeline.Record{
		{Sample: &timeline.Sample{Stream: of}}, {Frame: &timeline.Frame{Stream: of}},
		{Event: &timeline.Event{Subject: "uid-a"}}, {Entry: &timeline.Entry{Pod: "uid-a"}},
	} {
		if uid := podOf(r); uid != "uid-a" {
			t.Errorf("%+v is of %q", r, uid)
		}
	}
}

// Each instance has a stream of its own, and no Service of theirs is on its way.
func TestOutboundStreams(t *testing.T) {
	g := &ground{scenario: behaviour.Scenario{Traffic: []load.Profile{calledOut}}, targets: []deploy.Instance{{UID: "uid-a"}, {UID: "uid-b"}}}
	some, err := g.streams(calledOut)
	if err != nil || len(some) != 2 || some[1].Name != flow.To(calledOut.Flow, "uid-b") {
		t.Errorf("%+v, %v", some, err)
	}
	if v := g.views(); !slices.Equal(v, []deploy.View{deploy.View(flow.Service)}) {
		t.Errorf("views %v", v)
	}
}

// On a cluster that is not ours what an app tells would go out by the way that is judged.
func TestCallsLackANodeOfOurs(t *testing.T) {
	b := behaviour.Behaviour{ID: "sidecar.x", Traffic: []load.Profile{calledOut}}
	if why := Lacks(b, nil, true, true).Why; why != "" {
		t.Error(why)
	}
	if why := Lacks(b, nil, false, true).Why; !strings.Contains(why, "--stage kind") {
		t.Errorf("%q", why)
	}
}

// told are the signals that a witness was asked for, of pods that are there.
type told struct {
	counter
	gone string
	all  []string
}

func (s *told) Signal(_ context.Context, q control.Signal) ([]int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if q.Pod == s.gone {
		return nil, fmt.Errorf("no process: %w", fs.ErrNotExist)
	}
	s.all = append(s.all, q.Pod+"/"+q.Container+"/"+q.Signal)
	return []int{1}, nil
}

func TestTellCallers(t *testing.T) {
	sent := &told{}
	witness, _ := follows(t, serve(t, sent), func(timeline.Record, time.Duration) {})
	g := &ground{
		stage:   &Stage{shared: &shared{backstage: map[string]*agent{"n1": witness}}},
		targets: []deploy.Instance{{UID: "uid-a", Node: "n1"}, {UID: "uid-b", Node: "n1"}},
		subject: subject{container: "echo"},
		scenario: behaviour.Scenario{Traffic: []load.Profile{
			{Flow: flow.Flow{Path: flow.Outbound, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Get}, Rate: 1},
		}},
	}
	// Nobody calls: there is nobody to be told.
	if err := g.tellCallers(t.Context(), behaviour.CallsBegin); err != nil || len(sent.all) > 0 {
		t.Errorf("%v, %v", sent.all, err)
	}
	g.called = []deploy.Instance{{UID: "uid-peer"}}
	if err := g.tellCallers(t.Context(), behaviour.CallsBegin); err != nil || !slices.Equal(sent.all, []string{"uid-a/echo/USR1", "uid-b/echo/USR1"}) {
		t.Errorf("%v, %v", sent.all, err)
	}
	// Who is gone has ended what it sent out, and never began any.
	sent.all, sent.gone = nil, "uid-a"
	if err := g.tellCallers(t.Context(), behaviour.CallsEnd); err != nil || !slices.Equal(sent.all, []string{"uid-b/echo/USR2"}) {
		t.Errorf("%v, %v", sent.all, err)
	}
	if err := g.tellCallers(t.Context(), behaviour.CallsBegin); err == nil {
		t.Error("an instance that is gone has begun its calls")
	}
	g.targets[1].Node = "n2"
	sent.gone = ""
	if err := g.endCalls(context.Background()); err == nil {
		t.Error("a node without a witness has signalled")
	}
}

// A Job's app asks what its plain sidecar is ended by, where it has such a request: the suite's own by how that learns of its app's
// end, and a vendor's by its file.
func TestJobQuits(t *testing.T) {
	vendors := func(change func(*system.System)) behaviour.Subject {
		s := &system.System{
			Roles: []system.Role{system.Sidecar}, Ports: map[string]int{"admin": 15020, "free": 0},
			Quit: &system.HTTPStep{Port: "admin", Post: "/quitquitquit"}, Cluster: &system.Cluster{Patch: "patch.yaml", Form: system.Plain},
		}
		if change != nil {
			change(s)
		}
		return behaviour.Subject{System: s, Named: true}
	}
	own := behaviour.Subject{System: &system.System{Roles: []system.Role{system.App, system.Sidecar}, Quit: &system.HTTPStep{Port: "admin", Post: "/quit"}, Cluster: &system.Cluster{}}}
	for name, tc := range map[string]struct {
		subject behaviour.Subject
		form    system.Form
		learns  system.Learns
		want    string
	}{
		"a vendor's":               {vendors(nil), system.Plain, "", "http://127.0.0.1:15020/quitquitquit"},
		"a vendor's at a port":     {vendors(func(s *system.System) { s.Quit.Port = "free" }), system.Plain, "", "http://127.0.0.1:10080/quitquitquit"},
		"a vendor's, by GET":       {vendors(func(s *system.System) { s.Quit.Post, s.Quit.Get = "", "/quit" }), system.Plain, "", ""},
		"a vendor's native one":    {vendors(nil), system.Native, "", ""},
		"a vendor's that has none": {vendors(func(s *system.System) { s.Quit = nil }), system.Plain, "", ""},
		"by a call":                {own, system.Plain, system.ByCall, "http://127.0.0.1:15000/quit"},
		"by sockets":               {own, system.Plain, system.BySockets, ""},
		"native":                   {own, system.Native, "", ""},
	} {
		g := &ground{system: tc.subject, scenario: behaviour.Scenario{Topology: behaviour.Topology{Form: tc.form, Learns: tc.learns}}}
		if got := g.jobQuits(); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}
