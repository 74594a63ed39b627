// SPDX-License-Identifier: Apache-2.0

package assertions

import (
	"fmt"
	"slices"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// ReplaysSafely judges that no POST that a client has sent once is run twice.
// RFC 9110 section 9.2.2: "A proxy MUST NOT automatically retry non-idempotent
// requests."
//
// What tempts a proxy is a POST that an instance had in hand when its connection
// broke: without some of these nothing was tested.
func ReplaysSafely() Check {
	temptedFloor := Floor{Per: "termination", Name: "POSTs that the instance had begun and that its end cut", N: 3,
		Reason: atOneInstant,
	}
	offeredFloor := Floor{Per: "termination", Name: "POSTs on reused connections offered from D to exit + P", N: 200}
	return Check{
		Name:     "POSTs in the backends' ledger",
		Expected: "none was begun, or ended, more than once",
		Floors:   []Floor{temptedFloor, offeredFloor},
		Judge: func(c Case) spec.Finding {
			var g gather
			sent := posts(c.Timeline)
			rec := Reconcile(c.Timeline)
			for _, d := range rec.Duplicated {
				if s, ok := sent[d.ID]; ok && len(c.Terminations) > 0 {
					t := nearest(c.Terminations, d.At)
					g.certain(d.At, t.Name, d.ID, "%s of %s: %s; its client had sent it once: %s", relative(d.At, t), t.Name, d, endOf(s))
				}
			}
			missing := slices.DeleteFunc(rec.Unaccounted, func(id string) bool { _, ok := sent[id]; return !ok })
			if n := len(missing); n > 0 {
				g.doubt("%s an entry in the ledger (the first: %s): its tail is missing", plural(n, "answered POST lacks", "answered POSTs lack"), missing[0])
			}
			cut := cutPosts(c.Timeline, sent)
			total, refused := 0, 0
			ended := g.toll(c.terminated())
			for t := range ended.each() {
				g.shutBetween(c, t)
				n := 0
				for _, s := range sent {
					if s.Nth > 1 && !overTLS(s) && !s.Saturated && s.Start >= t.Drain.At && s.Start <= t.exitOr(t.Drain.At)+c.P {
						n++
					}
				}
				hit := 0
				for _, id := range cut[t.UID] {
					s := sent[id]
					total++
					if s.Failed() {
						refused++
					}
					if !overTLS(s) {
						hit++
					}
				}
				ended.has(temptedFloor, hit)
				ended.has(offeredFloor, n)
			}
			return g.conclude(
				fmt.Sprintf("of %d POSTs none was run twice; %d had been begun when their connection broke, and the clients of %d of these were told of an error", len(sent), total, refused),
				fmt.Sprintf("%d of %s more than once", g.failures(), plural(len(sent), "POST was run", "POSTs were run")))
		},
	}
}

func endOf(s timeline.Sample) string {
	if !s.Failed() {
		return s.Stream.Kind() + ": answered"
	}
	return describe(s)
}

// posted are the operations that are POSTs.
var posted = []flow.Op{flow.Post, flow.Upload, flow.Continue}

// posts are the POSTs of HTTP/1.1 that went through the Service, by their IDs.
func posts(tl *timeline.Timeline) map[string]timeline.Sample {
	out := map[string]timeline.Sample{}
	for _, s := range tl.Samples {
		if op := s.Stream.Flow().Op; throughService(s) && (slices.Contains(inHTTP1, s.Stream.Flow().Protocol) || overTLS(s)) && slices.Contains(posted, op) {
			out[s.ID] = s
		}
	}
	return out
}

// overTLS says whether a request goes on to the backends in TLS. It is judged with the others,
// and stands for none of them: its pool is another.
func overTLS(s timeline.Sample) bool { return s.Stream.Flow().Protocol == flow.BackendTLS }

// cutPosts are the POSTs that an instance had begun and never ended whole, by
// its UID.
func cutPosts(tl *timeline.Timeline, sent map[string]timeline.Sample) map[string][]string {
	whole := map[string]bool{}
	for _, e := range tl.Ledger {
		if e.Step == timeline.Done && e.Whole {
			whole[e.Pod+" "+e.ID] = true
		}
	}
	out := map[string][]string{}
	for _, e := range tl.Ledger {
		if _, ok := sent[e.ID]; ok && e.Step == timeline.Begin && !whole[e.Pod+" "+e.ID] {
			out[e.Pod] = append(out[e.Pod], e.ID)
		}
	}
	return out
}
