// SPDX-License-Identifier: Apache-2.0

package assertions

import (
	"fmt"
	"slices"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// silentFor is how long a connection on which nothing was said may stand after
// the listener is gone. As long as new connections are accepted, one that was
// accepted before may have something to say too. net/http gives a new one five
// seconds for its first byte, counts them in whole ones, and looks each half.
const silentFor = 6750 * time.Millisecond

// ClosesSilent judges that connections which were accepted before D, and whose
// clients have not said a word, don't hold the drain up. The rule is the
// project's own: nobody loses anything with such a connection, and a drain that
// waits for its first word may wait for ever.
func ClosesSilent() Check {
	const what = "silent connections that stood at D"
	enough := perTermination(what, fewConnections)
	return Check{
		Name:     what,
		Expected: fmt.Sprintf("each is closed within %s after the instance stops accepting", silentFor),
		Floors:   []Floor{enough},
		Judge: func(c Case) spec.Finding {
			var g gather
			left := 0
			shut, heard := map[string]time.Duration{}, map[string]bool{}
			total := g.overConnections(c, enough, silentAt, inHTTP1, func(t Ending, k connection) bool {
				if _, asked := shut[t.UID]; !asked {
					shut[t.UID] = stopsAccepting(c, t, t.Drain.At-t.Drain.Err)
					heard[t.UID] = slices.ContainsFunc(silentAt(c, t, inHTTP1), func(k connection) bool { _, own := k.ended(); return own })
				}
				limit := shut[t.UID] + silentFor + t.Drain.Err
				end, over := k.end()
				switch {
				case !over, end.Kind == timeline.FrameClose && end.At <= limit:
					return false // its client was first, or nobody knows
				case end.Kind != timeline.FrameClose && k.left(end.At) <= t.Drain.At+silentFor-t.Drain.Err:
					// soon after D: nobody waited for it
				case t.Exit.Known() && min(shut[t.UID], k.left(end.At)) >= t.Exit.At-t.Exit.Err-atTheDoor:
					// With the process, which accepted to its end: it may have waited for it, but not where it left before its time
					// was up, and it still stood.
					return deadline(c, t) > 0 && !timeIsUp(c, t, t.Exit.At)
				case k.left(end.At) <= limit:
				case end.Kind == timeline.FrameClose && !heard[t.UID] && !t.Role.Meshed() && t.Exit.Known() && end.At > t.Exit.At+t.Exit.Err+atTheDoor:
					// No process held it then, and none of its kind was ever heard of. A kernel that waits for the first byte (TCP_DEFER_ACCEPT) tells its client that it is
					// connected, gives it to nobody, and drops it with the listener, without a word.
					g.doubt("%s still stood for its client when %s had exited, with nothing heard on it: its kernel may never have handed it over (TCP_DEFER_ACCEPT)", k, t.Name)
					return false
				default:
					left++
					g.late(c, k.left(end.At), t.Name, k.first().ID, "%s: %s was still open %s after the listener, with not a byte said on it; then %s ended it",
						relative(k.left(end.At), t), k, ms(k.left(end.At)-shut[t.UID]), whose[end.Kind])
				}
				return true
			})
			return g.conclude(
				fmt.Sprintf("all %d silent connections that stood at D, and that it ended, were closed in time", total),
				fmt.Sprintf("%d of %s left open", left, plural(total, "silent connection was", "silent connections were")))
		},
	}
}

// silentAt are the connections to an instance that stood at its D and on which
// nothing was ever said.
func silentAt(c Case, t Ending, protocols []flow.Protocol) []connection {
	begin := t.Drain.At - t.Drain.Err
	var out []connection
	for _, k := range connectionsTo(c, t, protocols) {
		s := k.first()
		if !mute(s) || s.Failed() || s.End >= begin {
			continue
		}
		if end, over := k.end(); over && (end.Kind == timeline.FrameClose && end.At < begin || end.Kind != timeline.FrameClose && k.left(end.At) < begin) {
			continue
		}
		out = append(out, k)
	}
	return out
}
