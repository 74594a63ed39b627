// SPDX-License-Identifier: Apache-2.0

package assertions

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// SeesAbruptDeath judges the suite itself: a SIGKILL must be seen as a
// failure by every stream.
func SeesAbruptDeath() Check {
	killedFloor := Floor{Name: "kills", N: 1, Reason: "a control: one death that every stream must see"}
	loaded := Floor{Name: "streams under load", N: 1, Reason: "as above"}
	return Check{
		Name:     "a SIGKILL, as each stream saw it",
		Expected: "every kind of client on every path sees at least one failure within P of a SIGKILL",
		Floors:   []Floor{killedFloor, loaded},
		Judge: func(c Case) spec.Finding {
			var g gather
			seen := Sighted(c)
			g.count(killedFloor, len(kills(c.Timeline)))
			g.count(loaded, len(seen))
			for _, k := range slices.SortedFunc(maps.Keys(seen), flow.Compare) {
				if seen[k] == 0 && seen[StandIn(k)] == 0 {
					if c.Tail == 0 {
						g.doubt("the recording ends before %s could have seen it", k)
						continue
					}
					g.culprit(c.Disturbed, "", "", "%s saw no failure when a pod was killed", k)
				}
			}
			for _, e := range kills(c.Timeline) {
				g.span(e.At, e.At+c.P)
			}
			return g.conclude(
				fmt.Sprintf("all streams saw the death (%d of %d)", len(seen), len(seen)),
				fmt.Sprintf("streams that did not see the death: %d of %d", g.failures(), len(seen)))
		},
	}
}

// StandInTakes is how long what stands in for other requests takes.
const StandInTakes = 2 * time.Second

// StandInOp is the operation that shows a death for a short one on connections
// that are kept.
func StandInOp(op flow.Op) (longer flow.Op, short bool) {
	switch op {
	case flow.Get, flow.Mixed, flow.Drip: // whose long ones are few
		return flow.Slow, true
	case flow.Unary:
		return flow.ServerStream, true
	default:
		return "", false
	}
}

// StandIn is the flow whose eyes are tested for another's: a short request
// is hardly ever in flight at the instant of a kill, and a decent client
// notices the end of an idle connection before it writes on it. So for a
// kept connection's short requests the same client's slow ones must see it;
// and for very long ones, which would keep everybody waiting, shorter ones.
func StandIn(f flow.Flow) flow.Flow {
	if Long(f) {
		f.Takes = StandInTakes
		return f
	}
	if longer, short := StandInOp(f.Op); short && kept(f) {
		f.Op, f.Takes = longer, StandInTakes
	}
	return f
}

// Long says whether a flow's requests take so long that in the control others
// of the same kind stand in for them.
func Long(f flow.Flow) bool { return f.Takes > 0 && f.Op.Long() }

// Sighted counts, for each flow, the failures within P of a kill. A direct stream counts for the victim only.
func Sighted(c Case) map[flow.Flow]int {
	seen := map[flow.Flow]int{}
	ks := kills(c.Timeline)
	// A kill after which nobody saw the victim die proves nothing.
	ks = slices.DeleteFunc(ks, func(k timeline.Event) bool { return !died(c, k) })
	for _, s := range c.Timeline.Samples {
		if len(ks) > 0 && s.End < ks[0].At-c.P {
			continue // only who is there at the kill can see it
		}
		if absent(s) {
			continue
		}
		of, target := s.Stream.Flow(), s.Stream.Target()
		if _, ok := seen[of]; !ok {
			seen[of] = 0
		}
		if !s.Failed() || LeftBehind(s) || LostBehindEnd(s) {
			continue
		}
		for _, k := range ks {
			// A stream of its own has each target, or each target's node.
			if target != "" && target != k.Subject && target != k.Node {
				continue
			}
			// What had been hanging since before the kill did not see it.
			if s.End >= k.At && s.End <= k.At+c.P && s.Start >= k.At-Patience(s) {
				seen[of]++
				break
			}
		}
	}
	return seen
}

// absent says whether a sample is of a flow that can't see a death as a
// failure (load.Profile.Sights): a lookup, a look at a health check port, or a
// connection that is held.
func absent(s timeline.Sample) bool { return asks(s) || Scouts(s) || held(s) }

// held says whether a sample is the begin of a connection that is then held, and
// mute whether nothing was ever said on it: no ledger has that.
func held(s timeline.Sample) bool { return s.Stream.Flow().Op.Holds() }
func mute(s timeline.Sample) bool { return s.Stream.Flow().Op == flow.Mute }

// Scouts says whether a sample is of the suite's own look at the way there
// (suites/cluster/scout.go), which dials no more when the load begins: a dial of
// its may hang, which is what it is there for.
func Scouts(s timeline.Sample) bool { return s.Stream.Flow().Path == flow.Scout }

// asks says whether a sample asked about the pods instead of a pod, or for nobody: no ledger
// has it.
func asks(s timeline.Sample) bool {
	op := s.Stream.Flow().Op
	return op == flow.Lookup || op == flow.Check || op == flow.Vacant
}

// died says whether the victim of a kill was seen to die within P of it.
func died(c Case, kill timeline.Event) bool {
	return slices.ContainsFunc(c.Endings, func(e Ending) bool {
		return e.UID == kill.Subject && e.Cause != CauseLeaving && e.Exit.Known() && e.Exit.At >= kill.At && e.Exit.At <= kill.At+c.P
	})
}

func kills(tl *timeline.Timeline) []timeline.Event {
	var out []timeline.Event
	for _, e := range tl.EventsOf(timeline.Disruption, "") {
		// As fixtures/disrupt tells it; one that was refused killed nobody.
		if e.Attrs["what"] == "kill" && e.Attrs["error"] == "" {
			out = append(out, e)
		}
	}
	return out
}
