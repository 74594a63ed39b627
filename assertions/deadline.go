// SPDX-License-Identifier: Apache-2.0

package assertions

import (
	"fmt"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// atTheCut is how long before a connection's end a GOAWAY still tells of it.
const atTheCut = time.Second

// DeadlineTellsFirst judges the streams that an instance cut because its time
// was up: those that by design would have gone on beyond its exit. RFC 9113
// section 6.8: "An endpoint MAY send multiple GOAWAY frames if circumstances
// change. For instance, an endpoint that sends GOAWAY with NO_ERROR during
// graceful shutdown could subsequently encounter a condition that requires
// immediate termination of the connection." Section 9.1: "When either endpoint
// chooses to close the transport-layer TCP connection, the terminating endpoint
// SHOULD first send a GOAWAY (Section 6.8) frame so that both endpoints can
// reliably determine whether previously sent frames have been processed and
// gracefully complete or terminate any necessary remaining tasks."
//
// The GOAWAY with which the drain began said that these streams would go on.
func DeadlineTellsFirst() Check {
	const what = "streams that still ran when the instance cut them"
	enoughFloor := Floor{Name: what, N: 3, Reason: "few requests are long enough, and each is cut once"}
	return Check{
		Name:     what,
		Expected: fmt.Sprintf("each gets an RST_STREAM, or its connection a GOAWAY in the last %s that names a last stream or an error, before the FIN or the RST", atTheCut),
		Floors:   []Floor{enoughFloor},
		Needs:    []Evidence{Lasting},
		Judge: func(c Case) spec.Finding {
			var g gather
			cut, bare, spared := 0, 0, 0
			ended := g.toll(c.terminated())
			for t := range ended.each() {
				g.shutBetween(c, t)
				if !t.Exit.Known() {
					g.doubt("nobody saw %s exit", t.Name)
					continue
				}
				for _, k := range connectionsTo(c, t, inHTTP2) {
					for _, s := range k.samples {
						if !stillRan(c, t, s) {
							continue
						}
						if _, told := k.resetOf(s); told {
							cut++
							continue
						}
						end, over := k.ended()
						if !over {
							continue
						}
						if sparedAt(c, t, k.left(end.At)) {
							spared++
							continue
						}
						cut++
						if !k.saidCut(end) {
							bare++
							g.against(t, k.left(end.At), s.ID, "stream %d of connection %d was cut by %s, with no RST_STREAM, and no GOAWAY just before it that told of the cut: %s", streamID(s), k.number(), whose[end.Kind], describe(s))
						}
					}
				}
			}
			if f, only := g.nothingButKill(spared, "streams that still ran"); only && cut == 0 {
				return f
			}
			g.count(enoughFloor, cut)
			return g.conclude(
				fmt.Sprintf("all %d streams that still ran when the instance cut them were told by RST_STREAM or GOAWAY", cut),
				fmt.Sprintf("%d of %s with no RST_STREAM, and no GOAWAY in the last %s that told of it", bare, plural(cut, "stream was cut", "streams were cut"), atTheCut))
		},
	}
}

// sparedAt says whether what ends at an instant is SIGKILL's doing at K, of a system that
// promises no drain timeout: that is held against nobody.
func sparedAt(c Case, t Ending, at time.Duration) bool {
	return c.UntilKilled && t.Kill > 0 && at >= t.Kill-t.Del.Err-atTheDeadline
}

// nothingButKill is the finding where no end of a kind came up but SIGKILL's, n times.
func (g *gather) nothingButKill(n int, what string) (_ spec.Finding, only bool) {
	if n == 0 || len(g.doubts) > 0 || g.failures() > 0 || g.excused > 0 {
		return spec.Finding{}, false
	}
	f := g.finding
	f.Verdict = spec.Skipped
	f.Actual = fmt.Sprintf("the system promises no drain timeout, and SIGKILL ended all %d %s at K: how it ends them itself did not come up", n, what)
	return f, true
}

// saidCut says whether a GOAWAY told of the connection's end. One with 2^31-1
// and NO_ERROR does not: it says that the streams go on.
func (k connection) saidCut(end timeline.Frame) bool {
	said := k.goAways()
	if len(said) == 0 {
		return false
	}
	last := said[len(said)-1]
	return last.at >= end.At-atTheCut && (last.last != maxStreamID || last.code != noError)
}

// stillRan says whether a request was cut that by design would have been under
// way beyond its instance's exit; or beyond the cut, where that came when the instance's time was up: the process may
// take a while to leave behind it.
func stillRan(c Case, t Ending, s timeline.Sample) bool {
	gone := t.Exit.At + t.Exit.Err
	if at := s.End - delay(s); timeIsUp(c, t, at) {
		gone = min(gone, at)
	}
	switch s.Outcome {
	case timeline.StreamReset, timeline.Reset, timeline.Closed, timeline.Truncated:
	default:
		return false
	}
	return (s.Phase == timeline.PhaseFirstByte || s.Phase == timeline.PhaseBody || slowOp(s) && s.Phase == timeline.PhaseWrite) &&
		s.End >= t.Drain.At-t.Drain.Err && s.Start+takes(s)+2*delay(s) > gone
}
