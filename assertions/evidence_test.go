// SPDX-License-Identifier: Apache-2.0

package assertions

import (
	"testing"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// What a check needs and a recording has not is known, and no evidence is asked for.
func TestCheckNeeds(t *testing.T) {
	judged := Check{Name: "k", Floors: []Floor{{Name: "f", N: 1}}, Judge: func(Case) spec.Finding { return spec.Finding{Verdict: spec.Fail} }}
	of := func(e ...Evidence) Check { k := judged; k.Needs = e; return k }
	for name, tc := range map[string]struct {
		k    Check
		c    Case
		want spec.Verdict
	}{
		"nothing":                  {of(), Case{Plain: true}, spec.Fail},
		"a ledger":                 {of(Ledger), Case{}, spec.Fail},
		"a ledger, of any app":     {of(Ledger), Case{Plain: true, Lasts: true}, spec.Skipped},
		"what lasts, of any app":   {of(Lasting), Case{Plain: true}, spec.Skipped},
		"what lasts, and is there": {of(Lasting), Case{Plain: true, Lasts: true}, spec.Fail},
		"an upload, of any app":    {of(Lasting, Uploads), Case{Plain: true, Lasts: true}, spec.Skipped},
	} {
		if f := tc.k.Run(tc.c); f.Verdict != tc.want || f.Verdict == spec.Skipped && f.Actual == "" || f.Check != "k" {
			t.Errorf("%s: %+v, want %s", name, f, tc.want)
		}
	}
	if why := Undecided([]Check{of(Ledger), of()}, Case{Plain: true}.shows); why != "" {
		t.Errorf("where one check can be put: %q", why)
	}
	if why := Undecided([]Check{of(Ledger), of(Uploads)}, Case{Plain: true}.shows); why != Ledger.Lacking() {
		t.Errorf("where none can: %q", why)
	}
	for _, e := range []Evidence{Ledger, Lasting, Named, Uploads} {
		if e.Lacking() == "" {
			t.Errorf("%s: nothing says what its lack means", e)
		}
	}
}

// Of those that name nobody it is known who was reached: whom the client dialled, or was given.
func TestAttributesNameless(t *testing.T) {
	direct := flow.To(flow.Flow{Path: flow.Direct, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Get}, "a")
	service := flow.To(flow.Flow{Path: flow.Service, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Get}, "")
	mark := timeline.Event{Kind: timeline.Marker, Attrs: map[string]string{"what": MarkPlain, "lasts": "true"}}
	given := timeline.Event{At: time.Second, Kind: timeline.Chosen, Subject: "b", Attrs: map[string]string{"by": timeline.ByService, "client": "127.0.0.1:1"}}
	samples := func() []timeline.Sample {
		return []timeline.Sample{
			{Stream: direct, ID: "1", Status: 200, Outcome: timeline.OK, End: 2 * time.Second},
			{Stream: direct, ID: "2", Outcome: timeline.Refused, End: 2 * time.Second},
			{Stream: service, ID: "3", Local: "127.0.0.1:1", Status: 200, Outcome: timeline.OK, End: 2 * time.Second},
			{Stream: service, ID: "4", Local: "127.0.0.1:2", Status: 200, Outcome: timeline.OK, End: 2 * time.Second},
		}
	}
	c := NewCase(&timeline.Timeline{Events: []timeline.Event{mark, given}, Samples: samples()}, time.Second)
	if !c.Plain || !c.Lasts {
		t.Errorf("plain %v, lasts %v", c.Plain, c.Lasts)
	}
	for i, want := range []string{"a", "", "b", ""} {
		if got := c.Timeline.Samples[i].Reached; got != want {
			t.Errorf("%s reached %q, want %q", c.Timeline.Samples[i].ID, got, want)
		}
	}
	c = NewCase(&timeline.Timeline{Events: []timeline.Event{given}, Samples: samples()}, time.Second)
	for _, s := range c.Timeline.Samples {
		if s.Reached != "" {
			t.Errorf("of those that name themselves, %s reached %q", s.ID, s.Reached)
		}
	}
}

// Where nobody keeps a ledger the client's word is all that there is.
func TestPlainKeepsNoLedger(t *testing.T) {
	tl := &timeline.Timeline{Samples: []timeline.Sample{{ID: "ok", Outcome: timeline.OK}, {ID: "cut", Outcome: timeline.Truncated}}}
	if len(wholeIDs(tl)) != 0 || len(begunIDs(tl)) != 0 {
		t.Error("a ledger that has nothing says something")
	}
	tl.Events = []timeline.Event{{Kind: timeline.Marker, Attrs: map[string]string{"what": MarkPlain}}}
	for name, got := range map[string]map[string]bool{"whole": wholeIDs(tl), "begun": begunIDs(tl)} {
		if len(got) != 1 || !got["ok"] {
			t.Errorf("%s: %v", name, got)
		}
	}
}
