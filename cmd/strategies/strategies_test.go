// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
)

func TestBehaviours(t *testing.T) {
	declare()
	if err := behaviour.Validate(behaviour.Catalogue()); err != nil {
		t.Error(err)
	}
}

// The reference's files are as this command knows them, and each strategy's say what it is.
func TestSystems(t *testing.T) {
	dir := t.TempDir()
	t.Chdir("../..")
	for _, s := range strategies {
		name := parts[1].of(s)
		sys, err := s.system(dir, name)
		if err != nil {
			t.Fatal(err)
		}
		pods, err := os.ReadFile(filepath.Join(dir, name+"-pods.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		if sys.Name() != name || !sys.Reference() || !strings.Contains(string(pods), ", leave: "+s.Leave+"{") {
			t.Errorf("%s: a system called %s, a reference: %v", s.Name, sys.Name(), sys.Reference())
		}
	}
}

func TestCount(t *testing.T) {
	const d, exit = 10 * time.Second, 22 * time.Second
	in := flow.To(flow.Flow{Path: flow.Direct, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Get}, "a")
	out := flow.To(flow.Flow{Path: flow.Outbound, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Get}, "a")
	sample := func(s flow.Stream, from, to time.Duration, o timeline.Outcome) timeline.Sample {
		return timeline.Sample{Stream: s, Start: from, End: to, Outcome: o}
	}
	c := assertions.Case{
		Terminations: []assertions.Ending{{UID: "a", Drain: assertions.Instant{At: d}, Exit: assertions.Instant{At: exit, Source: "witness"}}},
		Timeline: &timeline.Timeline{
			Samples: []timeline.Sample{
				sample(in, 9*time.Second, 9*time.Second, timeline.Refused), // before D
				sample(in, 11*time.Second, 11*time.Second, timeline.OK),
				sample(in, 12*time.Second, 12*time.Second, timeline.Refused),
				sample(in, 21*time.Second, 23*time.Second, timeline.Reset), // by the app's end
				sample(out, 12*time.Second, 12*time.Second, timeline.OK),
				sample(out, 23*time.Second, 23*time.Second, timeline.Refused), // it is gone
			},
			Events: []timeline.Event{
				{Kind: timeline.ProcExit, Subject: "a", At: exit, Attrs: map[string]string{"container": "echo"}},
				{Kind: timeline.ProcExit, Subject: "a", At: exit + 5*time.Second, Attrs: map[string]string{"container": "lastcall-sidecar"}},
			},
		},
	}
	got := count(c)
	if got.In != (share{1, 2}) || got.Out != (share{0, 1}) || got.Stays != 5*time.Second || got.Stayed {
		t.Errorf("counted %+v", got)
	}
	c.Timeline.Events = c.Timeline.Events[:1]
	if got := count(c); !got.Stayed {
		t.Errorf("one whose sidecar nobody saw exit: %+v", got)
	}
}

func TestWrite(t *testing.T) {
	cells := make([]cell, len(columns))
	cells[0] = cell{Scenario: "delete-1", In: share{3, 10}, Out: share{0, 20}, Stayed: true}
	cells[2] = cell{Jobs: []string{"goes on, was to be complete"}}
	page := string(write([]row{{strategy: strategies[1], Cells: cells, Made: []string{"Kubernetes v1.34.4, suite a1, 2026-11-26", "Kubernetes v1.34.4, suite a2, 2026-11-27"}}}))
	for _, want := range []string{"in **3 of 10**; out 0 of 20; **still there after 1m0s**", "goes on, was to be complete", "`leave: at-once`", "`at-once/delete-1`", "suite a1, 2026-11-26; Kubernetes v1.34.4, suite a2", "from its preStop hook on it"} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q in\n%s", want, page)
		}
	}
}
