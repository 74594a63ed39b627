// SPDX-License-Identifier: Apache-2.0

// Package scene builds small timelines for the tests of checks: one termination, and what a
// test has happen around it. Only tests import it.
package scene

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// The clock of a quiet scene: the gate is steady at 5 s, the instance drains from D on and is
// gone 10 s later, within a grace of 15 s, and the load ends at 24 s.
const (
	D    = 10 * time.Second
	Exit = 20 * time.Second

	// P is the propagation window of all scenes.
	P = 3 * time.Second

	// UID is the instance's, and OtherUID that of one which stays.
	UID      = "uid-a"
	OtherUID = "uid-b"
)

// Scene is a timeline that is being made. Its parts may be told in any order: Judge sorts them.
type Scene struct{ *timeline.Timeline }

// Quiet is one termination that nobody talks to.
func Quiet() Scene {
	s := Scene{&timeline.Timeline{}}
	s.Event(5*time.Second, timeline.Marker, "", map[string]string{"what": "steady"})
	s.Event(24*time.Second, timeline.Marker, "", map[string]string{"what": "tail"})
	s.Event(D, timeline.PodDeletion, UID, map[string]string{"grace": "15"})
	s.Event(D, timeline.DrainStart, UID, map[string]string{"trigger": "SIGTERM"})
	s.Event(Exit, timeline.ProcExit, UID, nil)
	return s
}

// Event adds one, about a subject that has its UID for a name.
func (s Scene) Event(at time.Duration, kind timeline.EventKind, subject string, attrs map[string]string) {
	s.Events = append(s.Events, timeline.Event{At: at, Source: "test", Kind: kind, Subject: subject, Name: subject, Attrs: attrs})
}

// On has the instance be on a node.
func (s Scene) On(node string) {
	s.Event(time.Second, timeline.PodSeen, UID, nil)
	s.Events[len(s.Events)-1].Node = node
}

// Starve is the word of a node's witness that nothing ran there on time in the three seconds around an instant.
func (s Scene) Starve(node string, at time.Duration) {
	s.Events = append(s.Events, timeline.Event{
		At: at - 1500*time.Millisecond, Err: 3 * time.Second, Source: "test", Kind: timeline.NodeStarved, Node: node,
		Attrs: map[string]string{"late": "150", "of": "150"},
	})
}

// Drop takes the events out that it is asked to.
func (s Scene) Drop(out func(timeline.Event) bool) { s.Events = slices.DeleteFunc(s.Events, out) }

// Add adds an attempt, and what a backend wrote of it if it did not fail.
func (s Scene) Add(x timeline.Sample) {
	s.Samples = append(s.Samples, x)
	if !x.Failed() {
		s.Ledger = append(s.Ledger,
			timeline.Entry{At: x.Start, ID: x.ID, Step: timeline.Begin, Pod: x.Server},
			timeline.Entry{At: x.End, ID: x.ID, Step: timeline.Done, Pod: x.Server, Whole: true})
	}
}

// Through adds a stream through the Service, of so many requests each second, from before D to
// beyond the exit. All go well at the other instance, but for what set changes; nil: nothing.
func (s Scene) Through(name string, rate int, set func(*timeline.Sample)) {
	step := time.Second / time.Duration(rate)
	for at := 6 * time.Second; at < 24*time.Second; at += step {
		x := timeline.Sample{
			Stream: flow.Named(name), ID: fmt.Sprintf("%s#%d", name, at), Conn: 1, Nth: 2,
			Due: at, Start: at, Sent: at, First: at + 1, End: at + 2*time.Millisecond,
			Outcome: timeline.OK, Phase: timeline.PhaseDone, Server: OtherUID, Status: 200,
		}
		if set != nil {
			set(&x)
		}
		s.Add(x)
	}
}

// Told is the instance's word that it told the other side of a connection that this ends, in
// one of the ways of timeline.ConnTold.
func (s Scene) Told(at time.Duration, conn int, by string) Scene {
	return s.wire(at, timeline.ConnTold, conn, by)
}

// Parted is Told of its FIN behind an answer that had said "close".
func (s Scene) Parted(at time.Duration, conn int) Scene {
	s.wire(at, timeline.ConnTold, conn, timeline.ToldByFIN)
	s.Events[len(s.Events)-1].Attrs["said"] = timeline.SaidClose
	return s
}

// Heard is its word that the other side had read that.
func (s Scene) Heard(at time.Duration, conn int, by string) Scene {
	return s.wire(at, timeline.ConnHeard, conn, by)
}

// Asked is its word that a request came on the connection after that.
func (s Scene) Asked(at time.Duration, conn int, by string) Scene {
	return s.wire(at, timeline.ConnAsked, conn, by)
}

func (s Scene) wire(at time.Duration, kind timeline.EventKind, conn int, by string) Scene {
	s.Event(at, kind, UID, map[string]string{"conn": fmt.Sprint(conn), "by": by, "peer": "127.9.9.9:1"})
	return s
}

// Row is what happens in a scene that was quiet, and what a check must say of it.
type Row struct {
	Name  string
	Build func(Scene)
	Want  spec.Verdict
}

// Judge puts a check to each row, and to what no check may pass: a termination that nobody
// talks to, and a recording in which nothing terminated.
func Judge(t *testing.T, check func(*timeline.Timeline) spec.Finding, rows []Row) {
	t.Helper()
	for _, row := range append([]Row{
		{"nobody talked", func(Scene) {}, spec.Inconclusive},
		{"nothing terminated", func(s Scene) { s.Events = nil }, spec.Inconclusive},
	}, rows...) {
		t.Run(row.Name, func(t *testing.T) {
			s := Quiet()
			row.Build(s)
			s.Sort()
			Holds(t, check(s.Timeline), row.Want)
		})
	}
}

// Holds says what is wrong with a finding: its verdict, or that it does not say what a reader
// of a report needs.
func Holds(t *testing.T, f spec.Finding, want spec.Verdict) {
	t.Helper()
	if f.Verdict != want {
		t.Fatalf("verdict %v, want %v\nactual: %s\nculprits: %v\nevidence: %v", f.Verdict, want, f.Actual, f.Culprits, f.Evidence)
	}
	if f.Verdict == spec.Fail && len(f.Culprits) == 0 {
		t.Error("a failure without a culprit")
	}
	if f.Check == "" || f.Expected == "" || f.Actual == "" {
		t.Errorf("a finding must say what was asked, expected and seen: %+v", f)
	}
}
