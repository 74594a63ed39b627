// SPDX-License-Identifier: Apache-2.0

package assertions

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
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
			keys := make([]string, 0, len(seen))
			for k := range seen {
				keys = append(keys, k)
			}
			slices.Sort(keys)
			for _, k := range keys {
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
				fmt.Sprintf("all streams saw the death (%d of %d)", len(keys), len(keys)),
				fmt.Sprintf("streams that did not see the death: %d of %d", g.failures(), len(keys)))
		},
	}
}

// StandInTakes is how long what stands in for other requests takes.
const StandInTakes = 2 * time.Second

// StandInOp is the operation that shows a death for a short one on connections
// that are kept, by their names in load.
func StandInOp(op string) (longer string, short bool) {
	switch op {
	case "get":
		return "slow", true
	case "grpc-unary":
		return "grpc-server", true
	default:
		return "", false
	}
}

// StandIn is the stream whose eyes are tested for a stream's: a short request
// is hardly ever in flight at the instant of a kill, and a decent client
// notices the end of an idle connection before it writes on it. So for a
// kept connection's short requests the same client's slow ones must see it;
// and for very long ones, which would keep everybody waiting, shorter ones.
func StandIn(key string) string {
	kind, delay, _ := strings.Cut(key, "/delay=")
	var in string
	if client, op, long := longOp(kind); long {
		in = client + op
	} else if s := (timeline.Sample{Stream: kind}); onKeptConns(s) {
		conns := word(s, 2)
		client, op, _ := strings.Cut(kind, "/"+conns+"/")
		longer, short := StandInOp(op)
		if !short {
			return key
		}
		in = client + "/" + conns + "/" + longer + "/"
	} else {
		return key
	}
	in += StandInTakes.String()
	if delay != "" {
		in += "/delay=" + delay
	}
	return in
}

// Long says whether a stream's requests take so long that in the control others
// of the same kind stand in for them.
func Long(key string) bool {
	_, _, long := longOp(key)
	return long
}

// longOp cuts a stream's name before its operation and behind it, if that is one
// that a shorter one stands in for.
func longOp(key string) (client, op string, long bool) {
	for _, op := range []string{"/slow/", "/chunked/", "/upload/", "/continue/", "/post/", "/websocket/", "/half-header/", "/belated/", "/ahead/", "/talk/", "/hear/", "/grpc-server/", "/grpc-bidi/"} {
		if client, _, long := strings.Cut(key, op); long {
			return client, op, true
		}
	}
	return "", "", false
}

// Sighted counts, for each stream by its profile's key, the failures within P
// of a kill. A direct stream counts for the victim only.
func Sighted(c Case) map[string]int {
	seen := map[string]int{}
	ks := kills(c.Timeline)
	// A kill after which nobody saw the victim die proves nothing.
	ks = slices.DeleteFunc(ks, func(k timeline.Event) bool { return !died(c, k) })
	for _, s := range c.Timeline.Samples {
		if len(ks) > 0 && s.End < ks[0].At-c.P {
			continue // only who is there at the kill can see it
		}
		key, target, single := strings.Cut(s.Stream, "@")
		if absent(s) {
			continue
		}
		if _, ok := seen[key]; !ok {
			seen[key] = 0
		}
		if !s.Failed() || LeftBehind(s) {
			continue
		}
		for _, k := range ks {
			// A stream of its own has each target, or each target's node.
			if single && target != k.Subject && target != k.Node {
				continue
			}
			// What had been hanging since before the kill did not see it.
			if s.End >= k.At && s.End <= k.At+c.P && s.Start >= k.At-Patience(s) {
				seen[key]++
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
func held(s timeline.Sample) bool { return word(s, 3) == "idle" || mute(s) }
func mute(s timeline.Sample) bool { return word(s, 3) == "mute" }

// Scouts says whether a sample is of the suite's own look at the way there
// (suites/cluster/scout.go), which dials no more when the load begins: a dial of
// its may hang, which is what it is there for.
func Scouts(s timeline.Sample) bool { return strings.HasPrefix(s.Stream, "scout") }

// asks says whether a sample asked about the pods instead of a pod: no ledger
// has it.
func asks(s timeline.Sample) bool {
	op := word(s, 3)
	return op == "lookup" || op == "check"
}

// died says whether the victim of a kill was seen to die within P of it.
func died(c Case, kill timeline.Event) bool {
	aside := containersAside(c.Timeline)
	for _, e := range c.Timeline.Events {
		if e.Subject != kill.Subject || e.At < kill.At || e.At > kill.At+c.P || aside(e) {
			continue
		}
		if e.Kind == timeline.ProcExit || e.Kind == timeline.PodContainer && e.Attrs["state"] == "terminated" {
			return true
		}
	}
	return false
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
