// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/reports/v1alpha1"
)

// A step that failed is told once, with all those it failed for. What was only noted is
// not told, and neither is a hook that fails because the recording is of one that does.
func TestFailedSteps(t *testing.T) {
	const drain, wait = "POST /drain on port admin", "wait until downstream is 0 (30s at most)"
	step := func(name, step string, more ...string) timeline.Event {
		e := timeline.Event{Kind: timeline.Marker, Subject: "uid-" + name, Name: name, Attrs: map[string]string{"what": "step", "step": step}}
		for i := 0; i+1 < len(more); i += 2 {
			e.Attrs[more[i]] = more[i+1]
		}
		return e
	}
	hook := func(name string) timeline.Event {
		return timeline.Event{Kind: timeline.ClusterEvent, Subject: "uid-" + name, Name: name, Attrs: map[string]string{"reason": "FailedPreStopHook", "message": "PreStopHook failed"}}
	}
	hooks := []v1alpha1.FailedStep{{Step: "preStop hook", Error: "PreStopHook failed", Instances: []string{"one"}, Times: 1}}
	for _, tc := range []struct {
		name     string
		topology Topology
		events   []timeline.Event
		want     []v1alpha1.FailedStep
	}{
		{"all is well", Topology{}, []timeline.Event{step("one", drain), step("one", wait), step("one", "SIGTERM")}, nil},
		{"a wait that took its time", Topology{}, []timeline.Event{step("one", wait, "note", "it is 3 still")}, nil},
		{"for one, for the other, and again", Topology{}, []timeline.Event{
			step("one", drain, "error", "404 Not Found"), step("one", wait, "error", "status 500"),
			step("two", drain, "error", "connection refused"), step("one", drain, "error", "404 Not Found"),
		}, []v1alpha1.FailedStep{
			{Step: drain, Error: "404 Not Found", Instances: []string{"one", "two"}, Times: 3},
			{Step: wait, Error: "status 500", Instances: []string{"one"}, Times: 1},
		}},
		{"a hook", Topology{}, []timeline.Event{hook("one")}, hooks},
		{"a hook that is to fail", Topology{HookFails: true}, []timeline.Event{hook("one")}, nil},
		{"a hook of what was not ended", Topology{}, []timeline.Event{hook("one"), hook("another")}, hooks},
	} {
		r := recording{
			meta: Meta{Scenario: Scenario{Topology: tc.topology}},
			scene: assertions.Case{
				Timeline:     &timeline.Timeline{Events: tc.events},
				Terminations: []assertions.Ending{{UID: "uid-one"}, {UID: "uid-two"}},
			},
		}
		if d := cmp.Diff(tc.want, r.failedSteps()); d != "" {
			t.Errorf("%s (-want +got)\n%s", tc.name, d)
		}
	}
}

// What was left behind is named by its programs, each once for an instance.
func TestLeftBehind(t *testing.T) {
	left := func(instance, program string) timeline.Event {
		return timeline.Event{Kind: timeline.Marker, Name: instance, Attrs: map[string]string{"what": "left", "process": program, "pid": "7"}}
	}
	step := timeline.Event{Kind: timeline.Marker, Name: "one", Attrs: map[string]string{"what": "step", "step": "SIGTERM"}}
	const before, after = "WARNING: when the first process of an instance had ended, others that it had started still ran, in sessions of their own: ", ". They were killed, as in a container"
	for want, events := range map[string][]timeline.Event{
		"":                             {step},
		before + "sleep (one)" + after: {step, left("one", "sleep"), left("one", "sleep")},
		before + "nginx (two); sleep (one, two, three, and 1 more)" + after: {
			left("one", "sleep"), left("two", "sleep"), left("two", "nginx"), left("three", "sleep"), left("four", "sleep"),
		},
	} {
		r := recording{recorded: true, scene: assertions.Case{Timeline: &timeline.Timeline{Events: events}}}
		notes := r.describe().Notes
		if got := leftBehind(r.scene.Timeline); got != want || want != "" && !slices.Contains(notes, want) {
			t.Errorf("%q in %q, want %q", got, notes, want)
		}
	}
}

// A gateway that stays sends its connections where it will: that is nothing of the
// service network's.
func TestNoPropagationBehindAGateway(t *testing.T) {
	known := func(at time.Duration) assertions.Instant { return assertions.Instant{At: at, Source: "t"} }
	went := assertions.Ending{UID: "went", Endpoint: known(5 * time.Second), LastNew: known(8 * time.Second), ExitCode: -1}
	other := timeline.Event{At: time.Second, Kind: timeline.Endpoint, Subject: "other", Attrs: map[string]string{"service": "echo", "ready": "true"}}
	for _, behind := range []bool{false, true} {
		r := recording{
			meta:  Meta{Scenario: Scenario{Topology: Topology{Behind: behind}}},
			scene: assertions.Case{Timeline: &timeline.Timeline{Events: []timeline.Event{other}}, Terminations: []assertions.Ending{went}},
		}
		if got := r.propagation(r.scene); (len(got) == 0) != behind {
			t.Errorf("behind %t: the run's is %v", behind, got)
		}
		if got := r.describeTermination(went).Propagation; (got == nil) != behind {
			t.Errorf("behind %t: its own is %v", behind, got)
		}
	}
}
