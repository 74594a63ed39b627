// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/reports/v1alpha1"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// killedAt is an event of the pod watch: a container was killed for memory.
func killedAt(at time.Duration, pod, limit, finished string) timeline.Record {
	return timeline.Record{Event: &timeline.Event{At: at, Source: "observe", Kind: timeline.PodContainer, Subject: "uid-" + pod, Name: pod, Attrs: map[string]string{
		"container": "main", "state": "terminated", "exitCode": "137", "reason": timeline.ReasonOOMKilled, "limit": limit, "finished": finished,
	}}}
}

// What was killed for memory stands in the report, and decides nothing by itself. Where
// it is of the suite's own nothing can be concluded, and that is the reason, whatever else
// came of it.
func TestKilledForMemory(t *testing.T) {
	b := sample("a.a")
	b.Checks = []assertions.Check{{Judge: func(c assertions.Case) spec.Finding {
		for _, s := range c.Timeline.Samples {
			if s.Failed() && s.Start > 6*time.Second {
				return spec.Finding{Verdict: spec.Fail}
			}
		}
		return spec.Finding{Verdict: spec.Pass}
	}}}
	kill := sample("a.kill")
	kill.Disrupt, kill.Level = KillEach, spec.Control
	scenarios := Fold([]Behaviour{b, kill}, "", false)
	stream := scenarios[1].Traffic[0].Flow.String()
	gateway := func(emit func(timeline.Record), _ *Meta) {
		emit(killedAt(7*time.Second, "gateway-1", "128Mi", "a"))
		emit(killedAt(9*time.Second, "gateway-1", "128Mi", "a")) // told again, with the restart
		emit(killedAt(11*time.Second, "gateway-1", "128Mi", "b"))
		emit(timeline.Record{Event: &timeline.Event{At: 12 * time.Second, Source: "host", Kind: timeline.PodContainer, Subject: "uid-h", Name: "h", Attrs: map[string]string{
			"container": "main", "state": "terminated", "exitCode": "137", "reason": timeline.ReasonOOMKilled, "kills": "1",
		}}})
	}
	kills := []v1alpha1.MemoryKill{
		{Instance: "gateway-1", Container: "main", Limit: "128Mi", At: v1alpha1.Duration(7 * time.Second), Times: 2},
		{Instance: "h", Container: "main", At: v1alpha1.Duration(12 * time.Second), Times: 1, Likely: true},
	}
	probe := func(emit func(timeline.Record), m *Meta) {
		emit(killedAt(7*time.Second, "probe", "512Mi", "a"))
		emit(timeline.Record{Event: &timeline.Event{At: 7 * time.Second, Source: "runner", Kind: timeline.AgentLost, Attrs: map[string]string{"agent": "probe", "why": "it was killed for memory", "memory": "true"}}})
		emit(timeline.Record{Event: &timeline.Event{At: 60 * time.Second, Source: "runner", Kind: timeline.AgentLost, Attrs: map[string]string{"agent": "probe", "why": "out of reach"}}})
	}
	ours := []v1alpha1.MemoryKill{{Instance: "probe", Container: "main", Limit: "512Mi", At: v1alpha1.Duration(7 * time.Second), Times: 1}}
	const reason = "the agent probe was lost: it was killed for memory"
	for _, tc := range []struct {
		name   string
		own    func(func(timeline.Record), *Meta)
		want   spec.Verdict
		reason string
		kills  []v1alpha1.MemoryKill
	}{
		{"nothing was", nil, spec.Pass, "", nil},
		{"the system's own", gateway, spec.Pass, "", kills},
		{"the suite's own", probe, spec.Inconclusive, reason, ours},
		{"the suite's own, before the gate", func(emit func(timeline.Record), m *Meta) {
			probe(emit, m)
			m.Doubt = "the steady gate never opened: nothing was sent"
		}, spec.Inconclusive, reason, ours},
		{"a violation stands", func(emit func(timeline.Record), m *Meta) {
			probe(emit, m)
			emit(timeline.Record{Sample: &timeline.Sample{Stream: flow.Named(stream), ID: "lost", Start: 8 * time.Second, End: 8 * time.Second, Outcome: timeline.Reset, Phase: timeline.PhaseBody}})
		}, spec.Fail, "", ours},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			tape(t, dir, scenarios[0], nil)
			tape(t, dir, scenarios[1], tc.own)
			j := recorded(t, dir, scenarios...)
			if got := j.recs[1].judge(b, j.blind()); got.Verdict != tc.want || !strings.HasPrefix(got.Reason, tc.reason) {
				t.Errorf("%v (%s), want %v (%s)", got.Verdict, got.Reason, tc.want, tc.reason)
			}
			if d := cmp.Diff(tc.kills, j.recs[1].describe().KilledForMemory); d != "" {
				t.Errorf("(-want +got)\n%s", d)
			}
		})
	}
}
